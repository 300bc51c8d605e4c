"""Seed tasks from nothing on BFCL's classes: phrases that say every value, gaps that are real."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rods.env import called
from rods.synthesis.base import Base
from rods.synthesis.planned import CallRequest, OpenArgument, PlannedTurn
from rods.synthesis.rejection import Rejection
from rods.synthesis.stages import stage_of, stages_of
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.trace import read_result, stage_world
from rods.task import MISS_FUNC, Task
from rods.types import Json, ToolCall
from rods.writers.graph.scratch import ScratchWalk
from rods.writers.graph.writer import GraphWriter
from rods.writers.templates.phrases import phrases_of
from synthesis_cases import ENVIRONMENT, sides

DOMAINS = domains_of(ENVIRONMENT)
SCRATCH = DOMAINS.scratch
FOLDER: dict[str, Json] = {"type": "directory", "contents": {}}
FILES: dict[str, Json] = {
    "plan.txt": {"type": "file", "content": "one line\nand another"},
    "empty.txt": {"type": "file", "content": ""},
    "attic": FOLDER,
}
TICKETS: list[Json] = [
    {"id": 1, "title": "Noise", "description": "", "status": "Open", "created_by": "ada"},
    {"id": 2, "title": "Smoke", "description": "", "status": "Closed", "created_by": "ada"},
]
STATES: dict[str, Mapping[str, Json]] = {
    "GorillaFileSystem": {"root": {"ada": {"type": "directory", "contents": FILES}}},
    "TicketAPI": {"ticket_queue": TICKETS, "ticket_counter": 3, "current_user": "ada"},
    "TwitterAPI": {"username": "ada", "authenticated": True, "following_list": ["bo"]},
    "MessageAPI": {
        "user_map": {"Ada": "USR001", "Bo": "USR002", "Cy": "USR003", "Dee": "USR004"},
        "inbox": [{"USR002": "Hello"}, {"USR003": "Hello"}],
        "current_user": "USR001",
    },
    "TravelAPI": {
        "access_token": "t0ken",
        "token_expires_in": 60,
        "booking_record": {"B-7": {"travel_cost": 20.0, "card_id": "C-1"}},
        "credit_card_list": {"C-1": {"card_number": "4000123412341234", "balance": 80.0}},
    },
    "VehicleControlAPI": {"brakePedalStatus": "pressed", "brakePedalForce": 500.0},
}


@functools.cache
def stages() -> Mapping[str, Task]:
    made = dict[str, Task]()
    for name, state in STATES.items():
        world: dict[str, Json] = {"classes": [name], "initial_config": {name: dict(state)}}
        made[name] = stage_of("bfcl", {**world, "long_context": False})
    return made


@functools.cache
def writer() -> GraphWriter:
    return GraphWriter([*stages().values()], ENVIRONMENT)


def walk(owner: str) -> Any:
    """A walk in the world of a class; any, as tests read its inner steps."""
    return ScratchWalk(writer().planner, Base(ENVIRONMENT, stages()[owner]), random.Random(1))


def asking(call: ToolCall, owner: str) -> PlannedTurn:
    spec = Base(ENVIRONMENT, stages()[owner]).specs[call.name]
    return PlannedTurn((CallRequest(call, spec),), owner)


@functools.cache
def drafts() -> Sequence[Task]:
    """Drafts of seed tasks in the worlds of the training split, before any gate."""
    worlds, made = stages_of(ENVIRONMENT, sides().train)[::2], list[Task]()
    author = GraphWriter(worlds, ENVIRONMENT)
    for number, stage in enumerate(worlds * 3):
        draft = author.propose(stage, random.Random(number))
        if not isinstance(draft, Rejection):
            made.append(draft)
    assert len(made) > 50
    return made


def after(owner: str, *calls: ToolCall) -> object:
    """The state behind these calls."""
    with stage_world(ENVIRONMENT, stages()[owner]) as world:
        for call in calls:
            called(world, call)
        return world.snapshot()


def of(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


@pytest.mark.parametrize(
    ("owner", "call", "others"),
    [
        (
            "GorillaFileSystem",
            of("mv", source="plan.txt", destination="list.txt"),
            [
                of("cp", source="plan.txt", destination="list.txt"),
                of("rm", file_name="plan.txt"),
            ],
        ),
        (
            "GorillaFileSystem",
            of("cp", source="empty.txt", destination="list.txt"),
            [of("touch", file_name="list.txt")],
        ),
        (
            "GorillaFileSystem",
            of("touch", file_name="list.txt"),
            [of("cp", source="empty.txt", destination="list.txt")],
        ),
        (
            "GorillaFileSystem",
            of("mkdir", dir_name="cellar"),
            [of("cp", source="attic", destination="cellar")],
        ),
        ("GorillaFileSystem", of("rm", file_name="attic"), [of("rmdir", dir_name="attic")]),
        ("GorillaFileSystem", of("rmdir", dir_name="attic"), [of("rm", file_name="attic")]),
        (
            "TicketAPI",
            of("close_ticket", ticket_id=1),
            [of("edit_ticket", ticket_id=1, updates={"status": "Closed"})],
        ),
        ("VehicleControlAPI", of("releaseBrakePedal"), [of("pressBrakePedal", pedalPosition=0)]),
    ],
    ids=lambda value: value.name if isinstance(value, ToolCall) else "",
)
def test_a_tool_that_others_replace_is_not_withheld(
    owner: str, call: ToolCall, others: list[ToolCall]
) -> None:
    assert after(owner, call) == after(owner, *others) != after(owner)
    assert SCRATCH.alike[call.name] & {other.name for other in others}


@pytest.mark.parametrize(
    ("owner", "call", "possible"),
    [
        ("GorillaFileSystem", of("touch", file_name="list.txt"), False),  # `echo` may be tried
        ("GorillaFileSystem", of("mv", source="plan.txt", destination="list.txt"), False),
        ("GorillaFileSystem", of("rm", file_name="plan.txt"), False),
        ("GorillaFileSystem", of("echo", content="Hello", file_name="plan.txt"), True),
        ("TicketAPI", of("close_ticket", ticket_id=1), False),
        ("TicketAPI", of("create_ticket", title="Late"), True),
        ("TwitterAPI", of("follow_user", username_to_follow="cy"), True),
        ("MessageAPI", of("send_message", receiver_id="USR002", message="Hello"), True),
        ("TravelAPI", of("cancel_booking", access_token="t0ken", booking_id="B-7"), False),
        ("TravelAPI", of("set_budget_limit", access_token="t0ken", budget_limit=90.0), True),
    ],
)
def test_a_function_is_missing_only_where_no_offered_one_may_be_tried(
    owner: str, call: ToolCall, possible: bool
) -> None:
    walker, turn = walk(owner), asking(call, owner)
    with stage_world(ENVIRONMENT, stages()[owner]) as world:
        walker._world = world
        walker._acts = []
        assert walker._execute(call, kept=False)
    made = walker._missing(MISS_FUNC, turn, [])
    assert isinstance(made, PlannedTurn) == possible
    assert not possible or made.withheld == call.name


@pytest.mark.parametrize(
    ("owner", "call", "name", "shown"),
    [
        ("GorillaFileSystem", of("cd", folder="attic"), "folder", True),  # it is the only one
        ("GorillaFileSystem", of("cat", file_name="plan.txt"), "file_name", False),  # one of two
        (
            "TravelAPI",
            of("cancel_booking", access_token="t0ken", booking_id="B-7"),
            "booking_id",
            True,  # by the history, which takes the token of the same message
        ),
        ("TravelAPI", of("set_budget_limit", access_token="t0ken", budget_limit=9.0), "", False),
    ],
)
def test_a_value_that_a_tool_shows_alone_is_not_left_open(
    owner: str, call: ToolCall, name: str, shown: bool
) -> None:
    turn = asking(call, owner)
    opened = PlannedTurn(
        turn.requests, owner, left_open=OpenArgument(0, name or [*call.arguments][-1])
    )
    assert walk(owner)._shown_alone(opened, []) == shown


def test_the_only_one_that_was_seen_is_not_left_open() -> None:
    """Who has looked up one user ID writes to that person; with two of them, one has to ask."""
    owner, call = "MessageAPI", of("send_message", receiver_id="USR002", message="Hello")
    opened = PlannedTurn(
        asking(call, owner).requests, owner, left_open=OpenArgument(0, "receiver_id")
    )
    looks = [
        PlannedTurn(asking(of("get_user_id", user=user), owner).requests, owner, (shown,))
        for user, shown in (("Cy", '{"user_id": "USR003"}'), ("Dee", '{"user_id": "USR004"}'))
    ]
    assert walk(owner)._shown_alone(opened, looks[:1])
    assert not walk(owner)._shown_alone(opened, looks)


@pytest.mark.parametrize(
    ("tool", "name", "may"),
    [
        ("comment", "comment_content", False),  # an agent can write one itself
        ("post_tweet", "content", False),
        ("set_navigation", "destination", True),
        ("cp", "destination", False),  # `to a folder`, and then it is a file
        ("rm", "file_name", True),
    ],
)
def test_what_an_agent_could_make_up_is_not_left_open(tool: str, name: str, may: bool) -> None:
    owner = next(o for o in STATES if tool in Base(ENVIRONMENT, stages()[o]).specs)
    assert walk(owner)._may_blur(tool, name) == may


@pytest.mark.parametrize(
    ("owner", "calls", "refused"),
    [
        ("TwitterAPI", [of("follow_user", username_to_follow="ada")], True),
        ("TwitterAPI", [of("follow_user", username_to_follow="cy")], False),
        ("MessageAPI", [of("send_message", receiver_id="USR001", message="Hello")], True),
        ("MessageAPI", [of("get_user_id", user="Ada")], True),
        ("GorillaFileSystem", [of("cp", source="attic", destination="loft")], True),
        ("GorillaFileSystem", [of("cat", file_name="empty.txt")], True),
        ("GorillaFileSystem", [of("rm", file_name="empty.txt")], False),
        (
            "GorillaFileSystem",
            [of("touch", file_name="new.txt"), of("wc", file_name="new.txt")],
            True,
        ),
        (
            "GorillaFileSystem",
            [
                of("touch", file_name="new.txt"),
                of("echo", content="Hello", file_name="new.txt"),
                of("wc", file_name="new.txt"),
            ],
            False,
        ),
        (
            "GorillaFileSystem",
            [
                of("cp", source="plan.txt", destination="list.txt"),
                of("mv", source="plan.txt", destination="idea.txt"),
            ],
            True,
        ),
        (
            "TicketAPI",
            [of("get_ticket", ticket_id=2), of("resolve_ticket", ticket_id=2, resolution="Done")],
            True,
        ),
        (
            "TicketAPI",
            [of("get_ticket", ticket_id=1), of("resolve_ticket", ticket_id=1, resolution="Done")],
            False,
        ),
        (
            "TravelAPI",
            [
                of("get_all_credit_cards"),
                of(
                    "register_credit_card",
                    access_token="t0ken",
                    card_number="4000123412341234",
                    expiration_date="10/2030",
                    cardholder_name="Ada Li",
                    card_verification_number=500,
                ),
            ],
            True,
        ),
    ],
)
def test_a_conversation_does_not_contradict_what_it_showed(
    owner: str, calls: list[ToolCall], refused: bool
) -> None:
    walker = walk(owner)
    with stage_world(ENVIRONMENT, stages()[owner]) as world:
        walker._world = world
        walker._acts, walker._began = [], [0]
        made = [walker._execute(call, kept=False) for call in calls]
    assert (not all(made) or walker._odd) == refused


def test_every_vague_phrase_is_one_of_the_benchmarks_and_leaves_another() -> None:
    phrases = phrases_of(ENVIRONMENT)
    known = set(phrases.scenes)
    for tool, wording in phrases.wordings.items():
        given = {name for name, values in SCRATCH.stated.get(tool, {}).items() if values}
        unused = tool in ("round_number", "absolute_value")
        assert unused == ({*wording.clauses_for(given)} <= SCRATCH.vague), tool
        known |= {*wording.clauses, *(f for forms in wording.optional.values() for f in forms)}
        parts = (wording.open, wording.named, wording.optional)
        for forms in (forms for part in parts for forms in part.values()):
            assert not forms or not {*forms} <= SCRATCH.vague, tool
            known |= {*forms}
        known |= {f for rows in wording.refer.values() for forms in rows.values() for f in forms}
    assert known >= SCRATCH.vague


def test_what_seed_tasks_always_state_has_words_and_is_optional() -> None:
    specs = {n: s for stage in stages().values() for n, s in Base(ENVIRONMENT, stage).specs.items()}
    for tool, rows in SCRATCH.stated.items():
        wording = phrases_of(ENVIRONMENT).wordings[tool]
        for name, values in rows.items():
            assert name in {*specs[tool].properties} - {*specs[tool].required}
            assert name in {*wording.instead, *wording.optional}
            assert {str(v) for v in values} <= {*wording.words.get(name, map(str, values))}
    assert {*SCRATCH.alike} | {t for row in SCRATCH.alike.values() for t in row} <= specs.keys()


@pytest.mark.slow
def test_seed_tasks_state_their_values_and_use_no_vague_phrase() -> None:
    seen = set[str]()
    for draft in drafts():
        said = " ".join(turn.user for turn in draft.turns)
        assert not [text for text in SCRATCH.vague if "{" not in text and text in said], said
        for call in draft.calls:
            seen.add(call.name)
            assert {*SCRATCH.stated.get(call.name, {})} <= call.arguments.keys()
            assert call.name not in ("round_number", "absolute_value")
            if call.name == "set_navigation":
                assert str(call.arguments["destination"]).count(", ") == 2, "street, city, state"
            if call.name == "post_tweet":
                offered = SCRATCH.forms["tag"]
                assert all(tag[1:] in offered for tag in call.arguments.get("tags", ()))  # pyright: ignore
        for turn in draft.turns:
            offered = Base(ENVIRONMENT, draft).specs.keys() if turn.withheld else ()
            assert not any(SCRATCH.alike.get(tool, set()) & {*offered} for tool in turn.withheld)
    assert seen >= {"adjustClimateControl", "ls", "post_tweet", "set_navigation"}


def test_results_of_the_benchmark_are_read_as_the_walk_reads_them() -> None:
    """`not logged in` is a result without arguments whose values are all false."""
    with stage_world(ENVIRONMENT, stages()["TicketAPI"]) as world:
        called(world, of("logout"))
        shown = read_result(called(world, of("ticket_get_login_status")).content)[1]
    assert [leaf.value for leaf in shown] == [False]

"""Augmented feedback: it changes nothing that succeeds, and names only what exists."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from bfcl_failures import Failure, failures, world_before
from rods.abilities import ability
from rods.env import AnswerJudge as Judge
from rods.env import Ending, UserSimulator, World, seconds_ran
from rods.envs import make_environment
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment, BfclWorld
from rods.envs.hints import MARK, call_hint, hinted, value_hint
from rods.envs.remote.messages import Hosted, RemoteWorld
from rods.envs.tool_classes.world import ToolClasses
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, ToolResult, ToolSpec
from tir_cases import question
from worlds import SPECS, NotesEnvironment, NotesWorld, notes_task

BFCL = BfclEnvironment()
TOOLS = {spec.name: spec for spec in SPECS}


def by_name(name: str) -> Task:
    return next(task for task in load_tasks() if task.provenance.origin == name)


# -- nothing that succeeds is touched ------------------------------------------------------------


def played(task: Task, world: World) -> tuple[object, ...]:
    """All that the ground truth gives: results, verdicts and states of every turn."""
    seen: list[object] = []
    for index, turn in enumerate(task.turns):
        world.begin_turn(index)
        seen += [world.call(call) for call in turn.ground_truth]
        seen += [world.end_turn(), world.snapshot()]
    world.close()
    return tuple(seen)


def assert_untouched(tasks: Sequence[Task]) -> int:
    for task in tasks:
        assert played(task, BFCL.open(task)) == played(task, hinted(BFCL.open(task))), task.id
    return len(tasks)


def test_ground_truths_of_some_tasks_give_the_same_under_the_layer() -> None:
    assert assert_untouched(load_tasks()[::40]) == 20


@pytest.mark.slow
def test_ground_truths_of_all_tasks_give_the_same_under_the_layer() -> None:
    assert assert_untouched(load_tasks()) == 800


# -- what a hint names exists --------------------------------------------------------------------

CALLED = re.compile(r"\b(\w+)\(")
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
STEP = re.compile(r"cd\(folder=('(?:[^'\\]|\\.)*')\)")


def scalars(value: object) -> Iterator[str]:
    """Everything in plain data: keys and values, as texts."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from scalars(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from scalars(item)
    else:
        yield str(value)


def named(hint: str) -> tuple[set[str], set[str]]:
    """The functions and the values that a hint names."""
    return set(CALLED.findall(hint)), {ast.literal_eval(text) for text in QUOTED.findall(hint)}


def assert_exists(hint: str, failure: Failure, world: BfclWorld) -> None:
    """Every function is offered now, every value is in the world, the documentation or the call."""
    functions, values = named(hint)
    offered = {spec.name: spec for spec in world.offered()}
    withheld = failure.task.turns[failure.turn].withheld
    assert functions <= set(offered) and not functions & set(withheld), (failure.call, hint)
    inside = set(scalars(world.public_state()))
    told = " ".join(str(spec.parameters) for spec in offered.values())
    listed = {v for v in values if re.search(rf"(?<!\w){re.escape(v)}(?!\w)", told)}
    own = set(scalars(dict(failure.call.arguments)))
    assert values <= inside | listed | own | {"..", "/"}, (failure.call, hint)
    assert functions or (values & (inside | listed)), (failure.call, hint)


def assert_hint(failure: Failure) -> bool:
    """Whether there is a hint; it changes neither world nor verdict, and what it names exists."""
    plain, world = world_before(failure, BFCL), world_before(failure, BFCL)
    expected, got = plain.call(failure.call), hinted(world).call(failure.call)
    said, mark, hint = got.content.partition(MARK)
    assert (said, got.failed) == (expected.content, True)
    assert world.snapshot() == plain.snapshot(), failure.call
    if mark:
        assert hint and len(hint) < 600
        assert_exists(hint, failure, world)
    for clause in hint.split("; "):
        if "is in the folder" in clause and (way := STEP.findall(clause)):
            found = ast.literal_eval(QUOTED.findall(clause)[0])
            assert_leads_to(found, [ast.literal_eval(step) for step in way], failure)
    assert plain.end_turn() == world.end_turn()
    return bool(mark)


def assert_leads_to(name: str, way: Sequence[str], failure: Failure) -> None:
    """The steps that a hint tells can be gone, and what it speaks of is there."""
    world = world_before(failure, BFCL)
    for step in way:
        assert not world.call(ToolCall("cd", {"folder": step})).failed, (name, way)
    assert f'"{name}"' in world.call(ToolCall("ls", {"a": True})).content


@pytest.mark.slow
def test_hints_of_some_failing_calls_name_what_exists() -> None:
    found = [assert_hint(failure) for failure in failures(load_tasks()[::4], 100, BFCL, seed=7)]
    assert sum(found) >= 90


@pytest.mark.slow
def test_hints_of_2000_failing_calls_name_what_exists() -> None:
    counts: Counter[str] = Counter()
    for failure in failures(load_tasks(), 2_000, BFCL):
        counts[failure.kind] += 1
        counts["with a hint"] += assert_hint(failure)
    assert all(counts[kind] >= 100 for kind in ("name", "missing", "unknown", "type", "value"))
    assert counts["order"] >= 100 and counts["with a hint"] >= 1_900


# -- by hand -------------------------------------------------------------------------------------


def says(task: Task, *calls: ToolCall, turn: int = 0) -> str:
    """The hint on the last of some calls."""
    world = hinted(BFCL.open(task))
    for index in range(turn + 1):
        if index:
            world.end_turn()
        world.begin_turn(index)
    return [world.call(call) for call in calls][-1].content.partition(MARK)[2]


def travel(**arguments: str) -> ToolCall:
    given = {"travel_date": "2026-11-16", "travel_class": "first", **arguments}
    return ToolCall("get_flight_cost", {**given})


@pytest.mark.parametrize(
    ("task", "call", "words"),
    [
        (0, ToolCall("cat", {"file_name": "final_report.pdf"}), "is in the folder 'document'"),
        (0, ToolCall("cat", {"file_name": "document/final_report.pdf"}), "no paths"),
        (0, ToolCall("cat", {"file_name": "document"}), "'document' is a folder, not a file: cd("),
        (0, ToolCall("cat", {"file_name": "a?b"}), "takes no ? in file_name"),
        (0, ToolCall("cd", {"folder": "documents"}), "the nearest in the current folder: 'docu"),
        (0, ToolCall("cd", {"folder": ".."}), "'workspace' is the root: ls()"),
        (0, ToolCall("mkdir", {"dir_name": "document"}), "'document' is here already: ls()"),
        (0, ToolCall("rmdir", {"dir_name": "document"}), "is not empty, it holds 'final_report"),
        (0, ToolCall("echo", {"content": "x", "file_name": "n"}), "touch(file_name='n')"),
        (150, travel(travel_from="Rome", travel_to="LAX"), "not an airport code: 'Rome'; list_all"),
        (150, travel(travel_from="HND", travel_to="BOS"), "no route from 'HND' to 'BOS'"),
        (50, ToolCall("get_outside_temperature_from_weather_com"), "temperature_from_google()"),
        (50, ToolCall("estimate_distance", {"cityA": "1", "cityB": "2"}), "get_zipcode_based_on"),
        (50, ToolCall("setHeadlights", {"mode": "high"}), "mode is one of 'on', 'off', 'auto'"),
    ],
)
def test_hints_of_the_benchmark(task: int, call: ToolCall, words: str) -> None:
    assert words in says(by_name(f"multi_turn_base_{task}"), call)


def test_a_hint_offers_no_withheld_tool() -> None:
    task = by_name("multi_turn_base_0")
    cat = ToolCall("cat", {"file_name": "final_report.pdf"})
    assert "cd(" in says(task, cat)
    gone = dataclasses.replace(task.turns[0], withheld=("cd", "ls"))
    hidden = dataclasses.replace(task, turns=(gone, *task.turns[1:]))
    assert says(hidden, cat) == "'final_report.pdf' is in the folder 'document'."
    assert "cd" not in named(says(hidden, ToolCall("cds", {"folder": "document"})))[0]


@pytest.mark.slow
def test_a_withheld_tool_is_not_the_nearest() -> None:
    """What is missing is for the agent to find out."""
    seen = 0
    for task in load_tasks()[200:400]:
        name = next(iter(task.turns[0].withheld), "")
        if name:
            seen += 1
            assert name not in named(says(task, ToolCall(name, {})))[0]
    assert seen > 100


@pytest.mark.slow
def test_of_a_withheld_tool_the_name_alone_is_looked_at() -> None:
    seen = 0
    for task in load_tasks()[200:400]:
        first = task.turns[0]
        for call in (c for turn in task.turns for c in turn.ground_truth):
            if call.name in first.withheld:
                seen += 1
                assert says(task, call) in ("", says(task, ToolCall(call.name)))
    assert seen > 100


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("ad", {"amount": 2}), "can be called now: add(amount: integer)"),
        (ToolCall("add", {}), "amount is missing. The function is add(amount: integer)."),
        (ToolCall("add", {"amuont": 2}), "the nearest is amount"),
        (ToolCall("add", {"amount": "2"}), "amount must be of type integer"),
        (ToolCall("add", {"amount": True}), "amount must be of type integer"),
        (ToolCall("add", {"amount": ToolCall("total", {"x": 1})}), "no such parameter as x"),
        (ToolCall("note", {"text": "a", "tag": None}), ""),
        (ToolCall("note", {"text": "a" * 200, "b" * 200: 1}), "no such parameter as bbb"),
        (ToolCall("add", {"amount": 2}), ""),
        (ToolCall("zzzzzz", {}), ""),
    ],
)
def test_what_descriptions_alone_say(call: ToolCall, words: str) -> None:
    found = call_hint(call, TOOLS)
    assert words in found if words else not found
    assert len(found) < 300


def test_a_choice_that_is_not_among_those_described() -> None:
    schema = {"type": "object", "properties": {"unit": {"type": "string", "enum": ["C", "F"]}}}
    tools = {"heat": ToolSpec("heat", "", schema)}
    assert "unit must be one of 'C', 'F'" in call_hint(ToolCall("heat", {"unit": "K"}), tools)


def test_values_are_found_or_near_ones_named() -> None:
    state = {"Library": {"books": {"B-12": {"title": "Emma"}}, "members": {"M-104": {}}}}
    wrong = ToolCall("lend", {"book_id": "M-104", "member_id": "M-140"})
    assert value_hint(wrong, "no book 'M-104'", state) == (
        "'M-104' is in Library.members; nearest to member_id are 'M-104'."
    )
    assert value_hint(wrong, "refused", state) == "nearest to member_id are 'M-104'."
    assert not value_hint(ToolCall("lend", {"book_id": "Emma"}), "no 'Emma'", state)


def test_secrets_of_a_state_are_not_told() -> None:
    state = {"Bank": {"password": "hunter22", "pins": {"anna": "48213"}, "token": "tok-5512"}}
    call = ToolCall("login", {"user": "ana", "password": "hunter2", "pin": "48214", "t": "tok-55"})
    assert value_hint(call, "wrong", state) == "nearest to user are 'anna'."
    assert not value_hint(ToolCall("pay", {"access_token": "ana"}), "no such token ana", state)


class Shelf:
    """Books by number."""

    def __init__(self) -> None:
        self.books: dict[str, str] = {"B-12": "Emma", "B-13": "Persuasion"}

    def read(self, number: str) -> str:
        """Read a book.

        Args:
            number: of the book.
        """
        if number not in self.books:
            raise ValueError("there is no such book")
        return self.books[number]


SHELF = ToolClasses("shelf", [Shelf])
READ = Task(
    "shelf",
    "base",
    (Turn("Read Emma.", (ToolCall("read", {"number": "B-12"}),)),),
    {"classes": ["Shelf"]},
    Provenance("shelf_0", "shelf_0"),
)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_any_python_class_has_hints(elsewhere: bool) -> None:
    world: World = SHELF.open(READ)
    if elsewhere:
        hosted = Hosted(SHELF, READ)
        world = RemoteWorld(hosted.open(), hosted.step, hosted.close)
    world = hinted(world)
    world.begin_turn(0)
    right = world.call(ToolCall("read", {"number": "B-12"}))
    assert right == ToolResult('"Emma"')
    wrong = world.call(ToolCall("read", {"number": "B12"}))
    assert wrong == ToolResult(
        '{"error": "there is no such book"}\nHint: nearest to number are \'B-12\'.', True
    )
    assert world.end_turn().solved


def test_a_world_without_hints_of_its_own_and_without_a_state_to_look_at() -> None:
    world = hinted(NotesEnvironment().open(notes_task([("divide", [ToolCall("total")])])))
    world.begin_turn(0)
    plain = world.call(ToolCall("divide", {"by": 0}))
    assert plain.failed and MARK not in plain.content
    assert "by must be of type integer" in world.call(ToolCall("divide", {"by": "x"})).content


def test_a_turn_that_a_world_ends_is_over_under_the_layer() -> None:
    class Short(NotesWorld):
        def ended(self) -> str:
            return "divided" if self.log and self.log[-1].name == "divide" else ""

    world = hinted(Short(NotesEnvironment(), notes_task([("divide", [])]), 0))
    ending = ability(world, Ending)
    assert ending
    world.begin_turn(0)
    world.call(ToolCall("total"))
    assert not ending.ended()
    world.call(ToolCall("divide", {"by": 0}))
    assert ending.ended() == "divided"
    assert not ability(hinted(NotesEnvironment().open(notes_task([("a", [])]))), Ending)


def test_a_world_keeps_all_its_abilities_under_the_wrapper() -> None:
    class Talkative(NotesWorld):
        def ended(self) -> str:
            return "over"

        def ran(self) -> float:
            return 2.5

        def opens(self) -> str:
            return "Hello."

        def reply(self, text: str) -> str | None:
            return None

        def judge_answer(self, text: str) -> bool:
            return text == "7"

    world = hinted(Talkative(NotesEnvironment(), notes_task([("divide", [])]), 0))
    ending, simulator, judge = (
        ability(world, Ending),
        ability(world, UserSimulator),
        ability(world, Judge),
    )
    assert ending and simulator and judge and seconds_ran(world) == 2.5
    assert (ending.ended(), simulator.opens(), judge.judge_answer("7")) == ("over", "Hello.", True)


def test_answers_are_judged_under_the_layer() -> None:
    environment = make_environment("python_tool")
    try:
        world = hinted(environment.open(question("13", family="add")))
        judge = ability(world, Judge)
        assert judge
        world.begin_turn(0)
        assert judge.judge_answer(r"\boxed{13}") and not judge.judge_answer(r"\boxed{14}")
        world.close()
    finally:
        environment.close()
    assert not ability(hinted(SHELF.open(READ)), Judge)

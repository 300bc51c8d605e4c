"""Words of the writers without a model: gaps, references, verbs, dates, what a clause says."""

from __future__ import annotations

import dataclasses
import datetime
import random
import re

import pytest

from rods.abilities import state_access
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.split import split
from rods.synthesis.planned import CallRequest, Producer
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.trace import TraceStep, leaves
from rods.synthesis.structure.words import alike_words, article
from rods.task import MISS_PARAM, Task, Turn
from rods.types import Json, ToolCall, ToolResult, ToolSpec
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.writer import GraphWriter
from rods.writers.resample.entities import collect, is_name
from rods.writers.resample.sketch import Sketch
from rods.writers.templates.phrases import phrases_of
from rods.writers.templates.reading import clear_producer
from synthesis_cases import ENVIRONMENT

PHRASES, DOMAINS = phrases_of(ENVIRONMENT), domains_of(ENVIRONMENT)
VAGUE = re.compile(
    r"\b(?:certain|in mind|specific|particular|some|somebody|someone|something|somewhere|one of"
    r"|another|different|other|else)\b",
    re.I,
)


def task(*turns: Turn) -> Task:
    """An original with these turns in its place."""
    base = split(load_tasks("")).train[0]
    return dataclasses.replace(base, turns=turns, world={"classes": [], "initial_config": {}})


def step(turn: int, call: ToolCall, parsed: dict[str, Json]) -> TraceStep:
    return TraceStep(turn, call, ToolResult(str(parsed)), parsed, tuple(leaves(parsed)))


@pytest.mark.slow
def test_a_turn_that_lacks_a_value_uses_vague_words_as_others_do() -> None:
    """Shares within twice of each other, over more than 70 variants."""
    sides = split(load_tasks(""))
    writer = GraphWriter(sides.train, BfclEnvironment(""))
    seeds = [one for one in sides.train if one.category == MISS_PARAM]
    rng = random.Random(5)
    made = [writer.propose(rng.choice(seeds), rng) for _ in range(110)]
    found: dict[bool, list[bool]] = {True: [], False: []}
    drafts = [one for one in made if isinstance(one, Task)]
    for draft in drafts:
        for before, turn in zip((None, *draft.turns), draft.turns, strict=False):
            if before is None or before.ground_truth:  # answers to a question are left out
                found[not turn.ground_truth].append(bool(VAGUE.search(turn.user)))
    shares = [sum(rows) / len(rows) for rows in (found[True], found[False])]
    assert len(drafts) > 70
    assert max(shares) <= 2 * min(shares), shares


def test_an_open_value_may_be_left_out_with_its_preposition() -> None:
    wording = PHRASES.wordings["book_flight"]
    for say in wording.say:
        short = wording.without(say, "travel_date")
        assert "{travel_date}" not in short and "  " not in short
        assert not re.search(r"\b(?:on|for|in)(?:,|$)", short), short


def test_a_described_reference_wants_that_only_one_was_made() -> None:
    """After two flights "the flight you booked" fits both; "that booking" is the latest."""
    wording = PHRASES.wordings["cancel_booking"]
    booked = ToolCall("book_flight", {})
    alone = wording.references("booking_id", Producer(booked))
    second = wording.references("booking_id", Producer(booked, only=False))
    assert "the flight you booked" in alone
    assert second == ["that booking"]


def test_two_flights_of_one_turn_leave_nothing_to_point_at() -> None:
    flights = [ToolCall("book_flight", {"travel_to": to}) for to in ("ROM", "PAR")]
    call = ToolCall("cancel_booking", {"booking_id": "77", "access_token": "x"})

    def producer(second_turn: int) -> Producer | None:
        steps = [
            step(0, flights[0], {"booking_id": "55"}),
            step(second_turn, flights[1], {"booking_id": "77"}),
        ]
        began = [0, 2] if second_turn == 0 else [1, 2]
        return clear_producer(steps, began, call, "booking_id", PHRASES, DOMAINS)

    assert producer(0) is None
    later = producer(1)
    assert later is not None and not later.only


def test_a_text_without_a_file_is_printed_not_written() -> None:
    spec = ToolSpec("echo", "", {"properties": {"content": {}, "file_name": {}}})
    for number in range(60):
        rng = random.Random(number)
        alone = PHRASES.clause(CallRequest(ToolCall("echo", {"content": "Hello"}), spec), rng)
        assert re.search(r"terminal|screen", alone), alone
        assert not re.match(r"write|put|save", alone), alone
        call = ToolCall("echo", {"content": "Hello", "file_name": "a.txt"})
        both = PHRASES.clause(CallRequest(call, spec), rng)
        assert "a.txt" in both and not re.search(r"terminal|screen", both), both


@pytest.mark.parametrize(
    ("word", "text", "name"),
    [
        ("draft", "Open the draft.", True),
        ("draft", "Could you draft a tweet about it?", False),
        ("business", "I fly in a business class seat.", False),
        ("work", "Move it to the work folder.", True),
        ("work", "Say where you currently work.", False),
        ("report", "Sort 'report.txt' for me.", True),
        ("tulip", "Nobody says it.", True),
    ],
)
def test_verbs_and_modifiers_are_no_names(word: str, text: str, name: bool) -> None:
    assert is_name(word, text) == name


def test_a_file_named_like_a_verb_renames_no_verb() -> None:
    made = ToolCall("touch", {"file_name": "draft_tulip.txt"})
    said = "Create 'draft_tulip.txt', then draft a tweet about the tulip."
    found = collect(task(Turn(said, (made,))), DOMAINS, {})
    assert "tulip" in found.words and "draft" not in found.words


def test_a_tag_said_without_its_sign_is_not_every_word_like_it() -> None:
    post = ToolCall("post_tweet", {"content": "Hi", "tags": ["#Travel"]})
    said = "Tweet 'Hi' with the hashtag 'Travel' about my travel class."
    sketch = Sketch(task(Turn(said, (post,))), DOMAINS, state_access(None))
    values = ["Stone" if kind == "tag" else None for kind, _ in sketch.slots]
    assert sketch.render(values).turns[0].user.endswith("'Stone' about my travel class.")


def test_the_day_of_a_date_is_no_number() -> None:
    """`the last day of October` is no date that is found: 31 gallons must not become its day."""
    calls = (
        ToolCall("get_flight_cost", {"travel_date": "2026-10-31"}),
        ToolCall("fillFuelTank", {"fuelAmount": 31}),
    )
    said = "What is the fare on the last day of October 2026? Then fill in 31 gallons."
    sketch = Sketch(task(Turn(said, calls)), DOMAINS, state_access(None))
    values = [32.0 if kind == "number" else None for kind, _ in sketch.slots]
    cost, fuel = sketch.render(values).turns[0].ground_truth
    assert fuel.arguments["fuelAmount"] == 32
    assert datetime.date.fromisoformat(str(cost.arguments["travel_date"])).day == 31


def test_exchanged_words_make_sense_and_keep_their_article() -> None:
    assert set(alike_words()["trip"]) == {"journey", "tour"}
    assert "password" not in alike_words()
    for word in ("problem", "itinerary", "zebra"):
        assert all((o[0] in "aeiou") == (word[0] in "aeiou") for o in alike_words().get(word, ()))


def test_articles_follow_the_sound() -> None:
    words = "unit", "user", "one-way trip", "European plug", "hour", "umbrella", "item", "Uncle"
    assert [article(word) for word in words] == ["a", "a", "a", "a", "an", "an", "an", "an"]


def test_what_never_came_next_is_seldom_planned() -> None:
    calls = [ToolCall(name, {}) for name in ("get_stock_info", "place_order")]
    graph = ApiGraph.of([task(Turn("", tuple(calls)))], lambda _: {c.name: "T" for c in calls})
    follows = graph.weight("get_stock_info", "place_order")
    assert follows > 20 * graph.weight("get_stock_info", "get_stock_info")
    assert graph.given("place_order", "price") == 0 and graph.given("unknown", "x") is None

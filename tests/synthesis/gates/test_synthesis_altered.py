"""Breaks that leave no trace: calls that run, values that are known, and still another task."""

from __future__ import annotations

import dataclasses
import datetime
import functools

import pytest

from altered import ALTERED, alter, put, spots
from mutants import Subject
from one_outcome import synthesize
from rods.synthesis.gates.case import Facts
from rods.synthesis.gates.keeper import GATES
from rods.synthesis.gates.request import wants_something
from rods.synthesis.structure.typed import mistyped
from rods.task import Task
from rods.types import ToolSpec
from synthesis_cases import (
    ENVIRONMENT,
    accepted,
    keeper,
    named,
    promised,
    sides,
    verdict,
    walked,
    with_turn,
    writer,
)

RARE = {"flipped boolean": 5, "told early": 5, "value of no type": 5}
"""Classes that few tasks can have; the others are had by nearly all."""


@functools.cache
def subjects() -> tuple[Subject, ...]:
    """Accepted variants of both writers."""
    pairs = [*accepted(), *walked()]
    return tuple(Subject(seed, Facts(ENVIRONMENT, made)) for seed, made in pairs)


def missed(name: str, breaks: int) -> tuple[list[str], int]:
    """Breaks of one class that every gate lets pass, and how many were made."""
    found = subjects()
    passed: list[str] = []
    total = 0
    for number in range(8 * breaks):
        subject = found[number % len(found)]
        broken = alter(subject, name, number)
        if broken is None:
            continue
        total += 1
        if not verdict(subject.seed, broken):
            passed.append(f"{number} {subject.seed.provenance.origin}")
        if total == breaks:
            break
    return passed, total


@pytest.mark.slow
@pytest.mark.parametrize("name", ALTERED)
def test_what_leaves_no_trace_is_caught(name: str) -> None:
    """In 30 breaks; `benchmarks/gate_catches.py --breaks` makes more."""
    passed, total = missed(name, 30)
    assert total >= RARE.get(name, 30)
    assert len(passed) <= 0.05 * total, passed


@pytest.mark.slow
def test_no_original_is_turned_down() -> None:
    cases = [keeper().case(task, task) for task in sides().train[::16]]
    alarms = [
        (case.seed.task.provenance.origin, name)
        for case in cases
        for name in ("request", "typed", "asked", "contrast", "order", "scope", "worded")
        if GATES[name](case) is not None
    ]
    assert not alarms


@functools.cache
def retold(origin: str) -> tuple[Task, Task]:
    """A task and a variant that renames it."""
    for number in range(60):
        made = synthesize(named(origin), writer(), keeper(), number, 3).variant
        if made is not None and made.provenance.recipe == "resample:rename":
            return named(origin), made
    pytest.fail("no variant was accepted")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "tool", "argument", "other"),
    [
        ("multi_turn_base_24", "diff", "file_name1", "file_name2"),  # both shown by one result
        ("multi_turn_base_162", "book_flight", "travel_from", "travel_to"),  # said earlier
        ("multi_turn_base_10", "echo", "file_name", "diff.file_name1"),  # not the one just made
        ("multi_turn_base_67", "fillFuelTank", "fuelAmount", 1.0),  # what the tank is short of
        ("multi_turn_miss_param_180", "set_budget_limit", "budget_limit", 1.0),  # a result, rounded
        ("multi_turn_base_174", "purchase_insurance", "insurance_cost", 296.0),  # converted
        ("multi_turn_base_47", "mean", "numbers", 95),  # inside the text of a result
        ("multi_turn_miss_param_43", "find", "path", "documents"),  # meant, said nowhere
        ("multi_turn_base_11", "post_tweet", "content", "#news"),  # composed of what is shown
    ],
)
def test_what_a_retold_call_takes_comes_from_where_its_model_takes_it(
    origin: str, tool: str, argument: str, other: str | float
) -> None:
    seed, variant = retold(origin)
    known = {(s.call.name, s.name): s for s in spots(variant)}  # the last of a list
    spot = known[tool, argument]
    name = tuple(str(other).rpartition(".")[::2])
    source = known.get((name[0] or tool, name[1]))
    broken = put(variant, spot, other if source is None else source.value)
    if source is not None and source.call is spot.call:
        broken = put(broken, source, spot.value)
    gate = promised(variant)["retold"]
    assert gate(keeper().case(seed, variant)) is None
    assert gate(keeper().case(seed, broken)) is not None


@pytest.mark.slow
def test_a_text_says_the_result_that_is_shown() -> None:
    """`The estimated distance ... is 980 miles` where another distance was shown."""
    seed = named("multi_turn_base_95")
    found = 0
    for number in range(12):
        made = synthesize(seed, writer(), keeper(), number, 1).variant
        calls = made.turns[3].ground_truth if made is not None and len(made.turns) > 3 else ()
        if made is None or [call.name for call in calls] != ["send_message"]:
            continue
        steps = [s for s in Facts(ENVIRONMENT, made).steps if s.call.name == "estimate_distance"]
        assert f"{steps[-1].leaves[0].value:.0f} miles" in str(calls[0].arguments["message"])
        found += 1
    assert found


def freely(user: str) -> str | None:
    """What the gate says of a message in words that no writer of ours made."""
    seed = named("multi_turn_base_0")
    first = dataclasses.replace(seed.turns[0], user=user)
    origin = dataclasses.replace(seed.provenance, recipe="llm:model", ancestors=(seed.id,))
    task: Task = dataclasses.replace(with_turn(seed, 0, first), provenance=origin)
    return wants_something(keeper().case(seed, task))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "The stock of Zeta Corp was in the papers today.",
        "What a day. My neighbour talks about report.txt all the time.",
        "Please do not do the following: move the file to the archive.",
        "Don't do this: copy the report.",
        "Move the report to temp. But please do not actually do that.",
        "Under no circumstances should you move the report.",
        "Could you not move the report to temp?",
        "I'd like you not to book the flight.",
        "Cancel the order. Or rather, do nothing of the kind.",
    ],
)
def test_a_message_that_wants_nothing_is_turned_down(text: str) -> None:
    assert freely(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Could you move the report to temp? Please don't forget the hidden files.",
        "Find the report. Do not hesitate to look everywhere.",
        "I need the price of Zeta Corp.",
        "Within the archive, meticulously list every project.",
        "First locate the report.",
        "After that, book it, but don't use my old card.",
        "What does ZETA cost?",
        "Let's see what is in there.",
    ],
)
def test_a_request_is_a_request(text: str) -> None:
    assert freely(text) is None


SPEC = ToolSpec(
    "book",
    "Books.",
    {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "The day in the format YYYY-MM-DD"},
            "end_date": {"type": "string", "description": "The last one."},
            "expires": {"type": "string", "description": "In the format MM/YYYY."},
            "at": {"type": "string", "description": "Time of day (HH:MM)."},
            "home": {"type": "string", "description": "The zipcode of the city."},
            "to": {"type": "string", "description": "The 3 letter code of the airport"},
            "kind": {"type": "string", "description": "Options are: economy, business, first."},
            "side": {"type": "string", "enum": ["left", "right"]},
            "speed": {"type": "number", "description": "between 0 and 120 and a multiple of 5."},
            "doors": {"type": "array", "items": {"type": "string", "enum": ["front", "back"]}},
            "order_id": {"type": "integer"},
            "open": {"type": "boolean"},
        },
    },
)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("day", datetime.date(2026, 10, 31).isoformat(), "2026-10-32"),
        ("day", "2028-02-29", "2026-02-29"),
        ("day", "2026-01-05", "05.01.2026"),
        ("day", "2026-01-05", "2026-W02-1"),
        ("end_date", "2026-06-30", "2026-06-31"),
        ("expires", "12/2028", "13/2028"),
        ("at", "23:59", "24:10"),
        ("home", "94016", "9401"),
        ("to", "SFO", "sfo"),
        ("kind", "business", "coach"),
        ("side", "left", "up"),
        ("speed", 65, 125),
        ("speed", 65.0, 67),
        ("doors", ["front"], ["front", "roof"]),
        ("order_id", 7, "7"),
        ("order_id", 7, True),
        ("open", False, "no"),
    ],
)
def test_values_are_checked_by_their_type(name: str, good: object, bad: object) -> None:
    assert mistyped(SPEC, {name: good}) == []
    assert mistyped(SPEC, {name: bad})


@pytest.mark.slow
def test_a_date_that_no_calendar_has_is_turned_down_by_its_type() -> None:
    """The last day of October is not the 32nd, though message and calls agree on it."""
    seed, variant = next(
        (s, v)
        for s, v in (*accepted(), *walked())
        if any("travel_date" in c.arguments for t in v.turns for c in t.ground_truth)
    )
    told = str(
        next(
            c.arguments["travel_date"]
            for t in variant.turns
            for c in t.ground_truth
            if "travel_date" in c.arguments
        )
    )
    turns = tuple(
        dataclasses.replace(
            turn,
            user=turn.user.replace(told, "2026-10-32"),
            ground_truth=tuple(
                dataclasses.replace(
                    call,
                    arguments={
                        k: "2026-10-32" if v == told else v for k, v in call.arguments.items()
                    },
                )
                for call in turn.ground_truth
            ),
        )
        for turn in variant.turns
    )
    assert verdict(seed, dataclasses.replace(variant, turns=turns)) == "typed"

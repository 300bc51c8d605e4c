"""Messages made wrong by a word: gates that every writer passes, whoever made the task."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable

import pytest

from altered import alter
from miswordings import MISWORDED, misword
from mutants import Subject
from rods.synthesis.gates.case import Case, Facts
from rods.synthesis.gates.contrast import nothing_is_misnamed
from rods.synthesis.gates.keeper import GATES, Gatekeeper
from rods.synthesis.gates.overlap import Corpus
from rods.synthesis.gates.request import messages_stand_at_their_calls, nothing_more_is_meant
from rods.synthesis.gates.usage import TextCounts
from rods.synthesis.gates.worded import retells
from rods.task import Task, Turn
from rods.types import ToolCall, ToolSpec
from rods.writers import MixedWriter
from rods.writers.assembly import keeper_of
from synthesis_cases import (
    ENVIRONMENT,
    accepted,
    graph_writer,
    keeper,
    named,
    renamed,
    sides,
    verdict,
    walked,
    with_turn,
    writer,
)

ON_WORDS = ("units", "contrast", "order", "scope", "worded")


def forged(task: Task, recipe: str = "llm:model") -> Task:
    """The same task, made by somebody else if one believes its recipe."""
    return dataclasses.replace(task, provenance=dataclasses.replace(task.provenance, recipe=recipe))


@functools.cache
def subjects() -> tuple[Subject, ...]:
    """Retold variants that say that a language model made them."""
    return tuple(Subject(s, Facts(ENVIRONMENT, forged(v))) for s, v in accepted())


def missed(name: str, breaks: int) -> tuple[list[str], int]:
    """Wrong wordings of one kind that every common gate lets pass, and how many were made."""
    found, passed, total = subjects(), list[str](), 0
    for number in range(4 * breaks):
        subject = found[number % len(found)]
        broken = misword(subject, name, number)
        if broken is None or total == breaks:
            continue
        total += 1
        if keeper().check(subject.seed, broken).rejection is None:
            passed.append(f"{number} {subject.seed.provenance.origin}")
    return passed, total


@pytest.mark.slow
@pytest.mark.parametrize("name", MISWORDED)
def test_a_wrong_word_in_a_retold_message_is_caught_whoever_made_it(name: str) -> None:
    passed, total = missed(name, 20)
    assert total >= 6  # few messages have a number word
    assert len(passed) <= 0.1 * total, passed


TEXTUAL = ("told early", "exchanged in the message", "negated request", "asks for nothing")
BROKEN = [*((misword, name) for name in MISWORDED), *((alter, name) for name in TEXTUAL)]
"""Breaks of a message alone."""


@pytest.mark.slow
@pytest.mark.parametrize(("break_by", "name"), BROKEN, ids=[name for _, name in BROKEN])
def test_the_name_of_a_writer_changes_no_verdict(
    break_by: Callable[[Subject, str, int], Task | None], name: str
) -> None:
    """Under its own name, a language model's and an unknown one, a broken variant fails alike."""
    tried = rejected = 0
    for number, (seed, variant) in enumerate(accepted()):
        broken = break_by(Subject(seed, Facts(ENVIRONMENT, variant)), name, number)
        if broken is None:
            continue
        if tried == 3:
            break
        tried += 1
        tasks = [broken, forged(broken, "llm:model"), forged(broken, "mine:own")]
        found = [keeper().check(seed, task).rejection for task in tasks]
        verdicts = [one and (one.stage, one.reason, one.detail) for one in found]
        assert verdicts[1:] == verdicts[:1] * 2, broken
        rejected += verdicts[0] is not None
    assert tried and rejected, "a verdict that rejects is compared, too"


@pytest.mark.parametrize("recipe", ["llm:model", "mine:own"])
def test_an_accepted_variant_passes_under_another_name(recipe: str) -> None:
    seed, variant = renamed()[0]
    assert keeper().check(seed, forged(variant, recipe)).rejection is None


def test_a_writer_brings_its_own_promise() -> None:
    """A message in other words is none of resample's, and one of a language model's may be."""
    seed, variant = renamed()[0]
    turn = next(i for i, t in enumerate(variant.turns) if t.user.strip() and t.ground_truth)
    text = f"So here is what comes next in my plan for this week. {variant.turns[turn].user}"
    other = with_turn(variant, turn, dataclasses.replace(variant.turns[turn], user=text))
    assert retells(keeper().case(seed, variant)) is None
    assert retells(keeper().case(seed, other)) is not None
    assert writer().gates(variant).keys() == {"retold"}
    assert graph_writer().gates(variant).keys() == {"templates"}
    mixed = MixedWriter(graph_writer(), writer(), 0.5)
    assert mixed.gates(variant).keys() == {"retold"}
    assert mixed.gates(forged(variant, "graph:walk")).keys() == {"templates"}


@pytest.mark.parametrize(("number", "right"), [(51, "locked"), (79, "unlocked")])
def test_a_wrong_word_in_words_of_ones_own_is_caught(number: int, right: str) -> None:
    """No gate that compares a message with its model sees such words."""
    seed = named(f"multi_turn_base_{number}")
    made = (writer().propose(seed, random.Random(n)) for n in range(12))
    variant = next(m for m in made if isinstance(m, Task) and verdict(seed, m) == "")
    for word in ("locked", "unlocked"):
        text = f"All four doors are to be {word}, please."
        turn = dataclasses.replace(variant.turns[0], user=text)
        rejection = keeper().check(seed, forged(with_turn(variant, 0, turn))).rejection
        assert (rejection and rejection.reason) == (None if word == right else "contrast")
    text = f"All four doors are to be {right}, please. And the others too."
    more = dataclasses.replace(variant.turns[0], user=text)
    rejection = keeper().check(seed, forged(with_turn(variant, 0, more))).rejection
    assert rejection and rejection.reason == "scope"


@functools.cache
def strangers(folds: int = 5) -> tuple[Gatekeeper, ...]:
    return tuple(
        keeper_of(ENVIRONMENT, [t for t in sides().train if fold(t, folds) != number])
        for number in range(folds)
    )


def fold(task: Task, folds: int = 5) -> int:
    return (
        sorted({t.provenance.scenario for t in sides().train}).index(task.provenance.scenario)
        % folds
    )


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "held_out"])
def test_few_human_messages_are_rejected_by_gates_that_never_heard_them(split: str) -> None:
    """As a language model's: no ancestor says the same, the counts are of other scenarios."""
    rejected: list[str] = []
    originals = getattr(sides(), split)[::7]
    for task in originals:
        plain = tuple(
            dataclasses.replace(turn, user=turn.user and "Something is to be done.")
            for turn in task.turns
        )
        seed = dataclasses.replace(task, turns=plain)
        who = strangers()[fold(task)] if split == "train" else keeper()
        case = who.case(seed, forged(task))
        rejected += [f"{task.provenance.origin} {n}" for n in ON_WORDS if GATES[n](case)]
    assert len(rejected) <= 0.02 * len(originals), rejected


@pytest.mark.slow
def test_accepted_variants_pass_under_any_name() -> None:
    pairs = [*accepted(), *walked()]
    rejected = [v for s, v in pairs if keeper().check(s, forged(v)).rejection is not None]
    assert len(rejected) <= 0.02 * len(pairs)


DOORS = ToolSpec(
    "set_gate",
    "Locks the gate of a yard.",
    {"type": "object", "properties": {"unlock": {"type": "boolean"}, "yard": {"type": "string"}}},
)
RAISE = ToolSpec(
    "add_water",
    "Add water to a basin. It takes liters.",
    {"type": "object", "properties": {"amount": {"type": "number", "description": "In liters."}}},
)
SEAT = ToolSpec(
    "take_seat",
    "Take a seat.",
    {
        "type": "object",
        "properties": {"place": {"type": "string", "enum": ["aisle", "window", "middle"]}},
    },
)
CANCEL = ToolSpec("cancel_seat", "Cancel a reservation.", {"type": "object", "properties": {}})
FREE = ToolSpec("get_seats", "Get the seats that are free.", CANCEL.parameters)
NOTE = ToolSpec(
    "post_note", "Post a note.", {"type": "object", "properties": {"text": {"type": "string"}}}
)
LITERS = ToolSpec(
    "liter_to_gallon",
    "Converts liters.",
    {"type": "object", "properties": {"liter": {"type": "number"}}},
)
CHANGE = ToolSpec("换钱", "Change money.", LITERS.parameters)
SPECS = {spec.name: spec for spec in (DOORS, RAISE, SEAT, CANCEL, FREE, NOTE, LITERS, CHANGE)}


class Yard(Facts):
    """Facts of a task whose world nobody opens."""

    specs = SPECS  # pyright: ignore[reportAssignmentType]
    steps = ()  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def yard(turns: tuple[Turn, ...]) -> Task:
    return Task("yard", "base", turns, {})


def case(*turns: tuple[str, tuple[ToolCall, ...]], heard: tuple[Task, ...] = ()) -> Case:
    """A task of an environment without templates, examples or domains."""
    made = yard(tuple(Turn(text, calls) for text, calls in turns))
    nothing = dataclasses.replace(made, turns=(Turn("Something else."),))
    found = Case(
        seed=Yard(ENVIRONMENT, nothing),
        variant=Yard(ENVIRONMENT, made),
        ancestors=[],
        corpus=Corpus((), ()),
        usage=TextCounts(heard),
    )
    found.__dict__["source_turns"] = (None,) * len(turns)
    return found


LOCK = ToolCall("set_gate", {"unlock": False, "yard": "north"})
PLAIN = ToolCall("set_gate", {"yard": "north"})
UNLOCK = ToolCall("set_gate", {"unlock": True, "yard": "north"})
WATER = ToolCall("add_water", {"amount": 30.0})
WINDOW = ToolCall("take_seat", {"place": "window"})


@pytest.mark.parametrize(
    ("text", "call", "good"),
    [
        ("Lock the gate of the yard.", LOCK, True),
        ("Unlock the gate of the yard.", LOCK, False),
        ("Unlock the gate of the yard.", UNLOCK, True),
        ("The gate should be locked now.", UNLOCK, False),
        ("Make sure that the gate is locked if it is unlocked.", LOCK, True),
        ("Add 30 liters of water.", WATER, True),
        ("Add 30 litres of water.", WATER, True),
        ("Add 30 gallons of water.", WATER, False),
        ("Remove 30 liters of water.", WATER, False),
        ("Add 8 gallons of water.", WATER, False),
        ("Add 8 gallons of water.", ToolCall("add_water", {"amount": 30.28}), True),
        ("Include the water. Please remove 30 liters now.", WATER, False),
        ("Include 30 liters of the water that was removed.", WATER, True),
        ("Confirm my reservation of the seat.", ToolCall("cancel_seat", {}), False),
        ("Cancel my reservation of the seat.", ToolCall("cancel_seat", {}), True),
        ("I think of cancelling my reservation.", ToolCall("cancel_seat", {}), True),
        ("I've seen that the gate was unlocked. Secure it.", LOCK, True),
        ("Pour 30 liters beside the removed lid.", WATER, True),
        ("Given a thousand gallons of rain, pour more.", WATER, True),
        ("Please delete the free seats.", ToolCall("get_seats", {}), False),
        ("Please list the free seats.", ToolCall("get_seats", {}), True),
        ("I want to cancel later. Please list the free seats.", ToolCall("get_seats", {}), True),
        ("Post 'It costs €{price}'.", ToolCall("post_note", {"text": "It costs $5"}), False),
        ("Post 'It costs ${price}'.", ToolCall("post_note", {"text": "It costs $5"}), True),
        ("How much are 30 liters in litres?", ToolCall("liter_to_gallon", {"liter": 30}), False),
        ("How much are 30 liters in gallons?", ToolCall("liter_to_gallon", {"liter": 30}), True),
        ("Turn 30 liters into the other unit.", ToolCall("liter_to_gallon", {"liter": 30}), True),
        ("Turn 30 dollars into euros.", ToolCall("换钱", {"liter": 30}), True),
        ("Take a seat at the window.", WINDOW, True),
        ("Take a seat at the aisle.", WINDOW, False),
        ("Take a seat at the 'aisle'.", WINDOW, False),
        ("Take a seat at the window, not at the aisle.", WINDOW, True),
    ],
)
def test_a_word_is_measured_by_the_tools_own_words(text: str, call: ToolCall, good: bool) -> None:
    assert (nothing_is_misnamed(case((text, (call,)))) is None) == good


@pytest.mark.parametrize(
    ("word", "good"), [("seat", True), ("water", False), ("table", True), ("water,", True)]
)
def test_a_word_of_another_tool_is_wrong_where_people_say_one_of_this(
    word: str, good: bool
) -> None:
    """At the end of a clause, its neighbors are too few to know."""
    guests = ("Ann", "Bo")
    heard = tuple(yard((Turn(f"Reserve my seat tonight, {g}.", (WINDOW,)),)) for g in guests)
    found = nothing_is_misnamed(case((f"Reserve my {word} tonight.", (WINDOW,)), heard=heard))
    assert (found is None) == good


@pytest.mark.parametrize(
    ("dollars", "euros", "good"), [(10, 0, False), (9, 0, True), (10, 2, True), (20, 2, False)]
)
def test_a_currency_is_wrong_where_all_the_others_say_another(
    dollars: int, euros: int, good: bool
) -> None:
    """Nobody says a currency with the tool that is called."""
    said = ["dollars"] * dollars + ["euros"] * euros
    texts = [f"Lock the {word} of {chr(97 + n)} away." for n, word in enumerate(said)]
    heard = tuple(yard((Turn(text, (LOCK,)),)) for text in texts)
    paid = case(("Take a seat for 5 euros.", (WINDOW,)), heard=heard)
    assert (nothing_is_misnamed(paid) is None) == good


def test_a_verb_that_asks_must_be_heard_nearly_as_often_as_its_opposite() -> None:
    """One person speaks of a gate that is unlocked; nobody asks for that."""
    texts = [f"Lock the gate of {name}." for name in ("Ann", "Bo", "Cy", "Di", "Ed")]
    texts.append("Lock the gate, it is unlock or broken.")
    heard = tuple(yard((Turn(text, (PLAIN,)),)) for text in texts)
    asking, by_the_way = "Please unlock the gate.", "The gate seems unlock to me."
    assert nothing_is_misnamed(case((asking, (PLAIN,)), heard=heard)) is not None
    assert nothing_is_misnamed(case((by_the_way, (PLAIN,)), heard=heard)) is None


def test_units_that_were_converted_are_no_usage() -> None:
    """A tool's unit is not that in which one person said a number that was converted."""
    paid = ToolCall("take_seat", {"place": "window", "price": 7.5})
    texts = [("Reserve it for $7.5 a seat.", paid), ("Reserve it for 6 euros a seat.", paid)]
    heard = tuple(yard((Turn(text, (call,)),)) for text, call in texts)
    wrong = case(("Reserve it for €7.5 a seat.", (paid,)), heard=heard)
    assert nothing_is_misnamed(wrong) is not None
    usage = TextCounts(heard)
    assert usage.count({"euros"}) == 0
    assert usage.count({"$"}) == 1


@pytest.mark.parametrize(
    ("text", "calls", "good"),
    [
        ("Lock the gate. The others, too.", (LOCK,), False),
        ("Lock the gate and everything else.", (LOCK,), False),
        ("Lock every other gate.", (LOCK,), False),
        ("Lock all but the first one.", (LOCK,), False),
        ("Lock the other gate.", (LOCK,), True),
        ("Lock one gate and unlock the others.", (LOCK, UNLOCK), True),
        ("Lock two gates.", (LOCK, LOCK), True),
        ("Lock two gates.", (LOCK, UNLOCK), True),
        ("Lock three gates.", (LOCK, UNLOCK), False),
        ("Double-check the gate twice.", (LOCK,), True),
    ],
)
def test_a_message_asks_for_as_much_as_its_calls_do(
    text: str, calls: tuple[ToolCall, ...], good: bool
) -> None:
    assert (nothing_more_is_meant(case((text, calls))) is None) == good


def test_messages_that_change_places_are_found_by_words_and_values() -> None:
    turns = (
        ("Please lock the gate of the north yard for the night.", (LOCK,)),
        ("Add 30 liters of water to the basin.", (WATER,)),
        ("Take the seat at the window.", (WINDOW,)),
    )
    heard = tuple(
        yard(tuple(Turn(f"{t} {n} times", c) for t, c in turns)) for n in ("Once", "Two", "Many")
    )
    assert messages_stand_at_their_calls(case(*turns, heard=heard)) is None
    texts = [text for text, _ in turns]
    texts[0], texts[1] = texts[1], texts[0]
    mixed = [(text, calls) for text, (_, calls) in zip(texts, turns, strict=True)]
    assert messages_stand_at_their_calls(case(*mixed, heard=heard)) is not None


def test_counts_are_of_words_and_not_of_values() -> None:
    task = yard((Turn("Lock the 'unlock' of north.", (LOCK,)),))
    usage = TextCounts((task,))
    assert usage.count_only({"set_gate"}, {"lock"}) == 1
    assert usage.count({"unlock", "north"}) == 0
    assert usage.count_only({"other"}, {"lock"}) == 0


def test_the_writers_own_promise_is_asked_in_production() -> None:
    seed, variant = walked()[0]
    index = next(i for i, t in enumerate(variant.turns) if t.user.strip() and t.ground_truth)
    text = variant.turns[index].user
    other = with_turn(
        variant, index, dataclasses.replace(variant.turns[index], user=f"Hmm, well. {text}")
    )
    assert verdict(seed, variant) == ""
    assert verdict(seed, other) == "templates"

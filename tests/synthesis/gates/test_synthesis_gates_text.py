"""Gates on wording: literals, leaks, contradictions, units, and what a message asks for."""

from __future__ import annotations

import dataclasses
import random

import pytest

from rods.synthesis.gates.case import Facts
from rods.synthesis.gates.request import calls_are_asked_for
from rods.synthesis.gates.text import nothing_contradicts, nothing_leaks, units_agree
from rods.synthesis.planned import CallRequest
from rods.synthesis.structure.mentions import KnownTexts, Token, tokens_in
from rods.task import Task, Turn
from rods.types import ToolCall
from rods.writers.templates.phrases import phrases_of
from synthesis_cases import (
    ENVIRONMENT,
    accepted,
    keeper,
    named,
    renamed,
    sides,
    verdict,
    with_turn,
)


def say(task: Task, index: int, user: str) -> Task:
    return with_turn(task, index, dataclasses.replace(task.turns[index], user=user))


def single(classes: list[str], user: str, *calls: ToolCall) -> Task:
    seed = named("multi_turn_base_0")
    world = {**seed.world, "classes": classes, "initial_config": {}}
    return dataclasses.replace(seed, turns=(Turn(user, calls),), world=world)  # type: ignore[arg-type]


def test_tokens_of_a_message() -> None:
    found = tokens_in(
        "Buy 1,200.5 of 'Zeta Corp' (ZETA) by 2026-01-05, see a_b.txt, @ann #fun id7."
    )
    assert set(found) == {
        Token("number", "1200.5"),
        Token("quoted", "zeta corp"),
        Token("capitals", "zeta"),
        Token("date", "2026-01-05"),
        Token("file", "a_b.txt"),
        Token("mention", "@ann"),
        Token("tag", "#fun"),
        Token("code", "id7"),
    }


def test_apostrophes_and_ordinals_are_no_tokens() -> None:
    assert not tokens_in("It's the boss's 3rd idea, isn't it?")


def test_a_vocabulary_finds_values_not_parts_of_words() -> None:
    known = KnownTexts(["total 40.0 in zetas_file.txt", '{"tag": "#Fun"}'])
    assert Token("number", "40.0") in known
    assert Token("number", "4.0") not in known
    assert Token("capitals", "zeta") not in known
    assert Token("tag", "#fun") in known
    assert Token("capitals", "gps") in KnownTexts([], ["gps"])


@pytest.mark.parametrize(
    "text",
    [
        "Open {file}.",
        "Open <file name>.",
        "Call [NAME].",
        "The date is None.",
        "Send it to undefined.",
        "As an AI, I will.",
        "Make the function call.",
        "User: hello",
        "```python",
        'Use {"symbol": "Q"}.',
        "<|im_end|>",
    ],
)
def test_literal_patterns(text: str) -> None:
    seed, variant = renamed()[0]
    assert verdict(seed, say(variant, 0, f"{variant.turns[0].user}\n{text}")) == "literals"


def test_none_of_them_is_plain_english() -> None:
    seed, variant = renamed()[0]
    spoken = f"{variant.turns[0].user} None of them matters."
    assert verdict(seed, say(variant, 0, spoken)) != "literals"


@pytest.mark.slow
def test_names_of_tools_and_parameters_leak() -> None:
    seed, variant = renamed()[0]
    case = keeper().case(seed, variant)
    specs = case.variant.specs.values()
    names = [s.name for s in specs if "_" in s.name]
    names += [n for s in specs for n in s.parameters["properties"] if "_" in n]  # type: ignore[union-attr]
    assert len(names) > 4
    for name in names:
        leaking = say(variant, 0, f"{variant.turns[0].user} Mind {name}.")
        assert nothing_leaks(keeper().case(seed, leaking))
        spaced = say(variant, 0, f"{variant.turns[0].user} Mind {name.replace('_', ' ')}.")
        assert nothing_leaks(keeper().case(seed, spaced)) is None


def test_a_name_that_is_a_value_is_no_leak() -> None:
    seed, variant = renamed()[0]
    name = next(n for n in keeper().facts(variant).specs if "_" in n)
    call = ToolCall("echo", {"content": name})
    turns = (*variant.turns, Turn(f"Print {name}.", (call,)))
    task = dataclasses.replace(variant, turns=turns)
    assert nothing_leaks(keeper().case(seed, task)) is None


@pytest.mark.slow
def test_the_originals_contradict_nothing() -> None:
    """A gate that rejects human tasks beside themselves would reject good variants."""
    for number in range(0, 200, 9):
        task = named(f"multi_turn_base_{number}")
        case = keeper().case(task, task)
        assert nothing_contradicts(case) is None
        assert calls_are_asked_for(case) is None
        assert units_agree(case) is None


def test_an_unknown_value_in_a_message_is_caught() -> None:
    total = 0
    for seed, variant in accepted()[::4]:
        for index, turn in enumerate(variant.turns):
            if turn.user.strip():
                total += 1
                said = say(variant, index, f"{turn.user} It is about 'qwzzkp-77' and 918273645.")
                assert nothing_contradicts(keeper().case(seed, said))
    assert total > 15


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Put 20 gallons in.", False),
        ("Put 20 additional liters in.", True),
        ("Put 20 liters in.", True),
        ("Put 20 litres in, that is 5 gallons.", True),
        ("Put 20 units in.", False),
        ("Put 30 liters in.", False),
    ],
)
def test_units(text: str, wrong: bool) -> None:
    task = single(["VehicleControlAPI"], text, ToolCall("fillFuelTank", {"fuelAmount": 20.0}))
    seed = named("multi_turn_base_60")
    assert (units_agree(keeper().case(seed, task)) is not None) == wrong


def templated(*calls: ToolCall) -> tuple[Task, str]:
    task = single(["TradingBot"], "", *calls)
    specs = Facts(ENVIRONMENT, task).specs
    phrases = phrases_of(ENVIRONMENT)
    user = phrases.turn(
        [CallRequest(c, specs[c.name]) for c in calls], random.Random(4), first=True
    )
    return say(task, 0, user), user


def test_a_message_of_templates_is_read_back() -> None:
    seed = named("multi_turn_base_0")
    look = ToolCall("get_stock_info", {"symbol": "ZETA"})
    add = ToolCall("add_to_watchlist", {"stock": "NVDA"})
    task, user = templated(look, add)
    assert calls_are_asked_for(keeper().case(seed, task)) is None
    fewer = dataclasses.replace(task, turns=(Turn(user, (look,)),))
    assert "add_to_watchlist" in str(calls_are_asked_for(keeper().case(seed, fewer)))
    more = dataclasses.replace(task, turns=(Turn(user, (look, add, ToolCall("get_watchlist"))),))
    assert "get_watchlist" in str(calls_are_asked_for(keeper().case(seed, more)))
    other = say(task, 0, user.replace("ZETA", "OMEG"))
    assert "get_stock_info" in str(calls_are_asked_for(keeper().case(seed, other)))


def test_other_wording_is_left_to_the_judge() -> None:
    look = ToolCall("get_stock_info", {"symbol": "ZETA"})
    task = single(["TradingBot"], "How does ZETA fare these days, I wonder?", look)
    assert calls_are_asked_for(keeper().case(named("multi_turn_base_0"), task)) is None


RETRACTIONS = (
    "Forget it.|On second thought, do none of that.|But please change nothing at all.|Never mind."
    "|Actually, forget about that.|Scratch that, please.|Oh wait, don't do that.|I changed my mind."
    "|No, leave it as it is.|Please disregard this!|Better leave everything alone."
)
NO_RETRACTIONS = (
    "Forget the old file.|On second thought, cancel that order.|Drop that stock from my watchlist."
    "|I changed my mind about the trip, so cancel it.|Don't change the title.|Skip the first line."
    "|Do nothing to report.txt but copy it.|Leave the lights on.|Please ignore hidden files."
)


@pytest.mark.parametrize("text", RETRACTIONS.split("|"))
def test_a_message_that_takes_itself_back_is_caught(text: str) -> None:
    seed, variant = renamed()[0]
    said = say(variant, 0, f"{variant.turns[0].user} {text}")
    assert "takes back" in str(nothing_contradicts(keeper().case(seed, said)))


@pytest.mark.parametrize("text", NO_RETRACTIONS.split("|"))
def test_a_change_of_plans_is_no_retraction(text: str) -> None:
    seed, variant = renamed()[0]
    said = say(variant, 0, f"{variant.turns[0].user} {text}")
    assert "takes back" not in str(nothing_contradicts(keeper().case(seed, said)))


def test_a_quoted_retraction_is_none() -> None:
    call = ToolCall("echo", {"content": "Forget it."})
    task = single(["GorillaFileSystem"], "Please write 'Forget it.'", call)
    assert "takes back" not in str(nothing_contradicts(keeper().case(task, task)))


def test_no_original_takes_itself_back() -> None:
    seed, _ = renamed()[0]
    for task in sides().train[::12]:
        assert "takes back" not in str(nothing_contradicts(keeper().case(seed, task)))


def test_a_wrong_value_in_templates_is_caught_though_the_words_are_a_humans() -> None:
    seed = named("multi_turn_base_163")
    call = ToolCall("cancel_booking", {"access_token": "qwt262pmk709", "booking_id": "2431026"})
    said = "Would you cancel my booking 2431026 with my access token {}?"
    right = single(["TravelAPI"], said.format("qwt262pmk709"), call)
    wrong = single(["TravelAPI"], said.format("Ellis"), call)
    like = single(
        ["TravelAPI"], "Since my trip is off, would you cancel my booking with my token?", call
    )
    for model in (seed, like):
        assert calls_are_asked_for(keeper().case(model, right)) is None
        assert "cancel_booking" in str(calls_are_asked_for(keeper().case(model, wrong)))

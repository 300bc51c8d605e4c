"""How variants read: references that have one meaning, values that fit, messages without seams."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest

from rods.synthesis.gates.request import calls_are_asked_for
from rods.synthesis.planned import CallRequest, Producer
from rods.synthesis.structure.domains import Domains, domains_of
from rods.synthesis.structure.sources import place_of
from rods.synthesis.structure.trace import TraceStep, all_tools, read_result
from rods.synthesis.structure.words import SLOT, verb_of
from rods.task import Turn
from rods.types import ToolCall, ToolResult, ToolSpec
from rods.writers.templates.described import from_description
from rods.writers.templates.phrases import NO_PHRASES, Phrases, phrases_of
from rods.writers.templates.reading import clear_producer
from rods.writers.templates.wording import Wording
from synthesis_cases import ENVIRONMENT, keeper, named, sides, walked, with_turn, writer

PHRASES, DOMAINS = phrases_of(ENVIRONMENT), domains_of(ENVIRONMENT)
SEAMS = (
    r"\bthat I will name\b",
    r"\bID you just\b",
    r"\b(that|the|a|my|to|for|of|with) \1\b",
    r"\b(?:the|that|my|an?) (?:the|that|my|an?) ",
    r"\ba [aeio]\w+ id\b",
    r"(?<!\.)\.\.(?![./\w])",
    r"[.!?]'\.",
    r"\{\w*\}",
    r" {2}",
    r"\bthe (?:content|message|file name|folder) (?:you just found|that came back|from that)",
)


def step(call: ToolCall, content: str) -> TraceStep:
    return TraceStep(0, call, ToolResult(content), *read_result(content))


LISTED = step(ToolCall("list_all_airports"), '["RMS", "SBK", "MPC", "BOS"]')
PLACED = step(ToolCall("place_order", {"symbol": "NVDA"}), '{"order_id": 12446, "price": 90.0}')
REVIEW = ToolCall("get_order_details", {"order_id": 12446})


def test_a_reference_needs_one_clear_producer() -> None:
    found = clear_producer([PLACED], [0], REVIEW, "order_id", PHRASES, DOMAINS)
    assert found == Producer(PLACED.call)
    rival = step(ToolCall("place_order", {"symbol": "ZETA"}), '{"order_id": 12447}')
    assert clear_producer([PLACED, rival], [0], REVIEW, "order_id", PHRASES, DOMAINS) is None
    other = step(ToolCall("get_order_details", {"order_id": 5}), '{"status": "Open"}')
    assert clear_producer([PLACED, other], [0], REVIEW, "order_id", PHRASES, DOMAINS) is None
    assert clear_producer([PLACED, other], [1], REVIEW, "order_id", PHRASES, DOMAINS) is None
    weather = step(ToolCall("get_current_time"), '{"current_time": "10:30"}')
    assert clear_producer([PLACED, weather], [1], REVIEW, "order_id", PHRASES, DOMAINS) is None


def test_the_same_rental_is_not_meant_where_another_one_was_named_before() -> None:
    rented = step(ToolCall("rent_bike", {"bike_id": "B-3"}), '{"rental_id": "L-13"}')
    named = step(ToolCall("add_extra", {"rental_id": "L-29", "extra": "lock"}), '{"extras": 1}')
    extend, own = ToolCall("extend", {"rental_id": "L-13"}), Domains(inferred=True)
    found = clear_producer([rented], [0], extend, "rental_id", NO_PHRASES, own)
    assert found == Producer(rented.call)
    steps = [named, rented]
    assert clear_producer(steps, [1], extend, "rental_id", NO_PHRASES, own) is None


def test_one_of_a_list_is_meant_by_its_place() -> None:
    fare = ToolCall("get_flight_cost", {"travel_from": "RMS", "travel_to": "BOS"})
    first = clear_producer([LISTED], [0], fare, "travel_from", PHRASES, DOMAINS)
    last = clear_producer([LISTED], [0], fare, "travel_to", PHRASES, DOMAINS)
    assert (first, last) == (Producer(LISTED.call, "first"), Producer(LISTED.call, "last"))
    assert place_of(LISTED, "MPC") == "third"
    assert place_of(step(ToolCall("x"), '["a", "b", "c", "d", "e"]'), "d") == ""


def test_what_a_call_asked_for_names_its_result() -> None:
    zips = [
        step(ToolCall("get_zipcode_based_on_city", {"city": city}), f'{{"zipcode": "{code}"}}')
        for city, code in (("Rivermist", "83214"), ("Stonebrook", "74532"))
    ]
    drive = ToolCall("estimate_distance", {"cityA": "74532", "cityB": "83214"})
    producers = {n: clear_producer(zips, [9], drive, n, PHRASES, DOMAINS) for n in drive.arguments}
    spec = ToolSpec("estimate_distance", "", {})
    known = {n: producer for n, producer in producers.items() if producer}
    ask = CallRequest(drive, spec, frozenset(producers), producers=known)
    text = PHRASES.clause(ask, random.Random(1))
    assert text.index("Stonebrook") < text.index("Rivermist")


def test_a_reference_to_the_wrong_result_is_not_what_is_asked_for() -> None:
    seed = named("multi_turn_base_67")
    calls = (
        ToolCall("get_zipcode_based_on_city", {"city": "Rivermist"}),
        ToolCall("get_zipcode_based_on_city", {"city": "Stonebrook"}),
        ToolCall("estimate_distance", {"cityA": "83214", "cityB": "74532"}),
    )
    said = "Find the zip code of Rivermist. Then find the zip code of Stonebrook. "
    right = said + "And estimate the distance from Rivermist to Stonebrook."
    wrong = said + "And estimate the distance from Stonebrook to Rivermist."
    task = dataclasses.replace(seed, turns=(Turn(right, calls),))
    assert calls_are_asked_for(keeper().case(seed, task)) is None
    assert calls_are_asked_for(keeper().case(seed, with_turn(task, 0, Turn(wrong, calls))))


def seams(text: str) -> list[str]:
    bare = re.sub(r"'[^']*'", "''", text)
    return [seam for seam in SEAMS if re.search(seam, text if "'" in seam else bare)]


def test_messages_have_no_seams() -> None:
    said = [turn.user for _, variant in walked() for turn in variant.turns]
    assert len(said) > 60
    assert not [(text, seams(text)) for text in said if seams(text)]


def test_no_clause_has_a_seam_whatever_fills_it() -> None:
    """Every clause with every open value, reference and noun phrase that its tool may get."""
    for tool, wording in PHRASES.wordings.items():
        for clause in wording.clauses:
            for name in SLOT.findall(clause):
                texts = [*wording.texts(name, "B7"), *wording.open.get(name, ())]
                texts += [form for forms in wording.refer.get(name, {}).values() for form in forms]
                for text in texts:
                    lead = "" if text else " "  # what is left out takes its space with it
                    filled = clause.replace(f"{lead}{{{name}}}", SLOT.sub("X", text))
                    assert not seams(SLOT.sub("X", filled)), (tool, filled)


def test_values_fit_what_they_are_given_to() -> None:
    orders = bodies = 0
    for seed, variant in walked():
        for call in (call for turn in variant.turns for call in turn.ground_truth):
            for name, value in call.arguments.items():
                if name == "order_id":
                    orders += 1
                    assert isinstance(value, int)
                if name in ("message", "content"):
                    bodies += 1
                    assert not str(value).endswith("successfully."), "a status is no message"
                if name == "date_of_birth" and str(value) not in str(seed.turns):
                    assert str(value) < "2010"
    assert orders > 2
    assert bodies > 2


def test_a_quoted_text_ends_its_sentence_once() -> None:
    tweet = Wording(("tweet {content}",), named={"content": ("'{}'",)})
    phrases = Phrases({"tweet": tweet}, {})
    spec = ToolSpec("tweet", "", {})
    for seed in range(30):
        call = ToolCall("tweet", {"content": "It works!"})
        text = phrases.turn([CallRequest(call, spec)], random.Random(seed), first=True)
        assert not text.endswith("'."), text


def test_items_of_a_list_are_quoted_each() -> None:
    wording = Wording(("show {messages}",), named={"messages": ("'{}'",)})
    assert wording.texts("messages", ["One.", "Two."]) == ["'One.' and 'Two.'"]


def test_no_frame_is_used_twice_in_a_message() -> None:
    spec = ToolSpec("get_watchlist", "", {})
    asks = [CallRequest(ToolCall("get_watchlist"), spec)] * 6
    for seed in range(20):
        text = PHRASES.turn(asks, random.Random(seed), first=False)
        for link in ("Then ", "After that, ", "Also, ", "Next, ", "Once that is done, "):
            assert text.count(link) <= 1


@pytest.mark.parametrize(
    ("origin", "kept"),
    [
        ("multi_turn_base_89", ("30 gallons", "40 gallons")),
        ("multi_turn_base_198", ("December 25",)),
    ],
)
def test_what_is_reckoned_from_what_stays_does_not_move(origin: str, kept: tuple[str, ...]) -> None:
    """30 gallons `so that I end with 40`; a day that is called Christmas."""
    seed = named(origin)
    if seed not in sides().train:
        origin = origin.replace("base", "miss_func")
        seed = next(t for t in sides().train if t.provenance.origin == origin)
    for number in range(4):
        variant = writer().propose(seed, random.Random(number))
        texts = " ".join(turn.user for turn in variant.turns)  # type: ignore[union-attr]
        for text in kept:
            assert text in texts


def test_a_tools_verb_begins_its_template() -> None:
    tools = {k: v for task in sides().train for k, v in all_tools(ENVIRONMENT, task).items()}
    assert len(tools) > 100
    for spec in tools.values():
        assert all(say.split()[0] == verb_of(spec) for say in from_description(spec).say), spec.name

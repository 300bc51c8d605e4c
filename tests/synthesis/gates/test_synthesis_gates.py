"""Each gate catches what it is there for: accepted variants are broken on purpose."""

from __future__ import annotations

import dataclasses
import random

import pytest

from places import ROOT
from rods.synthesis.gates.keeper import GATES, Facts
from rods.synthesis.gates.overlap import Corpus, prints
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.profile import Profile
from rods.task import Task, Turn
from rods.types import ToolCall, Value
from synthesis_cases import (
    ENVIRONMENT,
    accepted,
    keeper,
    named,
    renamed,
    sides,
    verdict,
    walked,
    with_calls,
    with_turn,
    writer,
)

ORDER = (
    "ancestry held_out_scenario structure world offered sizes typed literals leaks novelty "
    "diversity held_out_overlap execution request asked outcome replay provenance gap "
    "contradiction units contrast order scope worded withheld minimal distance"
)


def calling(pairs: list[tuple[Task, Task]], name: str) -> tuple[Task, Task, int, int]:
    """A pair whose variant calls a function: seed, variant, turn, index of the call."""
    for seed, variant in pairs:
        for turn, said in enumerate(variant.turns):
            for index, call in enumerate(said.ground_truth):
                if call.name == name:
                    return seed, variant, turn, index
    raise AssertionError(f"no variant calls {name}")


def swap(variant: Task, turn: int, index: int, **values: Value) -> Task:
    calls = list(variant.turns[turn].ground_truth)
    calls[index] = ToolCall(calls[index].name, {**calls[index].arguments, **values})
    return with_calls(variant, turn, tuple(calls))


def test_gates_are_asked_in_order_and_the_guide_names_each() -> None:
    assert " ".join(GATES) == ORDER
    page = (ROOT / "docs/reference/gates.md").read_text(encoding="utf-8")
    assert [name for name in GATES if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_accepted_variants_pass_again() -> None:
    for seed, variant in (*accepted(), *walked()):
        found = keeper().check(seed, variant)
        assert found.rejection is None and found.distance <= 0.25


@pytest.mark.slow
def test_ancestry() -> None:
    seed, variant = renamed()[0]
    orphan = dataclasses.replace(variant.provenance, ancestors=("0000",))
    assert verdict(seed, dataclasses.replace(variant, provenance=orphan)) == "ancestry"


@pytest.mark.slow
def test_held_out_scenario() -> None:
    seed, variant = renamed()[0]
    foreign = sides().held_out[0].provenance.scenario
    mixed = dataclasses.replace(variant.provenance, scenarios=(seed.provenance.scenario, foreign))
    assert verdict(seed, dataclasses.replace(variant, provenance=mixed)) == "held_out_scenario"


@pytest.mark.slow
def test_a_held_out_copy_is_caught_by_its_text() -> None:
    seed, variant = renamed()[0]
    copied = next(
        t
        for t in sides().held_out
        if t.category == seed.category
        and sum(not u.ground_truth for u in t.turns) == sum(not u.ground_truth for u in seed.turns)
        and len(prints(t).shingles) > 20
    )
    disguised = dataclasses.replace(copied, provenance=variant.provenance)
    found = keeper().check(seed, disguised).rejection
    assert found is not None and found.reason == "held_out_overlap"


def test_one_held_out_sentence_is_caught() -> None:
    seed, variant = renamed()[0]
    said = next(t.turns[0].user for t in sides().held_out if len(t.turns[0].user) > 120)
    turn = dataclasses.replace(variant.turns[0], user=f"{variant.turns[0].user} {said}")
    assert verdict(seed, with_turn(variant, 0, turn)) == "held_out_overlap"


@pytest.mark.slow
def test_common_phrases_are_no_overlap() -> None:
    corpus = Corpus(sides().train, sides().held_out)
    assert not any(corpus.overlap(prints(task)) for task in sides().train)
    hits = sum(corpus.overlap(prints(task)) is not None for task in sides().held_out)
    assert hits == len(sides().held_out)


def test_an_unknown_function_is_not_offered() -> None:
    seed, variant = renamed()[0]
    index = next(i for i, t in enumerate(variant.turns) if t.ground_truth)
    calls = (*variant.turns[index].ground_truth, ToolCall("teleport", {}))
    assert verdict(seed, with_calls(variant, index, calls)) == "offered"


def test_a_withheld_function_is_not_offered() -> None:
    seed, variant = next(
        (s, v) for s, v in accepted() if v.category == "miss_func" and v.turns[0].withheld
    )
    last = variant.turns[-1]
    name = variant.turns[0].withheld[0]
    early = dataclasses.replace(variant.turns[0], ground_truth=(ToolCall(name, {}),))
    found = verdict(seed, with_turn(variant, 0, early))
    assert found in ("offered", "structure")
    assert not last.withheld


def test_a_lost_gap_breaks_the_structure() -> None:
    seed, variant = next((s, v) for s, v in renamed() if v.category == "miss_param")
    gap = next(i for i, t in enumerate(variant.turns) if not t.ground_truth)
    merged = (*variant.turns[:gap], *variant.turns[gap + 1 :])
    assert verdict(seed, dataclasses.replace(variant, turns=merged)) == "structure"


@pytest.mark.slow
def test_a_dropped_call_is_caught() -> None:
    total = 0
    for seed, variant in renamed():
        for index, turn in enumerate(variant.turns):
            if len(turn.ground_truth) >= 2:
                total += 1
                assert verdict(seed, with_calls(variant, index, turn.ground_truth[1:]))
    assert total >= 10


def test_wrong_values_are_caught() -> None:
    """A value that no text and no result shows."""
    caught = total = 0
    rng = random.Random(3)
    for seed, variant in renamed()[::3]:
        for index, turn in enumerate(variant.turns):
            for place, call in enumerate(turn.ground_truth):
                for name, value in call.arguments.items():
                    if isinstance(value, str) and len(value) > 3 and value in turn.user:
                        wrong = "".join(rng.sample("bcdfghjklm", 8))
                        total += 1
                        caught += bool(verdict(seed, swap(variant, index, place, **{name: wrong})))
    assert total > 13
    assert caught == total


def test_a_wrong_number_is_caught() -> None:
    seed, variant, turn, index = calling(list(renamed()), "get_order_details")
    assert verdict(seed, swap(variant, turn, index, order_id=999_999_999)) == "execution"


def test_an_overlong_string_is_caught() -> None:
    seed, variant = next((s, v) for s, v in renamed() if v.category == "base")
    index = next(i for i, t in enumerate(variant.turns) if t.ground_truth)
    call = variant.turns[index].ground_truth[0]
    name = next(iter(call.arguments), "extra")
    assert verdict(seed, swap(variant, index, 0, **{name: "x" * 5000})) == "sizes"
    assert verdict(seed, swap(variant, index, 0, **{name: list("abcdefghijkl")})) == "sizes"


def test_a_copy_of_the_seed_is_not_new() -> None:
    seed, variant = renamed()[0]
    copy = dataclasses.replace(seed, provenance=variant.provenance)
    assert verdict(seed, copy) == "novelty"


def test_a_copy_of_an_earlier_variant_is_not_new() -> None:
    seed, variant = renamed()[0]
    found = keeper().check(seed, variant, [prints(variant)]).rejection
    assert found is not None and found.reason == "novelty"


@pytest.mark.slow
def test_a_changed_configuration_is_caught() -> None:
    caught = 0
    pairs = renamed()
    for seed, variant in pairs:
        empty = {**variant.world, "initial_config": {}}
        caught += bool(verdict(seed, dataclasses.replace(variant, world=empty)))
    assert caught / len(pairs) > 0.8  # a few seeds have no configuration that matters


def test_an_extra_turn_is_too_far() -> None:
    seed, variant = next((s, v) for s, v in renamed() if len(v.turns) <= 3 and v.category == "base")
    call = next(c for t in variant.turns for c in t.ground_truth)
    extra = tuple(Turn(f"Once more, number {i}.", (call,)) for i in range(4))
    far = dataclasses.replace(variant, turns=variant.turns + extra)
    allowed = "request asked contradiction distance execution provenance"
    assert verdict(seed, far) in allowed.split()


def test_facts_are_computed_once() -> None:
    facts = Facts(ENVIRONMENT, named("multi_turn_base_5"))
    assert facts.trace is facts.trace
    assert isinstance(facts.profile, Profile)


def test_rejections_have_the_twelve_classes() -> None:
    assert len(ErrorClass) == 12
    found = writer().propose(sides().train[0], random.Random(1))
    assert isinstance(found, Task | Rejection)

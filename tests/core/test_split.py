"""Shares of a split: whole numbers of scenarios, whatever the rounding of floats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pool_cases import original, originals
from rods.split import SplitKind, of_held_out, split
from rods.task import Provenance, Task


@pytest.mark.parametrize(
    ("held_out", "trained"), [(0.5, 5), (0.8, 2), (0.9, 1), (0.25, 7), (0.05, 9), (1.0, 0)]
)
@pytest.mark.parametrize("kind", ["grouped", "paper"])
def test_a_share_of_ten_is_whole_where_it_can_be(
    kind: SplitKind, held_out: float, trained: int
) -> None:
    """(1 - 0.9) * 10 is 0.9999999999999998, and that is one scenario."""
    found = split(originals(10, ["base"]), kind, held_out_share=held_out)
    assert (len(found.train), len(found.held_out)) == (trained, 10 - trained)


def of(task: Task, *scenarios: str) -> Task:
    """A task with turns of these scenarios, the first of which is its own."""
    provenance = Provenance("+".join(scenarios), scenarios[0], scenarios=scenarios)
    return replace(task, provenance=provenance)


def test_a_task_with_turns_of_both_sides_is_in_neither() -> None:
    plain = originals(4, ["base"])
    names = [task.provenance.scenario for task in plain]
    pairs = [(a, b) for a in names for b in names if a != b]
    mixed = [of(original(n), *pair) for n, pair in enumerate(pairs, 4)]
    bare, found = split(plain), split([*plain, *mixed])
    trained, held_out = ({t.provenance.scenario for t in side} for side in bare[:2])
    assert len(trained) == len(held_out) == 2
    for side, theirs in ((found.train, trained), (found.held_out, held_out)):
        assert len(side) == 2 + 2
        assert all({t.provenance.scenario, *t.provenance.scenarios} <= theirs for t in side)


def test_a_scenario_that_gave_a_held_out_task_one_turn_is_held_out() -> None:
    first, second, third = originals(3, ["base"])
    theirs = of(third, third.provenance.scenario, first.provenance.scenario)
    assert of_held_out([first, second], [], [theirs]) == [first]

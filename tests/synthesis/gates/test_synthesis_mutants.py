"""Mutation tests: variants broken in ten ways; what changes execution is caught every time."""

from __future__ import annotations

import functools

import pytest

from mutants import BREAKS, CERTAIN, Subject, break_it
from rods.synthesis.gates.case import Facts
from synthesis_cases import ENVIRONMENT, accepted, verdict, walked


@functools.cache
def subjects() -> tuple[Subject, ...]:
    """Accepted variants of all categories, of both writers."""
    pairs = [*accepted()[:20], *walked()]
    return tuple(Subject(seed, Facts(ENVIRONMENT, made)) for seed, made in pairs)


def passed(name: str) -> tuple[list[str], int]:
    """Breaks that every gate lets pass, and how many were made."""
    missed: list[str] = []
    total = 0
    for number, subject in enumerate(subjects()):
        broken = break_it(subject, name, number)
        if broken is not None:
            total += 1
            if not verdict(subject.seed, broken):
                missed.append(f"{number} {subject.seed.provenance.origin}")
    return missed, total


def test_there_are_ten_breaks() -> None:
    assert len(BREAKS) == 10
    assert set(CERTAIN) < BREAKS.keys()


@pytest.mark.slow
def test_wrong_values_in_messages_are_nearly_always_caught() -> None:
    missed, total = passed("wrong value in a message")
    assert total >= 22
    assert len(missed) <= 0.1 * total


@pytest.mark.slow
def test_half_of_the_contradictory_turns_are_caught() -> None:
    """A message that takes itself back is the judge's business."""
    missed, total = passed("contradictory turn")
    assert len(missed) <= 0.6 * total


@pytest.mark.slow
@pytest.mark.parametrize("name", CERTAIN)
def test_every_break_of_execution_is_caught(name: str) -> None:
    missed, total = passed(name)
    assert total >= 12
    assert not missed

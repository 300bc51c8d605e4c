"""Rows of the held-out evaluation."""

from __future__ import annotations

from dataclasses import replace

from pool_cases import group, original
from rods.evaluation.suite import row_of
from rods.trajectory import Group


def test_a_row_has_a_value_for_each_valid_sample() -> None:
    played, _ = group(original(0), [1.0, 0.0], invalid=1)
    row = row_of(played)
    assert row["progress"] == [1.0, 0.0]
    assert row["solved"] == [True, False]
    assert row["parity"] == [True, True]
    assert row["invalid"] == 1


def test_worlds_that_judge_answers_have_no_parity() -> None:
    played, _ = group(original(0), [1.0, 1.0])
    right, wrong = (
        replace(t, verdicts=(replace(t.verdicts[0], correct=said),))
        for t, said in zip(played.trajectories, (True, False), strict=True)
    )
    row = row_of(Group(played.task, [right, wrong], 0))
    assert row["solved"] == [True, False]
    assert row["parity"] == []

"""Rows of the held-out evaluation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pool_cases import group, original
from rods.config import load_config
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


@pytest.mark.slow
def test_variants_of_the_evaluation_do_not_depend_on_who_writes_for_training() -> None:
    from rods.cli.assemble import environment_of, held_out_tasks, sides_of

    told = ["evaluation.tasks=1", "evaluation.variants=6"]
    config = load_config("rods", "quick", told)
    environment, sides = environment_of(config), sides_of(config)
    plain = held_out_tasks(config, environment, sides)
    alone = ["synthesis.resample.share=0.0", 'synthesis.writer="llm"']
    other = load_config("rods", "quick", [*told, *alone])
    assert held_out_tasks(other, environment, sides) == plain
    assert {t.provenance.recipe.partition(":")[0] for t in plain[1:]} == {"graph", "resample"}

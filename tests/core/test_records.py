"""Metrics of an update, from trajectories made by hand."""

from __future__ import annotations

import dataclasses

import pytest

from rods.env import TurnVerdict
from rods.records import rollout_metrics
from rods.reward import Score
from rods.trajectory import Group, Trajectory
from rods.types import StopReason, ToolCall
from worlds import notes_task

TASK = notes_task([("a", [ToolCall("total")])] * 2)
CALLED = TurnVerdict(True, 1, True, True, True)
ABSTAINED = TurnVerdict(False, 0, True, True, True)
ACTED = TurnVerdict(False, 1, True, True, True)
SILENT = TurnVerdict(False, 0, True, True, True, answered=False)
RIGHT = TurnVerdict(False, 2, True, True, True, correct=True)
"""An answer is judged: no call is expected, and calls are allowed."""


def played(*verdicts: TurnVerdict) -> Trajectory:
    return Trajectory(TASK.id, 0, 0, 1, (), (), verdicts, 2, (), StopReason.DONE)


@pytest.mark.parametrize(
    ("trajectories", "share"),
    [
        ([played(CALLED, ABSTAINED), played(CALLED, ACTED)], 0.5),
        ([played(ABSTAINED, ACTED), played(CALLED, SILENT)], 1 / 3),
        ([played(CALLED, CALLED)], None),
        ([played(RIGHT, RIGHT)], None),
        ([played(ABSTAINED), dataclasses.replace(played(ACTED), failure="lost")], 1.0),
        ([], None),
    ],
)
def test_the_share_of_turns_in_which_the_agent_abstained(
    trajectories: list[Trajectory], share: float | None
) -> None:
    groups = [Group(TASK, tuple(trajectories), 0)]
    metrics = rollout_metrics(groups, [[Score(0.0) for _ in trajectories]], 1.0)
    assert metrics.get("abstained") == (share and pytest.approx(share))


def test_a_trajectory_whose_score_is_invalid_counts_as_such() -> None:
    group = Group(TASK, (played(CALLED), played(CALLED), played(ACTED)), 0)
    scores = [Score(1.0), Score(0.0, valid=False, reason="its judge is gone"), Score(0.5)]
    metrics = rollout_metrics([group], [scores], 1.0)
    assert (metrics["invalid"], metrics["reward_mean"]) == (1, 0.75)
    nothing = Group(TASK, [dataclasses.replace(t, failure="lost") for t in group.trajectories], 0)
    metrics = rollout_metrics([nothing], [[Score(0.0, valid=False)] * 3], 1.0)
    means = ("reward_mean", "reward_std", "progress_mean")
    assert [metrics[name] for name in means] == [None] * 3, "nothing was measured, and not 0"

"""Rewards from the verdicts of turns: progress, accuracy.

Owns the arithmetic over `TurnVerdict`s and nothing else: states and results were compared by the
world. Pure functions of a trajectory, so stored ones can be scored again.

    score(get_reward("progress"), task, trajectory).value     # in [0, 1]
"""

from __future__ import annotations

from rods.reward import Score
from rods.task import Task
from rods.trajectory import Trajectory


def progress(task: Task, trajectory: Trajectory) -> Score:
    """Solved turns over all turns of the task, in [0, 1] (arXiv 2606.19047, R_P).

    A turn that was never reached counts 0, so stopping early pays nothing. A turn without ground
    truth is solved by calling nothing and answering.
    """
    earned = [v.solved / trajectory.n_turns for v in trajectory.verdicts]
    turns = (*earned, *[0.0] * (trajectory.n_turns - len(earned)))
    return Score(_solved(trajectory) / trajectory.n_turns, _parts(trajectory), turns=turns)


def accuracy(task: Task, trajectory: Trajectory) -> Score:
    """1 if every turn was reached and solved, else 0 (the binary reward)."""
    return Score(float(trajectory.solved), _parts(trajectory))


def _solved(trajectory: Trajectory) -> int:
    return sum(verdict.solved for verdict in trajectory.verdicts)


def _parts(trajectory: Trajectory) -> dict[str, float]:
    """Shares of the task's turns: reached, and right in state and in results."""
    n, verdicts = trajectory.n_turns, trajectory.verdicts
    return {
        "reached": len(verdicts) / n,
        "solved": _solved(trajectory) / n,
        "state": sum(v.state for v in verdicts) / n,
        "executed": sum(v.executed for v in verdicts) / n,
    }

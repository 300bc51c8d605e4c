"""A reward of your own for answers that programs may compute: right, computed, and short."""

from rods.reward import Score
from rods.rewards import get_reward
from rods.task import Task
from rods.trajectory import Trajectory

OUTCOME = get_reward("outcome")
LONG = 100
"""Sampled tokens from which on an answer pays a little less."""


def computed(task: Task, trajectory: Trajectory) -> Score:
    """1 for a right answer after a program that ran, 0.5 without one; at most 0.2 less if long."""
    right = OUTCOME(task, trajectory).value
    ran = any(not result.failed for step in trajectory.steps for result in step.results)
    tokens = sum(step.tokens for step in trajectory.steps)
    length = 0.2 * min(1.0, max(0, tokens - LONG) / LONG)
    value = right * ((1.0 if ran else 0.5) - length)
    return Score(value, {"correct": right, "ran": float(ran), "length": length})

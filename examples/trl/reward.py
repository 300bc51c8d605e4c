"""A reward of your own: what `reward_funcs` is in a script of TRL."""

from rods.reward import Score
from rods.task import Task
from rods.trajectory import Trajectory


def brief(task: Task, trajectory: Trajectory) -> Score:
    """Share of turns solved, less 0.05 for each call that failed; at least 0."""
    progress = sum(verdict.solved for verdict in trajectory.verdicts) / trajectory.n_turns
    failed = sum(result.failed for step in trajectory.steps for result in step.results)
    paid = max(0.0, progress - 0.05 * failed)
    return Score(paid, {"progress": progress, "failed": float(failed)})

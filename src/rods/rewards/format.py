"""The format reward of the curriculum's first stage: I * (F + Q), in [0, 2].

F is the share of steps without a format error, Q the share of executed calls that succeeded, I is 1
if any call was executed. A step is an error when its parse verdict is one (malformed, truncated, a
tool that is not offered, wrong arguments), because nothing of it was executed. From Environment
Tuning (arXiv 2510.10197), whose released form is `envtuning_format`; here a result that reports an
error counts as failed, whatever its type.

    score(get_reward("format"), task, trajectory).parts["format"]
"""

from __future__ import annotations

from rods.reward import Score
from rods.task import Task
from rods.trajectory import Trajectory


def format_reward(task: Task, trajectory: Trajectory) -> Score:
    """I * (F + Q), in [0, 2]; 0 for a trajectory without any executed call."""
    steps = trajectory.steps
    results = [result for step in steps for result in step.results]
    well_formed = sum(not step.verdict.is_error for step in steps) / len(steps) if steps else 0.0
    succeeded = sum(not result.failed for result in results) / len(results) if results else 0.0
    tried = float(bool(results))
    return Score(
        tried * (well_formed + succeeded),
        {"tried": tried, "format": well_formed, "succeeded": succeeded},
    )

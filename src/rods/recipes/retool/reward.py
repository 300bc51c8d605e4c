r"""ReTool (arXiv 2504.11536): +1 if the final answer is equivalent to the reference, else -1.

Owns the formula. Question tasks only, see `rods.rewards.answers.references`.
"""

from __future__ import annotations

from rods.reward import Score
from rods.rewards.answers import BOXED, judge_answer, judged_parts
from rods.rewards.reading import prose
from rods.task import Task
from rods.trajectory import Trajectory


def retool(task: Task, trajectory: Trajectory) -> Score:
    """+1 if the boxed answer is equivalent, else -1 (the paper; no term for execution)."""
    judged = judge_answer(task, prose(trajectory), BOXED)
    return Score(1.0 if judged.correct else -1.0, judged_parts(judged))

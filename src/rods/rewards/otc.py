r"""What OTC-PPO and OTC-GRPO share (arXiv 2504.14870): a right answer with fewer calls pays more.

Owns how a right answer is found, the cosine that prices m executed calls, and how the two come
together. Question tasks only, see `rods.rewards.answers.references`.

    reward      alpha * r_phi * r_tool; r_phi is 1 for a right answer and else 0
    additive    r_phi + alpha * r_tool instead: the form that the paper found unstable

alpha and c are settings (`rewards.otc`); 1 is not confirmed by the paper.
"""

from __future__ import annotations

import math

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.answers import BOXED, judge_answer, judge_of, judged_parts
from rods.rewards.reading import executed, prose
from rods.task import Task
from rods.trajectory import Trajectory

ALPHA = 1.0
SMOOTH = 1.0


def ppo_productivity(calls: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-PPO, cos(m pi / (2m + c)): 1 without calls, falling towards 0.

    Raises:
        RewardError: a negative number of calls, or c not above 0.
    """
    check_calls(calls, smooth)
    return math.cos(calls * math.pi / (2 * calls + smooth))


def check_calls(calls: int, smooth: float) -> None:
    """Refuse a negative number of calls, or c not above 0, with `RewardError`."""
    if calls < 0 or not smooth > 0:
        raise RewardError(
            f"tool productivity needs calls >= 0 and c > 0, got {calls} and {smooth}."
        )


def correctness(task: Task, trajectory: Trajectory) -> Score:
    """r_phi with its parts: in the search room the answer is tagged, in ToRL's it is boxed."""
    judged = judge_answer(task, prose(trajectory), None if judge_of(task) == "text" else BOXED)
    calls = float(len(executed(trajectory)))
    return Score(float(judged.correct), {**judged_parts(judged), "calls": calls})


def worth(right: Score, tool: float, alpha: float, additive: bool) -> Score:
    """The score of one trajectory, by its correctness r_phi and its productivity r_tool."""
    value = right.value + alpha * tool if additive else alpha * tool * right.value
    return Score(value, {**right.parts, "productivity": tool})

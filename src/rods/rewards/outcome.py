"""The outcome reward: 1 if the final answer is right, else 0.

Owns nothing but the scale. For question tasks (`rods.rewards.answers.references` says what that
is): the answer stands in a box or in `<answer>` tags, to a question of env `search` in tags only.
With `env.questions.lenient` it may also follow "the answer is".

    score(get_reward("outcome"), task, trajectory).value        # 1.0 or 0.0
"""

from __future__ import annotations

from rods.reward import Score
from rods.rewards.answers import judge_answer, judged_parts
from rods.rewards.reading import prose
from rods.task import Task
from rods.trajectory import Trajectory


def outcome(task: Task, trajectory: Trajectory) -> Score:
    """1 if the final answer is right, else 0 (ZERO-TIR-RL; the text of ZeroTIR's paper)."""
    judged = judge_answer(task, prose(trajectory))
    return Score(float(judged.correct), judged_parts(judged))

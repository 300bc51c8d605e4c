r"""ZeroTIR (arXiv 2505.07773): 1 if right, well formed and finished, else 0.

Owns the reward and the check of the format; its filter is in `filter.py`. Question tasks only, see
`rods.rewards.answers.references`. The paper speaks of correctness only (that is `outcome`); the
conjunction is what its released code computes.
"""

from __future__ import annotations

import re

from rods.reward import Score
from rods.rewards.answers import judge_answer, last_boxed, last_tagged
from rods.rewards.reading import ending, prose
from rods.task import Task
from rods.trajectory import Trajectory

BEHIND = 5  # The released code counts tokens of the base model there
_PIECE = re.compile(r"\w+|[^\w\s]")


def zerotir(task: Task, trajectory: Trajectory) -> Score:
    """1 if the answer is right, its format valid and the response finished, else 0."""
    text = prose(trajectory)
    judged = judge_answer(task, text, ("tag",))
    formed, finished = is_formed(text), ending(trajectory) == "finished"
    right = float(judged.correct and formed and finished)
    return Score(
        right,
        {
            "correct": right,
            "answered": float(judged.answer is not None),
            "right_answer": float(judged.correct),
            "well_formed": float(formed),
            "finished": float(finished),
            "judge_gave_up": float(judged.gave_up),
        },
    )


def is_formed(text: str) -> bool:
    """True if a response without its code is well formed.

    Wanted: exactly one `<answer>` pair with a box in it, exactly one `</think>`, because the
    template opens the thought, and at most `BEHIND` words and signs behind the answer.
    """
    inside = last_tagged(text)
    if inside is None or last_boxed(inside, bare=False) is None:
        return False
    once = all(text.count(tag) == 1 for tag in ("</think>", "<answer>", "</answer>"))
    return once and len(_PIECE.findall(text.partition("</answer>")[2])) <= BEHIND

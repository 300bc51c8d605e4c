r"""ZeroTIR (arXiv 2505.07773): 1 if right, well formed and finished, else 0.

Owns the reward and the check of the format. Its filters are in `rods.rewards.filters`. Question
tasks only, see `rods.rewards.answers.references`. The paper speaks of correctness only (that is
`outcome`); the conjunction is what its released code computes.

    zerotir              1 if right and well formed and finished, else 0
    zerotir_format       `zerotir` plus the code's optional term: -3 without an `<answer>` pair, -2
                         without a box in it, -1 for wrong counts of tags, and -0.5 for more than 5
                         words after it
    zerotir_format_code  the same with +0.5 for those words, as the file for tools has it (very
                         likely a wrong sign)
"""

from __future__ import annotations

from typing import Literal

from rods.reward import Score
from rods.rewards.answers import judge_answer, last_boxed, last_tagged
from rods.rewards.reading import ending, prose
from rods.task import Task
from rods.trajectory import Trajectory

TRAILING_WORDS = 5

FormatFault = Literal["", "no_answer", "no_box", "tags"]

_TERM: dict[FormatFault, float] = {"": 0.0, "no_answer": -3.0, "no_box": -2.0, "tags": -1.0}


def zerotir(task: Task, trajectory: Trajectory) -> Score:
    """1 if the answer is right, its format valid and the response finished, else 0."""
    return _zerotir(task, trajectory, None)


def zerotir_format(task: Task, trajectory: Trajectory) -> Score:
    """`zerotir` plus the format term; words after the answer cost 0.5."""
    return _zerotir(task, trajectory, -0.5)


def zerotir_format_code(task: Task, trajectory: Trajectory) -> Score:
    """`zerotir` plus the format term; words after the answer *earn* 0.5, as in the code."""
    return _zerotir(task, trajectory, +0.5)


def _zerotir(task: Task, trajectory: Trajectory, trailing: float | None) -> Score:
    text = prose(trajectory)
    judged = judge_answer(task, text, ("tag",))
    fault, finished = format_fault(text), ending(trajectory) == "finished"
    right = float(judged.correct and not fault and finished)
    parts = {
        "correct": right,
        "answered": float(judged.answer is not None),
        "right_answer": float(judged.correct),
        "well_formed": float(not fault),
        "finished": float(finished),
        "judge_gave_up": float(judged.gave_up),
    }
    if trailing is None:
        return Score(right, parts)
    parts["format_term"] = format_term(text, trailing)
    return Score(right + parts["format_term"], parts)


def format_fault(text: str) -> FormatFault:
    """What is wrong with the form of a response without its code; "" if nothing is.

    Wanted: exactly one `<answer>` pair with a box in it, and every think tag closed. One `</think>`
    more than `<think>` is fine, because the template may have opened it.
    """
    inside = last_tagged(text)
    if inside is None:
        return "no_answer"
    if last_boxed(inside, bare=False) is None:
        return "no_box"
    open_thoughts = text.count("</think>") - text.count("<think>")
    once = text.count("<answer>") == text.count("</answer>") == 1
    return "" if once and open_thoughts in (0, 1) else "tags"


def format_term(text: str, trailing: float) -> float:
    """The optional term of the code: 0, -1, -2 or -3, and `trailing` for words after the answer."""
    words = text.rpartition("</answer>")[2].split() if "</answer>" in text else []
    return _TERM[format_fault(text)] + trailing * (len(words) > TRAILING_WORDS)

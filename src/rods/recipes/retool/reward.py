r"""ReTool (arXiv 2504.11536): the paper's reward, and that of the released recipe.

Owns both formulas. Question tasks only, see `rods.rewards.answers.references`.

    retool          +1 if the final answer is equivalent to the reference, else -1
    retool_recipe   +1 if the last box of the last 100 characters holds the very text of the
                    reference, blanks included; a wrong answer gets
                    min(-0.6, -1 + 0.1 * (turns - 2) / 2), a bonus for using tools that the paper
                    does not have

`retool_recipe` is written from verl-recipe's retool.py with verl's math_dapo.py. It differs in two
classes: a box in a program, or in what a tool printed, is not an answer, though it takes up its
characters in the window; a task may have more than one reference (`world["aliases"]`).

    retool_box(r"... \boxed{ 42}.")             # " 42": as it stands, so it is not "42"
"""

from __future__ import annotations

from rods.reward import Score
from rods.rewards.answers import BOXED, judge_answer, judged_parts, references
from rods.rewards.reading import prose, response, rounds
from rods.task import Task
from rods.trajectory import Trajectory

CAP, BASE, BONUS = -0.6, -1.0, 0.1
BOX = "\\boxed{"
WINDOW = 100
"""Characters at the end of the response in which the whole box must stand."""


def retool(task: Task, trajectory: Trajectory) -> Score:
    """+1 if the boxed answer is equivalent, else -1 (the paper; no term for execution)."""
    judged = judge_answer(task, prose(trajectory), BOXED)
    return Score(1.0 if judged.correct else -1.0, judged_parts(judged))


def retool_recipe(task: Task, trajectory: Trajectory) -> Score:
    """+1 for a strict box, else -1 plus 0.1 for each round of tools, at most -0.6."""
    boxed = retool_box(response(trajectory))
    right = boxed in references(task)
    wrong = wrong_value(turns(trajectory))
    parts = {"correct": float(right), "answered": float(boxed is not None)}
    parts["tool_bonus"] = 0.0 if right else wrong - BASE
    return Score(1.0 if right else wrong, parts)


def turns(trajectory: Trajectory) -> int:
    """Turns as the recipe counts them: the question, each generation, each round of results."""
    return 1 + len(trajectory.steps) + rounds(trajectory)


def wrong_value(count: int) -> float:
    """What a wrong answer after so many turns is worth; 2 turns are an answer without tools."""
    return min(CAP, BASE + BONUS * (count - 2) / 2)


def retool_box(response: str) -> str | None:
    """What the last box of the window holds, as it stands; None: none, or it is not closed.

    The code cuts the last 300 characters first, which changes nothing of the last 100.
    """
    window = response[-WINDOW:]
    at = window.rfind(BOX)
    if at < 0:
        return None
    start, depth = at + len(BOX), 1
    for end in range(start, len(window)):
        depth += (window[end] == "{") - (window[end] == "}")  # escaped ones count too
        if depth == 0:
            return window[start:end]
    return None

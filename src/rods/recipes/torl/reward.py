r"""ToRL (arXiv 2503.23383): +1 if the boxed answer is right, else -1; no box is wrong.

Owns the reward and its optional execution penalty of 0.5, which the paper tried and left out.
Question tasks only, see `rods.rewards.answers.references`. The box and what is right are those of
the released code, with the differences that `scorer.py` lists; a generated question wants its
value, which math-verify does not ask for.

    torl                the paper's main runs
    torl_penalty        -0.5 if there is code and none of it ran without an error (the paper's text)
    torl_penalty_code   -0.5 unless the last call succeeded: also for answers without any code (what
                        the released code computes; it pays for calling at all)
"""

from __future__ import annotations

from typing import Literal

from rods.recipes.torl.scorer import torl_box, torl_verdict
from rods.reward import Score
from rods.rewards.answers import JudgedAnswer, compare, judged_parts, require_judges
from rods.rewards.reading import executed, prose, written
from rods.task import Task
from rods.trajectory import Trajectory

PENALTY = 0.5
Fault = Literal["none", "paper", "code"]


def execution_fault(trajectory: Trajectory, kind: Fault) -> bool:
    """Whether the penalty is due: `paper` or `code` as the module says, `none` never."""
    if kind == "none":
        return False
    results = executed(trajectory)
    if kind == "code":
        return not results or results[-1].failed
    return written(trajectory) > 0 and all(result.failed for result in results)


def torl(task: Task, trajectory: Trajectory) -> Score:
    """+1 if the last box is right, else -1."""
    return _torl(task, trajectory, "none")


def torl_penalty(task: Task, trajectory: Trajectory) -> Score:
    """`torl`, less 0.5 if code was written and no execution succeeded."""
    return _torl(task, trajectory, "paper")


def torl_penalty_code(task: Task, trajectory: Trajectory) -> Score:
    """`torl`, less 0.5 if the last execution failed or there was none."""
    return _torl(task, trajectory, "code")


def _judged(task: Task, trajectory: Trajectory) -> JudgedAnswer:
    require_judges([task])
    box = torl_box(prose(trajectory))
    return JudgedAnswer(None, "wrong") if box is None else compare(task, box, torl_verdict)


def _torl(task: Task, trajectory: Trajectory, kind: Fault) -> Score:
    judged = _judged(task, trajectory)
    fault = execution_fault(trajectory, kind)
    value = (1.0 if judged.correct else -1.0) - PENALTY * fault
    return Score(value, {**judged_parts(judged), "execution_fault": float(fault)})

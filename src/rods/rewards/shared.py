"""The rewards that several recipes share, and what rewards of one paper share.

Owns the arithmetic over verdicts and steps: states and results were compared by the world, answers
by `answers.py`. Pure functions of a trajectory, so stored ones can be scored again.

    score(get_reward("progress"), task, trajectory).value     # in [0, 1]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rods.reward import Score
from rods.rewards.answers import BOXED, judge_answer, judge_of, judged_parts
from rods.rewards.reading import executed, prose
from rods.task import Task
from rods.trajectory import Trajectory


def outcome(task: Task, trajectory: Trajectory) -> Score:
    """1 if the final answer is right, else 0 (ZERO-TIR-RL; the text of ZeroTIR's paper).

    For question tasks (`rods.rewards.answers.references` says what that is): the answer stands in a
    box or in `<answer>` tags, to a question of env `search` in tags only. With
    `env.questions.lenient` it may also follow "the answer is".
    """
    judged = judge_answer(task, prose(trajectory))
    return Score(float(judged.correct), judged_parts(judged))


def format_reward(task: Task, trajectory: Trajectory) -> Score:
    """I * (F + Q), in [0, 2]; 0 for a trajectory without any executed call.

    F is the share of steps without a format error, Q the share of executed calls that succeeded, I
    is 1 if any call was executed. A step is an error when its parse verdict is one (malformed,
    truncated, a tool that is not offered, wrong arguments), because nothing of it was executed.
    From Environment Tuning (arXiv 2510.10197), whose released form is `envtuning_format`; here a
    result that reports an error counts as failed, whatever its type.
    """
    steps, results = trajectory.steps, executed(trajectory)
    well_formed = sum(not step.verdict.is_error for step in steps) / len(steps) if steps else 0.0
    succeeded = sum(not result.failed for result in results) / len(results) if results else 0.0
    tried = float(bool(results))
    return Score(
        tried * (well_formed + succeeded),
        {"tried": tried, "format": well_formed, "succeeded": succeeded},
    )


def progress(task: Task, trajectory: Trajectory) -> Score:
    """Solved turns over all turns of the task, in [0, 1] (arXiv 2606.19047, R_P).

    A turn that was never reached counts 0, so stopping early pays nothing. A turn without ground
    truth is solved by calling nothing and answering.
    """
    earned = [v.solved / trajectory.n_turns for v in trajectory.verdicts]
    turns = (*earned, *[0.0] * (trajectory.n_turns - len(earned)))
    return Score(trajectory.progress, _parts(trajectory), turns=turns)


def accuracy(task: Task, trajectory: Trajectory) -> Score:
    """1 if every turn was reached and solved, else 0 (the binary reward)."""
    return Score(float(trajectory.solved), _parts(trajectory))


def _parts(trajectory: Trajectory) -> dict[str, float]:
    """Shares of the task's turns: reached, and right in state and in results."""
    n, verdicts = trajectory.n_turns, trajectory.verdicts
    return {
        "reached": len(verdicts) / n,
        "solved": trajectory.progress,
        "state": sum(v.state for v in verdicts) / n,
        "executed": sum(v.executed for v in verdicts) / n,
    }


# -- what the two rewards of ARTIST share (arXiv 2505.01441) --------------------------------------

FORM = 0.5
"""There is no released code, and the paper leaves the worth of the form open: this is ours."""


@dataclass(frozen=True)
class ArtistScoring:
    """What the form of a response is worth (`rewards.artist`); it is paid in parts, or whole."""

    form_weight: Annotated[float, Field(ge=0)] = FORM
    partial: bool = True

    def form(self, share: float) -> float:
        """What a share of the form is worth."""
        return self.form_weight * (share if self.partial else float(share >= 1))


# -- what OTC-PPO and OTC-GRPO share (arXiv 2504.14870): fewer calls pay more ---------------------

ALPHA = 1.0
SMOOTH = 1.0
"""Settings alpha and c (`rewards.otc`); 1 is not confirmed by the paper."""


def ppo_productivity(calls: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-PPO, cos(m pi / (2m + c)): 1 without calls, falling towards 0; c is above 0."""
    return math.cos(calls * math.pi / (2 * calls + smooth))


def correctness(task: Task, trajectory: Trajectory) -> Score:
    """r_phi with its parts: the answer is tagged where text is compared, else it is boxed."""
    judged = judge_answer(task, prose(trajectory), None if judge_of(task) == "text" else BOXED)
    calls = float(len(executed(trajectory)))
    return Score(float(judged.correct), {**judged_parts(judged), "calls": calls})


def worth(right: Score, tool: float, alpha: float, additive: bool) -> Score:
    """alpha * r_phi * r_tool, of correctness and productivity; only a right answer pays.

    `additive`: r_phi + alpha * r_tool instead, the form that the paper found unstable.
    """
    value = right.value + alpha * tool if additive else alpha * tool * right.value
    return Score(value, {**right.parts, "productivity": tool})

r"""OTC (arXiv 2504.14870): a right answer is worth more the fewer tool calls it took.

Owns the tool productivity of OTC-PPO and OTC-GRPO and the running minimum of calls per question.
Question tasks only, see `rods.rewards.answers.references`. m is the number of executed calls, n the
least m of any right answer to this question so far, r_phi is 1 for a right answer and else 0:

    otc_ppo     alpha * r_phi * cos(m pi / (2m + c))
    otc_grpo    alpha * r_phi * r_tool;  r_tool = 1 if m = n = 0;  cos(m pi / (2m + c)) if n = 0;
                sin(f pi / 2n) otherwise, f = 2nm / (m + n)
    ..._additive    r_phi + alpha * r_tool instead: the form that the paper found unstable

alpha and c are settings (`rewards.otc`); 1 is not confirmed by the paper. `otc_grpo` looks at whole
groups and remembers n over epochs: one object belongs to one run, which saves it with its
checkpoints (`rods.reward.Rewards`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from rods.errors import RewardError
from rods.reward import Score, score
from rods.rewards.answers import BOXED, judge_answer, judge_of, judged_parts
from rods.rewards.reading import executed, prose
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json

ALPHA = 1.0
SMOOTH = 1.0


# -- formulas ------------------------------------------------------------------------------------


def ppo_productivity(calls: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-PPO: 1 without calls, falling towards 0.

    Raises:
        RewardError: a negative number of calls, or c not above 0.
    """
    _check(calls, smooth)
    return math.cos(calls * math.pi / (2 * calls + smooth))


def grpo_productivity(calls: int, fewest: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-GRPO: 1 at `fewest` calls, falling slowly above and to 0 below.

    Raises:
        RewardError: a negative number of calls, or c not above 0.
    """
    _check(calls, smooth)
    _check(fewest, smooth)
    if fewest == 0:
        return ppo_productivity(calls, smooth)  # 1 for no calls, the cosine otherwise
    mapped = 2 * fewest * calls / (calls + fewest)
    return math.sin(mapped * math.pi / (2 * fewest))


def _check(calls: int, smooth: float) -> None:
    if calls < 0 or not smooth > 0:
        raise RewardError(
            f"tool productivity needs calls >= 0 and c > 0, got {calls} and {smooth}."
        )


# -- the running minimum -------------------------------------------------------------------------


@dataclass
class CallMinima:
    """The least number of calls of a right answer, for each question, over a whole run."""

    fewest: dict[str, int] = field(default_factory=dict[str, int])
    """By task id."""

    def observe(self, task_id: str, calls: Sequence[int]) -> int | None:
        """Take in the calls of this group's right answers; the minimum so far, None if unknown."""
        known = [self.fewest[task_id]] if task_id in self.fewest else []
        if known or calls:
            self.fewest[task_id] = min([*known, *calls])
        return self.fewest.get(task_id)

    def state_dict(self) -> dict[str, Json]:
        """Plain JSON; `load_state_dict` reads it back."""
        return {"fewest": {**self.fewest}}

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Forget everything and know what `state_dict` said.

        Raises:
            RewardError: the state is not of that form.
        """
        rows = state.get("fewest")
        wrong = [
            f"{key!r}: {value!r}"
            for key, value in (rows.items() if isinstance(rows, dict) else [("", rows)])
            if type(value) is not int or value < 0
        ]
        if wrong:
            raise RewardError(
                f"the state of call minima has {wrong[0]} under 'fewest'; expected a number of "
                "calls for each task id. The checkpoint is damaged or of another reward."
            )
        self.fewest = dict(cast("dict[str, int]", rows))


# -- OTC-PPO -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtcPpo:
    """alpha * r_phi * cos(m pi / (2m + c)), in [0, alpha]."""

    alpha: float = ALPHA
    c: float = SMOOTH
    additive: bool = False
    """r_phi + alpha * the cosine instead: wrong answers are paid for not calling too."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one trajectory."""
        tool = ppo_productivity(len(executed(trajectory)), self.c)
        return _worth(_right(task, trajectory), tool, self.alpha, self.additive)


@dataclass(frozen=True)
class OtcPpoAdditive(OtcPpo):
    """`otc_ppo` that adds the coefficient instead of multiplying by it."""

    additive: bool = True


# -- OTC-GRPO ------------------------------------------------------------------------------------


@dataclass
class OtcGrpo:
    """OTC-GRPO over whole groups; remembers the running minimum of each question."""

    alpha: float = ALPHA
    c: float = SMOOTH
    additive: bool = False
    minima: CallMinima = field(default_factory=CallMinima)

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of a group of one."""
        return self.score_group(Group(task, (trajectory,), trajectory.policy_version))[0]

    def score_group(self, group: Group) -> list[Score]:
        """Update the minimum by the right answers of this group, then score each member.

        A group without a right answer leaves the minimum as it is; where none is known yet the
        productivity is 0.
        """
        rights = [score(_right, group.task, t) for t in group.trajectories]
        calls = [len(executed(t)) for t in group.trajectories]
        best = [m for m, s in zip(calls, rights, strict=True) if s.valid and s.value > 0]
        fewest = self.minima.observe(group.task.id, best)
        return [self._score(s, m, fewest) for s, m in zip(rights, calls, strict=True)]

    def _score(self, right: Score, calls: int, fewest: int | None) -> Score:
        if not right.valid:
            return right
        tool = 0.0 if fewest is None else grpo_productivity(calls, fewest, self.c)
        return _worth(right, tool, self.alpha, self.additive)

    def state_dict(self) -> dict[str, Json]:
        """What must survive a restart: the minima."""
        return self.minima.state_dict()

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Go on from a saved state."""
        self.minima.load_state_dict(state)


@dataclass
class OtcGrpoAdditive(OtcGrpo):
    """`otc_grpo` that adds the coefficient instead of multiplying by it."""

    additive: bool = True


def _right(task: Task, trajectory: Trajectory) -> Score:
    """r_phi with its parts: in the search room the answer is tagged, in ToRL's it is boxed."""
    judged = judge_answer(task, prose(trajectory), None if judge_of(task) == "text" else BOXED)
    calls = float(len(executed(trajectory)))
    return Score(float(judged.correct), {**judged_parts(judged), "calls": calls})


def _worth(right: Score, tool: float, alpha: float, additive: bool) -> Score:
    value = right.value + alpha * tool if additive else alpha * tool * right.value
    return Score(value, {**right.parts, "productivity": tool})

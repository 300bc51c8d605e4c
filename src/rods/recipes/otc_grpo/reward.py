r"""OTC-GRPO (arXiv 2504.14870): the fewest calls of a right answer to a question are worth most.

Owns the tool productivity over whole groups and the running minimum of calls for each question. m
is the number of executed calls, n the least m of any right answer to this question so far, r_phi is
1 for a right answer and else 0. `rods.rewards.shared` holds what it shares with OTC-PPO.

    otc_grpo            alpha * r_phi * r_tool;  r_tool = 1 if m = n = 0;
                        cos(m pi / (2m + c)) if n = 0;  sin(f pi / 2n) otherwise, f = 2nm / (m + n)
    otc_grpo_additive   r_phi + alpha * r_tool: the form that the paper found unstable

n is kept over epochs: one object belongs to one run, which saves it with its checkpoints
(`rods.reward.Rewards`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, cast

from pydantic import Field

from rods.errors import RewardError
from rods.reward import Score, score
from rods.rewards.reading import executed
from rods.rewards.shared import ALPHA, SMOOTH, check_calls, correctness, ppo_productivity, worth
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json


def grpo_productivity(calls: int, fewest: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-GRPO: 1 at `fewest` calls, falling slowly above and to 0 below.

    Raises:
        RewardError: a negative number of calls, or c not above 0.
    """
    check_calls(calls, smooth)
    check_calls(fewest, smooth)
    if fewest == 0:
        return ppo_productivity(calls, smooth)  # 1 for no calls, the cosine otherwise
    mapped = 2 * fewest * calls / (calls + fewest)
    return math.sin(mapped * math.pi / (2 * fewest))


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


@dataclass
class OtcGrpo:
    """OTC-GRPO over whole groups; remembers the running minimum of each question."""

    alpha: Annotated[float, Field(gt=0)] = ALPHA
    c: Annotated[float, Field(gt=0)] = SMOOTH
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
        rights = [score(correctness, group.task, t) for t in group.trajectories]
        calls = [len(executed(t)) for t in group.trajectories]
        best = [m for m, s in zip(calls, rights, strict=True) if s.valid and s.value > 0]
        fewest = self.minima.observe(group.task.id, best)
        return [self._score(s, m, fewest) for s, m in zip(rights, calls, strict=True)]

    def _score(self, right: Score, calls: int, fewest: int | None) -> Score:
        if not right.valid:
            return right
        tool = 0.0 if fewest is None else grpo_productivity(calls, fewest, self.c)
        return worth(right, tool, self.alpha, self.additive)

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

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from rods.errors import RewardError
from rods.reward import Score, score
from rods.rewards.reading import executed
from rods.rewards.shared import ALPHA, SMOOTH, correctness, ppo_productivity, worth
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json


def grpo_productivity(calls: int, fewest: int, smooth: float = SMOOTH) -> float:
    """r_tool of OTC-GRPO: 1 at `fewest` calls, falling slowly above and to 0 below."""
    if fewest == 0:
        return ppo_productivity(calls, smooth)  # 1 for no calls, the cosine otherwise
    mapped = 2 * fewest * calls / (calls + fewest)
    return math.sin(mapped * math.pi / (2 * fewest))


@dataclass
class OtcGrpo:
    """OTC-GRPO over whole groups; remembers the running minimum of each question."""

    alpha: Annotated[float, Field(gt=0)] = ALPHA
    c: Annotated[float, Field(gt=0)] = SMOOTH
    additive: bool = False
    fewest: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """The least number of calls of a right answer over the whole run, by task id."""

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
        known = self.fewest.get(group.task.id)
        if best:
            self.fewest[group.task.id] = min(best if known is None else [known, *best])
        fewest = self.fewest.get(group.task.id)
        return [self._score(s, m, fewest) for s, m in zip(rights, calls, strict=True)]

    def _score(self, right: Score, calls: int, fewest: int | None) -> Score:
        if not right.valid:
            return right
        tool = 0.0 if fewest is None else grpo_productivity(calls, fewest, self.c)
        return worth(right, tool, self.alpha, self.additive)

    def state_dict(self) -> dict[str, Json]:
        """State that must survive a restart: the minima."""
        return {"fewest": {**self.fewest}}

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Go on from a saved state.

        Raises:
            RewardError: the state is not of that form.
        """
        try:
            self.fewest = _FEWEST.validate_python(state.get("fewest"))
        except ValidationError as error:
            wrong = error.errors()[0]
            raise RewardError(
                f"the state of otc_grpo has {wrong['input']!r} under {('fewest', *wrong['loc'])}; "
                "expected a number of calls for each task id. The checkpoint is damaged or of "
                "another reward."
            ) from error


_FEWEST = TypeAdapter(dict[str, Annotated[int, Field(ge=0, strict=True)]])


@dataclass
class OtcGrpoAdditive(OtcGrpo):
    """`otc_grpo` that adds the coefficient instead of multiplying by it."""

    additive: bool = True

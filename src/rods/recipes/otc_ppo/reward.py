"""OTC-PPO (arXiv 2504.14870): a right answer is worth more the fewer tool calls it took.

Owns the reward: alpha * r_phi * cos(m pi / (2m + c)) for m executed calls; r_phi is 1 for a right
answer and else 0. `rods.rewards.shared` holds what it shares with OTC-GRPO.

    otc_ppo             as above
    otc_ppo_additive    r_phi + alpha * the cosine: the form that the paper found unstable
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rods.reward import Score
from rods.rewards.reading import executed
from rods.rewards.shared import ALPHA, SMOOTH, correctness, ppo_productivity, worth
from rods.task import Task
from rods.trajectory import Trajectory


@dataclass(frozen=True)
class OtcPpo:
    """alpha * r_phi * cos(m pi / (2m + c)), in [0, alpha]."""

    alpha: Annotated[float, Field(gt=0)] = ALPHA
    c: Annotated[float, Field(gt=0)] = SMOOTH
    additive: bool = False
    """r_phi + alpha * the cosine instead: wrong answers are paid for not calling too."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one trajectory."""
        tool = ppo_productivity(len(executed(trajectory)), self.c)
        return worth(correctness(task, trajectory), tool, self.alpha, self.additive)


@dataclass(frozen=True)
class OtcPpoAdditive(OtcPpo):
    """`otc_ppo` that adds the coefficient instead of multiplying by it."""

    additive: bool = True

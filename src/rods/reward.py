"""Scores, and the registry of rewards.

A reward is a pure function of a task and a trajectory, so stored trajectories can be scored again
offline and give the same numbers. Register one in any module and name it in the configuration:

    @reward("solved_twice")
    def solved_twice(task: Task, trajectory: Trajectory) -> Score:
        return Score(2.0 * trajectory.solved)

`--stages ... reward = "my_module:solved_twice"` works without registering.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from rods.errors import RewardError
from rods.task import Task
from rods.trajectory import Group, Trajectory


@dataclass(frozen=True, slots=True)
class Score:
    """What a trajectory is worth."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Named components, for the log."""
    valid: bool = True
    """False: infrastructure failed; the member enters neither baseline nor rbar."""
    reason: str | None = None
    """Why it is invalid."""


Reward: TypeAlias = Callable[[Task, Trajectory], Score]

_REWARDS: dict[str, Reward] = {}


def reward(name: str) -> Callable[[Reward], Reward]:
    """Register a reward under a short name.

    Raises:
        RewardError: the name is taken by another function.
    """

    def register(function: Reward) -> Reward:
        known = _REWARDS.get(name)
        if known is not None and known.__qualname__ != function.__qualname__:
            raise RewardError(f"two rewards are called {name!r}: choose another name.")
        _REWARDS[name] = function
        return function

    return register


def get_reward(name: str) -> Reward:
    """A reward by its short name or `module:attribute`.

    Raises:
        RewardError: there is none of this name; the message lists the nearest ones.
    """
    importlib.import_module("rods.rewards")
    if name in _REWARDS:
        return _REWARDS[name]
    module, _, attribute = name.partition(":")
    if attribute:
        try:
            return cast("Reward", getattr(importlib.import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise RewardError(f"reward {name!r} cannot be imported: {error}.") from error
    near = difflib.get_close_matches(name, _REWARDS, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise RewardError(f"there is no reward {name!r}.{hint} Known: {', '.join(sorted(_REWARDS))}.")


def score(function: Reward, task: Task, trajectory: Trajectory) -> Score:
    """Apply a reward; an invalid trajectory is never scored.

    Raises:
        RewardError: the reward is not a finite number.
    """
    if not trajectory.valid:
        return Score(0.0, valid=False, reason=trajectory.failure)
    result = function(task, trajectory)
    if not math.isfinite(result.value):
        raise RewardError(
            f"task {task.id}: the reward is {result.value}, expected a finite number."
        )
    return result


def score_group(function: Reward, group: Group) -> list[Score]:
    """One score for each member, in order."""
    return [score(function, group.task, t) for t in group.trajectories]

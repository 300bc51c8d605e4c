"""Scores, and the registry of rewards.

A reward is a pure function of a task and a trajectory, so stored trajectories can be scored again
offline and give the same numbers. Register one in any module and name it in the configuration:

    @reward("solved_twice")
    def solved_twice(task: Task, trajectory: Trajectory) -> Score:
        return Score(2.0 * trajectory.solved)

`--stages ... reward = "my_module:solved_twice"` works without registering.

A `GroupReward` compares the members of a group and may remember what it saw; it is registered by
`@group_reward(name)` over what makes one. `Rewards` holds those of a run, to be saved with it.
Groups scored again in the order of the run, from the beginning, give the same numbers.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast, runtime_checkable

from rods.errors import RewardError
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json


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
    turns: tuple[float, ...] = ()
    """What each of the task's turns earned, where the value is their sum; empty: it is not."""


Reward: TypeAlias = Callable[[Task, Trajectory], Score]


@runtime_checkable
class GroupReward(Protocol):
    """A reward that sees whole groups; one object belongs to one run."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of a group of one."""
        ...

    def score_group(self, group: Group) -> list[Score]:
        """One score for each member, in order; an invalid member gets an invalid score."""
        ...

    def state_dict(self) -> dict[str, Json]:
        """What it remembers, as plain JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Go on from what `state_dict` said."""
        ...


_REWARDS: dict[str, Reward] = {}
_MAKERS: dict[str, Callable[..., Reward]] = {}
"""What makes a reward that remembers, or has constants (`rewards.NAME` of the configuration)."""


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


def group_reward(
    name: str,
) -> Callable[[Callable[[], GroupReward]], Callable[[], GroupReward]]:
    """Register what makes a `GroupReward` under a short name."""

    def register(make: Callable[[], GroupReward]) -> Callable[[], GroupReward]:
        _MAKERS[name] = make
        return make

    return register


def reward_maker(
    name: str,
) -> Callable[[Callable[..., Reward]], Callable[..., Reward]]:
    """Register what makes a reward from constants, such as a dataclass, under a short name."""

    def register(make: Callable[..., Reward]) -> Callable[..., Reward]:
        _MAKERS[name] = make
        return make

    return register


def get_reward(name: str, constants: Mapping[str, float] | None = None) -> Reward:
    """A reward by its short name or `module:attribute`; a class is called for a new object.

    Args:
        name: of the reward.
        constants: its own, where it has any; others are its defaults.

    Raises:
        RewardError: there is none of this name; the message lists the nearest ones.
    """
    importlib.import_module("rods.rewards")
    if name in _REWARDS:
        return _REWARDS[name]
    if name in _MAKERS:
        return _MAKERS[name](**(constants or {}))
    module, _, attribute = name.partition(":")
    if attribute:
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise RewardError(f"reward {name!r} cannot be imported: {error}.") from error
        return cast("Reward", found() if isinstance(found, type) else found)
    names = sorted({*_REWARDS, *_MAKERS})
    near = difflib.get_close_matches(name, names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise RewardError(f"there is no reward {name!r}.{hint} Known: {', '.join(names)}.")


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
    if isinstance(function, GroupReward):
        return function.score_group(group)
    return [score(function, group.task, t) for t in group.trajectories]


class Rewards:
    """The rewards of one run, each made once, so that what they remember lasts and is saved."""

    def __init__(self, constants: Mapping[str, Mapping[str, float]] | None = None) -> None:
        """Make none yet; `constants`: by the first word of the names of those that have some."""
        self._constants = constants or {}
        self._made: dict[str, Reward] = {}

    def score_group(self, name: str, group: Group) -> list[Score]:
        """Score a group by the reward of this name."""
        return score_group(self._get(name), group)

    def state_dict(self) -> dict[str, Json]:
        """What the group rewards of the run remember, by name."""
        made = self._made.items()
        return {name: r.state_dict() for name, r in made if isinstance(r, GroupReward)}

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Go on from a saved state.

        Raises:
            RewardError: the state is not one that `state_dict` made.
        """
        self._made.clear()
        for name, remembered in state.items():
            made = self._get(name)
            if not isinstance(made, GroupReward) or not isinstance(remembered, dict):
                raise RewardError(f"the saved state of reward {name!r} cannot be read.")
            made.load_state_dict(remembered)

    def _get(self, name: str) -> Reward:
        if name not in self._made:
            constants = self._constants.get(name.partition("_")[0])
            self._made[name] = get_reward(name, constants)
        return self._made[name]

"""Scores, and what gives them.

A reward is a pure function of a task and a trajectory, so stored trajectories can be scored again
offline and give the same numbers. Write one in any module and name it in the configuration,
`--stages.2.reward my_module:solved_twice`:

    def solved_twice(task: Task, trajectory: Trajectory) -> Score:
        return Score(2.0 * trajectory.solved)

A class is called for a new object. A `GroupReward` compares the members of a group and may remember
what it saw: scored again from the beginning, in order, all groups get the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, SupportsFloat, TypeAlias, runtime_checkable

from rods.errors import RewardError
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json

EQUAL = 1e-9
"""Rewards of a group that differ by no more than this count as equal."""


@dataclass(frozen=True, slots=True)
class Score:
    """Reward of a trajectory."""

    value: float
    """The reward: any finite number."""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Named components, for the log."""
    valid: bool = True
    """False: infrastructure failed; the member enters neither baseline nor mean progress."""
    reason: str | None = None
    """Why it is invalid."""
    turns: tuple[float, ...] = ()
    """Reward of each turn of the task if the value is their sum; empty otherwise."""


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
        """Return its state as plain JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Json]) -> None:
        """Resume from what `state_dict` returned."""


def score(function: Reward, task: Task, trajectory: Trajectory) -> Score:
    """Apply a reward; an invalid trajectory is never scored.

    Raises:
        RewardError: the reward is no score, or not a finite number.
    """
    if not trajectory.valid:
        return Score(0.0, valid=False, reason=trajectory.failure)
    return _checked(function(task, trajectory), task)


def score_group(function: Reward, group: Group) -> list[Score]:
    """One score for each member, in order; that of an invalid trajectory is invalid.

    Raises:
        RewardError: one of them is no score, or not a finite number, or there are too few.
    """
    if not isinstance(function, GroupReward):
        return [score(function, group.task, t) for t in group.trajectories]
    found: Any = function.score_group(group)
    many = len(group.trajectories)
    if not isinstance(found, list) or len(found) != many:
        raise RewardError(
            f"task {group.task.id}: score_group returned {found!r:.200}, expected a list of "
            f"{many} scores."
        )
    task, pairs = group.task, zip(found, group.trajectories, strict=True)
    return [_checked(one, task) if t.valid else score(function, task, t) for one, t in pairs]


def _checked(result: object, task: Task) -> Score:
    """Return the result of a user's function, or raise `RewardError` for one that is no score."""
    if not isinstance(result, Score):
        raise RewardError(
            f"task {task.id}: the reward returned {result!r:.200}, not a score. Return "
            "rods.Score(value)."
        )
    try:
        finite = isfinite(result.value)
    except TypeError:  # such as Score(None)
        finite = False
    if not finite:
        raise RewardError(f"task {task.id}: the reward is {result.value!r}, not a finite number.")
    own: Mapping[str, Any] = result.parts
    if bad := {k: v for k, v in own.items() if not (isinstance(v, SupportsFloat) and isfinite(v))}:
        raise RewardError(f"task {task.id}: parts of the reward are not finite numbers: {bad}.")
    return result


class Rewards:
    """The rewards of one run, each made once, so that what they remember lasts and is saved."""

    def __init__(self, make: Callable[[str], Reward]) -> None:
        """Make none yet; `make` gives a new one by its name."""
        self._make = make
        self._made: dict[str, Reward] = {}

    def score_group(self, name: str, group: Group) -> list[Score]:
        """Score a group by the reward of this name."""
        return score_group(self._get(name), group)

    def state_dict(self) -> dict[str, Json]:
        """Return the states of the run's group rewards, by name."""
        return {n: r.state_dict() for n, r in self._made.items() if isinstance(r, GroupReward)}

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
            self._made[name] = self._make(name)
        return self._made[name]

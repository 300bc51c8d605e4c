"""What the loop drives, as protocols: a loop knows no model, environment, writer or screen.

Owns the names of the seams between `loop.py` and the outside world; `rods.assemble` fills them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rods.curriculum.orders import SynthesisQueue
from rods.dialects import AnyDialect
from rods.env import Environment, Layer, World
from rods.policy import Engine, Weights
from rods.reward import Rewards, Score
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json


class Trainer(Protocol):
    """What updates the weights."""

    step: int
    version: int

    def update(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> Any:
        """One update; the report has `metrics()`."""
        ...

    def weights(self) -> Weights:
        """The current weights, for an engine."""
        ...

    def save(self, folder: Path) -> None:
        """Write weights and optimiser."""
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        ...


class Synthesis(SynthesisQueue, Protocol):
    """The worker as the loop sees it."""

    def state(self) -> Mapping[str, Json]:
        """Counts so far: tried, accepted, rejected by reason, waiting, seconds."""
        ...


class Display(Protocol):
    """Where the progress is shown."""

    def step(self, record: Mapping[str, Any]) -> None:
        """A step is done."""
        ...

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch begins."""
        ...

    def rollout(self, done: int, total: int) -> None:
        """Trajectories of the current step that are finished."""
        ...

    def message(self, text: str) -> None:
        """Something worth a line."""
        ...


class Evaluation(Protocol):
    """The held-out evaluation."""

    async def __call__(
        self, policy: Any, progress: Callable[[int, int], None]
    ) -> list[dict[str, Any]]:
        """One row a task: progress, solved and parity, greedy and of each sample."""
        ...


Meters: TypeAlias = Callable[[Sequence[Group], Sequence[Sequence[Score]]], dict[str, Json]]
"""Figures of a step's trajectories that only some environments have, for a line of the log."""


def no_meters(groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> dict[str, Json]:
    """The meters of an environment that has none."""
    return {}


def unchanged(world: World) -> World:
    """No layer."""
    return world


def every_group(scores: Sequence[Score]) -> bool:
    """Without a filter."""
    return True


@dataclass
class Parts:
    """Everything that the loop drives."""

    environment: Environment
    originals: Sequence[Task]
    policy: Engine
    trainer: Trainer
    dialect: AnyDialect
    template: ChatTemplate
    synthesis: Synthesis | None
    evaluate: Evaluation
    rewards: Rewards
    """Those of this run; what they remember is saved with its checkpoints."""
    hints: Layer = unchanged
    """Puts over a world what answers failed calls with hints, where the curriculum wants it."""
    meters: Meters = no_meters
    trains: Callable[[Sequence[Score]], bool] = every_group
    """Whether a group with these scores passes the filter."""

"""Typed protocols of the parts that the loop drives, without any model, environment or writer.

Owns the seams between `loop.py` and the outside world; `rods.assemble` fills them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from rods.curriculum.requests import SynthesisQueue
from rods.dialects import AnyDialect
from rods.env import Environment, Wrapper
from rods.policy import Engine, Weights
from rods.reward import Rewards, Score
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trajectory import Group, Signals
from rods.types import Json


class UpdateReport(Protocol):
    """Result of one update."""

    @property
    def seconds(self) -> float:
        """Duration of the update."""
        ...

    @property
    def informative(self) -> int:
        """Groups that taught something."""
        ...

    @property
    def signals(self) -> Signals:
        """Reward and advantages of each trajectory of each group."""
        ...

    def metrics(self) -> Mapping[str, Json]:
        """Everything for the log, by name."""
        ...


class Trainer(Protocol):
    """Updates the weights."""

    step: int
    """Updates so far."""
    version: int
    """Version of the weights: updates that changed them."""

    def update(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> UpdateReport:
        """Make one update from groups and one score a member."""
        ...

    def weights(self) -> Weights:
        """The current weights, for an engine."""
        ...

    def save(self, folder: Path) -> None:
        """Write weights and optimizer state."""

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""


class Synthesis(SynthesisQueue, Protocol):
    """The synthesis worker as the loop sees it."""

    def state(self) -> Mapping[str, Json]:
        """Counts so far: tried, accepted, rejected by reason, waiting, seconds."""
        ...


class Display(Protocol):
    """Shows the progress."""

    def record(self, record: Mapping[str, Json]) -> None:
        """A record of the log: an evaluation, the start of an epoch, or a training step."""

    def rollout(self, done: int, total: int, samples: int | None = None) -> None:
        """Number of finished trajectories of the update, or of an evaluation with `samples`."""

    def message(self, text: str, until: str = "") -> None:
        """Something worth a line, which holds until the next record of the kind `until`."""


Evaluation: TypeAlias = Callable[
    [Engine, Callable[[int, int], None]], Awaitable[Sequence[Mapping[str, Json]]]
]
"""The held-out evaluation of a policy, which shows its progress: one row a task with progress,
solved and official verdict, greedy and of each sample."""
GroupFilter: TypeAlias = Callable[[Sequence[Score]], bool]
"""True if a group with these scores is trained on; without a filter, every group is."""
StepMetrics: TypeAlias = Callable[[Sequence[Group], Sequence[Sequence[Score]]], Mapping[str, Json]]
"""Metrics of a step's trajectories that only some environments have, by name."""


@dataclass
class Components:
    """Everything that the loop drives."""

    environment: Environment
    originals: Sequence[Task]
    """Human-written tasks of the training split."""
    policy: Engine
    trainer: Trainer
    dialect: AnyDialect
    template: ChatTemplate
    synthesis: Synthesis | None
    """None for a fixed pool."""
    evaluate: Evaluation
    rewards: Rewards
    """The rewards of this run; their state is saved with its checkpoints."""
    hints: Wrapper | None = None
    """Wraps a world so that failed calls are answered with hints, in stages that have them."""
    metrics: StepMetrics | None = None
    filter: GroupFilter | None = None

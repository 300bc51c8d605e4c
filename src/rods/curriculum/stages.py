"""Stages: which epochs belong to each, the original tasks that it plays, where hints are given.

Owns the choice alone; what enters and leaves the pool meanwhile is the buffer's.

    Stages(config, originals).originals(epoch=3)
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from rods.config import RunConfig, StageSettings
from rods.errors import ConfigError
from rods.task import Task


def stage_tasks(stage: StageSettings, originals: Sequence[Task], seed: int) -> list[str]:
    """Ids of a stage's original tasks: of its categories, at most `tasks`, stratified, seeded.

    Raises:
        ConfigError: no task is of these categories.
    """
    groups: dict[str, list[str]] = {}
    for task in originals:
        if not stage.categories or task.category in stage.categories:
            groups.setdefault(task.category, []).append(task.id)
    if not groups:
        raise ConfigError(
            f"stages: stage {stage.name!r} has no tasks. Its categories are "
            f"{list(stage.categories) or 'all'}, the {len(originals)} original tasks have "
            f"{sorted({t.category for t in originals})}."
        )
    rng = random.Random(f"{seed}/stage/{stage.name}")
    columns = [rng.sample(sorted(ids), len(ids)) for _, ids in sorted(groups.items())]
    # One of each category in turn, so that any prefix is as even as the categories allow.
    mixed = [i for row in itertools.zip_longest(*columns) for i in row if i is not None]
    return mixed[: stage.tasks or None]


class Stages:
    """The stages of a run, epoch by epoch."""

    def __init__(self, config: RunConfig, originals: Sequence[Task]) -> None:
        """Raises `ConfigError` where a stage has no tasks."""
        self._config = config
        self._epochs = [s for s in config.stages for _ in range(s.epochs)]
        self._pools = {s.name: stage_tasks(s, originals, config.seed) for s in config.stages}
        self._hinted = self._hinted_epochs() if config.curriculum == "envtuning" else set[int]()

    def __len__(self) -> int:
        return len(self._epochs)

    def at(self, epoch: int) -> StageSettings:
        """Settings of an epoch's stage (before the first epoch: of the first one)."""
        return self._epochs[max(0, epoch)]

    def expands(self, epoch: int) -> bool:
        """Whether variants are made and drawn in an epoch."""
        return self.at(epoch).expand and self._config.curriculum == "rods"

    def hints(self, epoch: int) -> bool:
        """Whether failed calls are answered with hints in an epoch (`envtuning.hints`)."""
        return epoch in self._hinted

    def _hinted_epochs(self) -> set[int]:
        named = self._config.envtuning.hints
        names = [stage.name for stage in self._epochs]
        if named:
            return {epoch for epoch, name in enumerate(names) if name in named}
        reached = names[: self._reached()]
        first, last = names[0], names[-1]
        tail = [epoch for epoch, name in enumerate(reached) if name == last]
        between = {epoch for epoch, name in enumerate(reached) if name not in (first, last)}
        return between | {*tail[: math.ceil(len(tail) / 2)]}

    def _reached(self) -> int:
        """How many epochs the run's budgets let it begin."""
        config, rollout = self._config, self._config.rollout
        step = rollout.tasks_per_step
        budgets = [config.updates * step, math.ceil(config.trajectories / rollout.k)]
        most = min((budget for budget in budgets if budget), default=math.inf)
        drawn = 0
        for epoch in range(len(self)):
            if drawn >= most:
                return epoch
            drawn += len(self.originals(epoch))
        return len(self)

    def pool(self, epoch: int) -> list[str]:
        """The original tasks of an epoch's stage."""
        return self._pools[self.at(epoch).name]

    def originals(self, epoch: int) -> list[str]:
        """Those of them that the epoch draws: all, or the slice whose turn it is."""
        stage, pool = self.at(epoch), self.pool(epoch)
        if not stage.slice or stage.slice >= len(pool):
            return pool
        first = stage.slice * (epoch - self._epochs.index(stage))
        return [pool[(first + i) % len(pool)] for i in range(stage.slice)]

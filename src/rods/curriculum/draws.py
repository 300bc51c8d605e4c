"""Draws of an epoch: the original tasks of its stage, the draws that are out, those that are done.

Owns the stages (the epochs of each, its tasks, and the epochs with hints) and the leases. A lease
belongs to the epoch that drew it, so the next epoch may start while leases are out. It never
decides which variants an epoch draws; `replay.py` does.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rods.config import RunConfig, StageSettings
from rods.errors import ConfigError, TaskError
from rods.infra.dotted import nearest
from rods.task import CATEGORIES, Task
from rods.types import Json


def stage_tasks(config: RunConfig, number: int, originals: Sequence[Task]) -> list[str]:
    """Ids of a stage's original tasks: of its categories, at most `tasks`, stratified, seeded.

    Raises:
        ConfigError: the stage of this number, from 0, names an unknown category or has no task.
    """
    stage = config.stages[number]
    groups: dict[str, list[str]] = {}
    for task in originals:
        if not stage.categories or task.category in stage.categories:
            groups.setdefault(task.category, []).append(task.id)
    known = sorted({task.category for task in originals})
    unknown = [name for name in stage.categories if name not in {*known, *CATEGORIES}]
    if unknown or not groups:
        what = f"there is no category {unknown[0]!r}" if unknown else "the stage has no tasks"
        raise ConfigError(
            f"stages.{number}.categories: {what}. Those of the stage {stage.name!r} are "
            f"{list(stage.categories) or 'all'}, the {len(originals)} original tasks have {known}."
            f"{''.join(nearest(name, known) for name in unknown or stage.categories)}"
        )
    rng = random.Random(f"{config.seed}/stage/{stage.name}")
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
        stages = enumerate(config.stages)
        self._pools = {stage.name: stage_tasks(config, n, originals) for n, stage in stages}
        self._hinted = self._hinted_epochs() if config.curriculum == "envtuning" else set[int]()

    def __len__(self) -> int:
        return len(self._epochs)

    def at(self, epoch: int) -> StageSettings:
        """Settings of an epoch's stage (before the first epoch: of the first one)."""
        return self._epochs[max(0, epoch)]

    def expands(self, epoch: int) -> bool:
        """Return true if variants are made and drawn in an epoch."""
        return self.at(epoch).expand and self._config.curriculum == "rods"

    def hints(self, epoch: int) -> bool:
        """Return true if failed calls get hints in an epoch (`envtuning.hints`)."""
        return epoch in self._hinted

    def _hinted_epochs(self) -> set[int]:
        names = [stage.name for stage in self._epochs]
        if named := self._config.envtuning.hints:
            return {epoch for epoch, name in enumerate(names) if name in named}
        reached = list(enumerate(names[: self._reached()]))
        tail = [epoch for epoch, name in reached if name == names[-1]]
        between = {epoch for epoch, name in reached if name not in (names[0], names[-1])}
        return between | {*tail[: math.ceil(len(tail) / 2)]}

    def _reached(self) -> int:
        """Return the number of epochs that can begin within the run's budgets.

        An update takes no more than one whole epoch, so a smaller one counts as a whole update.
        """
        config, rollout = self._config, self._config.rollout
        step, most = rollout.tasks_per_step, math.ceil(config.trajectories / rollout.k)
        updates = drawn = 0
        for epoch in range(len(self)):
            if 0 < config.updates * step <= updates or 0 < most <= drawn:
                return epoch
            tasks = len(self.originals(epoch))
            updates, drawn = updates + max(step, tasks), drawn + tasks
        return len(self)

    def pool(self, epoch: int) -> list[str]:
        """The original tasks of an epoch's stage."""
        return self._pools[self.at(epoch).name]

    def originals(self, epoch: int) -> list[str]:
        """Return the tasks that the epoch draws: all, or the next `stages.slice` of them."""
        stage, pool = self.at(epoch), self.pool(epoch)
        if not stage.slice or stage.slice >= len(pool):
            return pool
        first = stage.slice * (epoch - self._epochs.index(stage))
        return [pool[(first + i) % len(pool)] for i in range(stage.slice)]


DUE, OUT, DONE = "d", "l", "o"
"""Status of a draw, one letter each, so that a checkpoint holds one string an epoch."""


class Lease(NamedTuple):
    """A task that was drawn and is not judged yet."""

    task: Task
    epoch: int
    """The epoch that drew it, which may not be the current one any more."""


class _Epoch:
    """The draws of one epoch, in order."""

    def __init__(self, order: Sequence[str], status: str = "") -> None:
        self.order, self.status = list(order), list(status or DUE * len(order))
        self.position = {task_id: i for i, task_id in enumerate(order)}
        self.due = [i for i, letter in enumerate(self.status) if letter == DUE]
        """Positions of the draws that are due: a heap."""
        self.done = self.status.count(DONE)


_NONE = _Epoch([])


class Draws:
    """The draws of all epochs."""

    def __init__(self) -> None:
        self._epochs: dict[int, _Epoch] = {}

    def lay_out(self, epoch: int, task_ids: Iterable[str]) -> None:
        """Set all tasks of an epoch, in the order in which they will be drawn."""
        self._epochs[epoch] = _Epoch(list(task_ids))

    def order(self, epoch: int) -> list[str]:
        """Task ids of an epoch in the order of the draws."""
        return list(self._epochs.get(epoch, _NONE).order)

    @property
    def due(self) -> int:
        """Draws of any epoch that are not out and not done."""
        return sum(len(e.due) for e in self._epochs.values())

    def untouched(self, epoch: int) -> bool:
        """Return true if an epoch has draws and all of them are due."""
        draws = self._epochs.get(epoch, _NONE)
        return 0 < len(draws.order) == len(draws.due)

    def open(self, epoch: int) -> int:
        """Draws of an epoch that are not done."""
        draws = self._epochs.get(epoch, _NONE)
        return len(draws.order) - draws.done

    def done(self, epoch: int) -> int:
        """Draws of an epoch that are done."""
        return self._epochs.get(epoch, _NONE).done

    def lease(self, n: int) -> list[tuple[str, int]]:
        """The next draws, at most `n`, of the oldest epoch first: task ids and epochs."""
        taken: list[tuple[str, int]] = []
        for epoch, draws in self._epochs.items():
            while draws.due and len(taken) < n:
                position = heapq.heappop(draws.due)
                draws.status[position] = OUT
                taken.append((draws.order[position], epoch))
        return taken

    def leased_in(self, task_id: str) -> int | None:
        """The oldest epoch whose lease of a task is out; None: there is none."""
        return next((epoch for epoch in self._epochs if self._is_out(task_id, epoch)), None)

    def require_out(self, leases: Sequence[tuple[str, int]]) -> None:
        """Raise `TaskError` where a task is not leased in its epoch, or stands here twice."""
        seen: set[tuple[str, int]] = set()
        for task_id, epoch in leases:
            if (task_id, epoch) in seen or not self._is_out(task_id, epoch):
                what = f"task {task_id} was not drawn in epoch {epoch}"
                raise TaskError(f"{what}, or was already judged or released.")
            seen.add((task_id, epoch))

    def close(self, task_id: str, epoch: int) -> None:
        """Mark a lease as done; raises `TaskError` where the task is not leased in this epoch."""
        self._move(task_id, epoch, DONE)

    def release(self, task_id: str, epoch: int) -> None:
        """Make a leased draw due again, before all later ones; raises `TaskError` as `close`."""
        self._move(task_id, epoch, DUE)

    def _move(self, task_id: str, epoch: int, status: str) -> None:
        self.require_out([(task_id, epoch)])
        draws = self._epochs[epoch]
        position = draws.position[task_id]
        draws.status[position] = status
        draws.done += status == DONE
        if status == DUE:
            heapq.heappush(draws.due, position)

    def _is_out(self, task_id: str, epoch: int) -> bool:
        draws = self._epochs.get(epoch, _NONE)
        position = draws.position.get(task_id)
        return position is not None and draws.status[position] == OUT

    def state_dict(self) -> dict[str, Json]:
        """Each epoch's task ids, and behind them one string of their status letters.

        A lease that is out is saved as due: whoever holds it will not survive a resume.
        """
        return {
            str(epoch): [*draws.order, "".join(draws.status).replace(OUT, DUE)]
            for epoch, draws in self._epochs.items()
        }

    def load_state_dict(self, state: Mapping[str, Sequence[str]]) -> None:
        """Stand where `state_dict` was taken."""
        self._epochs = {int(e): _Epoch(row[:-1], row[-1]) for e, row in state.items()}

"""Stages: worlds without a conversation, for which seed tasks are made from nothing.

Their states come from a file, the training tasks, or the environment; never from a held-out task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from rods.abilities import OwnStart, ability
from rods.env import Environment
from rods.errors import ConfigError, TaskError
from rods.infra.rows import placed_rows
from rods.infra.text import require_whole
from rods.task import BASE, Provenance, Task, Turn
from rods.types import Json

HOW = "Each line is what stands in `world` of a task."


def stage_of(env: str, world: Mapping[str, Json], scenario: str = "") -> Task:
    """A world for which seed tasks are made from nothing; of this scenario, if it has one."""
    return Task(env, BASE, (Turn(""),), dict(world), Provenance(scenario, scenario))


def stages_of(
    environment: Environment, training: Sequence[Task] = (), states: Path | None = None
) -> list[Task]:
    """One stage for each state: of the file, else of the training tasks, else the environment's.

    Stages of training tasks are of their scenarios. Each is opened once. Raises `ConfigError` where
    there is no state; `TaskError` where the file is missing, or a world of it is broken; names file
    and line.
    """
    if states is not None:
        found = dict(_read(states, environment.name))
        if not found:
            raise TaskError(f"{states}: holds no state. {HOW}")
    elif training:
        found = {}
        for task in sorted(training, key=lambda task: task.category != BASE):
            name = task.provenance.scenario
            found.setdefault(name, stage_of(task.env, task.world, name))
    else:
        source = ability(environment, OwnStart)
        if source is None:
            raise ConfigError(
                f"--from-scratch: worlds of {environment.name!r} have no state of their own. Give "
                f"initial states: --states FILE. {HOW}"
            )
        found = {environment.name: stage_of(environment.name, source.own_world())}
    for where, stage in found.items():
        try:
            with closing(environment.open(stage)):
                pass
        except TaskError as error:
            raise TaskError(f"{where}: {error}") from error
    return list(dict.fromkeys(found.values()))


def _read(file: Path, env: str) -> Iterator[tuple[str, Task]]:
    for where, row in placed_rows(file, "states", TaskError):
        if not isinstance(row, dict):
            raise TaskError(f"{where}: not an object. {HOW}")
        require_whole(row, where, TaskError)
        yield where, stage_of(env, row)

"""The original tasks that settings mean, and their two splits.

Owns the choice between the environment's own tasks and files of them. What an environment's own
are, which files it reads and how both are split is the environment's business.

    tasks = original_tasks(config.env)
    split = split_tasks(config.env)
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rods.abilities import WorldKeys, ability
from rods.config import EnvSettings
from rods.config.checks import NONE_HELD_OUT
from rods.env import Environment, own_split
from rods.envs import ENVIRONMENTS, make_environment
from rods.errors import ConfigError, EmptySplitError, RodsError, TaskError
from rods.infra.dotted import nearest
from rods.infra.rows import placed_rows
from rods.registry import published
from rods.split import Split, given_split, of_held_out
from rods.task import COLUMNS, Task, carried, read_tasks, require_keys

_note = functools.cache(logging.getLogger(__name__).warning)  # files are read more than once


def original_tasks(settings: EnvSettings, environment: Environment | None = None) -> list[Task]:
    """All original tasks; of `environment`, if it was made already.

    Raises `ConfigError` where there are none, `PrerequisiteError` where what judges their answers
    is not installed, else as `tasks_of_files`.
    """
    if settings.tasks:
        return tasks_of_files(settings, settings.tasks, "env.tasks")
    environment = environment or make_environment(settings.name, settings.arguments)
    own = list(environment.tasks(settings.held_out))
    if not own:
        raise ConfigError(f"env.tasks: {settings.name!r} brings no tasks; name --env.tasks FILE.")
    return own


def brings_tasks(settings: EnvSettings, environment: Environment) -> bool:
    """True if there are original tasks: of the environment, or files that `env.tasks` names."""
    return bool(settings.tasks) or bool(environment.tasks(settings.held_out))


def tasks_of_files(settings: EnvSettings, files: Sequence[str], key: str) -> list[Task]:
    """The tasks of several files, in their order; one that stands in two of them comes once.

    `key` is the setting that names the files, for messages. Raises `ConfigError` for a file without
    tasks or with another environment's, `TaskError` for a missing file or a broken row.
    """
    environment = make_environment(settings.name, settings.arguments)
    name, found = environment.name, dict[str, Task]()
    for file in files:
        if (what := published(file)) and not Path(file).exists():
            how = f"Download it, then name it: --{key} FILE. See `rods recipes`."
            raise TaskError(f"{file} does not exist, and RODS does not ship it: {what}. {how}")
        tasks = environment.load(Path(file))
        if not tasks:
            raise ConfigError(f"{key}: {file} holds no task.")
        if foreign := [task for task in tasks if task.env != name]:
            raise ConfigError(f"{key}: {_of_another(file, foreign[0], settings.name, name)}")
        require_worlds(tasks, file, environment)
        for task in not_rejected(tasks, file):
            found.setdefault(_key(task), task)
    return list(found.values())


def own_tasks(file: Path, settings: EnvSettings, environment: Environment) -> list[Task]:
    """Tasks of a file of RODS; raises `TaskError` where there is none, else as `require_own`."""
    tasks = list(read_tasks(file))
    if not tasks:
        raise TaskError(f"{file}: holds no task.")
    require_own(tasks, settings, environment, file)
    require_worlds(tasks, file, environment)
    return not_rejected(tasks, file)


def require_worlds(tasks: Sequence[Task], file: str | Path, environment: Environment) -> None:
    """Raise `TaskError` for a key of a world that the environment does not read."""
    naming = ability(environment, WorldKeys)
    for task in [task for task in tasks if naming and task.env == environment.name]:
        try:
            require_keys("its world", task.world, naming.world_keys if naming else ())
        except ValueError as error:
            raise TaskError(f"{_place(file, task)}: {error}.") from error


def _place(file: str | Path, task: Task) -> str:
    """File and line of a task; the file alone where its rows are of another form."""
    with suppress(RodsError):
        for where, row in placed_rows(Path(file), "tasks", TaskError, COLUMNS):
            if Task.from_json(carried(row, where) or row, where) == task:
                return where
    return str(file)


def not_rejected(tasks: Sequence[Task], file: str | Path) -> list[Task]:
    """Tasks that nobody rejected in a review; raises `TaskError` where all were."""
    kept = [task for task in tasks if task.provenance.review != "rejected"]
    if not kept:
        raise TaskError(f"{file}: all {len(tasks)} tasks are rejected (provenance.review).")
    if left := len(tasks) - len(kept):
        what = "rejected in a review (provenance.review) and left out"
        _note(f"{file}: {left} of {len(tasks)} tasks are {what}")
    return kept


def require_own(
    tasks: Sequence[Task], settings: EnvSettings, environment: Environment, file: Path
) -> None:
    """Refuse tasks that are all of another environment; raises `ConfigError` with the option."""
    if tasks and all(task.env != environment.name for task in tasks):
        raise ConfigError(_of_another(file, tasks[0], settings.name, environment.name))


def _of_another(file: str | Path, task: Task, setting: str, name: str) -> str:
    where, theirs = _place(file, task), task.env
    if theirs not in ENVIRONMENTS and (hint := nearest(theirs, [name])):
        return f"{where}: env is {theirs!r}, expected {name!r}.{hint}"
    how = "--env.name FILE.py:NAME, where it is made, or (not in convert) --recipe FILE.toml"
    how = f"--env.name {theirs}" if theirs in ENVIRONMENTS else how
    ours = f"{setting!r}" if setting == name else f"{setting!r}, which is called {name!r}"
    what = f"{where} has a task of the environment {theirs!r}, but env.name is {ours}"
    return f"{what}. Add {how}."


def _key(task: Task) -> str:
    """Equal for the same question with the same answers, whichever file it comes from."""
    world = task.world
    if "answer" not in world:
        return task.id
    return json.dumps([task.turns[0].user, world["answer"], world.get("aliases")])


def split_tasks(settings: EnvSettings, evaluation: Sequence[str] = ()) -> Split:
    """Original tasks in a training and a held-out split; raises `ConfigError` for an empty one.

    Files of `evaluation` are the held-out split; training tasks in them, or of their scenarios,
    are left out, with a warning.
    """
    split = _split(settings)
    if not evaluation:
        return split
    held_out = tasks_of_files(settings, evaluation, "evaluation.files")
    theirs = {*of_held_out(split.train, (), held_out)}
    train = tuple(task for task in split.train if task not in theirs)
    if left := len(split.train) - len(train):
        near = f"({', '.join(evaluation)}), or share a scenario or an ancestor with them"
        _note(f"{left} training tasks stand in evaluation.files {near}; they are left out")
    if not train:
        raise EmptySplitError(
            "evaluation.files: each training task shares a scenario with them, so none is left. "
            "Name files with other scenarios, or more tasks in env.tasks."
        )
    return given_split(train, held_out)


def require_splits(
    train: Sequence[Task], held_out: Sequence[Task], settings: EnvSettings, evaluates: bool = True
) -> None:
    """Raises `ConfigError` where there is nothing to train on, or nothing to evaluate on."""
    if train and (held_out or not evaluates):
        return
    if train and not settings.held_out:
        raise ConfigError(NONE_HELD_OUT)
    n = len({task.provenance.scenario for task in (*train, *held_out)})
    where = "env.tasks" if settings.tasks else f"env.name {settings.name!r}"
    few = "at least 2 are needed: one to train on, one held out. Add a task with another"
    empty = f"env.held_out = {settings.held_out:g} or the environment's `part` leaves the "
    empty += f"{'held-out' if train else 'training'} split empty. Change the share, or `part`"
    raise EmptySplitError(
        f"{where}: you have {n} scenario{'s' * (n != 1)}; "
        f"{f'{few} provenance.scenario' if n < 2 else empty}."
    )


def _split(settings: EnvSettings) -> Split:
    environment = make_environment(settings.name, settings.arguments)
    tasks = original_tasks(settings, environment)
    if not settings.tasks:
        return own_split(environment, tasks, settings.held_out)
    if not settings.held_out:
        return given_split(tasks, ())
    split = environment.part(tasks, settings.held_out)
    if left := len(tasks) - len(split.train) - len(split.held_out):
        both = "turns of training scenarios and of held-out ones (provenance.scenarios)"
        _note(f"env.tasks: {left} of {len(tasks)} tasks mix {both}; they are left out")
    require_splits(split.train, split.held_out, settings)
    return split

"""The original tasks that settings mean, and their two sides.

Owns the choice between the benchmark's tasks, generated questions, a published data set and a file
of one's own. Never opens a world.

    tasks = original_tasks(config.env)
    parted = parted_tasks(config.env)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from rods.config import EnvSettings
from rods.envs import make_environment
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.questions.families import FAMILIES, question_tasks
from rods.envs.questions.files import load_question_tasks
from rods.errors import ConfigError
from rods.rewards.answers import leniently, require_judges
from rods.split import Split, sides, split
from rods.task import Task, read_tasks

_LOG = logging.getLogger(__name__)

GENERATED = ("python_tool", "search")
"""Environments that make their own questions and read published data sets."""


def original_tasks(settings: EnvSettings) -> list[Task]:
    """All original tasks.

    Raises:
        ConfigError: the environment has no tasks of its own and `env.tasks` names none, or they
            are another environment's.
        PrerequisiteError: what judges their answers is not installed.
        TaskError: the file is missing, or a row of it is broken.
    """
    if not settings.tasks:
        if settings.name in GENERATED:
            return [*_questions(settings, held_out=False), *_questions(settings, held_out=True)]
        if settings.name != "bfcl":
            raise ConfigError(
                f"env.tasks: {settings.name!r} brings no tasks; name a JSON lines file of them "
                "(--env.tasks FILE)."
            )
        return load_tasks(settings.bfcl.wheel)
    return tasks_of_files(settings, settings.tasks, "env.tasks")


def tasks_of_files(settings: EnvSettings, files: Sequence[str], key: str) -> list[Task]:
    """The tasks of several files, in their order; one that stands in two of them comes once.

    Args:
        settings: whose environment the tasks must belong to.
        files: JSON lines of tasks, or published data sets.
        key: the setting that names them, for messages.

    Raises:
        ConfigError: a file holds no task, or those of another environment.
        TaskError: a file is missing, or a row of it is broken.
    """
    name = make_environment(settings.name, settings.arguments).name
    found: dict[str, Task] = {}
    for file in files:
        path = Path(file)
        questions = settings.name in GENERATED
        tasks = load_question_tasks(path, settings.name) if questions else list(read_tasks(path))
        if not tasks:
            raise ConfigError(f"{key}: {file} holds no task.")
        foreign = sorted({task.env for task in tasks} - {name})
        if foreign:
            raise ConfigError(
                f"{key}: {file} has tasks of environment {foreign[0]!r}, but env.name "
                f"{settings.name!r} is called {name!r}."
            )
        for task in tasks:
            found.setdefault(_asks(task) if questions else task.id, task)
    if settings.name not in GENERATED:
        return list(found.values())
    require_judges(found.values())
    return _judged(settings, found.values())


def _judged(settings: EnvSettings, tasks: Iterable[Task]) -> list[Task]:
    """Question tasks, marked where their answers may stand anywhere."""
    return [leniently(task) if settings.questions.lenient else task for task in tasks]


def _asks(task: Task) -> str:
    """Equal for the same question with the same answers, whichever file it comes from."""
    world = task.world
    return json.dumps([task.turns[0].user, world.get("answer"), world.get("aliases")])


def parted_tasks(settings: EnvSettings, evaluation: Sequence[str] = ()) -> Split:
    """Original tasks, parted into a training and a held-out side.

    Args:
        settings: what they come from.
        evaluation: files whose tasks are the held-out side (`evaluation.files`); a task of the
            training side that stands in them is left out, with a warning.

    Raises:
        ConfigError: so few scenarios (or tasks) that a side would be empty.
    """
    parted = _parted(settings)
    if not evaluation:
        return parted
    held_out = tasks_of_files(settings, evaluation, "evaluation.files")
    theirs = {task.provenance.scenario for task in held_out}
    train = tuple(t for t in parted.train if t.provenance.scenario not in theirs)
    if len(train) < len(parted.train):
        left = len(parted.train) - len(train)
        _LOG.warning("%d training tasks stand in evaluation.files too and are left out", left)
    if not train:
        raise ConfigError("evaluation.files: they hold all tasks of the training side.")
    return sides(train, held_out)


def _parted(settings: EnvSettings) -> Split:
    if not settings.tasks and settings.name in GENERATED:
        return _generated(settings)
    tasks = original_tasks(settings)
    if not settings.tasks:
        return split(tasks, settings.bfcl.split)
    if not settings.held_out:
        return sides(tasks, ())
    parted = split(tasks, settings.bfcl.split, held_out_share=settings.held_out)
    if not (parted.train and parted.held_out):
        scenarios = len({task.provenance.scenario for task in tasks})
        raise ConfigError(
            f"env.tasks: {len(tasks)} tasks in {scenarios} scenarios with env.held_out "
            f"{settings.held_out:g} leave one side empty. Give each task a provenance.scenario, or "
            "change env.held_out."
        )
    return parted


def _generated(settings: EnvSettings) -> Split:
    """Generated questions, the same in every run; no text stands on both sides."""
    train, held_out = (tuple(_questions(settings, held_out=side)) for side in (False, True))
    return sides(train, held_out)


def _questions(settings: EnvSettings, held_out: bool) -> list[Task]:
    whole = settings.questions.count
    out = min(whole - 1, max(1, round(whole * settings.held_out))) if settings.held_out else 0
    count = out if held_out else whole - out
    if settings.name == "search":
        from rods.envs.search.hops import search_tasks

        made = search_tasks(settings.questions.difficulty, count, held_out)
        return _judged(settings, made)
    families = settings.questions.families or tuple(FAMILIES)
    made = question_tasks(families, settings.questions.difficulty, count, held_out)
    return _judged(settings, made)

"""The boundary detector alone: what another trainer's rewards say of its tasks, and seeds of them.

Owns groups of logged rewards (`formats/logged.py`), and the JSON and CSV of their judgements. What
lies on the boundary and which of it is chosen is decided as in training, by
`rods.curriculum.boundary`. Never samples, never changes a log.

    observed = observe(read_rewards(Path("rollouts")), BoundarySettings())
    [task.task for task in observed if task.region == "boundary"]
    choose_seeds(read_rewards(Path("rollouts")), tasks, BoundarySettings(), rng_seed=0).seeds
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rods.config import BoundarySettings
from rods.curriculum.boundary import Judgement, Region, judge_values, select_seeds
from rods.errors import ConfigError, TaskError
from rods.infra.files import write_atomic
from rods.integrations.formats.logged import MIN_GROUP, PROMPT, Logged, groups_of, signals_of
from rods.task import Task


class Observed(NamedTuple):
    """One task."""

    task: str
    region: Region | Literal["unjudged"]
    """`unjudged`: too few trajectories of its newest step are valid."""
    mean_reward: float | None
    low: float | None
    """Lower end of the 95 % interval of the mean."""
    high: float | None
    priority: float | None
    """4 m (1 - m) of the mean reward m: largest at one half."""
    step: int | None
    """The newest, which is judged."""
    members: int
    valid: int
    seen: int
    """Trajectories of all steps."""
    where: str
    """File and line of the first that is judged."""


def observe(rewards: Sequence[Logged], settings: BoundarySettings) -> list[Observed]:
    """Judge each task by its newest group; the most urgent first, then by name."""
    seen = Counter(row.task for row in rewards)
    groups = groups_of(rewards, lambda row: row.task)
    found = [_of(rows, seen[task], settings) for task, rows in groups.items()]
    return sorted(found, key=lambda o: (-1.0 if o.priority is None else -o.priority - 2, o.task))


def _of(rows: Sequence[Logged], seen: int, settings: BoundarySettings) -> Observed:
    first = rows[0]
    values = signals_of(rows, settings)
    valid = sum(value is not None for value in values)
    judged = judge_values(first.task, "", values, settings, 0, 0)
    judgement = judged if valid >= MIN_GROUP else None
    counts = (first.step, len(rows), valid, seen, first.where)
    if judgement is None:
        return Observed(first.task, "unjudged", None, None, None, None, *counts)
    figures = (judgement.rbar, *judgement.interval, judgement.phi)
    return Observed(first.task, judgement.region, *figures, *counts)


def require_ending(path: Path) -> None:
    """Raise `ConfigError` unless a file's name says what to write."""
    if path.suffix not in (".json", ".csv"):
        raise ConfigError(f"{path}: expected a name that ends in .json or .csv.")


def write(path: Path, observed: Sequence[Observed]) -> None:
    """Write all tasks; JSON or CSV by the name's ending; raises `StoreError` if it cannot."""
    require_ending(path)
    if path.suffix == ".json":
        write_atomic(path, json.dumps([row._asdict() for row in observed], indent=1) + "\n")
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(Observed._fields)
    table.writerows(observed)
    write_atomic(path, text.getvalue())


class SeedChoice(NamedTuple):
    """Choice of seeds by the logged rewards."""

    seeds: list[Task]
    """Chosen, most urgent first."""
    judgements: list[Judgement]
    """Judgements of all tasks with enough valid trajectories."""
    unjudged: list[Task]
    """Too few of their trajectories are valid."""


def choose_seeds(
    rewards: Sequence[Logged], tasks: Sequence[Task], settings: BoundarySettings, rng_seed: int
) -> SeedChoice:
    """Group by task, judge each group, choose the seeds of one cycle.

    The rows of a task's newest step are its group; all of them where the log has no steps: then
    give the log of the policy version that the variants are for.

    Raises:
        TaskError: a row's task is unknown or its name is ambiguous, or a task has one row alone.
    """
    named: dict[str, list[Task]] = {}
    for task in tasks:
        if task.provenance.origin:
            named.setdefault(task.provenance.origin, []).append(task)
    names = named | {task.id: [task] for task in tasks}
    groups = groups_of(rewards, lambda row: _resolve(row, names).id)
    by_id = {task.id: task for task in tasks}
    judged = {key: _judged(by_id[key], rows, settings) for key, rows in groups.items()}
    judgements = [judgement for judgement in judged.values() if judgement is not None]
    rng = random.Random(f"{rng_seed}/seeds")
    chosen = select_seeds(judgements, settings, {}, 0, rng)
    return SeedChoice(
        [by_id[s.judgement.task_id] for s in chosen.seeds],
        judgements,
        [by_id[key] for key, judgement in judged.items() if judgement is None],
    )


def _resolve(row: Logged, names: Mapping[str, Sequence[Task]]) -> Task:
    found = names.get(row.task, ())
    if not found and row.task.startswith(PROMPT):
        raise TaskError(
            f"{row.where}: no task's id stands there, only a prompt. Log the ids of the seeds, and "
            "name their column with --task-key."
        )
    if not found:
        raise TaskError(
            f"{row.where}: there is no task {row.task!r} among the seeds. Give the file of the "
            "tasks that were rolled out with --tasks, or name the column with --task-key."
        )
    if len(found) > 1:
        raise TaskError(
            f"{row.where}: {row.task!r} is the origin of {len(found)} of the seeds. Log their ids."
        )
    return found[0]


def _judged(task: Task, rows: Sequence[Logged], settings: BoundarySettings) -> Judgement | None:
    if len(rows) < MIN_GROUP:
        raise TaskError(
            f"{rows[0].where}: task {rows[0].task} has one trajectory; a group needs at least "
            f"{MIN_GROUP}. Log every trajectory of a group, or remove this row."
        )
    values = signals_of(rows, settings)
    return judge_values(task.id, task.category, values, settings, step=0, version=0)

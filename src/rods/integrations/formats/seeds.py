"""Seeds from rollouts that any trainer has logged: one row a trajectory, task id and reward.

Owns the way from the rows of `logged.py` to judgements. What lies on the boundary and which of it
is chosen is decided by `rods.curriculum.boundary`, as in training. Never samples.

    rewards = read_rewards(Path("rollouts.jsonl"))
    choice = choose_seeds(rewards, tasks, settings, rng_seed=0)
    choice.seeds, choice.judgements
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rods.config import BoundarySettings
from rods.curriculum.boundary import Judgement, judge_values, select_seeds
from rods.errors import TaskError
from rods.integrations.formats.logged import MIN_GROUP, PROMPT, Logged, groups_of, signals_of
from rods.task import Task


class SeedChoice(NamedTuple):
    """What the logged rewards say."""

    seeds: list[Task]
    """Chosen, most urgent first."""
    judgements: list[Judgement]
    """Of all tasks with enough valid trajectories."""
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
    names = _names(tasks)
    groups = groups_of(rewards, lambda row: _resolve(row, names).id)
    by_id = {task.id: task for task in tasks}
    judged = {key: _judge(by_id[key], rows, settings) for key, rows in groups.items()}
    judgements = [judgement for judgement in judged.values() if judgement is not None]
    rng = random.Random(f"{rng_seed}/seeds")
    chosen = select_seeds(judgements, settings, {}, 0, rng)
    return SeedChoice(
        [by_id[s.judgement.task_id] for s in chosen.seeds],
        judgements,
        [by_id[key] for key, judgement in judged.items() if judgement is None],
    )


def _names(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    names: dict[str, list[Task]] = {}
    for task in tasks:
        if task.provenance.origin:
            names.setdefault(task.provenance.origin, []).append(task)
    return names | {task.id: [task] for task in tasks}


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
            "tasks that were rolled out with --seeds, or name the column with --task-key."
        )
    if len(found) > 1:
        raise TaskError(
            f"{row.where}: {row.task!r} is the origin of {len(found)} of the seeds. Log their ids."
        )
    return found[0]


def _judge(task: Task, rows: Sequence[Logged], settings: BoundarySettings) -> Judgement | None:
    if len(rows) < MIN_GROUP:
        raise TaskError(
            f"{rows[0].where}: task {rows[0].task} has one trajectory; a group needs at least "
            f"{MIN_GROUP}. Log every trajectory of a group, or remove this row."
        )
    values = signals_of(rows, settings)
    return judge_values(task.id, task.category, values, settings, step=0, version=0)

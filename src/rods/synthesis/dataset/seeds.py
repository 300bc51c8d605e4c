"""Seeds from rollouts that any trainer has logged: one row a trajectory, task id and reward.

Owns the reading of such logs and the way from their rows to judgements. What lies on the boundary
and which of it is chosen is decided by `rods.curriculum.boundary`, as in training. Never samples.

    rewards = read_rewards(Path("rollouts.jsonl"))
    choice = choose_seeds(rewards, tasks, settings, rng_seed=0)
    choice.seeds, choice.judgements
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from rods.config import BoundarySettings
from rods.curriculum.boundary import EDGE, Judgement, judge, select_seeds
from rods.env import TurnVerdict
from rods.errors import TaskError
from rods.infra.files import parquet_rows
from rods.reward import Score
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

TASK_KEYS = ("task_id", "id", "uid", "origin")
"""Columns that may name the task; the first that a row has counts."""
REWARD_KEYS = ("reward", "score", "progress")
"""Columns that may hold the reward."""
_OWN = frozenset(("verdicts", "n_turns", "failure"))
"""Columns of our own trajectories."""
MIN_GROUP = 2
"""One trajectory says nothing about a boundary."""


class Logged(NamedTuple):
    """One trajectory as its log tells it."""

    task: str
    """Id or origin of its task."""
    reward: float | None
    """None: the trajectory is invalid (infrastructure failed)."""
    where: str
    """File and line."""


class SeedChoice(NamedTuple):
    """What the logged rewards say."""

    seeds: list[Task]
    """Chosen, most urgent first."""
    judgements: list[Judgement]
    """Of all tasks with enough valid trajectories."""
    unjudged: list[Task]
    """Too few of their trajectories are valid."""


def read_rewards(path: Path, task_key: str = "", reward_key: str = "") -> list[Logged]:
    """Rows of a log, JSON lines or Parquet (by the name's ending), or of a run of our own.

    Our own trajectories have verdicts instead of a reward: the share of turns solved counts. Of a
    run's folder the newest group of each task is read.

    Args:
        path: The file, or a run's folder.
        task_key: Column of the task's id or origin; empty: the first of `TASK_KEYS`.
        reward_key: Column of the reward; empty: the first of `REWARD_KEYS`.

    Raises:
        TaskError: the file or a row cannot be read, a column is missing, or a reward is outside of
            [0, 1]; the message names file and line.
        PrerequisiteError: a Parquet file, and pyarrow is not installed.
    """
    if path.is_dir():
        return _run_rewards(path, task_key, reward_key)
    if not path.is_file():
        raise TaskError(f"{path}: there is no such file of rollouts.")
    table = path.suffix == ".parquet"
    rows = parquet_rows(path, "rollouts", TaskError) if table else _json_lines(path)
    tasks = (task_key,) if task_key else TASK_KEYS
    rewards = (reward_key,) if reward_key else REWARD_KEYS
    found = [
        Logged(
            str(_column(row, tasks, "--task-key", where)),
            _progress(row, where)
            if not reward_key and _OWN.issubset(row)
            else _reward(_column(row, rewards, "--reward-key", where), where),
            where,
        )
        for where, row in rows
    ]
    if not found:
        raise TaskError(f"{path}: holds no rollouts.")
    return found


def _run_rewards(folder: Path, task_key: str, reward_key: str) -> list[Logged]:
    files = sorted(folder.glob("step-*.parquet")) or sorted(folder.glob("trajectories/*.parquet"))
    newest: dict[str, list[Logged]] = {}
    for file in files:
        rows = read_rewards(file, task_key, reward_key)
        for task in {row.task for row in rows}:
            newest[task] = [row for row in rows if row.task == task]
    if not newest:
        raise TaskError(f"{folder}: there are no trajectories of a run here (step-*.parquet).")
    return [row for group in newest.values() for row in group]


def _progress(row: Mapping[str, Any], where: str) -> float | None:
    """The share of turns solved; None where the trajectory is invalid."""
    if row["failure"] is not None:
        return None
    try:
        raw = row["verdicts"]
        verdicts = cast("list[dict[str, Any]]", json.loads(raw) if isinstance(raw, str) else raw)
        solved = sum(TurnVerdict(**verdict).solved for verdict in verdicts)
        return solved / int(row["n_turns"])
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise TaskError(f"{where}: not a trajectory of a run: {error}.") from error


def _json_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TaskError(f"{where}: not JSON: {error}. Mend or remove this line.") from error
            if not isinstance(row, dict):
                raise TaskError(f"{where}: expected an object with task id and reward.")
            yield where, cast("dict[str, Any]", row)


def _column(row: Mapping[str, Any], names: Sequence[str], option: str, where: str) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise TaskError(
        f"{where}: no column {' or '.join(names)}; there are {', '.join(sorted(row)) or 'none'}. "
        f"Name it with {option}."
    )


def _reward(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TaskError(f"{where}: the reward is {value!r}, expected a number in [0, 1] or null.")
    if not -EDGE <= value <= 1 + EDGE:
        raise TaskError(
            f"{where}: the reward {value} is outside of [0, 1]: the boundary needs a share of what "
            "was solved. Name another column with --reward-key, or scale it."
        )
    return float(value)


def choose_seeds(
    rewards: Sequence[Logged], tasks: Sequence[Task], settings: BoundarySettings, rng_seed: int
) -> SeedChoice:
    """Group by task, judge each group, choose the seeds of one cycle.

    All rows of a task are one group, whatever step they come from: give the log of the policy
    version that the variants are for.

    Raises:
        TaskError: a row's task is unknown or its name is ambiguous, or a task has one row alone.
    """
    names = _names(tasks)
    groups: dict[str, list[Logged]] = {}
    for row in rewards:
        groups.setdefault(_resolve(row, names).id, []).append(row)
    by_id = {task.id: task for task in tasks}
    judgements: list[Judgement] = []
    unjudged: list[Task] = []
    for task_id, rows in groups.items():
        judgement = _judge(by_id[task_id], rows, settings)
        if judgement is None:
            unjudged.append(by_id[task_id])
        else:
            judgements.append(judgement)
    rng = random.Random(f"{rng_seed}/seeds")
    chosen = select_seeds(judgements, settings, {}, 0, rng)
    return SeedChoice([by_id[s.judgement.task_id] for s in chosen.seeds], judgements, unjudged)


def _names(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    names: dict[str, list[Task]] = {}
    for task in tasks:
        if task.provenance.origin:
            names.setdefault(task.provenance.origin, []).append(task)
    return names | {task.id: [task] for task in tasks}


def _resolve(row: Logged, names: Mapping[str, Sequence[Task]]) -> Task:
    found = names.get(row.task, ())
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
    scores = [_score(row, binary=settings.signal == "binary") for row in rows]
    group = Group(task, [_blank(task, member) for member in range(len(rows))], 0)
    return judge(group, scores, settings.model_copy(update={"signal": "progress"}), step=0)


def _score(row: Logged, binary: bool) -> Score:
    if row.reward is None:
        return Score(0.0, valid=False, reason="the log has no reward")
    return Score(float(row.reward >= 1 - EDGE) if binary else row.reward)


def _blank(task: Task, member: int) -> Trajectory:
    """The judgement reads scores alone; what happened stayed in the other trainer."""
    return Trajectory(
        task_id=task.id,
        member=member,
        policy_version=0,
        seed=0,
        messages=(),
        steps=(),
        verdicts=(),
        n_turns=len(task.turns),
        spans=(),
        stop=StopReason.DONE,
    )

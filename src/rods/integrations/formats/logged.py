"""Rewards that a trainer has logged: rows of a file, of a folder of files, or of a run of RODS.

Owns which columns hold task, reward and step in the logs of the trainers that are known, and what
is said of a bad row. Never judges.

    for row in read_rewards(Path("rollouts")): row.task, row.reward, row.step

* plain JSON lines or Parquet: `task_id` with `reward`, or with a list `rewards`
* verl's `rollout_data_dir`: a file of JSON lines a step, with `input`, `score`, `step`
* TRL's `log_completions`: a Parquet file a step, with `prompt`, a column a reward, `step`
* our own trajectories
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rods.config import BoundarySettings
from rods.curriculum.boundary import EDGE
from rods.env import TurnVerdict
from rods.errors import TaskError
from rods.infra.rows import listed, opened, placed_rows
from rods.infra.shards import files_of
from rods.infra.text import require_whole

TASK_KEYS = ("task_id", "id", "uid", "origin")
"""Columns that may name the task; the first that a row has counts."""
PROMPT_KEYS = ("input", "prompt")  # Columns whose content names the task where nothing else does
PROMPT = "prompt:"  # Name of a task that a prompt alone identifies
REWARD_KEYS = ("reward", "score", "progress", "rewards")
"""Columns that may hold the reward, or a list of them: those of a group."""
_OWN = frozenset(("verdicts", "n_turns", "failure"))  # Columns of our own trajectories
_TRL = frozenset(("completion", "advantage"))
"""Columns of TRL's completions, whose rewards have the names of their functions."""
_NO_REWARDS = frozenset(("step", "advantage", *TASK_KEYS, *PROMPT_KEYS))


class Logged(NamedTuple):
    """One trajectory as its log tells it."""

    task: str
    """Id or origin of its task; of a prompt `prompt:` and the beginning of its SHA-256."""
    reward: float | None
    """None: the trajectory is invalid (infrastructure failed)."""
    where: str
    """File and line."""
    step: int | None = None
    """Step of the trainer; None: not stated."""


class LogFormat(NamedTuple):
    """Form of a log."""

    task_key: str = ""
    """Column of the task's id or origin; empty: found by `TASK_KEYS`, then `PROMPT_KEYS`."""
    reward_key: str = ""
    """Column of the reward; empty: found by `REWARD_KEYS`, then TRL's single one."""
    low: float = 0.0
    """Reward of a failure."""
    high: float = 1.0
    """Reward of a success."""
    span: str = ""
    """The option that says both, for messages; empty: there is none."""


MIN_GROUP = 2  # Trajectories of a task that say something about a boundary: one alone does not
FOUND = LogFormat()  # Columns are found, rewards lie in [0, 1]


def read_rewards(path: Path, reading: LogFormat = FOUND) -> list[Logged]:
    """Rows of a log (JSON lines or, by the name's ending, Parquet), of a folder of logs, or a run.

    Our own trajectories have verdicts instead of a reward: the share of turns solved counts. A file
    in a run's folder is a step; of any folder all files are read.

    Raises:
        TaskError: the file or a row cannot be read, a column is missing, or a reward is outside of
            its range; the message names file and line.
        PrerequisiteError: a Parquet file, and pyarrow is not installed.
    """
    if path.is_dir():
        return _folder(path, reading)
    files = files_of(path, "rollouts", TaskError)
    if files != [path]:
        return [row for file in files for row in read_rewards(file, reading)]
    if not reading.reward_key and (key := _trl_reward(path)):
        reading = reading._replace(reward_key=key)
    found = [logged for where, row in _rows(path) for logged in _row(row, reading, where)]
    if not found:
        raise TaskError(f"{path}: holds no rollouts.")
    return found


def groups_of(rewards: Sequence[Logged], key: Callable[[Logged], str]) -> dict[str, list[Logged]]:
    """The rows of each task's newest step, all of a task whose rows say none, by `key`."""
    named = [(key(row), row) for row in rewards]
    newest: dict[str, int] = {}
    for name, row in named:
        if row.step is not None:
            newest[name] = max(row.step, newest.get(name, row.step))
    groups: dict[str, list[Logged]] = {}
    for name, row in named:
        if row.step is None or row.step == newest[name]:
            groups.setdefault(name, []).append(row)
    return groups


def signals_of(rows: Sequence[Logged], settings: BoundarySettings) -> list[float | None]:
    """Values of each row for the boundary: by `binary` only the reward of a success counts."""
    if settings.signal == "binary":
        return [None if r.reward is None else float(r.reward >= 1 - EDGE) for r in rows]
    return [row.reward for row in rows]


def _folder(folder: Path, reading: LogFormat) -> list[Logged]:
    if (folder / "completions").is_dir():  # TRL's, in its output folder
        folder = folder / "completions"
    elif [*folder.glob("checkpoint-*")]:
        how = "Log completions, which hold the rewards: rods trl --trl.log_completions true"
        raise TaskError(f"{folder}: a folder of TRL without rewards. {how}.")
    files = sorted(folder.glob("step-*.parquet")) or sorted(folder.glob("trajectories/*.parquet"))
    if not files:
        others = sorted(files_of(folder, "rollouts", TaskError), key=_number)
        return [row for file in others for row in read_rewards(file, reading)]
    steps = ((_number(file)[0], read_rewards(file, reading)) for file in files)
    return [row._replace(step=step) for step, rows in steps for row in rows]


def _number(path: Path) -> tuple[int, str]:
    """verl calls its files 1.jsonl, 2.jsonl, 10.jsonl."""
    found = re.search(r"\d+", path.name)
    return int(found[0]) if found else 0, path.name


def _row(row: Mapping[str, object], reading: LogFormat, where: str) -> list[Logged]:
    task, step = _task(row, reading.task_key, where), row.get("step")
    require_whole(task, where, TaskError)
    if isinstance(step, float) and step.is_integer():
        step = int(step)  # as pandas writes a column that lacks some
    if step is not None and (isinstance(step, bool) or not isinstance(step, int)):
        raise TaskError(f"{where}: the step is {step!r}, expected a whole number.")
    if not reading.reward_key and _OWN.issubset(row):
        return [Logged(task, _progress(row, where), where, step)]
    known = ("progress",) if "reward_parts" in row else REWARD_KEYS  # those of ours may exceed 1
    known = (reading.reward_key,) if reading.reward_key else known
    value = _plain(_column(row, known, "--reward-key", where))
    if _TRL.issubset(row) and isinstance(value, float) and math.isnan(value):
        value = None  # its function does not apply to the row
    values = value if isinstance(value, list) else [value]
    return [Logged(task, _reward(v, reading, where), where, step) for v in values]


def _task(row: Mapping[str, object], task_key: str, where: str) -> str:
    if task_key:
        return str(_column(row, (task_key,), "--task-key", where))
    named = next((key for key in TASK_KEYS if key in row), "")
    prompt = next((key for key in PROMPT_KEYS if row.get(key)), "")
    # verl's uid is of one rollout in the dumps of its newer trainer
    if (not named or (named == "uid" and "input" in row)) and prompt:
        text = json.dumps(_plain(row[prompt]), sort_keys=True)
        return f"{PROMPT}{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return str(_column(row, TASK_KEYS, "--task-key", where))


def _plain(value: object) -> Any:
    """A prompt or rewards; a list that stands there as JSON text is this list."""
    try:
        return listed(value, "it", object) if isinstance(opened(value, ""), list | dict) else value
    except (TypeError, ValueError):
        return value


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for where, row in placed_rows(path, "rollouts", TaskError):
        if not isinstance(row, dict):
            raise TaskError(f"{where}: expected an object with task id and reward.")
        yield where, row


def _trl_reward(path: Path) -> str:
    """The column of the one reward function in a log of TRL; nothing where it is another log.

    A function that does not apply to a row leaves null there, so all rows are looked at.

    Raises:
        TaskError: several columns may be it, or none.
    """
    numbers, nulls = dict[str, str](), dict[str, str]()
    for where, row in _rows(path):
        if not _TRL.issubset(row) or any(key in row for key in REWARD_KEYS):
            return ""
        for key in (key for key in row if key not in _NO_REWARDS):
            if row[key] is None:
                nulls.setdefault(key, where)
            elif isinstance(row[key], int | float) and not isinstance(row[key], bool):
                numbers.setdefault(key, where)
    found = numbers or nulls
    if len(found) > 1:
        where = next(iter(found.values()))
        raise TaskError(
            f"{where}: several columns may be the reward: {', '.join(found)}. Name it with "
            "--reward-key."
        )
    return next(iter(found), "")


def _progress(row: Mapping[str, Any], where: str) -> float | None:
    """The share of turns solved; None where the trajectory is invalid."""
    if row["failure"] is not None:
        return None
    try:
        verdicts = listed(row["verdicts"], "verdicts")
        solved = sum(TurnVerdict(**verdict).solved for verdict in verdicts)
        return solved / int(row["n_turns"])
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise TaskError(f"{where}: not a trajectory of a run: {error}.") from error


def _column(row: Mapping[str, object], names: Sequence[str], option: str, where: str) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise TaskError(
        f"{where}: no column {' or '.join(map(repr, names))}; there are "
        f"{', '.join(map(repr, sorted(row))) or 'none'}. "
        f"Name it with {option}."
    )


def _reward(value: object, reading: LogFormat, where: str) -> float | None:
    low, high = reading.low, reading.high
    if value is None:
        return None
    if not isinstance(value, int | float) or abs(value) > 1e300:  # no float holds larger ones
        wanted = f"a number in [{low:g}, {high:g}] or null"
        raise TaskError(f"{where}: the reward is {value!r:.60}, expected {wanted}.")
    share = (value - low) / (high - low)
    if not -EDGE <= share <= 1 + EDGE:
        how = "log rewards from 0 (failure) to 1 (success)"
        if reading.span:
            ends = f"{min(low, value):g},{max(high, value):g}"
            how = f"name the rewards of a failure and of a success, such as {reading.span} {ends}"
        raise TaskError(
            f"{where}: the reward {value} is outside of [{low:g}, {high:g}]: the boundary needs a "
            f"share of what was solved. Name another column with --reward-key, or {how}."
        )
    return share

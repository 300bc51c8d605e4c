"""Tasks of the benchmark in files that somebody has: its own JSON, or rows of Environment Tuning.

Owns which forms a row may have, and which entry of the benchmark a row means. Forms:

* a folder in the benchmark's layout, or one file of it with its answers in `possible_answer`
* rows of Environment Tuning (arXiv 2510.10197): `extra_info.interaction_kwargs`
* task rows of RODS, and rows that carry one

    tasks = load_entries(Path("data/bfcl_train.parquet"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import task_of
from rods.errors import TaskError
from rods.infra.rows import field, placed_rows
from rods.infra.text import require_whole
from rods.task import COLUMNS as COLUMNS_OF_OURS
from rods.task import Columns, Task, carried, require_new, require_no_prompts

_THEIRS = ("id", "question", "initial_config", "involved_classes", "missed_function", "extra_info")
COLUMNS = Columns((*_THEIRS, *COLUMNS_OF_OURS))  # Columns that are read of a Parquet file
_NAME = re.compile(rf"multi_turn_({'|'.join(assets.CATEGORIES)})_\d+")
_FORMS = (
    "Expected a task row of RODS, an entry of the benchmark (id, question, involved_classes), or a "
    "row of Environment Tuning (extra_info.interaction_kwargs)."
)


def load_entries(path: Path, wheel: str = "") -> list[Task]:
    """Tasks of a folder in the benchmark's layout, or of a file or data set in any form above.

    Args:
        path: the folder holds `BFCL_v4_multi_turn_*.json` and `possible_answer` with files of these
            names; anything else is read as `rods.infra.rows.placed_rows` does.
        wheel: Path of the benchmark's wheel, for the functions' signatures.

    Raises:
        TaskError: a file or a row cannot be read, or stands twice; both are named.
        PrerequisiteError: a Parquet file, and pyarrow is not installed.
    """
    files = [path / f"BFCL_v4_multi_turn_{name}.json" for name in assets.CATEGORIES]
    theirs = [file for file in files if file.is_file()]
    return [task for file in theirs or [path] for task in _of_file(file, wheel)]


def _of_file(path: Path, wheel: str) -> Iterator[Task]:
    answers: Mapping[str, Any] | None = None
    seen: dict[str, str] = {}
    for where, row in placed_rows(path, "tasks", TaskError, COLUMNS):
        plain = carried(row, where)
        if plain is not None:
            task = Task.from_json(plain, where)
        elif isinstance(row, dict) and "extra_info" in row:
            if "interaction_kwargs" not in str(row["extra_info"]):
                require_no_prompts(path, row, where)
            task = _tuning(row, where, wheel)
        elif isinstance(row, dict) and "question" in row:
            answers = _answers(path) if answers is None else answers
            task = _entry(row, answers, where, wheel)
        else:
            require_no_prompts(path, row, where)
            raise TaskError(f"{where}: {_FORMS}")
        require_new(task, where, seen)
        yield task


def _answers(path: Path) -> dict[str, Any]:
    """The ground truths beside a file of entries."""
    file = path.parent / "possible_answer" / path.name
    return {
        field(row, "id", str, where, TaskError): field(row, "ground_truth", list, where, TaskError)
        for where, row in placed_rows(file, "answers", TaskError)
    }


def _entry(entry: dict[str, Any], answers: Mapping[str, object], where: str, wheel: str) -> Task:
    nested = ("question", "initial_config", "involved_classes", "missed_function")
    entry = {k: _plain(v, where) if k in nested else v for k, v in entry.items() if v is not None}
    name = field(entry, "id", str, where, TaskError)
    if name not in answers:
        raise TaskError(f"{where}: {name}: there is no answer of this id in possible_answer.")
    task = _read(entry, answers[name], where, wheel)
    if entry.get("provenance") is None:
        return task
    return Task.from_json({**task.to_json(), "provenance": entry["provenance"]}, where)


def _tuning(row: Mapping[str, object], where: str, wheel: str) -> Task:
    """A row of Environment Tuning; which functions are withheld is known from the benchmark."""
    extra = _object(row, "extra_info", where)
    kwargs = _object(extra, "interaction_kwargs", where)
    name = next((str(n) for n in (kwargs.get("id"), extra.get("original_id")) if n), "")
    entry = {
        "id": name,
        **{key: _plain(kwargs.get(key), where) for key in ("question", "initial_config")},
        "involved_classes": _plain(kwargs.get("involved_classes"), where),
        "missed_function": _missed(kwargs, name, where, wheel),
    }
    return _read(entry, _plain(kwargs.get("ground_truth"), where), where, wheel)


def _missed(kwargs: Mapping[str, object], name: str, where: str, wheel: str) -> dict[str, Any]:
    given = _plain(kwargs.get("missed_function"), where)
    if given:
        return {turn: names for turn, names in given.items() if names}
    if "miss_func" not in name:
        return {}
    for entry in assets.rows("question", "miss_func", wheel):
        if entry["id"] == name:
            return entry["missed_function"]
    raise TaskError(
        f"{where}: {name}: missed_function, the withheld functions, is missing, and the benchmark "
        "has no entry with this id."
    )


def _object(row: Mapping[str, object], key: str, where: str) -> dict[str, Any]:
    """The object at a key, which may be JSON text."""
    given = {key: _plain(row[key], where)} if key in row else row
    return field(given, key, dict, where, TaskError)


def _plain(value: object, where: str) -> Any:
    """A value, or what the text says that it was put into."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where}: {value!r:.60} is not JSON: {error}.") from error


def _read(entry: dict[str, Any], answer: Any, where: str, wheel: str) -> Task:
    match = _NAME.fullmatch(entry["id"])
    if match is None:
        known = ", ".join(assets.CATEGORIES)
        raise TaskError(
            f"{where}: id {entry['id']!r}: expected multi_turn_CATEGORY_NUMBER, CATEGORY one of "
            f"{known}."
        )
    try:
        task = task_of(entry, answer, match[1], wheel)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise TaskError(
            f"{where}: {entry['id']}: not an entry of the benchmark: {what}."
        ) from error
    require_whole(task.to_json(), where, TaskError)  # a text may hold JSON again
    return task

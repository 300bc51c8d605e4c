"""Data sets for others: our JSON lines, rows of verl, TRL, verifiers, or of the environment's own.

Owns the files; columns are in `forms.py`. Whatever a format cannot say is refused, never dropped.
Nothing that exists is overwritten: everything is written beside and renamed. Never makes or judges
a task.

    export(tasks, Path("variants.parquet"), "verl", environment)
"""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.abilities import Exporting, ability
from rods.env import Environment
from rods.errors import StoreError
from rods.infra.files import is_parquet, pyarrow
from rods.integrations.formats.forms import trl_row, verifiers_row, verl_row, verl_schema
from rods.task import Task, write_tasks

FORMATS = ("jsonl", "verl", "trl", "verifiers")


def _own(environment: Environment) -> Mapping[str, Callable[[Path, Sequence[Task]], None]]:
    """What writes tasks in the environment's own formats, by name."""
    exporting = ability(environment, Exporting)
    return exporting.exporters() if exporting else {}


def formats(environment: Environment) -> tuple[str, ...]:
    """All formats in which tasks of an environment can be written."""
    return (*FORMATS, *_own(environment))


def export(
    tasks: Sequence[Task],
    path: Path,
    form: str,
    environment: Environment,
    *,
    dialect: str = "hermes",
    split: str = "train",
) -> None:
    """Write a data set.

    Args:
        tasks: In order.
        path: A file, or a folder where the format is one. If it exists with exactly this content,
            all is well. Rows of TRL and verifiers are Parquet by the name's ending.
        form: One of `formats`.
        environment: Opens the tasks' worlds, to learn their functions.
        dialect: How prompts ask for calls, where the format has prompts.
        split: What verl rows call themselves.

    Raises:
        StoreError: the path exists with other content, cannot be written, or its ending says JSON
            lines where the format is Parquet, or Parquet where it is not.
        TaskError: the format cannot say one of the tasks.
        ConfigError: there is no such dialect.
        PrerequisiteError: pyarrow is not installed.
    """
    part = path.with_name(path.name + ".part")
    _remove(part)
    try:
        if form == "jsonl":
            write_tasks(part, tasks)
        elif form == "verl":
            rows = [verl_row(t, i, environment, dialect, split) for i, t in enumerate(tasks)]
            write_rows(part, rows, verl_schema())
        elif form == "trl":
            _write_either(part, path.suffix, [trl_row(t, environment, dialect) for t in tasks])
        elif form == "verifiers":
            rows = [verifiers_row(task, index) for index, task in enumerate(tasks)]
            _write_either(part, path.suffix, rows)
        elif form in _own(environment):
            _own(environment)[form](part, tasks)
        else:
            known = ", ".join(formats(environment))
            raise StoreError(f"there is no format {form!r}; known: {known}.")
        _require_ending(part, path)
        if not path.exists():
            part.replace(path)
        elif not _same(part, path):
            raise StoreError(f"{path}: exists, with other content. It was left as it is.")
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path}: cannot be written: {error}.") from error
    finally:
        _remove(part)


def _require_ending(part: Path, path: Path) -> None:
    """Whoever reads it goes by the ending; raises `StoreError` where it says another form."""
    if part.is_dir() or path.suffix not in (".parquet", ".json", ".jsonl"):
        return
    table = is_parquet(part)
    if table != (path.suffix == ".parquet"):
        form, ending = ("Parquet", ".parquet") if table else ("JSON lines", ".jsonl")
        raise StoreError(f"{path}: this format is {form}. Let the name end in {ending}.")


def _write_either(path: Path, ending: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Parquet by the name's ending, else JSON lines."""
    if ending == ".parquet":
        write_rows(path, rows)
    else:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _same(a: Path, b: Path) -> bool:
    if a.is_dir() != b.is_dir():
        return False
    if a.is_file():
        return filecmp.cmp(a, b, shallow=False)
    ours, theirs = (sorted(p.relative_to(x) for p in x.rglob("*")) for x in (a, b))
    return ours == theirs and all(_same(a / p, b / p) for p in ours if (a / p).is_file())


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], schema: Any = None) -> None:
    """Write rows as Parquet."""
    arrow, parquet = pyarrow()
    parquet.write_table(arrow.Table.from_pylist(list(rows), schema), path)

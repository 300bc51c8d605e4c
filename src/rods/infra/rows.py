"""Rows of a file that somebody named: JSON, JSON lines or Parquet, with their numbers.

Owns the three forms of a file. Never looks into a row.

    for number, row in file_rows(Path("data.jsonl"), "questions", TaskError): ...
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

from rods.errors import RodsError
from rods.infra.files import parquet_rows, text_of


def file_rows(
    path: Path, what: str, error: type[RodsError], wanted: Collection[str] = ()
) -> Iterator[tuple[int, Any]]:
    """Rows with their numbers, from 1 (JSON lines: the number of the line).

    Args:
        path: .parquet, .json (a list, or an object with one list), else JSON lines.
        what: it holds, in words.
        error: raised where it cannot be read; the message names file and row.
        wanted: columns to read of a Parquet file, in lower case; none: all.

    Raises:
        PrerequisiteError: a Parquet file, and pyarrow is missing.
    """
    if path.suffix == ".parquet":
        found = parquet_rows(path, what, error, wanted)
        yield from enumerate((row for _, row in found), 1)
        return
    text = text_of(path, what, error)
    if path.suffix == ".json":
        yield from enumerate(_list(path, text, error), 1)
        return
    for number, line in enumerate(text.split("\n"), 1):  # splitlines also cuts at U+2028
        if line.strip():
            yield number, _loads(line, f"{path}, row {number}", error)


def _list(path: Path, text: str, error: type[RodsError]) -> list[Any]:
    found = _loads(text, str(path), error)
    if isinstance(found, dict):
        lists = [v for v in cast("dict[str, Any]", found).values() if isinstance(v, list)]
        found = lists[0] if len(lists) == 1 else found
    if not isinstance(found, list):
        raise error(f"{path}: not a list of rows. Name a file of JSON lines .jsonl.")
    return cast("list[Any]", found)


def _loads(text: str, where: str, error: type[RodsError]) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise error(f"{where}: not JSON: {fault}. Fix it, or remove the row.") from fault

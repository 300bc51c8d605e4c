"""Rows of a file or data set that somebody named: JSON, JSON lines or tables, with their numbers.

Owns the forms of a file, messages about missing values, and their places: `FILE:3` is a line of
text, as compilers print it, `FILE, row 3` a row of a table or of a list.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rods.errors import RodsError
from rods.infra.files import is_table, rows_of, table_rows, text_of
from rods.infra.shards import files_of
from rods.infra.text import require_whole

Kind = TypeVar("Kind")
NAMES: dict[object, str] = {str: "a text", list: "a list", dict: "an object", int: "a whole number"}
"""Names of JSON's kinds in messages."""


def file_rows(
    path: Path, what: str, error: type[RodsError], wanted: Collection[str] = ()
) -> Iterator[tuple[int, str, Any]]:
    """Rows with their numbers, from 1 (JSON lines: the number of the line), and their places.

    Args:
        path: Of a file or data set, as `files_of` reads it: Parquet, Arrow, .json (a list, an
            object with one list, or lines), else JSON lines.
        error: raised where it cannot be read; the message names file and row.
        wanted: columns to read of a table, in lower case; none: all.

    Raises:
        PrerequisiteError: a table, and pyarrow is missing.
    """
    last = before = 0
    for file in files_of(path, what, error):
        for number, where, row in _rows(file, what, error, wanted):
            yield (last := before + number), where, row
        before = last


def placed_rows(
    path: Path, what: str, error: type[RodsError], wanted: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Rows of tables and JSON lines with where they stand: file and row, or file and line."""
    for file in files_of(path, what, error):
        if is_table(file):
            yield from table_rows(file, what, error, wanted)
        else:
            yield from ((f"{file}:{n}", row) for n, row in json_lines(file, what, error))


def _rows(
    path: Path, what: str, error: type[RodsError], wanted: Collection[str]
) -> Iterator[tuple[int, str, Any]]:
    if is_table(path):
        yield from ((n, *row) for n, row in enumerate(table_rows(path, what, error, wanted), 1))
        return
    text = text_of(path, what, error) if path.suffix == ".json" else ""
    first = [line for line in text.split("\n") if line.strip()][:2]
    # Exports may be called .json although they are JSON lines.
    if text and (len(first) < 2 or not all(row[0] + row[-1] == "{}" for row in first)):
        for number, row in enumerate(_list(path, text, error), 1):
            require_whole(row, where := f"{path}, row {number}", error)
            yield number, where, row
        return
    yield from ((n, f"{path}:{n}", row) for n, row in json_lines(path, what, error))


def json_lines(path: Path, what: str, error: type[RodsError]) -> Iterator[tuple[int, Any]]:
    """Rows of JSON lines with the numbers of their lines, whatever the file is called."""
    text = text_of(path, what, error)
    for number, line in enumerate(text.split("\n"), 1):  # splitlines also cuts at U+2028
        if line.strip():
            where = f"{path}:{number}"
            row = _loads(line, where, error, "Fix it, or remove the row: one object per line.")
            if "\\u" in line:  # without an escape the file, which is UTF-8, has whole characters
                require_whole(row, where, error)
            yield number, row


def opened(value: object, what: str) -> Any:
    """A value, or the object or list of a text of JSON; `ValueError` if it only begins like one."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{what} is a text, but not of JSON: {fault}") from fault


def listed(value: object, what: str, kind: type = dict) -> list[Any]:
    """A list of entries of a kind; list and entries may be JSON text; empty where it is null.

    `datasets` keeps a `Sequence` of objects as an object of lists, which is read as one, too.
    Raises `ValueError` or `TypeError`, which name `what`.
    """
    found = opened(value, what)
    columns: dict[str, Any] = found
    if isinstance(found, dict) and all(isinstance(c, list) for c in columns.values()):
        found = rows_of(columns, what)
    if not isinstance(found, list | None):
        raise TypeError(f"{what} must be a list, got {json.dumps(found, default=str):.80}")
    entries = [opened(item, f"an entry of {what}") for item in found or []]
    for entry in entries:
        if not isinstance(entry, (list, tuple) if kind is list else kind):
            raise TypeError(f"an entry of {what} is {entry!r:.60}, expected {NAMES[kind]}")
    return entries


def field(row: object, key: str, kind: type[Kind], where: str, error: type[RodsError]) -> Kind:
    """One value of a row; true and false are not numbers.

    Raises `error`, naming `where` (file and row), where the row is no object, lacks the key, or has
    another kind there.
    """
    expected = f"expected {NAMES.get(kind, kind.__name__)}"
    if not isinstance(row, dict):
        raise error(f"{where}: {key}: {expected}, but the row is not an object: {row!r:.60}.")
    found: dict[str, Any] = row
    if key not in found:
        there = f"Its keys: {', '.join(map(repr, found))}" if found else "It has no keys"
        raise error(f"{where}: {key!r} is missing; {expected}. {there}.")
    value = found[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise error(f"{where}: {key}: {expected}, got {value!r:.60}.")
    return value


def _list(path: Path, text: str, error: type[RodsError]) -> list[Any]:
    found = _loads(text, str(path), error)
    if isinstance(found, dict):
        lists = [v for v in found.values() if isinstance(v, list)]
        found = lists[0] if len(lists) == 1 else found
    if not isinstance(found, list):
        raise error(f"{path}: not a list of rows. Write a list, or one object per line.")
    return found


def _loads(text: str, where: str, error: type[RodsError], how: str = "Fix it.") -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        problem = f"{fault.msg}, character {fault.pos + 1}"
        raise error(f"{where}: not JSON: {problem}. {how}") from fault
    except (ValueError, RecursionError) as fault:
        raise error(f"{where}: not JSON: {fault}. {how}") from fault

"""The file editor that agents know as `str_replace_editor`: view, create, str_replace, insert.

Owns what each command does and what the agent reads of it. It opens whatever path it is given: it
runs in a locked process, which decides what can be opened. Standard library only.

    edited = edit({"command": "str_replace", "path": "a.py", "old_str": "<=", "new_str": "<"})
    edited.text, edited.failed
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

COMMANDS = ("view", "create", "str_replace", "insert")
AROUND = 4  # Lines that are shown before and after an edit
FILE = 1 << 20  # Bytes of a file that is looked at; a longer one is refused


class Edited(NamedTuple):
    """Text that the agent reads."""

    text: str
    failed: bool


class EditError(Exception):
    """The command cannot be done; the message is for the agent."""


def edit(arguments: Mapping[str, object]) -> Edited:
    """Do one command in the working folder.

    Args:
        arguments: `command` and `path`; `file_text` for create, `old_str` and `new_str` for
            str_replace, `insert_line` and `new_str` for insert, `view_range` (two lines, the last
            may be -1) for view.
    """
    command, path = arguments.get("command"), arguments.get("path")
    path = path if isinstance(path, str) and path and "\0" not in path else "."
    try:
        if command == "view":
            return Edited(_view(path, arguments.get("view_range")), False)
        if command == "create":
            return Edited(_create(path, _text(arguments, "file_text")), False)
        if command == "str_replace":
            new = _text(arguments, "new_str", "")
            return Edited(_replace(path, _text(arguments, "old_str"), new), False)
        if command == "insert":
            return Edited(_insert(path, arguments), False)
        raise EditError(f"there is no command {command!r}; expected one of {', '.join(COMMANDS)}")
    except EditError as error:
        return Edited(f"Error: {error}.", True)
    except OSError as error:
        return Edited(f"Error: {path}: {error.strerror}.", True)


def _text(arguments: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise EditError(f"{name} is {value!r}, expected a text")
    return value


def _read(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read(FILE + 1)
    if len(data) > FILE:
        raise EditError(f"{path} has more than {FILE} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EditError(f"{path} is not a text") from error


def _write(path: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    with open(path, "wb") as file:
        file.write(data)


def _view(path: str, span: object) -> str:
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
        shown = [f"{n}/" if os.path.isdir(os.path.join(path, n)) else n for n in names]
        return "\n".join(shown) or "(empty)"
    lines = _read(path).split("\n")
    first, last = 1, len(lines)
    if span is not None:
        first, last = _span(span, len(lines))
    return _numbered(lines, first, last)


def _span(span: object, lines: int) -> tuple[int, int]:
    if isinstance(span, (list, tuple)) and len(span) == 2:
        first, last = span
        if isinstance(first, int) and isinstance(last, int):
            last = lines if last == -1 else last
            if 1 <= first <= last <= lines:
                return first, last
    raise EditError(f"view_range is {span!r}, expected two lines between 1 and {lines}")


def _numbered(lines: list[str], first: int, last: int) -> str:
    """Lines from first to last, 1-based, with their numbers."""
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _around(path: str, text: str, first: int, count: int) -> str:
    lines = text.split("\n")
    low, high = max(1, first - AROUND), min(len(lines), first + count - 1 + AROUND)
    return f"{path} was changed:\n{_numbered(lines, low, high)}"


def _create(path: str, text: str) -> str:
    if os.path.lexists(path):
        raise EditError(f"{path} exists; create makes new files only")
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    _write(path, text)
    return f"{path} was made."


def _replace(path: str, old: str, new: str) -> str:
    text = _read(path)
    found = text.count(old) if old else 0
    if found != 1:
        times = "empty" if not old else f"{found} times in the file" if found else "not in the file"
        raise EditError(f"old_str is {times}; it must stand in {path} exactly once")
    at = text.index(old)
    text = text[:at] + new + text[at + len(old) :]
    _write(path, text)
    return _around(path, text, 1 + text.count("\n", 0, at), 1 + new.count("\n"))


def _insert(path: str, arguments: Mapping[str, object]) -> str:
    at, new = arguments.get("insert_line"), _text(arguments, "new_str")
    lines = _read(path).split("\n")
    if not isinstance(at, int) or not 0 <= at <= len(lines):
        raise EditError(f"insert_line is {at!r}, expected a line between 0 and {len(lines)}")
    lines[at:at] = new.split("\n")
    text = "\n".join(lines)
    _write(path, text)
    return _around(path, text, at + 1, 1 + new.count("\n"))

"""Hints after failed calls of the benchmark's classes: which call or value would help.

Owns the use of the table of errors (`errors.toml`), the choices that documentation tells in words,
and looking at the live tree of the file system. It changes nothing; a clause that names a function
which is not offered in this turn is left out. What can be known of any tool is `rods.envs.hints`'s.

    hint_of(ToolCall("startEngine", {"ignitionMode": "START"}), result, apis, offered)
    # "lockDoors(unlock=False, door=['driver']) locks what is open."
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from rods.dialects import signature
from rods.envs.bfcl.apis import Apis
from rods.envs.hints import CUTOFF, MOST_CHARS, quoted, value_hint
from rods.infra.files import toml_of
from rods.types import ToolCall, ToolSpec

_CALLED = re.compile(r"\b(\w+)\(")
_CHOICES = re.compile(r"(?:\[Enum\]:\s*\[?|[Oo]ptions are:\s*)([^\]]+)")
_UNKNOWN = re.compile(r"not found|Invalid stock|ot registered|No such")
"""Errors of a name that is not there: the nearest one helps."""

_ERRORS: Mapping[str, Mapping[str, list[str]]] = toml_of("envs", "bfcl", "errors.toml")
"""By class: what its error matches, and clauses that help."""


def hint_of(call: ToolCall, result: str, apis: Apis, offered: Mapping[str, ToolSpec]) -> str:
    """Hint after a failed call; nothing where none is known."""
    function = apis.prototype.functions.get(call.name)
    api = None if function is None else apis.peek(function.owner)
    if function is None or api is None:
        return ""
    error = _error(result)
    if function.owner == "GorillaFileSystem":
        return file_hint(call, api, offered)
    clauses = _choice_clauses(call, offered[call.name])
    if function.owner == "TravelAPI" and re.search(r"airport code|No available route", error):
        clauses += _airport_clauses(call, api)
    if function.owner == "VehicleControlAPI" and "doors must be locked" in error:
        opened = [door for door, status in api.doorStatus.items() if status == "unlocked"]
        clauses += [f"lockDoors(unlock=False, door=[{quoted(opened)}]) locks what is open"]
    elif not clauses:
        rules = _ERRORS.get(function.owner, {}).items()
        clauses += next((texts for what, texts in rules if re.search(what, error)), [])
    kept = [c for c in clauses if all(name in offered for name in _CALLED.findall(c))]
    if _UNKNOWN.search(error):
        state = {function.owner: apis.live_state(function.owner)}
        kept += filter(None, [value_hint(call, result, state).rstrip(".")])
    return f"{'; '.join(kept)}." if kept else ""


def _error(result: str) -> str:
    """The words of an error that a dictionary may hold."""
    try:
        found = json.loads(result)
    except ValueError:
        return result
    error: object = found.get("error") if isinstance(found, dict) else None
    return result if error is None else str(error)


def _choice_clauses(call: ToolCall, spec: ToolSpec) -> list[str]:
    """Arguments that are not among what their documentation lists."""
    clauses: list[str] = []
    for name, value in call.arguments.items():
        listed = _CHOICES.search(str(spec.properties.get(name, {}).get("description", "")))
        choices = [c.strip(" \"'.") for c in listed[1].split(",")] if listed else []
        values = value if isinstance(value, list) else [value]
        if choices and any(v not in choices for v in values):
            clauses.append(f"{name} is one of {quoted(choices, 24)}")
    return clauses


def _airport_clauses(call: ToolCall, api: Any) -> list[str]:
    """Codes that are none, or a pair without a route."""
    codes: list[str] = api.list_all_airports()
    pair = [str(call.arguments.get(name)) for name in ("travel_from", "travel_to")]
    wrong = [code for code in pair if code not in codes]
    if not wrong:
        return [f"there is no route from {pair[0]!r} to {pair[1]!r}, though both are airports"]
    return [
        f"not an airport code: {quoted(wrong)}",
        "list_all_airports() lists the codes",
        "get_nearest_airport_by_city() gives that of a city",
    ]


# -- the file system: paths, folders, names that are elsewhere or not allowed --------------------

_NAMES = ("folder", "path", "file_name", "file_name1", "file_name2", "source", "dir_name")
_ILLEGAL = '|/\\?%*:"><'
_MAKING = frozenset({"mkdir", "touch"})
_CHECKED = frozenset({"mkdir", "touch", "echo", "cat"})
"""Functions that refuse names with illegal characters."""
DEPTH, MOST = 20, 500
"""Depth and entries of the tree that is looked at: a folder can be copied into itself."""


def file_hint(call: ToolCall, api: Any, offered: Mapping[str, ToolSpec]) -> str:
    """Hint after a failed call of the file system; nothing where none is known."""
    tree = _Tree(api, offered)
    given = {name: call.arguments.get(name) for name in (*_NAMES, "destination")}
    names = {key: value for key, value in given.items() if isinstance(value, str)}
    if names.get("source", "") not in ("", *api._current_dir.contents):
        names.pop("destination", None)  # nothing was moved or copied, whereto does not matter
    found = [tree.about(call.name, key, value, offered[call.name]) for key, value in names.items()]
    hints = [hint for hint in found if hint]
    return f"{'; '.join(hints)}." if hints else ""


class _Tree:
    """The tree of a file system and what can be done in it now."""

    def __init__(self, api: Any, offered: Mapping[str, ToolSpec]) -> None:
        self._root, self._here = api.root, api._current_dir
        self._offered = offered
        self._contents: Mapping[str, Any] = self._here.contents

    def about(self, function: str, key: str, name: str, spec: ToolSpec) -> str:
        bare = name.rstrip("/") if key == "folder" else name
        if bare == "..":
            return f"the current folder {self._here.name!r} is the root{self._look()}"
        if "/" in bare.strip("/") or (name.startswith("/") and bare):
            if key == "path":
                return self._elsewhere(bare.rsplit("/", 1)[-1])
            allowed = f"{signature(spec)} takes names in the current folder, no paths"
            new = key == "destination" or function in _MAKING
            there = "" if new else self._elsewhere(bare.rsplit("/", 1)[-1])
            return "; ".join(filter(None, (allowed, there)))
        bad = [char for char in _ILLEGAL if char in name]
        if bad and function in _CHECKED:
            return f"{signature(spec)} takes no {' '.join(bad)} in {key}"
        if bare in self._contents:
            return self._about_here(function, key, bare)
        if key == "destination" or function in _MAKING or bare in ("", "."):
            return ""
        if function == "echo" and "touch" in self._offered:
            return f"touch(file_name={name!r}) makes the file first"
        return self._elsewhere(bare)

    def _about_here(self, function: str, key: str, name: str) -> str:
        """A name that is in the current folder, and wrong all the same."""
        folder = _is_folder(self._contents[name])
        if function in _MAKING or (key == "destination" and not folder):
            return f"{name!r} is here already{self._look()}"
        if function == "cd" and not folder:
            return f"{name!r} is a file, not a folder{self._look()}"
        if function == "rmdir":
            if not folder:
                return f"{name!r} is a file, not a folder{self._use('rm', f'file_name={name!r}')}"
            held = [n for n in self._contents[name].contents if len(n) <= MOST_CHARS]
            return f"{name!r} is not empty, it holds {quoted(held, 5)}"
        if key == "destination":
            taken = "it holds something of this name"
            return f"{name!r} is a folder here, and {taken}{self._use('cd', f'folder={name!r}')}"
        if folder and function not in ("mv", "cp", "rm", "cd", "find"):
            return f"{name!r} is a folder, not a file{self._use('cd', f'folder={name!r}')}"
        return ""

    def _elsewhere(self, name: str) -> str:
        """Where something of this name is, or the nearest names."""
        if name in self._contents:
            return f"{name!r} is in the current folder"
        places = list(islice(_walk(self._root, (), 0), MOST))
        for path, folder in places:
            if name in folder.contents:
                return f"{name!r} is in the folder {folder.name!r}{self._way(path, folder)}"
        names = [n for n in self._contents if len(n) <= MOST_CHARS]
        near = difflib.get_close_matches(name[:MOST_CHARS], names, 2, CUTOFF)
        if near:
            return f"the nearest in the current folder: {quoted(near)}"
        for path, folder in places:
            near = difflib.get_close_matches(name[:MOST_CHARS], folder.contents, 1, CUTOFF)
            if near:
                where = f"in the folder {folder.name!r}{self._way(path, folder)}"
                return f"the nearest is {near[0]!r} {where}"
        return f"in the current folder are {quoted(names, 5)}" if names else ""

    def _way(self, path: tuple[str, ...], folder: object) -> str:
        if "cd" not in self._offered or folder is self._here:
            return ""
        inside = islice(_walk(self._here, (), 0), MOST)
        below = next((p for p, f in inside if f is folder), None)
        steps = below if below is not None else ("/", *path)
        if folder is self._here.parent:
            steps = ("..",)
        return ": " + ", ".join(f"cd(folder={step!r})" for step in steps)

    def _look(self) -> str:
        return self._use("ls", "")

    def _use(self, function: str, inside: str) -> str:
        return f": {function}({inside})" if function in self._offered else ""


def _walk(folder: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A folder and all below it, each with the names that lead there."""
    yield path, folder
    if depth < DEPTH:
        for name, item in folder.contents.items():
            if _is_folder(item):
                yield from _walk(item, (*path, name), depth + 1)


def _is_folder(item: object) -> bool:
    return hasattr(item, "contents")

"""The walks of docs/developers/walks.md are those of the code, and so are their counts."""

from __future__ import annotations

import ast
import functools
import re
from typing import NamedTuple

import pytest

from places import ROOT, SOURCE

ROW = re.compile(r"^\| ([a-z, ]*)\| `([\w/]+\.py)` \| (.+) \|$", re.M)
APART = {"turn"}
"""Functions that nobody in the walk calls: the queue stands between the two processes."""


class Row(NamedTuple):
    """A file that a reader opens."""

    back: bool
    file: str
    functions: tuple[str, ...]


class Walk(NamedTuple):
    """A section of the page."""

    title: str
    rows: list[Row]

    def counted(self, what: str) -> int | None:
        """The number that the title gives, before or behind a word."""
        found = re.search(rf"(\d+) {what}|{what} (\d+)", self.title)
        return int(found[1] or found[2]) if found else None


def walks() -> list[Walk]:
    page = (ROOT / "docs" / "developers" / "walks.md").read_text(encoding="utf-8")
    made: list[Walk] = []
    for part in page.split("\n## ")[1:]:
        found = [
            (mark, file, re.findall(r"`([\w.]+)`", names))
            for mark, file, names in ROW.findall(part)
        ]
        rows = [Row(mark.startswith("back"), file, tuple(names)) for mark, file, names in found]
        made.append(Walk(part.partition("\n")[0], rows))
    return made


@functools.cache
def bodies(file: str) -> dict[str, str]:
    """Source of the functions and classes of a file, by `name` or `Class.name`."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    found: dict[str, str] = {}

    def look(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[before + node.name] = ast.get_source_segment(text, node) or ""
                if isinstance(node, ast.ClassDef):
                    look(node.body, f"{node.name}.")

    look(ast.parse(text).body, "")
    return found


WALKS = walks()


def test_there_are_three_walks() -> None:
    assert [len(walk.rows) > 10 for walk in WALKS] == [True] * 3


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.title.partition(":")[0])
def test_files_and_functions_are_there_and_counted(walk: Walk) -> None:
    lost = [(row.file, n) for row in walk.rows for n in row.functions if n not in bodies(row.file)]
    assert not lost
    seen: set[str] = set()
    for row in walk.rows:
        assert row.back == (row.file in seen), f"{row.file}: marked wrongly"
        seen.add(row.file)
    counts = {
        "files": len(seen),
        "back": sum(row.back for row in walk.rows),
        "functions": sum(len(row.functions) for row in walk.rows),
    }
    named = {what: number for what in counts if (number := walk.counted(what)) is not None}
    assert named and named == {what: counts[what] for what in named}


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.title.partition(":")[0])
def test_each_function_is_named_by_one_before_it(walk: Walk) -> None:
    """Or by itself, where the walk comes back to it."""
    first, *others = [(row.file, name) for row in walk.rows for name in row.functions]
    before, loose = bodies(first[0])[first[1]], list[str]()
    for file, name in others:
        owner, _, last = name.rpartition(".")
        called = {"__init__": owner, "__getitem__": "self["}.get(last, last)
        if not re.search(rf"(?<!\w){re.escape(called)}", before) and last not in APART:
            loose.append(f"{file}: {name}")
        before += bodies(file)[name]
    assert not loose

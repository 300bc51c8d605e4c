"""Bugs as people make them: one comparison, sign, bound or word of a function is another.

Owns where in a source a bug can be and what it looks like. It runs nothing.

    sites = mutations("def f(a):\\n    return a < 3\\n")
    sites[0].apply(source), sites[0].function
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


@dataclass(frozen=True, eq=False)
class Changes:
    """Replacements of a word or a number."""

    compared: Mapping[str, Sequence[str]]
    counted: Mapping[str, Sequence[str]]
    joined: Mapping[str, Sequence[str]]
    called: Mapping[str, Sequence[str]]
    steps: Sequence[int]
    """By how much a number is wrong; below 0 is none."""


def any_other(words: str) -> dict[str, list[str]]:
    """For each of these words all the others."""
    return {one: [other for other in words.split() if other != one] for one in words.split()}


PLAIN = Changes(  # Slips: one step beside what is right
    {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "in": ["not in"]},
    {"+": ["-"], "-": ["+"], "*": ["+"], "//": ["%"], "%": ["//"]},
    any_other("and or"),
    any_other("max min") | any_other("any all"),
    (1, -1),
)

_Change = tuple[int, str, str]  # Start, old text, new text


class Mutation(NamedTuple):
    """A bug that a source could have."""

    function: str
    """In which it is."""
    start: int
    """Where the text begins that is another, in characters."""
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The source with the bug."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


def mutations(source: str, changes: Changes = PLAIN) -> list[Mutation]:
    """All single bugs within functions, in the order of the text; the source is ASCII."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: set[Mutation] = set()
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for start, old, new in _within(statement, source, starts, changes):
                found.add(Mutation(function.name, start, old, new))
    return sorted(found, key=lambda one: (one.start, one.new))


def _within(tree: ast.AST, source: str, starts: list[int], changes: Changes) -> Iterator[_Change]:
    """Start, old and new text of every change in a statement."""

    def begin(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def between(
        left: ast.expr, right: ast.expr, table: Mapping[str, Sequence[str]]
    ) -> Iterator[_Change]:
        gap = source[end(left) : begin(right)]
        word = re.search(r"not in|in|and|or|//|[<>=!]=|[-+*%<>]", gap)
        if word:
            for new in table.get(word[0], ()):
                yield end(left) + word.start(), word[0], new

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, right in pairwise(sides):
                yield from between(left, right, changes.compared)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, changes.counted)
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                yield from between(left, right, changes.joined)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            steps = [not node.value]
            if not isinstance(node.value, bool):
                steps = [node.value + step for step in changes.steps if node.value + step >= 0]
            yield from ((begin(node), str(node.value), str(new)) for new in steps)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield begin(node), "-", ""
        elif isinstance(node, ast.Name):
            for new in changes.called.get(node.id, ()):
                yield begin(node), node.id, new

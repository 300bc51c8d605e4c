"""Bugs as people make them: one comparison, sign, bound or word of a function is another.

Owns where in a source a bug can be and what it looks like. It runs nothing.

    sites = mutations("def f(a):\\n    return a < 3\\n")
    sites[0].apply(source), sites[0].function
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "in": "not in"}
COUNTED = {"+": "-", "-": "+", "*": "+", "//": "%", "%": "//"}
JOINED = {"and": "or", "or": "and"}
CALLED = {"max": "min", "min": "max", "any": "all", "all": "any"}


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


def mutations(source: str) -> list[Mutation]:
    """All single bugs within functions, in the order of the text; the source is ASCII."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: set[Mutation] = set()
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for start, old, new in _within(statement, source, starts):
                found.add(Mutation(function.name, start, old, new))
    return sorted(found, key=lambda one: (one.start, one.new))


def _within(tree: ast.AST, source: str, starts: list[int]) -> Iterator[tuple[int, str, str]]:
    """Start, old and new text of every change in a statement."""

    def begin(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr, table: dict[str, str]) -> Iterator[_Change]:
        gap = source[end(left) : begin(right)]
        word = re.search(r"not in|in|and|or|//|[<>=!]=|[-+*%<>]", gap)
        if word and word[0] in table:
            yield end(left) + word.start(), word[0], table[word[0]]

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, right in pairwise(sides):
                yield from between(left, right, COMPARED)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, COUNTED)
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                yield from between(left, right, JOINED)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield from _constant(begin(node), node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield begin(node), "-", ""
        elif isinstance(node, ast.Name) and node.id in CALLED:
            yield begin(node), node.id, CALLED[node.id]


_Change = tuple[int, str, str]


def _constant(start: int, value: int) -> Iterator[_Change]:
    if isinstance(value, bool):
        yield start, str(value), str(not value)
        return
    yield start, str(value), str(value + 1)
    if value > 0:
        yield start, str(value), str(value - 1)

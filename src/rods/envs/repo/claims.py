"""Expected values of a repository's own tests: taken out of them, and compared here.

Owns which values are taken out and what a report then proves. Code under test runs in the process
of its tests; what is not in that process it can neither read nor claim. Each comparison with a
literal, `assert f(2) == 5`, `self.assertEqual(f(2), 5)` or `assert f(2) == pytest.approx(5)`,
becomes a claim: the test says what `f(2)` gave, and only this side knows the 5.

    withheld = withhold({"test_it.py": "def test_f():\n    assert f(2) == 5\n"})
    withheld.texts["test_it.py"]            # "... assert _rods_claim(0, (f(2)))"
    passed(report, withheld)                # {"test_it.py::test_f"}

What this cannot see: a test that compares with no literal. `proves` says whether another does.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from rods.types import Json

CLAIM = "_rods_claim"
_KINDS = ("", "List", "Tuple", "Set", "Dict", "MultiLine")
EQUALITIES = ("assertEquals", *(f"assert{kind}Equal" for kind in _KINDS))
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Withheld(NamedTuple):
    """Tests without their expected values."""

    texts: Mapping[str, str]
    """By path."""
    values: list[object]
    """By the number of their claim."""
    owed: Mapping[str, frozenset[int]]
    """By file and function: the claims without which the test did not run."""

    def proves(self, tests: Iterable[str]) -> bool:
        """True if one of these tests cannot pass without a value that is compared here."""
        return any(self.owed.get(test.partition("[")[0]) for test in tests)


_Found = tuple[ast.expr, ast.expr | ast.keyword, ast.expr, object]
"""A comparison with a literal: from what to what it is replaced, what is compared, the literal."""
_Replacement = tuple[int, int, int, int, str]
"""First line and column, last line and the column after it, new text."""


def withhold(texts: Mapping[str, str]) -> Withheld:
    """Tests with claims in place of their comparisons; one that cannot be read is left as it is."""
    made: dict[str, str] = {}
    values: list[object] = []
    owed: dict[str, frozenset[int]] = {}
    for path, text in texts.items():
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            made[path] = text
            continue
        replacements: list[_Replacement] = []
        numbers: dict[ast.stmt, list[int]] = {}
        for node in ast.walk(tree):
            for begin, end, actual, value in _comparisons(node):
                claim = f"{CLAIM}({len(values)}, ({ast.get_source_segment(text, actual)}))"
                if isinstance(begin, ast.Attribute):  # as its values differ, so does its name
                    claim = f"{ast.unparse(begin.value)}.assertEqual({claim}, True"
                place = (begin.lineno, begin.col_offset, end.end_lineno or 0)
                replacements.append((*place, end.end_col_offset or 0, claim))
                numbers.setdefault(cast("ast.stmt", node), []).append(len(values))
                values.append(value)
        made[path] = _replaced(text, replacements)
        for name, function in _functions(tree, path):
            if not any(isinstance(inner, ast.Return) for inner in ast.walk(function)):
                owed[name] = frozenset(
                    n for row in _certain(function.body) for n in numbers.get(row, [])
                )
    return Withheld(made, values, owed)


def _comparisons(node: ast.AST) -> Iterator[_Found]:
    """Comparisons with a literal that a statement asserts."""
    parts = [node.test] if isinstance(node, ast.Assert) else []
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        given = [*call.args, *call.keywords][:2]
        left, *right = [one.value if isinstance(one, ast.keyword) else one for one in given] or [
            call
        ]
        odd = any(
            isinstance(one, ast.Starred) or getattr(one, "arg", "") in (None, "msg")
            for one in given
        )
        if name in EQUALITIES and right and not odd:
            yield from _sides(call.func, given[1], left, right[0])
        elif name == "assertTrue" and not odd:
            parts = [left]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
            parts += part.values
        elif isinstance(part, ast.Compare) and [type(op) for op in part.ops] == [ast.Eq]:
            yield from _sides(part, part, part.left, part.comparators[0])


def _certain(rows: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run in a test that passes, those within others included."""
    for row in rows:
        yield row
        if isinstance(row, ast.With | ast.AsyncWith):  # one that takes an error ends early
            goes = not re.search("raise|suppress", "".join(map(ast.unparse, row.items)).lower())
        elif isinstance(row, ast.For) and isinstance(row.iter, ast.List | ast.Tuple):
            leaves = any(isinstance(one, ast.Break | ast.Continue) for one in ast.walk(row))
            goes = bool(row.iter.elts) and not leaves
        else:
            goes = isinstance(row, ast.Try) and not row.handlers
        yield from _certain(cast("ast.With", row).body if goes else [])


def _sides(
    first: ast.expr, last: ast.expr | ast.keyword, left: ast.expr, right: ast.expr
) -> Iterator[_Found]:
    for actual, expected in ((left, right), (right, left)):
        if _literal(actual) is _NONE and (value := _literal(expected)) is not _NONE:
            yield first, last, actual, value


_NONE = object()


class _Near:
    """The value that `pytest.approx` of a number equals."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float):
            return False
        fits = isinstance(other, float) or abs(other) <= sys.float_info.max  # else `isclose` raises
        return fits and math.isclose(self.value, other, rel_tol=1e-6, abs_tol=1e-12)


def _literal(given: ast.expr | str) -> object:
    """The value of a literal, or of `approx` of a number; else `_NONE`."""
    if isinstance(given, ast.Call) and ast.unparse(given.func) in ("approx", "pytest.approx"):
        value = _NONE if given.keywords or len(given.args) != 1 else _literal(given.args[0])
        return _Near(value) if isinstance(value, int | float) else _NONE
    try:
        return ast.literal_eval(given)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NONE


def _replaced(text: str, replacements: list[_Replacement]) -> str:
    """The text with its parts replaced, from the end; columns count bytes."""
    lines = text.encode().splitlines(keepends=True)
    for line, start, end_line, end, new in sorted(replacements, reverse=True):
        head, tail = lines[line - 1][:start], lines[end_line - 1][end:]
        lines[line - 1 : end_line] = [head + new.encode() + tail]
    return b"".join(lines).decode()


def _functions(node: ast.AST, name: str) -> Iterator[tuple[str, Function]]:
    """Functions of a module and its classes, by the names that pytest gives them."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef):
            yield from _functions(inner, f"{name}::{inner.name}")
        elif isinstance(inner, Function):
            yield f"{name}::{inner.name}", inner


def passed(report: Mapping[str, Any], withheld: Withheld) -> set[str]:
    """Tests that a report proves: all phases passed, every owed claim was made, none was wrong.

    Names end before their first blank, as in the released data; of several tests of one name all
    must pass that are not skipped.
    """
    phases: dict[str, list[str]] = {}
    for test, _, outcome in report["outcomes"]:
        phases.setdefault(test, []).append(outcome)
    claimed: dict[str, set[int]] = {}
    wrong: set[str] = set()
    for test, number, text in report["claims"]:
        claimed.setdefault(test, set()).add(number)
        known = 0 <= number < len(withheld.values)
        if not known or _literal(text) != withheld.values[number]:
            wrong.add(test)
    good: set[str] = set()
    bad: set[str] = set()
    for test, outcomes in phases.items():
        if "skipped" in outcomes:
            continue
        name = (test.split() or [""])[0]  # what counts as passed is what owes its claims
        owed = withheld.owed.get(name.partition("[")[0], frozenset())
        fine = set(outcomes) == {"passed"} and test not in wrong
        fine = fine and owed <= claimed.get(test, set())
        (good if fine else bad).add(name)
    return good - bad


def read_report(output: str, mark: str) -> Mapping[str, Any] | None:
    """The report in what the witness printed; None where the code under test left none."""
    lines = [row.removeprefix(mark) for row in output.splitlines() if row.startswith(mark)]
    try:
        found: Json = json.loads(lines[1])
        report = cast("dict[str, Any]", found)
        rows = (report["outcomes"], [str, str, str]), (report["claims"], [str, int, str])
        whole = all([type(one) for one in row] == kinds for listed, kinds in rows for row in listed)
        return report if whole else None
    except (IndexError, ValueError, TypeError, KeyError, RecursionError):
        return None

"""Checks: calls with what they must give. The hidden tests, and those of a working copy.

Owns how they are written, run and compared. Calls go into a workplace, expected values never do:
they are compared here, so code that is tested cannot read them, nor claim that it passed.

    checks = read_checks("shelf.loans.due_day(10, 2) == 24")
    outcomes(shell, [check.call for check in checks], [None])       # [["24"]]
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from rods.errors import TaskError
from rods.sandbox.shell import Shell

RAISES = "raises "
SECONDS = 2.0  # Processor time for all calls in one state of a repository
PATIENCE = 5  # So many times as long may they take on the clock


class Check(NamedTuple):
    """One call and what it must give."""

    call: str
    expected: str
    """The value as Python writes it, or `raises NAME`."""

    @property
    def function(self) -> str:
        """Dotted name of what is called."""
        return self.call.partition("(")[0]


def read_checks(text: str) -> list[Check]:
    """Checks of a text, one a line: `call == value` or `call raises NAME`.

    Raises:
        TaskError: a line is neither, or its value is not a literal.
    """
    return [_read(line) for line in text.splitlines() if line.strip()]


def _read(line: str) -> Check:
    call, raises, name = line.partition(f") {RAISES}")
    if raises:
        return Check(f"{call})", RAISES + name.strip())
    try:
        tree = ast.parse(line, mode="eval").body
        if not isinstance(tree, ast.Compare):
            raise ValueError("it compares nothing")
        value = ast.literal_eval(tree.comparators[0])
    except (SyntaxError, ValueError) as error:
        raise TaskError(
            f"check {line!r}: expected `call == value` or `call raises NAME`: {error}."
        ) from error
    return Check(ast.get_source_segment(line, tree.left) or "", repr(value))


def failing(checks: Sequence[Check], got: Sequence[str] | None) -> set[int]:
    """Indices of checks that do not hold; all of them where the code did not even end."""
    if got is None or len(got) != len(checks):
        return set(range(len(checks)))
    pairs = zip(checks, got, strict=True)
    return {index for index, (check, value) in enumerate(pairs) if value != check.expected}


def outcomes(
    shell: Shell,
    calls: Sequence[str],
    states: Sequence[Mapping[str, str] | None],
    seconds: float = SECONDS,
) -> list[Any]:
    """Results of the calls in each state, as texts; None for a state where they did not end well.

    Args:
        states: texts of a repository by path; None: what lies in the working folder.
        seconds: of processor time, for all calls in one state.

    Raises:
        EnvError: the workplace was lost.
    """
    asked = json.dumps({"calls": list(calls), "states": list(states), "seconds": seconds})
    program = files("rods.envs.repo").joinpath("probe.py").read_text(encoding="utf-8")
    patience = PATIENCE * seconds * (len(states) + 1)
    done = shell.run(["python", "-P", "-c", program], asked, patience)
    return _texts(done.output, len(states))


def _texts(output: str, states: int) -> list[Any]:
    try:
        found: Any = json.loads(output)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != states:
        return [None] * states
    whole = (isinstance(row, list) and all(isinstance(t, str) for t in row) for row in found)
    return [row if fine else None for row, fine in zip(found, whole, strict=True)]

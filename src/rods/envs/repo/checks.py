"""Checks: calls with what they must give. The hidden tests, and those of a working copy.

Owns how they are written, run and compared. Calls go into a workplace, expected values never do:
they are compared here, so code that is tested cannot read them, nor claim that it passed.

    checks = read_checks("shelf.loans.due_day(10, 2) == 24")
    outcomes(shell, [Job(None, [check.call for check in checks])])      # [["24"]]
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, cast

from rods.errors import EnvError, TaskError
from rods.sandbox.shell import Shell

RAISES = "raises "
SECONDS = 2.0
"""Of processor time, for all calls of one job."""
PATIENCE = 5
"""So many times as long may jobs take on the clock."""


class Check(NamedTuple):
    """One call and what it must give."""

    call: str
    expected: str
    """The value as Python writes it, or `raises NAME`."""

    @property
    def function(self) -> str:
        """Dotted name of what is called."""
        return self.call.partition("(")[0]


class Job(NamedTuple):
    """Calls of one state of a repository."""

    files: Mapping[str, str] | None
    """Texts by path; None: what lies in the working folder."""
    calls: Sequence[str]


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


def outcomes(shell: Shell, jobs: Sequence[Job], seconds: float = SECONDS) -> list[Any]:
    """What the calls of each job give, as texts; None for a job that did not end well in time.

    Raises:
        EnvError: the workplace was lost.
    """
    rows = [
        {"calls": list(job.calls)} | ({} if job.files is None else {"files": dict(job.files)})
        for job in jobs
    ]
    asked = json.dumps({"jobs": rows, "seconds": seconds})
    program = files("rods.envs.repo").joinpath("probe.py").read_text(encoding="utf-8")
    patience = PATIENCE * seconds * (len(jobs) + 1)
    done = shell.run(["python", "-P", "-c", program], asked, patience)
    return _texts(done.output, len(jobs))


def _texts(output: str, jobs: int) -> list[Any]:
    try:
        found: Any = json.loads(output)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(cast("list[Any]", found)) != jobs:
        return [None] * jobs
    whole = (isinstance(row, list) and all(isinstance(t, str) for t in row) for row in found)
    return [row if fine else None for row, fine in zip(found, whole, strict=True)]


def require_pass(name: str, checks: Sequence[Check], got: Sequence[str] | None) -> None:
    """Raises `EnvError` where a repository without a bug fails a check."""
    for index in sorted(failing(checks, got)):
        value = "nothing" if got is None else got[index]
        raise EnvError(f"{name}: {checks[index].call} gives {value}, not {checks[index].expected}.")

"""Lines of Python by package: what a stranger can hold in their head, and where there is too much.

`target` is the architecture's goal. `limit` is what holds now: it rises only in a commit that says
for what. `pytest -n 0 -s` on this file shows the table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from places import SOURCE


class Budget(NamedTuple):
    """Lines that some files of the package may have together."""

    paths: tuple[str, ...]
    target: int
    limit: int
    without: tuple[str, ...] = ()


HEART = ("loop.py", "components.py")
TOP = tuple(path.name for path in SOURCE.glob("*.py") if path.name not in (*HEART, "config"))
BUDGETS = {
    "loop and components": Budget(HEART, 400, 410),
    "other modules at the top": Budget(TOP, 2_800, 3_178),
    "config": Budget(("config",), 1_500, 1_704),
    "rollout": Budget(("rollout",), 1_800, 1_963),
    "curriculum": Budget(("curriculum",), 1_200, 1_655),
    "synthesis": Budget(("synthesis",), 5_300, 7_767),
    "rewards and dialects": Budget(("rewards", "dialects"), 2_700, 4_012),
    "trainers": Budget(("trainers",), 4_000, 4_578),
    "engines": Budget(("engines",), 3_000, 3_713),
    "evaluation and report": Budget(("evaluation", "report"), 3_300, 4_900),
    "cli, assemble, infra": Budget(("cli", "assemble", "infra"), 4_000, 8_210),
    "envs": Budget(("envs",), 9_000, 9_608, ("envs/repo/repositories",)),
    "sandbox": Budget(("sandbox",), 3_200, 2_938),
    "view": Budget(("view",), 1_100, 1_241),
    "offline writers": Budget(("writers",), 5_200, 5_706),
    "recipes": Budget(("recipes",), 1_600, 1_382),
    "integrations": Budget(("integrations",), 4_000, 3_615),
    "suites": Budget(("suites",), 1_900, 1_665),
    "all of src/rods": Budget((".",), 56_000, 68_755, ("envs/repo/repositories",)),
}


def lines_of(paths: tuple[str, ...]) -> int:
    files: set[Path] = set()
    for name in paths:
        place = SOURCE / name
        assert place.exists(), f"{place} is gone: correct the budget"
        files |= {place} if place.is_file() else set(place.rglob("*.py"))
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


@pytest.mark.parametrize("name", list(BUDGETS))
def test_no_package_grows(name: str) -> None:
    budget = BUDGETS[name]
    lines = lines_of(budget.paths) - (lines_of(budget.without) if budget.without else 0)
    sys.stdout.write(
        f"{name:26} {lines:7,} lines, limit {budget.limit:7,}, target {budget.target:7,}\n"
    )
    assert lines <= budget.limit, f"{name}: {lines:,} lines, {budget.limit:,} are the limit"


def test_every_package_has_a_budget() -> None:
    named = {name.split("/")[0] for budget in BUDGETS.values() for name in budget.paths}
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert there - named - {"__pycache__", "py.typed"} == {"experiments", "policies"}

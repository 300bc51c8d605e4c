"""Tasks by planted bugs: small repositories of our own, one or two functions of which are changed.

Owns what a difficulty means, which bugs are taken, what is shown of them and which checks stay
hidden. Every bug makes a check fail that is shown and one that is hidden; without it all pass.
The same seed makes the same tasks.

| difficulty | bugs | what is shown |
|---|---|---|
| 1 | one | a failing call, the function and its file |
| 2 | one | a failing call, the function |
| 3 | one | a failing call of another function, which uses it; no visible test fails |
| 4 | two in one file | a failing call of each; no visible test fails |
| 5 | two in two files | a failing call of each; no visible test fails |

    tasks = plant(count=50, difficulties=(1, 2, 3, 4, 5), seed=0)
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence, Set
from importlib.resources import files
from itertools import combinations
from typing import Any, NamedTuple

from rods.envs.repo.checks import Check, failing, outcomes, read_checks
from rods.envs.repo.mutations import PLAIN, Changes, Mutation, mutations
from rods.errors import ConfigError, EnvError
from rods.sandbox.execution import MIB
from rods.sandbox.shell import Shell, ShellLimits
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall

NAME = "repo"
REPOSITORIES = ("agenda", "grid", "ledger", "parcel", "prose", "shelf")
TRIED = 3  # Bugs that are tried for each task that is wanted
CHOICES, PARTS = 8, 50  # Numbers of them, and of ways to part checks, that are tried for one task
SECONDS = 0.3  # Processor time for all checks of a repository
LIMITS = ShellLimits(output=4 * MIB, seconds=120)


class Repository(NamedTuple):
    """A repository without a bug."""

    name: str
    files: Mapping[str, str]
    """Texts of its package by path."""
    checks: tuple[Check, ...]


class Bug(NamedTuple):
    """A bug, and what it does by itself."""

    path: str
    mutation: Mutation
    failing: frozenset[int]
    """Indices of the checks that fail."""
    got: tuple[str, ...]
    """Results of the calls of all checks."""

    @property
    def label(self) -> str:
        """Where and what, in a few characters."""
        changed = self.mutation
        return f"{changed.function}:{changed.start}:{changed.old or '_'}>{changed.new or '_'}"

    @property
    def function(self) -> str:
        """Dotted name of where it is."""
        return f"{self.path.removesuffix('.py').replace('/', '.')}.{self.mutation.function}"


class Planted(NamedTuple):
    """Bugs in a repository, and what the agent is shown."""

    bugs: tuple[Bug, ...]
    files: dict[str, str]
    """The package's files with the bugs."""
    repairs: tuple[ToolCall, ...]
    got: tuple[str, ...]
    """Results of the calls of all checks."""
    visible: tuple[int, ...]
    """The failing check that is shown of each bug."""
    hidden: set[int]


@functools.cache
def repository(name: str) -> Repository:
    """One of `REPOSITORIES`."""
    folder = files("rods.envs.repo").joinpath("repositories", name)
    sources = {
        f"{name}/{file.name}": file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".py")
    }
    text = folder.joinpath("cases.txt").read_text(encoding="utf-8")
    return Repository(name, sources, tuple(read_checks(text)))


@functools.cache
def plant(
    count: int = 50,
    difficulties: tuple[int, ...] = (1, 2, 3, 4, 5),
    seed: int = 0,
    names: tuple[str, ...] = REPOSITORIES,
    changes: Changes = PLAIN,
) -> tuple[Task, ...]:
    """Tasks, their difficulties and repositories in turn; fewer where there are no more bugs.

    Raises:
        ConfigError: a difficulty is none of 1 to 5.
        EnvError: a repository without a bug fails a check.
        PrerequisiteError: nothing can be run safely on this machine.
    """
    if not set(difficulties) <= set(range(1, 6)):
        raise ConfigError(f"env.repo.difficulty: {list(difficulties)}, expected numbers 1 to 5.")
    rng = random.Random(f"rods-repo-{seed}")
    found: dict[str, Task] = {}
    with Shell(LIMITS) as shell:
        planter = _Planter(shell, names, rng, TRIED * math.ceil(count / len(names)), changes)
        for number in range(count):
            turn, place = divmod(number, len(difficulties))
            at = (turn + place) % len(names)
            made = (planter.task(n, difficulties[place]) for n in (*names[at:], *names[:at]))
            task = next((task for task in made if task is not None), None)
            if task is not None:
                found.setdefault(task.id, task)
    return tuple(found.values())


class _Planter:
    """Bugs of repositories that were tried, and tasks made of them."""

    def __init__(
        self, shell: Shell, names: Sequence[str], rng: random.Random, tried: int, changes: Changes
    ) -> None:
        self._shell, self._rng, self._tried, self._changes = shell, rng, tried, changes
        self._bugs = {name: self._try(repository(name)) for name in names}
        self._used: set[tuple[Bug, ...]] = set()

    def _try(self, whole: Repository) -> list[Bug]:
        """Bugs that some checks notice and not all, in a random order."""
        sites = [
            (path, one)
            for path, text in whole.files.items()
            for one in mutations(text, self._changes)
        ]
        sites = self._rng.sample(sites, min(self._tried, len(sites)))
        states = [{**whole.files, path: one.apply(whole.files[path])} for path, one in sites]
        first, *rest = self._run(whole, [whole.files, *states])
        for index in sorted(failing(whole.checks, first)):
            got, check = "nothing" if first is None else first[index], whole.checks[index]
            raise EnvError(f"{whole.name}: {check.call} gives {got}, not {check.expected}.")
        bugs: list[Bug] = []
        for (path, one), got in zip(sites, rest, strict=True):
            noticed = frozenset(failing(whole.checks, got))
            if 2 <= len(noticed) < len(whole.checks):
                bugs.append(Bug(path, one, noticed, tuple(got)))
        return bugs

    def _run(self, whole: Repository, states: Sequence[Mapping[str, str]]) -> list[Any]:
        return outcomes(self._shell, [check.call for check in whole.checks], states, SECONDS)

    def task(self, name: str, level: int) -> Task | None:
        """A task of a repository and difficulty; None where no bugs that were tried make one."""
        whole = repository(name)
        choices = [one for one in _choices(self._bugs[name], level) if one not in self._used]
        self._rng.shuffle(choices)
        for chosen in choices[:CHOICES]:
            state, repairs = planted(whole, chosen)
            got = chosen[0].got if len(chosen) == 1 else self._run(whole, [state])[0]
            if got is None:
                continue
            visible = [self._visible(whole, chosen, bug, got, level) for bug in chosen]
            hidden = None if None in visible else self._hidden(whole, chosen, {*visible})
            if hidden is not None:
                self._used.add(chosen)
                shown = [index for index in visible if index is not None]
                outcome = Planted(chosen, state, repairs, tuple(got), tuple(shown), hidden)
                return _made(whole, outcome, level)
        return None

    def _visible(
        self, whole: Repository, chosen: Sequence[Bug], bug: Bug, got: Any, level: int
    ) -> int | None:
        """A failing check of this bug alone that is right for the difficulty; None: none is."""
        others = frozenset[int]().union(*(other.failing for other in chosen if other is not bug))
        fit = [
            index
            for index in sorted((bug.failing - others) & failing(whole.checks, got))
            if (whole.checks[index].function != bug.function) == (level == 3)
        ]
        return self._rng.choice(fit) if fit else None

    def _hidden(
        self, whole: Repository, chosen: Sequence[Bug], visible: Set[int | None]
    ) -> set[int] | None:
        """Checks that stay hidden: half of each function's, some of each bug's among them."""
        for _ in range(PARTS):
            hidden: set[int] = set()
            for name in sorted({check.function for check in whole.checks}):
                checks = enumerate(whole.checks)
                own = [i for i, check in checks if check.function == name and i not in visible]
                hidden |= set(self._rng.sample(own, (len(own) + 1) // 2))
            if all(bug.failing & hidden for bug in chosen):
                return hidden
        return None


def _choices(bugs: Sequence[Bug], level: int) -> list[tuple[Bug, ...]]:
    """Sets of bugs that could be planted together."""
    if level <= 3:
        return [(bug,) for bug in bugs]
    return [
        (a, b)
        for a, b in combinations(bugs, 2)
        if a.function != b.function and (a.path == b.path) == (level == 4)
    ]


def planted(
    whole: Repository, chosen: Sequence[Bug]
) -> tuple[dict[str, str], tuple[ToolCall, ...]]:
    """A repository's files with bugs, and the editor's calls that undo them."""
    state, repairs = dict(whole.files), list[ToolCall]()
    for bug in sorted(chosen, key=lambda bug: -bug.mutation.start):  # the last first: places stay
        before = state[bug.path]
        state[bug.path] = bug.mutation.apply(before)
        repairs.append(_repair(bug, before, state[bug.path]))
    return state, tuple(reversed(repairs))


def _made(whole: Repository, made: Planted, level: int) -> Task:
    failed = failing(whole.checks, made.got)
    visible = [
        check
        for index, check in enumerate(whole.checks)
        if index not in made.hidden and (level <= 2 or index not in failed)
    ]
    about = whole.files[f"{whole.name}/__init__.py"].strip().strip('"')
    files_of_task = made.files | {
        "README.md": f"# {whole.name}\n\n{about}\n\n"
        "Tests: `python -m unittest discover -s tests`.\n",
        f"tests/test_{whole.name}.py": unit_tests(visible),
    }
    return Task(
        env=NAME,
        category=f"difficulty_{level}",
        turns=(Turn(_issue(whole, made, level), (*made.repairs, ToolCall("finish"))),),
        world={
            "repository": whole.name,
            "difficulty": level,
            "files": dict(files_of_task),
            "checks": [list(whole.checks[index]) for index in sorted(made.hidden)],
        },
        provenance=Provenance(
            origin=f"{whole.name}-{level}-" + "+".join(bug.label for bug in made.bugs),
            scenario=f"{NAME}-{whole.name}",
        ),
    )


def _repair(bug: Bug, before: str, after: str) -> ToolCall:
    """The editor's call that undoes a bug: whole lines that stand in the file once."""
    first = after.count("\n", 0, bug.mutation.start)
    good, bad = before.split("\n"), after.split("\n")
    begin = first
    while after.count("\n".join(bad[begin : first + 1])) > 1:
        begin -= 1
    return ToolCall(
        "str_replace_editor",
        {
            "command": "str_replace",
            "path": bug.path,
            "old_str": "\n".join(bad[begin : first + 1]),
            "new_str": "\n".join(good[begin : first + 1]),
        },
    )


def unit_tests(checks: Sequence[Check]) -> str:
    """Checks as the unit tests of a working copy."""
    modules = sorted({check.function.rpartition(".")[0] for check in checks})
    lines = ["import unittest", "", *(f"import {module}" for module in modules), "", ""]
    lines += ["class Tests(unittest.TestCase):"]
    for number, (call, expected) in enumerate(checks, 1):
        lines.append(f"    def test_{number}(self):")
        if expected.startswith("raises "):
            lines.append(f"        with self.assertRaises({expected.removeprefix('raises ')}):")
            lines.append(f"            {call}")
        else:
            lines.append(f"        self.assertEqual({call}, {expected})")
        lines.append("")
    return "\n".join([*lines, "", 'if __name__ == "__main__":', "    unittest.main()", ""])


def _issue(whole: Repository, made: Planted, level: int) -> str:
    parts: list[str] = []
    for index in made.visible:
        check, got = whole.checks[index], made.got[index]
        verb = "" if got.startswith("raises ") else "gives "
        fails = check.expected.startswith("raises ")
        wanted = f"{'raise' if fails else 'give'} `{check.expected.removeprefix('raises ')}`"
        parts.append(f"`{check.call}` {verb}`{got}`. It should {wanted}.")
    if level == 1:
        bug = made.bugs[0]
        parts.append(f"The fault is in `{bug.function}`, file `{bug.path}`.")
    elif level == 2:
        parts.append(f"The fault is in `{made.bugs[0].function}`.")
    elif level > 3:
        parts.append("These are two faults.")
    parts.append("Repair the code of this repository; other calls than these will be checked.")
    return "\n".join(parts)

"""Repairs of planted bugs as supervised conversations: look at the function, repair it, hand in.

Owns what an agent says there and how often it hands in too early, and the folder of this process in
which that runs. It is no sandbox: the only commands are greps of our own, and nothing that a
model writes may run in it. Code of the tasks is run where bugs are planted, in a workplace.

    rows = repair_conversations(tasks, template, settings, early=0.45, seed=0, numbers=range(1000))
"""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from pretrain.conversations import DIALECT, Conversation
from rods.config import RolloutSettings
from rods.dialects import structured
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.mutations import Changes, Mutation, any_other, mutations
from rods.envs.repo.plant import REPOSITORIES, Bug, plant, planted, repository
from rods.envs.repo.world import PATCH, SPECS, START, RepoWorld
from rods.policies.ground_truth import rehearse
from rods.rollout.template import ChatTemplate
from rods.sandbox.editor import edit
from rods.sandbox.shell import ShellResult
from rods.task import Task
from rods.types import StopReason, ToolCall, Value

LINES = 10
"""Lines after a function's first that an agent looks at."""
DIFFICULTIES = (1, 2)
"""Those whose function is told."""
ALL = 2_000
"""More bugs than there are."""
WIDE = Changes(
    any_other("< <= > >= == !=") | {"in": ["not in"], "not in": ["in"]},
    any_other("+ - * // %"),
    any_other("and or"),
    any_other("max min len sum") | any_other("any all"),
    (1, -1, 2, -2, 3, 5, 10),
)
"""Whatever could stand there."""
NUMBERS = 100
"""A wrong number is below."""


def tasks_apart(
    apart: Sequence[Task], seed: int, names: tuple[str, ...] = REPOSITORIES
) -> list[Task]:
    """Tasks whose bugs are none of those: whatever could stand in a place, not slips alone."""
    kept = {bug_of(task) for task in apart}
    return [t for t in plant(ALL, DIFFICULTIES, seed, names, WIDE) if bug_of(t) not in kept]


def with_another_bug(task: Task, kept: Set[str], rng: random.Random) -> Task:
    """The task with a bug that is drawn anew in the same function, and none of those kept.

    What is told of it stays, so it need not fit the bug any more. There are far more such bugs than
    a policy can remember: it has to read which one it is.
    """
    repair, finish = task.turns[0].ground_truth
    whole, path = repository(str(task.world["repository"])), str(repair.arguments["path"])
    sites: dict[int, list[Mutation]] = {}
    for site in mutations(whole.files[path], WIDE):
        if site.function == _function(task):
            sites.setdefault(site.start, []).append(site)
    while True:
        bug = rng.choice(rng.choice(list(sites.values())))
        if bug.old.isdigit():
            bug = bug._replace(new=str(rng.randrange(NUMBERS)))
        about = Bug(path, bug, frozenset(), ())
        if bug.new != bug.old and f"{whole.name}-{about.label}" not in kept:
            break
    state, repairs = planted(whole, [about])
    files = cast("dict[str, Value]", task.world["files"]) | state
    turn = replace(task.turns[0], ground_truth=(*repairs, finish))
    return replace(task, turns=(turn,), world={**task.world, "files": files})


def bug_of(task: Task) -> str:
    """Repository, function, place and change of a task with one bug."""
    name, _, bug = task.provenance.origin.split("-", 2)
    return f"{name}-{bug}"


def calls_of(task: Task) -> list[ToolCall]:
    """A look, the repair, the end."""
    repair, finish = task.turns[0].ground_truth
    look = f"grep -A{LINES} 'def {_function(task)}(' {repair.arguments['path']}"
    return [ToolCall("bash", {"command": look}), repair, finish]


def _function(task: Task) -> str:
    return bug_of(task).partition("-")[2].partition(":")[0]


def repair_conversations(
    tasks: Sequence[Task],
    template: ChatTemplate,
    settings: RolloutSettings,
    early: float,
    seed: int,
    numbers: Iterable[int],
    kept: Set[str] | None = None,
) -> Iterator[Conversation]:
    """Conversation `i` is a function of the tasks, the rate, the seed, `kept` and `i` alone.

    Args:
        tasks: of one bug each, whose function is told.
        template: of the policy.
        settings: budgets; what does not fit them is left out.
        early: share that hands in without a repair.
        seed: of the choices.
        numbers: which.
        kept: bugs (`bug_of`) that may not come, where each task gets another one; None: the tasks
            are sent as they are.
    """
    dialect, environment = structured(DIALECT), Rehearsals()
    for number in numbers:
        rng = random.Random(f"rods-repairs-{seed}-{number}")
        task = rng.choice(tasks)
        task = task if kept is None else with_another_bug(task, kept, rng)
        look, repair, finish = calls_of(task)
        said = [look, finish] if rng.random() < early else [look, repair, finish]
        texts = [dialect.write([call]) for call in said]
        made = rehearse(task, environment, dialect, template, settings, texts)
        if made.stop is StopReason.DONE:
            yield Conversation(made.ledger.ids, made.ledger.mask)


def texts_of(task: Task) -> list[str]:
    """Everything that is said in a repair, for a tokenizer's corpus."""
    dialect = structured(DIALECT)
    with contextlib.closing(Rehearsals().open(task)) as world:
        world.begin_turn(0)
        calls = calls_of(task)
        results = [world.call(call).content for call in calls]
    said = [dialect.write([call]) for call in calls]
    return [dialect.system_prompt(), dialect.describe(SPECS), task.turns[0].user, *said, *results]


class Rehearsals(RepoEnvironment):
    """Working copies in plain folders, whose patches nobody judges."""

    blocking = False

    def open(self, task: Task) -> RepoWorld:
        """A working copy of its own."""
        files = cast("Mapping[str, str]", task.world["files"])
        return RepoWorld(task, Folder(files), lambda patch: True, 30.0)


class Folder:
    """A workplace without locks, for commands of our own."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._folder = TemporaryDirectory(prefix="rods-rehearsal-")
        for path, text in files.items():
            place = Path(self._folder.name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")

    def run(
        self, argv: Sequence[str], stdin: str = "", seconds: float | None = None
    ) -> ShellResult:
        """Run a command; there is no repository, so a commit and a patch are names alone."""
        if argv[-1] == START or argv[-1].startswith(PATCH):
            return ShellResult("rehearsal", 0)
        done = subprocess.run(
            argv, input=stdin, cwd=self._folder.name, capture_output=True, text=True, check=False
        )
        return ShellResult(done.stdout + done.stderr, done.returncode)

    def edit(self, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Do one command of the editor."""
        with contextlib.chdir(self._folder.name):
            return edit(arguments)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()

"""`repo`: repositories with bugs, each repaired in a workplace of its own.

Owns where working copies stand, how a patch is judged, and the tasks. A patch is applied to a fresh
copy in a fresh workplace, and the hidden checks are run there: nothing that the agent left running
or wrote beside its patch is near, and no expected value is (`checks.py`).

    environment = RepoEnvironment(count=50)
    world = environment.open(environment.tasks(held_out=0.25)[0])

Rows of SWE-Gym (`env.tasks`) run in containers of their images instead (`container.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from rods.env import Environment
from rods.envs.repo.checks import Check, failing, outcomes
from rods.envs.repo.container import Container
from rods.envs.repo.plant import NAME, plant
from rods.envs.repo.swe import load_rows, passes
from rods.envs.repo.world import APPLY_SECONDS, RepoWorld
from rods.errors import TaskError
from rods.sandbox.execution import MIB
from rods.sandbox.handle import Wrap
from rods.sandbox.shell import Shell, ShellLimits
from rods.split import Split, split
from rods.task import Task


class RepoEnvironment(Environment):
    """Working copies of repositories with hidden tests.

    Args beside those of `RepoSettings`:
        seed: Of the bugs.
        test_seconds: Of the hidden checks of one patch, processor time.
        container: Command that starts containers, for tasks that name an image: docker, podman.
        believe: Whether tests of such a task count that code under test could claim to have passed.
        wrap: Whether bubblewrap goes around workplaces.
        python: What keepers of workplaces run on; empty: this interpreter.
    """

    name = NAME
    world_keys = ("repository", "difficulty", "files", "checks",
                  "image", "test_patch", "fail_to_pass", "pass_to_pass")  # fmt: skip
    blocking = True  # each world has a thread: it waits for what it runs
    varies = False  # a bug is planted by its seed, a row of a file is fixed

    def __init__(
        self,
        count: int = 50,
        difficulty: Sequence[int] = (1, 2, 3, 4, 5),
        seed: int = 0,
        apart: str = "repositories",
        seconds: float = 30.0,
        test_seconds: float = 10.0,
        memory_mb: int = 1024,
        container: str = "docker",
        believe: bool = False,
        wrap: Wrap = "auto",
        python: str = "",
    ) -> None:
        self._asked = (count, tuple(difficulty), seed)
        self._apart = apart
        self._seconds, self._test_seconds = seconds, test_seconds
        self.program_seconds = seconds
        self._limits = ShellLimits(memory=memory_mb * MIB, seconds=max(seconds, 30.0))
        self._memory_mb, self._container, self._believe = memory_mb, container, believe
        self._wrap: Wrap = wrap
        self._python = python

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Planted bugs; the sides are split by repository."""
        return plant(*self._asked)

    def load(self, path: Path) -> list[Task]:
        """Rows of SWE-Gym whose images are here, or task rows of RODS."""
        return load_rows(path, self.name)

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Whole repositories on either side; bugs where the settings say so."""
        if self._apart == "bugs":
            own = [replace(t.provenance, scenario=f"{NAME}-{t.provenance.origin}") for t in tasks]
            tasks = [replace(t, provenance=one) for t, one in zip(tasks, own, strict=True)]
        return split(tasks, held_out_share=0.25 if held_out is None else held_out)

    def shell(self) -> Shell:
        """A new workplace."""
        more = {"python": self._python} if self._python else {}
        return Shell(self._limits, self._wrap, **more)

    def open(self, task: Task) -> RepoWorld:
        """A working copy of its own.

        Raises:
            EnvError: no workplace could be made.
            PrerequisiteError: nothing can be run safely on this machine.
            TaskError: the task's world has no files or no checks.
        """
        sources: Mapping[str, str] = {}
        if image := task.world.get("image"):
            start = partial(Container, str(image), self._memory_mb, self._container)
            place, judge = start(), partial(passes, task.world, start=start, believe=self._believe)
        else:
            sources = cast("Any", task.world.get("files"))
            rows = cast("list[list[str]]", task.world.get("checks"))
            if not isinstance(sources, dict) or not sources or not rows:
                raise TaskError(f"task {task.id}: its world has no files, or no checks of them.")
            checks = [Check(call, expected) for call, expected in rows]
            place, judge = self.shell(), partial(self.judge, sources, checks)
        try:
            if isinstance(place, Shell):
                place.put(sources)
            return RepoWorld(task, place, judge, self._seconds)
        except BaseException:  # Ctrl-C too: nobody else knows this folder or container
            place.close()
            raise

    def judge(self, sources: Mapping[str, str], checks: Sequence[Check], patch: str) -> bool:
        """True if a patch applies to a repository and all checks then pass.

        Raises:
            EnvError: the workplace was lost.
        """
        with self.shell() as shell:
            shell.put(sources)
            done = shell.run(["git", "apply", "--whitespace=nowarn", "-"], patch, APPLY_SECONDS)
            if not done.ok:
                return False
            calls = [check.call for check in checks]
            got = outcomes(shell, calls, [None], self._test_seconds)[0]
        return not failing(checks, got)

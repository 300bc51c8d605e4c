"""Repositories for tests: tasks with a planted bug, environments in every wrap, agents."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.plant import plant
from rods.task import Task
from rods.types import ToolCall
from sandbox_cases import MOUNT, UNSHARE, refusing, require_bubblewrap


@functools.cache
def tasks() -> tuple[Task, ...]:
    """Ten tasks of two small repositories, two of each difficulty."""
    return plant(10, names=("shelf", "parcel"))


def environment_as(kind: str, folder: Path, **more: float) -> RepoEnvironment:
    """Workplaces of a kind; `folder` is for an interpreter that may not mount."""
    python = str(refusing(folder, MOUNT, UNSHARE)) if kind == "watched" else ""
    if kind == "bubblewrap":
        require_bubblewrap()
    wrap = "on" if kind == "bubblewrap" else "off"
    return RepoEnvironment(wrap=wrap, python=python, **more)  # type: ignore[arg-type]


def bash(command: str) -> ToolCall:
    """A call of the shell."""
    return ToolCall("bash", {"command": command})


def repairs(task: Task) -> Sequence[ToolCall]:
    """The calls that undo the bug."""
    return task.turns[0].ground_truth

"""Tasks made ready, kept for the next world of the same task.

Owns what worlds of one task share: the tools of each turn, and its ground truth played once.
Judging is `rods.envs.judge`'s. Never shows anything to a policy; a trace stays inside.

    kept = PreparedTasks("library", prepare)
    kept.get(task)                      # prepare(task), or what it gave before
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Generic, TypeVar

from rods.envs.judge import Machine, Replay, play
from rods.errors import TaskError
from rods.task import Task
from rods.types import ToolSpec

MOST = 1024
"""Tasks that are kept, each with its start and the replay of its ground truth."""
Ready = TypeVar("Ready")


class PreparedTask(ABC):
    """A task made ready: its tools, and (on first use) its replay."""

    def __init__(self, task: Task, specs: Mapping[str, ToolSpec]):
        self.task, self.specs = task, specs
        self._offers: dict[tuple[str, ...], tuple[tuple[ToolSpec, ...], frozenset[str]]] = {}

    @abstractmethod
    def machine(self) -> Machine:
        """The live objects of a fresh world."""

    def offer(self, turn: int) -> tuple[tuple[ToolSpec, ...], frozenset[str]]:
        """Tools that may be called in a turn: their descriptions, and their names."""
        withheld = self.task.turns[turn].withheld
        if withheld not in self._offers:
            offered = tuple(s for name, s in self.specs.items() if name not in withheld)
            self._offers[withheld] = (offered, frozenset(s.name for s in offered))
        return self._offers[withheld]

    @cached_property
    def replay(self) -> Replay:
        """The ground truth's trace; computed once, in this process."""
        return play(self.machine(), [turn.ground_truth for turn in self.task.turns])


class PreparedTasks(Generic[Ready]):
    """The tasks of one environment that were last made ready; threads may share it."""

    def __init__(self, env: str, make: Callable[[Task], Ready]) -> None:
        self._env, self._make = env, make
        self._found: OrderedDict[str, Ready] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, task: Task) -> Ready:
        """The task made ready; raises `TaskError` where that cannot be done."""
        with self._lock:
            found = self._found.get(task.id)
            if found is not None:
                self._found.move_to_end(task.id)
                return found
        require_env(task, self._env)
        found = self._make(task)
        with self._lock:
            self._found[task.id] = found
            while len(self._found) > MOST:
                self._found.popitem(last=False)
        return found


def require_env(task: Task, env: str) -> None:
    """Raises `TaskError` for a task of another environment."""
    if task.env != env:
        raise TaskError(f"{named(task)}: env is {task.env!r}, expected {env!r}.")


def named(task: Task) -> str:
    """A task in messages."""
    return f"task {task.id} ({task.provenance.origin or 'no origin'})"

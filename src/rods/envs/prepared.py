"""Tasks made ready, kept for the next world of the same task.

kept = PreparedTasks("library", prepare)
kept.get(task)                      # prepare(task), or what it gave before
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from rods.errors import TaskError
from rods.task import Task

MOST = 1024
"""Tasks that are kept, each with its start and the replay of its ground truth."""
Ready = TypeVar("Ready")


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

"""Turns of a world: entered in order, each ended before the next, none after the world is closed.

Owns where a world stands: its turn, whether it is open, how many calls it has seen. Never knows
what a call does or how a turn is judged.

    class Counter(TurnWorld):
        def _execute(self, call: ToolCall) -> ToolResult:
            return ToolResult(str(self._calls))
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rods.env import TurnVerdict
from rods.errors import EnvError, TaskError
from rods.task import Task
from rods.types import ToolCall, ToolResult


class TurnWorld(ABC):
    """Base of a single-use world of one task."""

    __slots__ = ("_calls", "_closed", "_in_turn", "_task", "_turn")

    def __init__(self, task: Task):
        self._task = task
        self._turn = -1
        self._in_turn = False
        self._closed = False
        self._calls = 0

    def begin_turn(self, index: int) -> None:
        """Enter turn `index`; turns are entered in order and each is ended before the next."""
        turns = len(self._task.turns)
        if self._closed or self._in_turn or index != self._turn + 1 or index >= turns:
            raise EnvError(
                f"task {self._task.id}: turn {index} cannot begin after turn "
                f"{self._turn} of {turns} ({'still open' if self._in_turn else 'ended'}"
                f"{', world closed' if self._closed else ''})."
            )
        self._turn = index
        self._in_turn = True
        self._calls = 0

    def close(self) -> None:
        """Nothing can be called from now on."""
        self._closed, self._in_turn = True, False

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call of the current turn, and count it."""
        self._expect_turn("call")
        self._calls += 1
        return self._execute(call)

    def end_turn(self) -> TurnVerdict:
        """Leave the current turn, and judge it."""
        self._expect_turn("end_turn")
        self._in_turn = False
        return self._verdict()

    def snapshot(self) -> object:
        """Public state as a value of its own; raises `EnvError` once the world is closed."""
        self._expect_open("snapshot")
        return self._state()

    @abstractmethod
    def _execute(self, call: ToolCall) -> ToolResult: ...

    @abstractmethod
    def _verdict(self) -> TurnVerdict: ...

    @abstractmethod
    def _state(self) -> object: ...

    def _expect_open(self, what: str) -> None:
        if self._closed:
            raise EnvError(f"task {self._task.id}: {what} of a world that was closed.")

    def _expect_turn(self, what: str) -> None:
        self._expect_open(what)
        if not self._in_turn:
            raise EnvError(
                f"task {self._task.id}: {what} outside of a turn; begin_turn comes first."
            )


def require_env(task: Task, env: str) -> None:
    """Raises `TaskError` for a task of another environment."""
    if task.env != env:
        raise TaskError(f"{named(task)}: env is {task.env!r}, expected {env!r}.")


def named(task: Task) -> str:
    """A task in messages: its id, and its name if it has one."""
    own = task.provenance.origin != task.id
    return f"task {task.id}{f' ({task.provenance.origin})' if own else ''}"

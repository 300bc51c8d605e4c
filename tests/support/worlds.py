"""A small in-memory environment for tests: a counter and a list of notes.

Owns nothing but its own objects; every world is independent. Knobs make it fail, block or leak on
purpose, so that tests can see what the rooms above do about it.

    task = notes_task([("add two", [ToolCall("add", {"amount": 2})]), ("thanks", [])])
    world = NotesEnvironment().open(task)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.env import Environment, TurnVerdict
from rods.errors import EnvError
from rods.task import Provenance, Task, Turn
from rods.types import Json, ToolCall, ToolResult, ToolSpec


def _spec(name: str, description: str, required: int = 99, **properties: str) -> ToolSpec:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties)[:required],
    }
    return ToolSpec(name, description, schema)


SPECS = (
    _spec("add", "Add to the counter.", amount="integer"),
    _spec("total", "The counter."),
    _spec("note", "Write a note.", 1, text="string", tag="string"),
    _spec("read", "Read all notes."),
    _spec("divide", "Divide the counter.", by="integer"),
)


def notes_task(
    turns: Sequence[tuple[str, Sequence[ToolCall]]],
    withheld: dict[int, tuple[str, ...]] | None = None,
    count: int = 0,
    category: str = "base",
    origin: str = "notes_0",
) -> Task:
    """A task: user texts with their ground truth, and the tools withheld in a turn."""
    made = tuple(
        Turn(user, tuple(calls), (withheld or {}).get(i, ()))
        for i, (user, calls) in enumerate(turns)
    )
    return Task("notes", category, made, {"count": count}, Provenance(origin, origin))


@dataclass
class State:
    count: int
    notes: list[str] = field(default_factory=list)

    def run(self, call: ToolCall) -> ToolResult:
        arguments = {
            key: self.run(value).content if isinstance(value, ToolCall) else value
            for key, value in call.arguments.items()
        }
        try:
            return ToolResult(str(getattr(self, f"_{call.name}")(**arguments)))
        except (TypeError, ZeroDivisionError, ValueError) as error:
            return ToolResult(f"Error: {error}", failed=True)

    def _add(self, amount: Any) -> int:
        self.count += int(amount)
        return self.count

    def _total(self) -> int:
        return self.count

    def _note(self, text: str, tag: str = "") -> str:
        self.notes.append(f"{tag}:{text}")
        return f"note {len(self.notes)}"

    def _read(self) -> str:
        return "; ".join(self.notes)

    def _divide(self, by: Any) -> int:
        self.count //= int(by)
        return self.count


@dataclass
class NotesEnvironment(Environment):
    """Opens worlds; `broken` is called before each call and may raise."""

    broken: Callable[[Task, int], None] | None = None
    """Given the task and the number of this world among those opened for the task (from 0)."""
    blocking: bool = False
    delay: float = 0.0
    """Seconds that a call takes."""
    name: str = "notes"
    opened: Counter[str] = field(default_factory=Counter)
    worlds: list[NotesWorld] = field(default_factory=list)

    def open(self, task: Task) -> NotesWorld:
        world = NotesWorld(self, task, self.opened[task.id])
        self.opened[task.id] += 1
        self.worlds.append(world)
        return world


class NotesWorld:
    def __init__(self, environment: NotesEnvironment, task: Task, number: int) -> None:
        self._environment, self._task, self._number = environment, task, number
        count = task.world["count"]
        assert isinstance(count, int)
        self.state, self._right = State(count), State(count)
        self._results: list[str] = []
        self._calls = 0
        self._turn = -1
        self.log: list[ToolCall] = []
        """Calls that were executed."""
        self.closed = 0

    def begin_turn(self, index: int) -> None:
        assert index == self._turn + 1 and not self.closed
        self._turn, self._calls = index, 0

    def offered(self) -> tuple[ToolSpec, ...]:
        withheld = self._task.turns[self._turn].withheld
        return tuple(spec for spec in SPECS if spec.name not in withheld)

    def call(self, call: ToolCall) -> ToolResult:
        if self._environment.broken is not None:
            self._environment.broken(self._task, self._number)
        if self._environment.delay:
            time.sleep(self._environment.delay)
        self._calls += 1
        names = {spec.name for spec in self.offered()}
        inner = [v.name for v in call.arguments.values() if isinstance(v, ToolCall)]
        if not names.issuperset([call.name, *inner]):
            return ToolResult(f"Error: {call.name} is refused", failed=True)
        self.log.append(call)
        result = self.state.run(call)
        self._results.append(result.content)
        return result

    def end_turn(self) -> TurnVerdict:
        truth = self._task.turns[self._turn].ground_truth
        wanted = Counter(self._right.run(call).content for call in truth)
        state = self.state == self._right
        executed = not wanted - Counter(self._results)
        official = not truth or (self._calls > 0 and state and executed)
        return TurnVerdict(bool(truth), self._calls, state, executed, official)

    def snapshot(self) -> object:
        return (self.state.count, tuple(self.state.notes))

    def close(self) -> None:
        self.closed += 1


def fail_first(times: int) -> Callable[[Task, int], None]:
    """Break the first worlds of every task."""

    def broken(task: Task, number: int) -> None:
        if number < times:
            raise EnvError(f"task {task.id}: the tool server is away")

    return broken

"""World of a single step: calls are written down, nothing is executed.

Owns the tools of a step, which calls were made and whether they are the wanted ones.

    world = FunctionCallWorld(task)
    world.begin_turn(0)
    world.call(ToolCall("ls", {}))
    world.end_turn().solved             # exactly the wanted calls, in any order
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from rods.env import Environment, TurnVerdict, World
from rods.envs.judge import refusal
from rods.envs.turns import TurnWorld
from rods.errors import TaskError
from rods.task import Task, call_to_json
from rods.types import Json, ToolCall, ToolResult, ToolSpec

NOTED = "Noted; nothing is executed here."


class FunctionCallWorld(TurnWorld):
    """One single-use world of one step."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._specs = tools_of(task)
        self._made: list[ToolCall] = []

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools of the step."""
        return self._specs

    def _execute(self, call: ToolCall) -> ToolResult:
        self._made.append(call)
        names = [spec.name for spec in self._specs]
        known = call.name in names
        return ToolResult(NOTED) if known else ToolResult(refusal(call.name, names), failed=True)

    def _verdict(self) -> TurnVerdict:
        """Compare the calls with the wanted ones as multisets; 1 equals 1.0, but not true."""
        wanted = self._task.turns[self._turn].ground_truth
        same = Counter(map(key_of, self._made)) == Counter(map(key_of, wanted))
        return TurnVerdict(bool(wanted), self._calls, same, same, same)

    def _state(self) -> list[str]:
        return [key_of(call) for call in self._made]


class NotedEnvironment(Environment):
    """Worlds of a suite's single steps: calls are written down, nothing is executed."""

    def __init__(self, name: str, close: Callable[[], None] = lambda: None) -> None:
        """`close` ends what scoring started; the next scoring starts another."""
        self.name, self._end = name, close

    def open(self, task: Task) -> World:
        """A fresh world."""
        return FunctionCallWorld(task)

    def close(self) -> None:
        """End what scoring started."""
        self._end()


def tools_of(task: Task) -> tuple[ToolSpec, ...]:
    """The tools of a step's world; raises `TaskError` where there is no list of them."""
    rows = task.world.get("tools")
    try:
        return tuple(_tool(row) for row in cast("list[Any]", rows))
    except (KeyError, TypeError) as error:
        raise TaskError(
            f"task {task.id}: world['tools'] must be a list of objects with name, description and "
            f"parameters (a JSON schema): {error}."
        ) from error


def _tool(row: Mapping[str, object]) -> ToolSpec:
    name, schema = row["name"], row["parameters"]
    if not isinstance(name, str) or not isinstance(schema, dict):
        raise TypeError(f"{name!r} with parameters {schema!r:.60}")
    return ToolSpec(name, str(row.get("description", "")), schema)


def key_of(call: ToolCall) -> str:
    """Equal for calls that ask for the same; the order of arguments does not matter."""
    return json.dumps(_plain(call_to_json(call)), sort_keys=True)


def _plain(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value

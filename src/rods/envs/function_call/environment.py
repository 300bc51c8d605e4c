"""The environment of single steps: its tasks, their two splits, and worlds that execute nothing.

Owns the choice between files and tasks of another environment that are split, and which steps are
masked. Masked names (Hammer, arXiv 2410.04587) say nothing, so that a tool's description must be
read. Forms of rows are in `rows`.

    environment = make_environment("function_call", {"environment": "bfcl"})
    environment.tasks(held_out=0.25)                    # steps of that environment's tasks
    environment.load(Path("toolace.json"))              # steps of a published data set
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rods.dialects.base import has_nested, tool_row
from rods.env import Environment, World, load_environment
from rods.envs.function_call.rows import COLUMNS, SingleStep, read_row
from rods.envs.function_call.world import FunctionCallWorld
from rods.errors import ConfigError, TaskError
from rods.infra.rows import file_rows
from rods.infra.text import encoded, require_whole
from rods.rollout.episode import MORE_TOOLS, shortened
from rods.split import Split, given_split
from rods.synthesis.structure.oracle import DONE, abstention, steps
from rods.task import COLUMNS as OURS
from rods.task import Provenance, Task, Turn, carried, read_tasks
from rods.types import Json, Message, ToolCall, ToolResult, ToolSpec


def single_steps(
    task: Task, environment: Environment, env: str, result_chars: int = 0
) -> list[Task]:
    """The steps of one task, in order; none where a call fails or is nested in another.

    Args:
        environment: executes the task's ground truth.
        env: name of the environment that the steps belong to.
        result_chars: longer results are shortened with a notice; 0: never.

    Raises:
        TaskError: the task's world cannot be made.
    """
    made: list[Task] = []
    dialogue: list[Message] = []
    world = environment.open(task)
    try:
        for index, turn in enumerate(task.turns):
            world.begin_turn(index)
            offered = world.offered()
            user = turn.user if turn.user.strip() else _given_back(task, index)
            known = "\n".join([*(message.content for message in dialogue), user])
            results = [world.call(call) for call in turn.ground_truth]
            if any(r.failed for r in results) or any(map(has_nested, turn.ground_truth)):
                return []
            for calls, read in _messages(turn, results, known, result_chars):
                made.append(_step(task, env, len(made), offered, dialogue, user, calls))
                dialogue += [Message("user", user)] if user else []
                dialogue += [Message("assistant", "", calls), *read]
                user = ""
            if not turn.ground_truth:
                made.append(_step(task, env, len(made), offered, dialogue, user, ()))
                dialogue.append(Message("user", user))
            dialogue.append(
                Message("assistant", DONE if turn.ground_truth else abstention(task, index))
            )
            world.end_turn()
    finally:
        world.close()
    return made


def _given_back(task: Task, index: int) -> str:
    """Text of a user who only gives tools back."""
    if not (back := task.given_back(index)):
        raise TaskError(f"task {task.id}, turn {index + 1}: its user says nothing. Fix the row.")
    return f"{MORE_TOOLS} {', '.join(back)}."


def _messages(
    turn: Turn, results: list[ToolResult], known: str, result_chars: int
) -> list[tuple[tuple[ToolCall, ...], list[Message]]]:
    """The calls of each step of a turn, and what they returned."""
    parts: list[tuple[tuple[ToolCall, ...], list[Message]]] = []
    at = 0
    for calls in steps(turn, results, known) if turn.ground_truth else ():
        given = results[at : at + len(calls)]
        read = [Message("tool", shortened(r.content, result_chars)) for r in given]
        parts.append((tuple(calls), read))
        at += len(calls)
    return parts


def _step(
    task: Task,
    env: str,
    number: int,
    offered: tuple[ToolSpec, ...],
    dialogue: list[Message],
    user: str,
    calls: tuple[ToolCall, ...],
) -> Task:
    tools: list[Json] = [tool_row(spec) for spec in offered]
    origin = f"{task.provenance.origin}-{number}"
    provenance = dataclasses.replace(task.provenance, origin=origin)
    turn = Turn(user, calls)
    return Task(env, task.category, (turn,), {"tools": tools}, provenance, tuple(dialogue))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass(frozen=True)
class _Names:
    tools: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, str]]
    """New names by tool (its old name) and old name."""

    def call(self, call: ToolCall) -> ToolCall:
        inner = self.parameters.get(call.name, {})
        arguments = {inner.get(name, name): value for name, value in call.arguments.items()}
        return ToolCall(self.tools.get(call.name, call.name), arguments)

    def message(self, message: Message) -> Message:
        return dataclasses.replace(message, calls=tuple(map(self.call, message.calls)))

    def text(self, text: str) -> str:
        """A description, in which tools are called by their new names."""
        return re.sub(r"[\w.]+", lambda word: self.tools.get(word[0], word[0]), text)


def masked(task: Task, rng: random.Random) -> Task:
    """Give a single step (`world["tools"]`) new names, none of which is used twice."""
    rows = cast("list[dict[str, Any]]", task.world["tools"])
    used: set[str] = set()
    names = _Names(
        {row["name"]: _fresh(rng, used) for row in rows},
        {
            row["name"]: {name: _fresh(rng, used) for name in row["parameters"]["properties"]}
            for row in rows
        },
    )
    tools: list[Json] = [_tool(row, names) for row in rows]
    turns = tuple(
        dataclasses.replace(turn, ground_truth=tuple(map(names.call, turn.ground_truth)))
        for turn in task.turns
    )
    origin = f"{task.provenance.origin}-masked"
    return dataclasses.replace(
        task,
        turns=turns,
        world={**task.world, "tools": tools},
        dialogue=tuple(map(names.message, task.dialogue)),
        provenance=dataclasses.replace(task.provenance, origin=origin),
    )


def _tool(row: dict[str, Any], names: _Names) -> dict[str, Json]:
    inner = names.parameters[row["name"]]
    schema: dict[str, Any] = row["parameters"]
    properties: dict[str, Json] = {
        inner[name]: value for name, value in schema["properties"].items()
    }
    required: list[Json] = [inner.get(name, name) for name in schema.get("required", ())]
    return {
        "name": names.tools[row["name"]],
        "description": names.text(row["description"]),
        "parameters": {**schema, "properties": properties, "required": required},
    }


def _fresh(rng: random.Random, used: set[str]) -> str:
    while True:
        parts = ("".join(rng.choices(_LETTERS, k=rng.randint(3, 6))) for _ in range(2))
        name = "_".join(parts)
        if name not in used:
            used.add(name)
            return name


_LOG = logging.getLogger(__name__)
SHOWN = 5  # Dropped steps of a file that are named one by one; all are counted


class FunctionCallEnvironment(Environment):
    """Single steps of function calling.

    Args:
        environment: `module:attribute` of another environment, whose tasks are split.
        masked: Share of the steps whose tools and parameters get names that say nothing.
        result_chars: Longer results in the dialogue of a split task are shortened; 0: never.
        arguments: Of the other environment's factory.
    """

    name = "function_call"
    world_keys = "tools", "response"
    varies = False

    def __init__(
        self,
        environment: str = "",
        masked: float = 0.0,
        result_chars: int = 0,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._other = (environment, dict(arguments or {}))
        self._masked = masked
        self._result_chars = result_chars

    def open(self, task: Task) -> World:
        """A fresh world; raises `TaskError` for a task of another environment, or of many turns."""
        if task.env != self.name or len(task.turns) != 1:
            raise TaskError(
                f"task {task.id}: env is {task.env!r} with {len(task.turns)} turns, expected "
                f"{self.name!r} with one."
            )
        return FunctionCallWorld(task)

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Steps of the other environment's own tasks."""
        address, arguments = self._other
        key = json.dumps(arguments, sort_keys=True)
        return self._marked(_steps_of(address, key, held_out, self._result_chars))

    def load(self, path: Path) -> list[Task]:
        """Steps of a file: a published data set, steps of RODS, or tasks of the other
        environment, which are split.

        Raises:
            TaskError: the file is missing, or a row of it is broken.
        """
        made: list[Task] = []
        dropped: list[str] = []
        for number, where, value in file_rows(path, "steps", TaskError, {*COLUMNS, *OURS}):
            first = not (made or dropped)
            if first and carried(value, where):
                return self._ours(path)
            steps, faults = read_row(value, where)
            dropped += [f"{where}: {fault}" for fault in faults]
            new = [_task(s, self.name, f"{path.stem}-{number}", k) for k, s in enumerate(steps)]
            for task in new:
                require_whole(task.to_json(), where, TaskError)  # a text may hold JSON again
            made += new
        for fault in dropped[:SHOWN]:
            _LOG.warning("%s; this step is dropped", fault)
        if dropped:
            _LOG.warning("%s: %d steps are dropped, %d are kept", path, len(dropped), len(made))
        return self._marked({task.id: task for task in made}.values())

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Steps of the other environment's own tasks by its sides, others by scenario."""
        if held_out is not None:
            return super().part(tasks, held_out)
        source = _environment(*self._other)
        theirs = source.part(source.tasks(0.0), None)
        out = {task.provenance.scenario for task in theirs.held_out}
        train = [task for task in tasks if task.provenance.scenario not in out]
        return given_split(train, [task for task in tasks if task.provenance.scenario in out])

    def _ours(self, path: Path) -> list[Task]:
        made: list[Task] = []
        source: Environment | None = None
        for task in list(read_tasks(path)):
            if task.env == self.name:
                made.append(task)
            else:
                source = source or _environment(*self._other)
                made += single_steps(task, source, self.name, self._result_chars)
        return self._marked(made)

    def _marked(self, tasks: Iterable[Task]) -> list[Task]:
        """Steps, a share of them masked: always the same ones under the same names."""
        made: list[Task] = []
        for task in tasks:
            rng = random.Random(f"rods-masked-{task.id}")
            made.append(masked(task, rng) if rng.random() < self._masked else task)
        return made


def _environment(address: str, arguments: Mapping[str, object]) -> Environment:
    """The environment whose tasks are split; raises `ConfigError` where none is named."""
    if not address:
        raise ConfigError(
            "env.function_call.environment names no environment whose tasks could be split; name "
            "one, or a file of steps in env.tasks."
        )
    return load_environment(address, arguments)


@functools.lru_cache(maxsize=2)
def _steps_of(address: str, arguments: str, held_out: float, result_chars: int) -> tuple[Task, ...]:
    """Steps of an environment's own tasks, each once; kept, for they are asked for again."""
    source = _environment(address, json.loads(arguments))
    made = {
        step.id: step
        for task in source.tasks(held_out)
        for step in single_steps(task, source, FunctionCallEnvironment.name, result_chars)
    }
    return tuple(made.values())


def _task(step: SingleStep, env: str, row: str, number: int) -> Task:
    world: dict[str, Json] = {"tools": [tool_row(spec) for spec in step.tools]}
    if step.response is not (not step.calls):
        world["response"] = step.response
    first = next((m.content for m in step.dialogue if m.role == "user"), step.user)
    scenario = "asked-" + hashlib.sha256(encoded(first)).hexdigest()[:16]
    category = "multiple" if step.dialogue else "single"
    turn = Turn(step.user, step.calls)
    provenance = Provenance(f"{row}-{number}", scenario)
    return Task(env, category, (turn,), world, provenance, step.dialogue)

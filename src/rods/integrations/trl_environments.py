"""Worlds as TRL's trainers take them: an object with `reset`, tools as methods, `get_reward`.

Owns the classes, one for each set of tools, made from the tools' descriptions; TRL itself is not
needed to make them. `rods convert --format trl` writes the rows.

    trainer = GRPOTrainer(
        model, args=args, train_dataset=load_dataset("json", data_files="tasks.jsonl")["train"],
        environment_factory=task_environments(environment, read_tasks(Path("tasks.jsonl"))),
    )

TRL ends a rollout with the first message that calls nothing. So the agent answers by a tool,
`reply_to_user`, which says what the user wants next; what it writes after that is not read. Tools
are the same in all turns: tasks that withhold some are refused.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rods.env import Environment
from rods.envs.hints import TYPES
from rods.errors import EnvError, TaskError
from rods.integrations.formats.exports import require_all_tools
from rods.integrations.task_rollout import OVER, TaskRollout
from rods.synthesis.structure.trace import all_tools, tool_group
from rods.task import Task, carried
from rods.types import ToolCall, ToolSpec, Value, allows_null, json_type


class TaskEnvironment:
    """Base of the classes: what TRL calls beside the tools."""

    _environment: Environment

    def __init__(self) -> None:
        self._rollout: TaskRollout | None = None
        self._broken: EnvError | None = None

    def reset(self, **row: Any) -> None:
        """Begin the task that a row carries; its prompt holds what the user says first.

        Raises:
            TaskError: it carries none, or the world cannot be loaded.
        """
        if self._rollout is not None:
            self._rollout.close()
        plain = carried(row, "a row")
        if plain is None:
            raise TaskError(
                f"a row with the columns {', '.join(row)} carries no task. Write the rows with "
                "`rods convert --format trl`."
            )
        self._broken = None
        self._rollout = TaskRollout(self._environment, Task.from_json(plain, "a row"))

    def get_reward(self) -> float:
        """Share of the task's turns that were solved, in [0, 1]; it ends what is still open.

        Raises:
            EnvError: the world broke. TRL has no word for a rollout that does not count.
        """
        if self._broken is not None:
            raise EnvError(
                f"a world broke, so there is no reward: {self._broken}"
            ) from self._broken
        rollout = self._world()
        rollout.end(answered=False)
        rollout.close()
        return rollout.progress()

    def reply_to_user(self, message: str) -> str:
        """Answer the user when a request is done, or when something is missing to do it.

        Args:
            message: What the user reads.

        Returns:
            What the user wants next.
        """
        rollout = self._world()
        rollout.note_answer(message)
        return self._safely(lambda: self._next(rollout))

    def _next(self, rollout: TaskRollout) -> str:
        rollout.end(answered=True)
        return OVER if rollout.over else rollout.task.turns[rollout.turn].user

    def _call(self, name: str, arguments: Mapping[str, Value]) -> str:
        """Execute one call; what it returned as text."""
        rollout = self._world()
        turn = rollout.turn
        result = self._safely(lambda: rollout.call(ToolCall(name, arguments)).content)
        if rollout.turn == turn or rollout.over:
            return result
        return f"{result}\n\n{rollout.task.turns[rollout.turn].user}"

    def _safely(self, work: Callable[[], str]) -> str:
        try:
            return work()
        except EnvError as error:  # TRL would show it to the policy and score on
            self._broken = error
            raise

    def _world(self) -> TaskRollout:
        if self._rollout is None:
            raise EnvError("no task was begun: reset comes first.")
        return self._rollout


def task_environments(
    environment: Environment, tasks: Iterable[Task]
) -> dict[str, type[TaskEnvironment]]:
    """A class for each set of tools, by the name in the rows' column `environment`.

    Raises:
        TaskError: a task withholds tools, tasks of one name have different tools, or a tool is
            called as what TRL calls.
    """
    found: dict[str, Mapping[str, ToolSpec]] = {}
    require_all_tools(tasks := list(tasks))
    for task in tasks:
        group, tools = tool_group(environment, task), all_tools(environment, task)
        if found.setdefault(group, tools) != tools:
            raise TaskError(f"task {task.id}: its tools differ from those of others in {group!r}.")
    return {group: _class(group, environment, tools) for group, tools in found.items()}


def _class(
    group: str, environment: Environment, tools: Mapping[str, ToolSpec]
) -> type[TaskEnvironment]:
    taken = [name for name in tools if hasattr(TaskEnvironment, name) or name.startswith("_")]
    if taken:
        raise TaskError(f"{group}: a tool cannot be called {taken[0]!r} in a TRL environment.")
    methods: dict[str, Any] = {name: _method(spec) for name, spec in tools.items()}
    name = "".join(part.capitalize() if part.islower() else part for part in group.split(":"))
    kind = type(
        name.replace("+", "_"), (TaskEnvironment,), {**methods, "_environment": environment}
    )
    return kind


def _method(spec: ToolSpec) -> Callable[..., str]:
    """A method whose signature, hints and docstring say what the description says."""

    def tool(self: TaskEnvironment, **arguments: Value) -> str:
        return self._call(spec.name, arguments)  # pyright: ignore[reportPrivateUsage]

    hints = {key: _hint(rest) for key, rest in spec.properties.items()}
    kinds = inspect.Parameter
    parameters = [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
    for key in sorted(hints, key=lambda key: key not in spec.required):
        default = kinds.empty if key in spec.required else spec.properties[key].get("default")
        parameters.append(kinds(key, kinds.KEYWORD_ONLY, default=default, annotation=hints[key]))
    lines = [f"    {key}: {_line(rest)}" for key, rest in spec.properties.items()]
    words = [_one_line(spec.description), *(["", "Args:", *lines] if lines else [])]
    tool.__name__ = tool.__qualname__ = spec.name
    tool.__doc__ = "\n".join(words)
    tool.__annotations__ = {**hints, "return": str}
    vars(tool)["__signature__"] = inspect.Signature(parameters, return_annotation=str)
    return tool


def _hint(schema: Mapping[str, object]) -> Any:
    kind = TYPES.get(json_type(schema), (str,))[-1]
    return kind | None if allows_null(schema) else kind


def _line(schema: Mapping[str, object]) -> str:
    choices = schema.get("enum")
    text = _one_line(str(schema.get("description") or "No description."))
    return f"{text} (choices: {json.dumps(choices)})" if choices else text


def _one_line(text: str) -> str:
    return " ".join(text.split())

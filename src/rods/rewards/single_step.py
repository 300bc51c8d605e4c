"""What the scorers of single steps read: the calls that are wanted, and the one response.

Owns the ground truth as JSON and how a response is found in a trajectory, as text or as its dialect
read it. Never scores. A single step is a task of one turn that takes one generation.

    wanted_of(task).calls           # [{"name": "ls", "parameters": {"a": True}}] under "parameters"
    response_of(task, trajectory).text
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from rods.dialects.base import calls_in
from rods.dialects.bounds import TOO_DEEP, value_fault
from rods.errors import RewardError
from rods.task import Task
from rods.trajectory import Step, Trajectory
from rods.types import Json, ParseVerdict, ToolCall

Form: TypeAlias = Literal["text", "dialect"]
"""`text`: tags are looked for in what was written, as the released code does. `dialect`: calls and
answers are those that `model.dialect` read, so that a model may keep the form it knows."""

READ = (ParseVerdict.CALLS, ParseVerdict.UNKNOWN_TOOL, ParseVerdict.BAD_ARGS)
"""Verdicts on a response whose calls could be read."""


class SingleStepReward:
    """Base of a reward that scores one response to tasks of one turn.

    A run with another number of generations a turn, or with conversations, is refused at its start.
    """


class Wanted(NamedTuple):
    """The ground truth of a single step."""

    calls: tuple[ToolCall, ...]
    response: bool
    """Whether words for the user are wanted, instead of calls or after them."""


def wanted_of(task: Task) -> Wanted:
    """The ground truth of a single step.

    Words are wanted where no call is; `world["response"]` says otherwise (both, or neither).

    Raises:
        RewardError: the task is a conversation, or its ground truth is not JSON.
    """
    if len(task.turns) != 1:
        raise RewardError(
            f"task {task.id} has {len(task.turns)} turns; this reward scores single steps. Split "
            'it: env.name = "function_call".'
        )
    calls = task.turns[0].ground_truth
    for call in calls:
        for key, value in call.arguments.items():
            if inner := next(calls_in([value]), None):
                raise RewardError(
                    f"task {task.id}: ground truth {call.name}, {key}: the nested call {inner} "
                    "cannot be written as JSON. Fix the row."
                )
    response = task.world.get("response", not calls)
    if not isinstance(response, bool):
        raise RewardError(
            f"task {task.id}: world['response'] is {response!r}, expected true or false."
        )
    return Wanted(calls, response)


def read_json(text: str) -> Any:
    """What a JSON text says, within the bound of calls.

    Raises:
        ValueError: it is no JSON, or deeper or larger than any dialect reads.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if fault := value_fault(found, depth=-2, shape=True):
        raise ValueError(fault)
    return found


def as_json(call: ToolCall, key: str) -> dict[str, Json]:
    """A call as a JSON object with `name` and its arguments under `key`."""
    return {"name": call.name, key: cast("dict[str, Json]", dict(call.arguments))}


def response_of(task: Task, trajectory: Trajectory) -> Step | None:
    """The one generation; None where a budget left no room for any.

    Raises:
        RewardError: there are several.
    """
    if len(trajectory.steps) > 1:
        raise RewardError(
            f"task {task.id}: {len(trajectory.steps)} generations, but this reward scores one "
            "response. Set rollout.steps_per_turn = 1."
        )
    return trajectory.steps[0] if trajectory.steps else None

"""Multi-turn tasks split into single steps: what was said so far, then the next calls.

Owns what becomes a step and what its dialogue holds. Any environment's tasks can be split; their
ground truth is played in a fresh world for the results that the dialogue shows.

    steps = single_steps(task, BfclEnvironment(), env="function_call")

A turn's calls are one step, unless a call needs what an earlier one of the turn returned: then it
waits for it in a step of its own. A turn whose ground truth is empty is a step that wants words.
Ends of turns are none. A step belongs to its task's scenario, so sides never mix.
"""

from __future__ import annotations

import dataclasses

from rods.dialects.base import has_nested, tool_row
from rods.env import Environment
from rods.errors import TaskError
from rods.rollout.episode import MORE_TOOLS, shortened
from rods.synthesis.structure.oracle import DONE, abstention, steps
from rods.task import Task, Turn
from rods.types import Json, Message, ToolCall, ToolResult, ToolSpec


def single_steps(
    task: Task, environment: Environment, env: str, result_chars: int = 0
) -> list[Task]:
    """The steps of one task, in order; none where a call fails or is nested in another.

    Args:
        environment: plays the task's ground truth.
        env: name of the environment that the steps belong to.
        result_chars: longer results are shortened with a notice; 0: never.

    Raises:
        TaskError: the task's world cannot be made.
    """
    made: list[Task] = []
    said: list[Message] = []
    world = environment.open(task)
    try:
        for index, turn in enumerate(task.turns):
            world.begin_turn(index)
            offered = world.offered()
            user = turn.user if turn.user.strip() else _given_back(task, index)
            known = "\n".join([*(message.content for message in said), user])
            results = [world.call(call) for call in turn.ground_truth]
            if any(r.failed for r in results) or any(map(has_nested, turn.ground_truth)):
                return []
            for calls, heard in _heard(turn, results, known, result_chars):
                made.append(_step(task, env, len(made), offered, said, user, calls))
                said += [Message("user", user)] if user else []
                said += [Message("assistant", "", calls), *heard]
                user = ""
            if not turn.ground_truth:
                made.append(_step(task, env, len(made), offered, said, user, ()))
                said.append(Message("user", user))
            said.append(
                Message("assistant", DONE if turn.ground_truth else abstention(task, index))
            )
            world.end_turn()
    finally:
        world.close()
    return made


def _given_back(task: Task, index: int) -> str:
    """What a user says who only gives tools back."""
    before = set(task.turns[index - 1].withheld) if index else set[str]()
    back = sorted(before - set(task.turns[index].withheld))
    if not back:
        raise TaskError(f"task {task.id}, turn {index}: its user says nothing. Fix the row.")
    return f"{MORE_TOOLS} {', '.join(back)}."


def _heard(
    turn: Turn, results: list[ToolResult], known: str, result_chars: int
) -> list[tuple[tuple[ToolCall, ...], list[Message]]]:
    """The calls of each step of a turn, and what they returned."""
    parts: list[tuple[tuple[ToolCall, ...], list[Message]]] = []
    at = 0
    for calls in steps(turn, results, known) if turn.ground_truth else ():
        given = results[at : at + len(calls)]
        heard = [Message("tool", shortened(r.content, result_chars)) for r in given]
        parts.append((tuple(calls), heard))
        at += len(calls)
    return parts


def _step(
    task: Task,
    env: str,
    number: int,
    offered: tuple[ToolSpec, ...],
    said: list[Message],
    user: str,
    calls: tuple[ToolCall, ...],
) -> Task:
    tools: list[Json] = [tool_row(spec) for spec in offered]
    origin = f"{task.provenance.origin or task.id}-{number}"
    provenance = dataclasses.replace(task.provenance, origin=origin)
    turn = Turn(user, calls)
    return Task(env, task.category, (turn,), {"tools": tools}, provenance, tuple(said))

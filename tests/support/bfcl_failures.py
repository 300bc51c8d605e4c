"""Failing calls of the benchmark, made from ground truths: the material of the tests of hints.

for failure in failures(load_tasks(), 2_000, BfclEnvironment()):
    failure.kind, failure.before, failure.call
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rods.envs.bfcl.world import BfclEnvironment, BfclWorld
from rods.task import Task
from rods.types import ToolCall, Value


class Failure(NamedTuple):
    """A call that fails after some calls of the ground truth."""

    kind: str
    task: Task
    before: tuple[tuple[int, ToolCall], ...]
    """Calls that were made before it, each with its turn."""
    turn: int
    call: ToolCall
    right: ToolCall
    """What the ground truth calls in its place."""


def world_before(failure: Failure, environment: BfclEnvironment) -> BfclWorld:
    """A fresh world in the turn of the failing call, right before it."""
    world = environment.open(failure.task)
    calls = list(failure.before)
    for turn in range(failure.turn + 1):
        if turn:
            world.end_turn()
        world.begin_turn(turn)
        for index, call in calls:
            if index == turn:
                world.call(call)
    return world


def _name(call: ToolCall, rng: random.Random) -> ToolCall:
    place = rng.randrange(len(call.name))
    changed = [call.name[:place] + call.name[place + 1 :], call.name + "s", call.name.upper()]
    return ToolCall(rng.choice(changed), call.arguments)


def _missing(call: ToolCall, rng: random.Random) -> ToolCall:
    left = dict(call.arguments)
    if left:
        left.pop(rng.choice(sorted(left)))
    return ToolCall(call.name, left)


def _unknown(call: ToolCall, rng: random.Random) -> ToolCall:
    arguments = dict(call.arguments)
    if arguments and rng.random() < 0.5:
        key = rng.choice(sorted(arguments))
        arguments[f"{key}_"] = arguments.pop(key)
    else:
        arguments["surplus"] = 1
    return ToolCall(call.name, arguments)


def _type(call: ToolCall, rng: random.Random) -> ToolCall:
    def other(value: Value) -> Value:
        if isinstance(value, str):
            return rng.choice([7, None, [value]])
        return rng.choice([str(value), None, "many"]) if not isinstance(value, list) else "all"

    return _with(call, rng, other)


def _value(call: ToolCall, rng: random.Random) -> ToolCall:
    def other(value: Value) -> Value:
        if isinstance(value, str) and value:
            place = rng.randrange(len(value))
            near = value[:place] + value[place + 1 :]
            return rng.choice([near, value + "x", f"folder/{value}", f"{value}?", "nowhere", "ZZZ"])
        if isinstance(value, int | float) and not isinstance(value, bool):
            return rng.choice([-value - 1, value + 1_000_000])
        return ["nothing"] if isinstance(value, list) else value

    return _with(call, rng, other)


def _with(call: ToolCall, rng: random.Random, other: Callable[[Value], Value]) -> ToolCall:
    arguments = dict(call.arguments)
    if arguments:
        key = rng.choice(sorted(arguments))
        arguments[key] = other(arguments[key])
    return ToolCall(call.name, arguments)


MUTATIONS = {"name": _name, "missing": _missing, "unknown": _unknown, "type": _type}
MUTATIONS |= {"value": _value}


def failures(
    tasks: Sequence[Task], most: int, environment: BfclEnvironment, seed: int = 0
) -> Iterator[Failure]:
    """Failing calls of all kinds, at most so many; `order`: a call of the truth too early."""
    rng = random.Random(seed)
    found = 0
    while found < most:
        for task in rng.sample(list(tasks), len(tasks)):
            truth = [(i, call) for i, turn in enumerate(task.turns) for call in turn.ground_truth]
            kind = rng.choice([*MUTATIONS, "value", "order", "order"])
            place = rng.randrange(len(truth))
            turn, call = truth[place]
            if kind == "order":
                # In a turn that has gone by its own calls alone: those before it are left out.
                kept = rng.randrange(place + 1)
                failure = Failure(kind, task, tuple(truth[:kept]), turn, call, call)
            else:
                wrong = MUTATIONS[kind](call, rng)
                failure = Failure(kind, task, tuple(truth[:place]), turn, wrong, call)
            world = world_before(failure, environment)
            if world.call(failure.call).failed:
                yield failure
                found += 1
                if found == most:
                    return

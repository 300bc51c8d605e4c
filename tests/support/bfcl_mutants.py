"""Mutated trajectories of the benchmark, as values: the material of the official test."""

from __future__ import annotations

import random
from collections.abc import Callable

from rods.task import Task
from rods.types import ToolCall, Value

Calls = list[list[ToolCall]]


def truth(task: Task) -> Calls:
    return [list(turn.ground_truth) for turn in task.turns]


def _filled(calls: Calls, rng: random.Random) -> int:
    return rng.choice([i for i, turn in enumerate(calls) if turn])


def dropped(task: Task, rng: random.Random) -> Calls:
    calls = truth(task)
    turn = calls[_filled(calls, rng)]
    turn.pop(rng.randrange(len(turn)))
    return calls


def doubled(task: Task, rng: random.Random) -> Calls:
    calls = truth(task)
    turn = calls[_filled(calls, rng)]
    place = rng.randrange(len(turn))
    turn.insert(place, turn[place])
    return calls


def reordered(task: Task, rng: random.Random) -> Calls:
    calls = truth(task)
    if rng.random() < 0.5:
        for turn in calls:
            rng.shuffle(turn)
        return calls
    one, other = _filled(calls, rng), rng.randrange(len(calls))
    moved = calls[one].pop(rng.randrange(len(calls[one])))
    calls[other].insert(rng.randint(0, len(calls[other])), moved)
    return calls


def _altered(value: Value, rng: random.Random) -> Value:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, 0, float(value), value * 1000, str(value)])
    if isinstance(value, str):
        return rng.choice([value + "x", value.upper(), "", value[:-1], 'it\'s "so"\n', 7, None])
    if isinstance(value, list):
        return rng.choice([value[1:], [*value, *value], [], value[::-1], "none"])
    return rng.choice([None, {}, 3])


def altered(task: Task, rng: random.Random) -> Calls:
    calls = truth(task)
    turn = calls[_filled(calls, rng)]
    place = rng.randrange(len(turn))
    call = turn[place]
    arguments = dict(call.arguments)
    what = rng.random()
    if arguments and what < 0.6:
        key = rng.choice(sorted(arguments))
        arguments[key] = _altered(arguments[key], rng)
    elif arguments and what < 0.7:
        arguments.pop(rng.choice(sorted(arguments)))
    elif what < 0.8:
        arguments["surplus"] = rng.choice([1, "x", [2.5]])
    elif arguments and what < 0.9:
        donor = rng.choice([c for other in calls for c in other])
        arguments[rng.choice(sorted(arguments))] = ToolCall(donor.name, donor.arguments)
    else:
        turn.append(ToolCall("no_such_function", {"x": 1}))
    turn[place] = ToolCall(call.name, arguments)
    return calls


def premature(task: Task, rng: random.Random) -> Calls:
    """Calls where nothing should be called, or calls of a later turn too early."""
    calls = truth(task)
    empty = [i for i, turn in enumerate(calls) if not turn]
    early = empty or list(range(len(calls)))
    place = rng.choice(early)
    later = [call for turn in calls[place + 1 :] for call in turn] or calls[_filled(calls, rng)]
    taken = later[: rng.randint(1, len(later))]
    calls[place] = calls[place] + taken
    if rng.random() < 0.5 and place + 1 < len(calls):
        calls[place + 1] = [call for call in calls[place + 1] if call not in taken]
    return calls


KINDS: dict[str, Callable[[Task, random.Random], Calls]] = {
    "dropped": dropped,
    "doubled": doubled,
    "reordered": reordered,
    "altered": altered,
    "premature": premature,
}

"""What an agent says on each of its generations: the oracle, or one with worse habits.

A policy of a few million parameters gains no knowledge from the trajectories of one laptop run; it
can gain behaviour. So the end of its schooling leaves decisions open for reinforcement to close: at
known rates the agent stops before all of a request is done, or calls where something is missing and
the user should be asked. What is known (which function, which value) is shown alike both ways. Owns
which decisions are open and how often which way is shown; it plays nothing.

    texts = agent_texts(task, environment.replay(task), dialect, Habits(0.7, 0.7), rng)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rods.dialects import Dialect
from rods.envs.judge import Replay, TurnReplay
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult, Value

DONE = "Done."
MISSING_TOOL = "I have no tool for that."
MISSING_VALUE = "Which one exactly? Please tell me more."


@dataclass(frozen=True)
class Habits:
    """How often the agent takes the worse way where there is a choice."""

    stop: float = 0.0
    """Share of the turns with calls that end too early, after none or some of them."""
    guess: float = 0.0
    """Share of the turns with something missing in which a call is tried."""


ORACLE = Habits()


def agent_texts(
    task: Task, replay: Replay, dialect: Dialect, habits: Habits, rng: random.Random
) -> list[str]:
    """What an agent of these habits says on each of its generations.

    A call that needs the result of an earlier one in the same turn waits for it in a step of its
    own.

    Args:
        task: whose ground truth is played, as far as it goes.
        replay: results of the ground truth.
        dialect: how calls are written.
        habits: shares of the worse ways.
        rng: decides at each choice.
    """
    texts: list[str] = []
    known = ""
    for index, (turn, played) in enumerate(zip(task.turns, replay.turns, strict=True)):
        known += "\n" + turn.user
        if not turn.ground_truth:
            guess = _guess(task, index, known, rng) if rng.random() < habits.guess else None
            texts += [_abstention(task, index)] if guess is None else [dialect.write([guess]), DONE]
            continue
        kept = len(turn.ground_truth)
        if rng.random() < habits.stop:
            kept = _stop(task, index, played, known, rng)
        left = kept
        for step in steps(turn, played.results, known):
            texts += [dialect.write(step[:left])] if left > 0 else []
            left -= len(step)
        known += "".join("\n" + result.content for result in played.results[:kept])
        texts.append(DONE)
    return texts


def _abstention(task: Task, index: int) -> str:
    """What is said where something is missing: a tool is given back later without a word."""
    later = task.turns[index + 1] if index + 1 < len(task.turns) else Turn("")
    return MISSING_VALUE if later.user else MISSING_TOOL


def _stop(task: Task, index: int, played: TurnReplay, known: str, rng: random.Random) -> int:
    """After how many calls the turn ends: before the last, unless a later turn needs its result.

    Else the agent would be shown to say what it never read.
    """
    calls = task.turns[index].ground_truth
    kept = rng.randrange(len(calls))
    heard = known + "".join("\n" + r.content for r in played.results[:kept])
    unheard = "".join("\n" + r.content for r in played.results[kept:])
    for turn in task.turns[index + 1 :]:
        heard += "\n" + turn.user
        words = [str(v) for c in turn.ground_truth for v in _scalars(list(c.arguments.values()))]
        if any(len(w) > 1 and w in unheard and w not in heard for w in words):
            return len(calls)
    return kept


def _guess(task: Task, index: int, known: str, rng: random.Random) -> ToolCall | None:
    """The first call that has to wait, with other values for those that nobody said yet.

    None where there is no other value to take: then there is nothing to guess.
    """
    later = task.turns[index + 1] if index + 1 < len(task.turns) else Turn("")
    if not later.ground_truth:
        return None
    call = later.ground_truth[0]
    arguments: dict[str, Value] = {}
    for name, value in call.arguments.items():
        if not later.user.strip() or all(str(v) in known for v in _scalars([value])):
            arguments[name] = value
            continue
        others = _others(task.turns[: index + 1], value)
        if not others:
            return None
        arguments[name] = rng.choice(others)
    return ToolCall(call.name, arguments)


def _others(turns: Sequence[Turn], value: Value) -> list[Value]:
    """Other values of the same type in earlier calls, in order of appearance."""
    found: list[Value] = []
    for call in (call for turn in turns for call in turn.ground_truth):
        for other in call.arguments.values():
            if type(other) is type(value) and other != value and other not in found:
                found.append(other)
    return found


def steps(turn: Turn, results: tuple[ToolResult, ...], known: str) -> Iterator[list[ToolCall]]:
    """A turn's calls, parted where a call needs what an earlier one of the turn returned.

    Args:
        turn: with at least one call.
        results: of its calls, in order.
        known: everything that the agent has read before the turn's first call.
    """
    step: list[ToolCall] = []
    unread = ""
    for call, result in zip(turn.ground_truth, results, strict=True):
        words = [str(v) for v in _scalars(list(call.arguments.values()))]
        if step and any(w not in known and len(w) > 1 and w in unread for w in words):
            yield step
            step, known, unread = [], known + unread, ""
        step.append(call)
        unread += "\n" + result.content
    yield step


def _scalars(value: Value) -> Iterator[str | int | float]:
    if isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _scalars(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value

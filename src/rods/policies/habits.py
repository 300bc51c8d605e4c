"""What an agent says on each of its generations: the oracle, or one with worse habits.

A policy of a few million parameters gains no knowledge from the trajectories of one laptop run; it
can gain behaviour. So the end of its schooling leaves decisions open for reinforcement to close: at
a known rate the agent stops before all of a request is done. What is known (which function, which
value) is shown alike both ways. Owns which decisions are open and how often which way is shown; it
plays nothing.

    texts = agent_texts(task, environment.replay(task), dialect, Habits(0.7), rng)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rods.dialects import Dialect
from rods.synthesis.structure.trace import leaves
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult

Results: TypeAlias = Sequence[Sequence[ToolResult]]
"""What the ground truth returns, by turn."""

DONE = "Done."
MISSING_TOOL = "I have no tool for that."
MISSING_VALUE = "Which one exactly? Please tell me more."


@dataclass(frozen=True)
class Habits:
    """How often the agent takes the worse way where there is a choice."""

    stop: float = 0.0
    """Share of the turns with calls that end too early: of several calls after some of them, else
    before the only one."""


ORACLE = Habits()


def agent_texts(
    task: Task, played: Results, dialect: Dialect, habits: Habits, rng: random.Random
) -> list[str]:
    """What an agent of these habits says on each of its generations.

    A call that needs the result of an earlier one in the same turn waits for it in a step of its
    own.

    Args:
        task: whose ground truth is played, as far as it goes.
        played: results of the ground truth, by turn.
        dialect: how calls are written.
        habits: shares of the worse ways.
        rng: decides at each choice.
    """
    texts: list[str] = []
    known = ""
    for index, (turn, results) in enumerate(zip(task.turns, played, strict=True)):
        known += "\n" + turn.user
        if not turn.ground_truth:
            texts.append(_abstention(task, index))
            continue
        kept = len(turn.ground_truth)
        if rng.random() < habits.stop:
            kept = _stop(task, index, results, known, rng)
        left = kept
        for step in steps(turn, results, known):
            texts += [dialect.write(step[:left])] if left > 0 else []
            left -= len(step)
        known += "".join("\n" + result.content for result in results[:kept])
        texts.append(DONE)
    return texts


def _abstention(task: Task, index: int) -> str:
    """What is said where something is missing: a tool is given back later without a word."""
    later = task.turns[index + 1] if index + 1 < len(task.turns) else Turn("")
    return MISSING_VALUE if later.user else MISSING_TOOL


def _stop(
    task: Task, index: int, results: Sequence[ToolResult], known: str, rng: random.Random
) -> int:
    """After how many calls the turn ends: before the last, unless a later turn needs its result.

    Else the agent would be shown to say what it never read.
    """
    calls = task.turns[index].ground_truth
    kept = rng.randrange(1, len(calls)) if len(calls) > 1 else 0
    heard = known + "".join("\n" + r.content for r in results[:kept])
    unheard = "".join("\n" + r.content for r in results[kept:])
    for turn in task.turns[index + 1 :]:
        heard += "\n" + turn.user
        words = [word for call in turn.ground_truth for word in _words(call)]
        if any(len(w) > 1 and w in unheard and w not in heard for w in words):
            return len(calls)
    return kept


def steps(turn: Turn, results: Sequence[ToolResult], known: str) -> Iterator[list[ToolCall]]:
    """A turn's calls, parted where a call needs what an earlier one of the turn returned.

    Args:
        turn: with at least one call.
        results: of its calls, in order.
        known: everything that the agent has read before the turn's first call.
    """
    step: list[ToolCall] = []
    unread = ""
    for call, result in zip(turn.ground_truth, results, strict=True):
        if step and any(w not in known and len(w) > 1 and w in unread for w in _words(call)):
            yield step
            step, known, unread = [], known + unread, ""
        step.append(call)
        unread += "\n" + result.content
    yield step


def _words(call: ToolCall) -> list[str]:
    """Texts and numbers among the arguments."""
    values = (leaf.value for leaf in leaves(dict(call.arguments)))
    return [str(v) for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]

"""What an agent says on each of its generations: the oracle, or one with worse habits.

A policy of a few million parameters gains no knowledge from the trajectories of one laptop run; it
can gain behavior. So the end of its pretraining leaves decisions open for reinforcement to close:
at a known rate the agent stops before all of a request is done. What is known (which function,
which value) is shown alike both ways. Owns which decisions are open and how often which way is
shown; it rolls out nothing.

    texts = agent_texts(task, played, dialect, Habits(0.7), rng)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rods.dialects import Dialect
from rods.policies import ground_truth
from rods.policies.ground_truth import Results
from rods.synthesis.structure.oracle import words_of
from rods.task import Task
from rods.types import ToolResult


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
    """What an agent of these habits says on each of its generations."""

    def kept(index: int, known: str) -> int:
        if rng.random() < habits.stop:
            return _stop(task, index, played[index], known, rng)
        return len(task.turns[index].ground_truth)

    return ground_truth.agent_texts(task, played, dialect, kept=kept)


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
        words = [word for call in turn.ground_truth for word in words_of(call)]
        if any(len(w) > 1 and w in unheard and w not in heard for w in words):
            return len(calls)
    return kept

"""State edges by ablation: leave one call out, run again, see what changes.

Owns the graph of calls (`Edge`, `depth`) and the part of it that no comparison of values can see:
a brake shows nothing that an engine's start is given, and yet the engine does not start without
the pedal pressed. Never looks at user texts, never judges.

    found = ablate(environment, task)
    found.edges                                   # {Edge(producer=0, consumer=1), ...}
    found.final                                   # calls that the last public state needs
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from rods.env import Environment, called
from rods.task import Task, Turn
from rods.types import ToolCall


class Edge(NamedTuple):
    """One call feeds another."""

    producer: int
    """Index of a call in the flattened ground truth."""
    consumer: int


class Ablation(NamedTuple):
    """What leaving out each call of a ground truth changes."""

    edges: frozenset[Edge]
    """The consumer's result is another one without the producer."""
    final: frozenset[int]
    """Calls without which the last public state is another one."""
    runs: int
    """How often the ground truth was run."""

    @property
    def idle(self) -> frozenset[int]:
        """Calls that change no later result and no state: questions, mostly."""
        asked = range(self.runs - 1)
        return frozenset(asked) - self.final - {edge.producer for edge in self.edges}


def ablate(environment: Environment, task: Task) -> Ablation:
    """Leave out each ground-truth call in turn; it costs one run for each call, and one more.

    All calls are played in one turn that offers every tool, so a gap in the conversation or a
    withheld tool makes no edge.

    Raises:
        TaskError: the world cannot be made.
    """
    calls = flattened(task)
    whole = _run(environment, task, calls, range(len(calls)))
    edges: set[Edge] = set()
    final: set[int] = set()
    for left_out in range(len(calls)):
        kept = [index for index in range(len(calls)) if index != left_out]
        again = _run(environment, task, calls, kept)
        later = range(left_out + 1, len(calls))
        edges.update(Edge(left_out, i) for i in later if again.results[i] != whole.results[i])
        if again.state != whole.state:
            final.add(left_out)
    return Ablation(frozenset(edges), frozenset(final), len(calls) + 1)


def depth(calls: int, edges: Collection[Edge]) -> int:
    """Longest chain of edges among so many calls; edges point forward."""
    level = [0] * calls
    for edge in sorted(edges, key=lambda e: e.consumer):
        level[edge.consumer] = max(level[edge.consumer], level[edge.producer] + 1)
    return max(level, default=0)


def flattened(task: Task) -> list[ToolCall]:
    """The ground truth's calls in order; edges count in it."""
    return [call for turn in task.turns for call in turn.ground_truth]


def turns_of(calls: Sequence[int]) -> list[int]:
    """Turn of each call of the flattened ground truth, from the number of calls of each turn."""
    return [turn for turn, count in enumerate(calls) for _ in range(count)]


class _Run(NamedTuple):
    results: Mapping[int, str]
    state: object


def _run(
    environment: Environment, task: Task, calls: Sequence[ToolCall], kept: Iterable[int]
) -> _Run:
    world = environment.open(dataclasses.replace(task, turns=(Turn(""),)))
    try:
        world.begin_turn(0)
        results = {index: called(world, calls[index]).content for index in kept}
        return _Run(results, world.snapshot())
    finally:
        world.close()

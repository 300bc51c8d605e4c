"""The complexity profile Phi of a task, and the distance between two profiles.

Phi is what "of the same structure" means (arXiv 2606.19047, skill-aligned synthesis): turns, calls
and classes per turn, which function feeds which, where arguments come from. State edges, which no
comparison of values can see, are found by ablation on request: leave one call out, run again, see
what changes. (A brake shows nothing that an engine's start is given, and yet the engine does not
start without the pedal pressed.)

    distance(Base(environment, task).profile, Base(environment, variant).profile)  # 0: same
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from rods.abilities import result_key
from rods.env import Environment, called
from rods.synthesis.structure.sources import Argument, Source
from rods.synthesis.structure.trace import TraceStep, owners, stage_world
from rods.task import Task
from rods.types import ToolCall


class Edge(NamedTuple):
    """One call feeds another."""

    producer: int
    """Index of a call in the flattened ground truth."""
    consumer: int


class Ablation(NamedTuple):
    """Changes that follow when a call of a ground truth is left out."""

    edges: frozenset[Edge]
    """The consumer's result is another one without the producer."""
    final: frozenset[int]
    """Calls without which the last public state is another one."""
    runs: int

    @property
    def idle(self) -> frozenset[int]:
        """Calls that change no later result and no state: questions, mostly."""
        asked = range(self.runs - 1)
        return frozenset(asked) - self.final - {edge.producer for edge in self.edges}


def ablate(environment: Environment, task: Task) -> Ablation:
    """Leave out each ground-truth call in turn; it costs one run for each call, and one more.

    All calls are made in one turn that offers every tool, so a gap in the conversation or a
    withheld tool makes no edge. Raises `TaskError` where the world cannot be made.
    """
    calls = task.calls
    results, state = _run(environment, task, calls, range(len(calls)))
    edges: set[Edge] = set()
    final: set[int] = set()
    for left_out in range(len(calls)):
        kept = [index for index in range(len(calls)) if index != left_out]
        again, state_again = _run(environment, task, calls, kept)
        later = range(left_out + 1, len(calls))
        edges.update(Edge(left_out, i) for i in later if again[i] != results[i])
        if state_again != state:
            final.add(left_out)
    return Ablation(frozenset(edges), frozenset(final), len(calls) + 1)


def depth(calls: int, edges: Collection[Edge]) -> int:
    """Longest chain of edges among so many calls; edges point forward."""
    level = [0] * calls
    for edge in sorted(edges, key=lambda e: e.consumer):
        level[edge.consumer] = max(level[edge.consumer], level[edge.producer] + 1)
    return max(level, default=0)


def _run(
    environment: Environment, task: Task, calls: Sequence[ToolCall], kept: Iterable[int]
) -> tuple[Mapping[int, str], object]:
    with stage_world(environment, task) as world:
        key = result_key(environment)
        return {i: key(called(world, calls[i]).content) for i in kept}, world.snapshot()


MAX_DISTANCE = 0.25
"""From which distance on a variant is of another structure than its seed."""


class MessageEdge(NamedTuple):
    """An earlier user message feeds a call."""

    turn: int
    """Turn whose text says the argument."""
    consumer: int
    """Index of a call in the flattened ground truth."""


@dataclass(frozen=True)
class Profile:
    """Phi of one task."""

    category: str
    calls: tuple[int, ...]
    classes: tuple[int, ...]
    functions: tuple[str, ...]
    value_edges: frozenset[Edge]
    """An argument of the consumer stands in the producer's result (and in no user text before)."""
    arguments: Mapping[Source, int]
    references: tuple[int, ...] = ()
    """Arguments of each turn that come from an earlier turn's text or results."""
    message_edges: frozenset[MessageEdge] = frozenset()
    """An argument of the consumer is said in an earlier turn (and not in its own)."""
    state: Ablation | None = None
    """State edges, where they were asked for."""

    @property
    def turns(self) -> int:
        """Number of user turns."""
        return len(self.calls)

    @property
    def depth(self) -> int:
        """Longest chain of value edges."""
        return depth(len(self.functions), self.value_edges)

    @property
    def state_depth(self) -> int | None:
        """Longest chain of state edges; None where they were not asked for."""
        return None if self.state is None else depth(len(self.functions), self.state.edges)

    @property
    def cross_turn(self) -> int:
        """Arguments that come from an earlier turn's text or results."""
        return sum(self.references)

    @property
    def topology(self) -> Counter[tuple[str, str]]:
        """Value edges by the names of their functions."""
        names = self.functions
        return Counter((names[e.producer], names[e.consumer]) for e in self.value_edges)

    def across(self, edges: Iterable[Edge]) -> frozenset[Edge]:
        """Return the edges that join calls of different turns."""
        turns = [turn for turn, count in enumerate(self.calls) for _ in range(count)]
        return frozenset(e for e in edges if turns[e.producer] != turns[e.consumer])


@dataclass(frozen=True)
class ProfileWeights:
    """Weights of the differences; they sum to 1."""

    turns: float = 0.2
    calls: float = 0.2
    classes: float = 0.15
    edges: float = 0.2
    depth: float = 0.1
    sources: float = 0.15


def profile(
    environment: Environment, task: Task, steps: Sequence[TraceStep], arguments: Sequence[Argument]
) -> Profile:
    """Phi of a task by its steps and their arguments; `ablate` finds the state edges."""
    owned = owners(environment, task)
    turns = [turn.ground_truth for turn in task.turns]
    earlier = Counter(
        a.turn
        for a in arguments
        if a.source is Source.EARLIER_TURN
        or (a.feeder is not None and steps[a.feeder].turn < a.turn)
    )
    return Profile(
        category=task.category,
        calls=tuple(map(len, turns)),
        classes=tuple(len({owned.get(call.name, "") for call in turn}) for turn in turns),
        functions=tuple(step.call.name for step in steps),
        value_edges=frozenset(Edge(a.feeder, a.step) for a in arguments if a.feeder is not None),
        arguments=Counter(a.source for a in arguments),
        references=tuple(earlier[turn] for turn in range(len(turns))),
        message_edges=frozenset(
            MessageEdge(a.text_turn, a.step)
            for a in arguments
            if a.source is Source.EARLIER_TURN and a.text_turn is not None
        ),
    )


def distance(a: Profile, b: Profile) -> float:
    """Weighted sum of normalized differences, in [0, 1]; 0 for equal structure.

    State edges do not count: they would cost a run for each call.
    """
    w, union = ProfileWeights(), (a.topology | b.topology).total()
    edges = 1 - (a.topology & b.topology).total() / union if union else 0.0
    return (
        w.turns * _relative(a.turns, b.turns)
        + w.calls * aligned(a.calls, b.calls)
        + w.classes * aligned(a.classes, b.classes)
        + w.edges * edges
        + w.depth * _relative(a.depth, b.depth)
        + w.sources * _shares(a.arguments, b.arguments)
    )


def _relative(a: int, b: int) -> float:
    return abs(a - b) / max(a, b, 1)


def aligned(a: Sequence[int], b: Sequence[int]) -> float:
    """Difference of two sequences turn by turn, as a share of the larger total."""
    total = max(sum(a), sum(b), 1)
    return min(1.0, sum(abs(x - y) for x, y in zip_longest(a, b, fillvalue=0)) / total)


def _shares(a: Mapping[Source, int], b: Mapping[Source, int]) -> float:
    """Half the L1 distance between two distributions of argument sources."""
    left, right = sum(a.values()), sum(b.values())
    if not left or not right:
        return float(left != right)
    return sum(abs(a.get(s, 0) / left - b.get(s, 0) / right) for s in Source) / 2

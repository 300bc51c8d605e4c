"""The complexity profile Phi of a task, and the distance between two profiles.

Owns what "of the same structure" means: turns, calls and classes per turn, which function feeds
which (value edges, and state edges found by ablation), dependency depth, and where arguments come
from (arXiv 2606.19047, skill-aligned synthesis). Never rejects anything: gates do.

    phi = profile(environment, task)
    distance(phi, profile(environment, variant))            # 0 = same structure, 1 = nothing alike
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rods.env import Environment
from rods.synthesis.flow import Argument, Source, Step, all_tools, owners, sources, trace
from rods.task import Task, Turn


class Edge(NamedTuple):
    """One call feeds another."""

    giver: int
    """Index of a call in the flattened ground truth."""
    taker: int


@dataclass(frozen=True)
class Profile:
    """Phi of one task."""

    category: str
    calls: tuple[int, ...]
    """Ground-truth calls of each turn."""
    classes: tuple[int, ...]
    """Classes that each turn calls."""
    functions: tuple[str, ...]
    """Functions of the flattened ground truth."""
    value_edges: frozenset[Edge]
    """An argument of the taker stands in the giver's result (and in no user text before)."""
    arguments: Mapping[Source, int]
    """How many argument values come from each source."""

    @property
    def turns(self) -> int:
        """Number of user turns."""
        return len(self.calls)

    @property
    def depth(self) -> int:
        """Longest chain of value edges."""
        return depth(len(self.functions), self.value_edges)

    @property
    def topology(self) -> Counter[tuple[str, str]]:
        """Value edges by the names of their functions."""
        return Counter((self.functions[e.giver], self.functions[e.taker]) for e in self.value_edges)


@dataclass(frozen=True)
class Weights:
    """How much each difference counts; they should sum to 1."""

    turns: float = 0.2
    calls: float = 0.2
    classes: float = 0.15
    edges: float = 0.2
    depth: float = 0.1
    sources: float = 0.15


def profile(
    environment: Environment,
    task: Task,
    steps: Sequence[Step] | None = None,
    arguments: Sequence[Argument] | None = None,
) -> Profile:
    """Phi of a task.

    Args:
        environment: Opens the task's world.
        task: A task whose ground truth replays.
        steps: Its trace, where it is known already.
        arguments: Its arguments with their sources, where they are known already.
    """
    steps = trace(environment, task).steps if steps is None else steps
    if arguments is None:
        arguments = sources(task, steps, all_tools(environment, task))
    owned = owners(environment, task)
    calls = tuple(len(turn.ground_truth) for turn in task.turns)
    classes = tuple(
        len({owned.get(call.name, "") for call in turn.ground_truth}) for turn in task.turns
    )
    edges = frozenset(Edge(a.feeder, a.step) for a in arguments if a.feeder is not None)
    counts = Counter(a.source for a in arguments)
    functions = tuple(step.call.name for step in steps)
    return Profile(task.category, calls, classes, functions, edges, counts)


def distance(a: Profile, b: Profile, weights: Weights | None = None) -> float:
    """Weighted sum of normalised differences, in [0, 1]; 0 for equal structure."""
    w = weights or Weights()
    return (
        w.turns * _relative(a.turns, b.turns)
        + w.calls * _aligned(a.calls, b.calls)
        + w.classes * _aligned(a.classes, b.classes)
        + w.edges * _multiset(a.topology, b.topology)
        + w.depth * _relative(a.depth, b.depth)
        + w.sources * _shares(a.arguments, b.arguments)
    )


def depth(calls: int, edges: frozenset[Edge]) -> int:
    """Longest chain of edges among so many calls; edges point forward."""
    level = [0] * calls
    for edge in sorted(edges, key=lambda e: e.taker):
        level[edge.taker] = max(level[edge.taker], level[edge.giver] + 1)
    return max(level, default=0)


def state_edges(environment: Environment, task: Task) -> frozenset[Edge]:
    """State edges by ablation: leave one call out, run again, see which later results change.

    It costs one run for each call, so it is not part of `profile`.
    """
    calls = [call for turn in task.turns for call in turn.ground_truth]
    whole = _results(environment, task, list(range(len(calls))))
    found: set[Edge] = set()
    for left_out in range(len(calls) - 1):
        kept = [index for index in range(len(calls)) if index != left_out]
        again = _results(environment, task, kept)
        for index in range(left_out + 1, len(calls)):
            if again[index] != whole[index]:
                found.add(Edge(left_out, index))
    return frozenset(found)


def _results(environment: Environment, task: Task, kept: Sequence[int]) -> Mapping[int, str]:
    calls = [call for turn in task.turns for call in turn.ground_truth]
    world = environment.open(dataclasses.replace(task, turns=(Turn(""),)))
    try:
        world.begin_turn(0)
        return {index: world.call(calls[index]).content for index in kept}
    finally:
        world.close()


def _relative(a: int, b: int) -> float:
    return abs(a - b) / max(a, b, 1)


def _aligned(a: Sequence[int], b: Sequence[int]) -> float:
    """Difference of two sequences turn by turn, as a share of the larger total."""
    length = max(len(a), len(b))
    left = [*a, *([0] * (length - len(a)))]
    right = [*b, *([0] * (length - len(b)))]
    total = max(sum(left), sum(right), 1)
    return min(1.0, sum(abs(x - y) for x, y in zip(left, right, strict=True)) / total)


def _multiset(a: Counter[tuple[str, str]], b: Counter[tuple[str, str]]) -> float:
    union = (a | b).total()
    return 1 - (a & b).total() / union if union else 0.0


def _shares(a: Mapping[Source, int], b: Mapping[Source, int]) -> float:
    """Half the L1 distance between two distributions of argument sources."""
    left, right = sum(a.values()), sum(b.values())
    if not left or not right:
        return float(left != right)
    return sum(abs(a.get(s, 0) / left - b.get(s, 0) / right) for s in Source) / 2

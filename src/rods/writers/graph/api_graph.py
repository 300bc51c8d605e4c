"""The API graph of a pool: which tool tends to follow which, and what they were called with.

Counts calls in a row, and results that give values to later calls: a conversation has one matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rods.synthesis.structure.sources import Argument, Source, normal
from rods.synthesis.structure.trace import Leaf, TraceStep, field_of
from rods.task import Task
from rods.types import Value

USE = 0.4  # Exponent of a tool's frequency: rare tools are planned too
FOLLOW = 20.0  # How much an edge counts beside `STRAY`: one stays with one's matter
STRAY = 0.1  # What a tool counts that never came next in the training tasks

Place: TypeAlias = tuple[str, str]  # A tool, and its parameter or a field of its result


@dataclass
class ApiGraph:
    """Tools as nodes, calls in a row as edges."""

    uses: Counter[str] = field(default_factory=Counter[str])
    starts: Counter[str] = field(default_factory=Counter[str])  # Called first of their class
    follows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    exemplars: dict[Place, list[Value]] = field(default_factory=dict[Place, "list[Value]"])
    """Values given to (tool, parameter)."""
    feeds: dict[Place, Counter[Place]] = field(default_factory=dict[Place, Counter[Place]])
    """Which results (tool, field) gave values to (tool, parameter)."""
    found: set[Place] = field(default_factory=set["Place"])
    """Parameters that took a value of the state, of a result or of an earlier message."""
    usual: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """Fields by tool that are no failure of it (`usual_failures`)."""

    @classmethod
    def of(cls, tasks: Iterable[Task], owners_of: Callable[[Task], Mapping[str, str]]) -> ApiGraph:
        """Count over the ground truths of these tasks; edges join tools of one class."""
        graph = cls()
        for task in tasks:
            owners = owners_of(task)
            last: dict[str, str] = {}
            for turn in task.turns:
                for call in turn.ground_truth:
                    owner = owners.get(call.name, "")
                    graph.uses[call.name] += 1
                    graph.starts[call.name] += owner not in last
                    if owner in last:
                        graph.follows[last[owner], call.name] += 1
                    last[owner] = call.name
                    for name, value in call.arguments.items():
                        graph.exemplars.setdefault((call.name, name), []).append(value)
        return graph

    def learn_feeds(self, steps: Sequence[TraceStep], arguments: Iterable[Argument]) -> None:
        """Count the value edges of one executed ground truth."""
        for argument in arguments:
            if argument.configured or argument.source is not Source.TURN:
                self.found.add((steps[argument.step].call.name, argument.name))
            if argument.source is not Source.RESULT or argument.feeder is None:
                continue
            producer, consumer = steps[argument.feeder], steps[argument.step]
            for name in {field_of(leaf.path) for leaf in producer.leaves if _same(leaf, argument)}:
                key = consumer.call.name, argument.name
                self.feeds.setdefault(key, Counter())[producer.call.name, name] += 1

    def given(self, tool: str, name: str) -> float | None:
        """How often calls of the training tasks give an argument; None for an unknown tool."""
        if not self.uses[tool]:
            return None
        return len(self.exemplars.get((tool, name), ())) / self.uses[tool]

    def weight(self, before: str, tool: str) -> float:
        """How readily `tool` is planned after `before`; positive for every tool."""
        if not before:
            return 1 + self.starts[tool] + STRAY * self.uses[tool]
        edge = self.follows[before, tool] / max(self.uses[before], 1)
        return (1 + self.uses[tool]) ** USE * (STRAY + FOLLOW * edge)


def _same(leaf: Leaf, argument: Argument) -> bool:
    """Whether a result shows an argument, be it rounded."""
    shown, value = leaf.value, argument.value
    if isinstance(shown, float) and isinstance(value, int | float):
        return abs(shown - value) <= (0.5 if float(value).is_integer() else 0.01)
    return normal(shown) == normal(value)

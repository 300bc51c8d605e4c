"""The API graph of a pool: which tool tends to follow which, and what they were called with.

Owns counting over ground truths of the training side. Never executes, never draws.

    graph = ApiGraph.of(training_tasks, owners_of)
    graph.weight("lockDoors", "startEngine")        # how natural the second is after the first
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rods.task import Task
from rods.types import Value

USE = 0.4
"""Exponent of a tool's frequency: rare tools are planned too."""
FOLLOW = 2.0
"""How much an edge of the graph counts beside a tool's own frequency."""


@dataclass
class ApiGraph:
    """Tools as nodes, calls in a row as edges."""

    uses: Counter[str] = field(default_factory=Counter[str])
    follows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    exemplars: dict[tuple[str, str], list[Value]] = field(
        default_factory=dict[tuple[str, str], list[Value]]
    )
    """Values given to (tool, parameter)."""

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
                    if owner in last:
                        graph.follows[last[owner], call.name] += 1
                    last[owner] = call.name
                    for name, value in call.arguments.items():
                        graph.exemplars.setdefault((call.name, name), []).append(value)
        return graph

    def weight(self, before: str, tool: str) -> float:
        """How readily `tool` is planned after `before`; positive for every tool."""
        edge = self.follows[before, tool] / max(self.uses[before], 1)
        return (1 + self.uses[tool]) ** USE * (1 + FOLLOW * edge * 10)

    def ranked(self, before: str, tools: Sequence[str]) -> list[float]:
        """Weights of several tools."""
        return [self.weight(before, tool) for tool in tools]

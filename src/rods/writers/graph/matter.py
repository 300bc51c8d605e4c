"""What one call takes over from earlier ones, so that a conversation is about one matter.

Owns the arguments that follow from what was asked or shown before: as the value edges of the API
graph say, or because two calls share more than one of their arguments. Never executes a call.

    matter = Matter(domains, specs, graph)
    matter.carried("lend", live, rng)                # the book whose details were asked for
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of
from rods.types import ToolSpec, Value, json_type
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.live import PERSONAL, Live, typed

OPTIONAL = 0.35
"""How often an optional argument is given of a tool that no training task calls."""
TOGETHER = 0.98
"""How often a call goes on with all that an earlier one was about: a loan, its day, its place."""
SAME = 0.7
"""How often a call is about what an earlier one was about."""
PASSING = frozenset({"name", "body", "pattern", "id", ""})
"""Kinds that say nothing about a matter when two calls share them."""


class Matter:
    """Arguments that go on with what a conversation is about."""

    def __init__(
        self,
        domains: Domains,
        specs: Mapping[str, ToolSpec],
        graph: ApiGraph,
        owners: Mapping[str, str],
    ) -> None:
        """Args: kinds; all tools of the world; what training tasks do; the classes of tools."""
        self._domains, self._specs, self._graph, self._owners = domains, specs, graph, owners
        self._paired = {n for p in domains.pairs if p.either_way for n in p.parameters}

    def share(self, tool: str, name: str) -> float:
        """How often an optional argument is given: as the training tasks do."""
        known = self._graph.given(tool, name)
        return OPTIONAL if known is None else min(0.95, max(0.05, known))

    def carried(self, tool: str, live: Live, rng: random.Random) -> dict[str, Value]:
        """What the call takes over from an earlier one or its result.

        A table is booked as it was asked for; a price is that of the thing it is paid for.
        """
        properties = self._specs[tool].properties
        found: dict[str, Value] = {}
        for name in properties:
            fed = self._fed(tool, name, live)
            if fed is None or name in self._paired or rng.random() > SAME:
                continue
            step, value = fed
            found[name] = value
            found.update({n: v for n, v in step.call.arguments.items() if n in properties})
        for step in reversed(live.steps):
            shared = {
                n: v
                for n, v in step.call.arguments.items()
                if self._goes_on(tool, n, step.call.name)
            }
            if step.call.name != tool and len(shared) > 1:
                return shared | found if rng.random() < TOGETHER else found
        return found

    def _goes_on(self, tool: str, name: str, before: str) -> bool:
        kind = self._domains.parameter(tool, name)
        elsewhere = self._owners.get(tool) != self._owners.get(before)
        if kind in PASSING or (kind in PERSONAL and elsewhere):
            return False
        return name in self._specs[tool].properties

    def _fed(self, tool: str, name: str, live: Live) -> tuple[TraceStep, Scalar] | None:
        """The latest result that gave such arguments in the training tasks, and its value."""
        producers = self._graph.feeds.get((tool, name), {})
        properties = self._specs[tool].properties
        declared = json_type(properties[name])
        for step in reversed(live.steps):
            for leaf in step.leaves:
                at = field_of(leaf.path)
                value = typed(leaf.value, declared)
                if (step.call.name, at) in producers and value not in (None, ""):
                    return step, value
        return None

    def together(
        self, tool: str, carried: Mapping[str, Value], live: Live, rng: random.Random
    ) -> dict[str, Value]:
        """Codes of a call that exist together, unless both are carried over from an earlier one.

        Where both are looked up, it is rather those that were just shown.
        """
        properties = self._specs[tool].properties
        found: dict[str, Value] = {}
        for pairs in self._domains.pairs:
            if not pairs.given(properties) or pairs.given(carried):
                continue
            chosen: Sequence[str]
            ordered = sorted(pairs.known)
            if pairs.either_way:
                shown = {str(leaf.value) for step in live.steps[-4:] for leaf in step.leaves}
                most = max(len(shown.intersection(pair)) for pair in ordered)
                near = [pair for pair in ordered if len(shown.intersection(pair)) == most]
                chosen = rng.sample(rng.choice(near), 2)
            else:
                chosen = rng.choice(ordered)
            found |= dict(zip(pairs.parameters, chosen, strict=True))
        return found

"""Outcomes of requests, counted in one process as the worker's queue counts them, and by recipe.

counted = Yield()
counted.add(synthesize(seed, writer, keeper, 7, 3))
counted.recipes["graph:walk", True]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rods.synthesis.pipeline import RequestOutcome, Statistics


@dataclass
class Yield(Statistics):
    """Yield by stage, gate and recipe."""

    recipes: Counter[tuple[str, bool]] = field(default_factory=Counter[tuple[str, bool]])
    """(recipe, accepted) to count."""

    def add(self, outcome: RequestOutcome, seconds: float = 0.0) -> None:
        """Count one outcome and the seconds that it took."""
        self.tried += outcome.tried
        self.seconds += seconds
        for rejection in outcome.rejections:
            self.rejected[rejection.stage, str(rejection.reason)] += 1
            self.recipes[rejection.recipe, False] += 1
        if outcome.variant is not None:
            self.accepted += 1
            self.recipes[outcome.variant.provenance.recipe, True] += 1
            self.distances.append(outcome.distance)

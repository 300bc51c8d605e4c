"""Seed to accepted variant, or the reasons why there is none.

Owns the attempts at one variant: a writer proposes, the gates decide, at most so many times. A pure
function of its inputs: a repeated request gives the same variant. Never keeps state between calls.

    outcome = synthesize(seed, writer, keeper, rng_seed=7, attempts=3)
    outcome.variant or outcome.rejections
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.gates.overlap import Prints
from rods.synthesis.rejection import Rejection
from rods.synthesis.writers import Reviewer, Writer
from rods.task import Task


@dataclass(frozen=True)
class Outcome:
    """What came of one request for one variant."""

    variant: Task | None
    distance: float
    """Profile distance of the variant to its seed; 1.0 without a variant."""
    rejections: tuple[Rejection, ...]
    """One for each attempt that was turned down, in order."""

    @property
    def tried(self) -> int:
        """Proposals that were made."""
        return len(self.rejections) + (self.variant is not None)


def synthesize(
    seed: Task,
    writer: Writer,
    keeper: Gatekeeper,
    rng_seed: int,
    attempts: int,
    seen: Sequence[Prints] = (),
) -> Outcome:
    """Make one variant of a seed.

    Args:
        seed: The task to be varied.
        writer: Proposes.
        keeper: The gates.
        rng_seed: Same seed, same inputs, same outcome.
        attempts: Whole attempts at most, K_max of the paper (3).
        seen: Fingerprints of variants that it must not repeat.
    """
    rejections: list[Rejection] = []
    for attempt in range(attempts):
        rng = random.Random(f"{seed.id}:{rng_seed}:{attempt}")
        proposal = writer.propose(seed, rng, rejections)
        if isinstance(proposal, Rejection):
            rejections.append(proposal)
            continue
        verdict = keeper.check(seed, proposal, seen)
        if verdict.rejection is None and isinstance(writer, Reviewer):
            reviewed = writer.review(seed, proposal, rng)
            if isinstance(reviewed, Rejection):
                rejections.append(reviewed)
                continue
            if reviewed != proposal:
                proposal, verdict = reviewed, keeper.check(seed, reviewed, seen)
        if verdict.rejection is None:
            return Outcome(proposal, verdict.distance, tuple(rejections))
        rejections.append(verdict.rejection)
    return Outcome(None, 1.0, tuple(rejections))


@dataclass
class Statistics:
    """Yield by stage, gate and recipe."""

    tried: int = 0
    accepted: int = 0
    seconds: float = 0.0
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """(stage, reason) to count."""
    recipes: Counter[tuple[str, bool]] = field(default_factory=Counter[tuple[str, bool]])
    """(recipe, accepted) to count."""
    distances: list[float] = field(default_factory=list[float])

    def add(self, outcome: Outcome, seconds: float = 0.0) -> None:
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

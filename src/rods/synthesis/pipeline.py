"""Seed to accepted variant, or the reasons why there is none.

The way of a variant, each room once:

    worker/     an order waits in the queue; the generator takes the seed's next outcome from it
    pipeline    attempts, at most K_max: what failed is told to the next one
      writers/  propose: plan what is called turn by turn, execute it in a fresh world, rewrite it
                as a conversation, augment it with gaps and long context
                (`llm/writer.py` names its stages in this order; structure/ says what a task is made
                of, templates/ words it without a model, chat/ asks the model)
      gates/    check: deterministic, cheapest first
      writers/  review: the critic of a writer with a model; what it refines goes to the gates again
    worker/     the outcome, variant or rejections, is recorded in the queue
    curriculum (training) or dataset/ (`rods synth`) takes it from there, in order

Owns the attempts at one variant: a writer proposes, the gates decide, at most so many times. A pure
function of its inputs: a repeated order gives the same variant. Never keeps state between calls.

    outcome = synthesize(seed, writer, keeper, rng_seed=7, attempts=3)
    outcome.variant or outcome.rejections
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rods.config import SynthesisSettings
from rods.env import Environment
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.gates.overlap import Prints
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Reviewer, Writer
from rods.synthesis.writers import make_writer
from rods.task import Task
from rods.types import Json


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


class Pipeline:
    """Environment, writer and gates in one place, for threads: one at a time works in worlds."""

    def __init__(self, environment: Environment, writer: Writer, keeper: Gatekeeper, attempts: int):
        """`attempts`: as in `synthesize`."""
        self._environment, self._writer, self._keeper = environment, writer, keeper
        self._attempts = attempts
        self.parallel = writer.parallel
        """Outcomes that may be under way at once."""

    @classmethod
    def of(
        cls,
        settings: SynthesisSettings,
        environment: Environment,
        training: Sequence[Task],
        held_out: Sequence[Task],
        cache: Path | None = None,
    ) -> Pipeline:
        """What the settings mean.

        Args:
            settings: which writer, how near, how often.
            environment: opens the worlds; `close` closes it.
            training: originals of the training side: they may give words and turns.
            held_out: tasks that no variant may overlap.
            cache: file of a chat server's answers, for writers that ask one.
        """
        share = settings.resample.share
        writer = make_writer(settings.writer, training, environment, share, settings, cache)
        keeper = Gatekeeper(environment, training, held_out, settings.max_distance)
        return cls(environment, writer, keeper, settings.attempts)

    def make(self, seed: Task, rng_seed: int, seen: Sequence[Prints] = ()) -> Outcome:
        """One outcome; raises `WriterError` where the writer cannot be used."""
        with self._writer.worlds:
            return synthesize(seed, self._writer, self._keeper, rng_seed, self._attempts, seen)

    def usage(self) -> dict[str, Mapping[str, Any]]:
        """What the writer asked of a server, by stage; empty where it asks none."""
        return {stage: asdict(row) for stage, row in self._writer.usage().items()}

    def close(self) -> None:
        """End what the writer and the environment keep open, such as a sandbox."""
        self._writer.close()
        self._environment.close()


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

    def figures(self) -> dict[str, Json]:
        """For the log and the live line; rejections by reason and by stage."""
        stages, reasons = Counter[str](), Counter[str]()
        for (stage, reason), count in self.rejected.items():
            stages[stage] += count
            reasons[reason] += count
        return {
            "tried": self.tried,
            "accepted": self.accepted,
            "rejected": dict(reasons),
            "stages": dict(stages),
            "seconds": round(self.seconds, 3),
            "seconds_per_variant": round(self.seconds / max(self.accepted, 1), 4),
        }

"""The way of a variant, from a request to its outcome; each part is met once, in this order.

    worker/     the generator takes the next outcome of a seed from the queue
    pipeline    attempts, at most K_max: each learns what failed before
    llm/        plan, execute, rewrite, augment: calls, made in a fresh world, worded as users do,
                with gaps (structure/ analyzes tasks, planned.py augments, chat/ asks a model;
                rods.writers has writers without one)
    gates/      `gates/keeper.py` accepts or rejects by deterministic checks, cheapest first
    llm/        critique, by a writer that has a model
    worker/     the outcome is recorded in the queue: a variant, or why there is none

From the queue the curriculum (training) or collect.py (`rods synth`) takes it. A pure function of
its inputs, so that a repeated request gives the same variant.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rods.env import Environment
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.gates.overlap import Prints
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Reviewer, Writer
from rods.task import Task
from rods.types import Json


@dataclass(frozen=True)
class RequestOutcome:
    """Outcome of one request for one variant."""

    variant: Task | None
    distance: float
    """Profile distance of the variant to its seed; 1.0 without a variant."""
    rejections: tuple[Rejection, ...]
    """One for each attempt that was rejected, in order."""

    @property
    def tried(self) -> int:
        """Candidates that were made."""
        return len(self.rejections) + (self.variant is not None)


class Pipeline:
    """Environment, writer and gates in one place, for threads: one at a time works in worlds."""

    def __init__(self, environment: Environment, writer: Writer, keeper: Gatekeeper, attempts: int):
        """`attempts`: whole attempts at most, K_max of the paper (3). `close` closes all three."""
        self._environment, self._writer, self._keeper = environment, writer, keeper
        self._attempts = attempts
        self.parallel = writer.parallel

    def make(self, seed: Task, rng_seed: int, seen: Sequence[Prints] = ()) -> RequestOutcome:
        """Make one variant of a seed: same `rng_seed`, same inputs, same outcome.

        `seen`: fingerprints of variants that it must not repeat. Raises `WriterError` where the
        writer cannot be used.
        """
        rejections: list[Rejection] = []
        with self._writer.worlds:
            for attempt in range(self._attempts):
                rng = random.Random(f"{seed.id}:{rng_seed}:{attempt}")
                made = self._attempt(seed, rng, rejections, seen)
                if not isinstance(made, Rejection):
                    return RequestOutcome(*made, tuple(rejections))
                rejections.append(made)
        return RequestOutcome(None, 1.0, tuple(rejections))

    def _attempt(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection], seen: Sequence[Prints]
    ) -> tuple[Task, float] | Rejection:
        """One candidate and its profile distance, or what refused it."""
        writer = self._writer
        if isinstance(candidate := writer.propose(seed, rng, history), Rejection):
            return candidate
        verdict = self._keeper.check(seed, candidate, seen, writer.gates(candidate))
        if verdict.rejection is None and isinstance(writer, Reviewer):
            if isinstance(reviewed := writer.review(seed, candidate, rng), Rejection):
                return replace(reviewed, turns=reviewed.turns or candidate.turns)
            if reviewed != candidate:
                verdict = self._keeper.check(seed, reviewed, seen, writer.gates(reviewed))
                candidate = reviewed
        if verdict.rejection is not None:
            return replace(verdict.rejection, turns=candidate.turns)
        return candidate, verdict.distance  # accepted; `TaskPool.offer` queues it

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """Return what the writer asked of a server, by stage; empty where it asks none."""
        return self._writer.usage()

    def close(self) -> None:
        """End what the writer and the environment keep open, such as a sandbox."""
        self._writer.close()
        self._environment.close()


def total_usage(*parts: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Add up what was asked of a server, by stage."""
    total: dict[str, dict[str, float]] = {}
    for stage, row in (item for part in parts for item in part.items()):
        sums = total.setdefault(stage, {})
        for figure, amount in row.items():
            sums[figure] = sums.get(figure, 0) + amount
    return total


@dataclass
class Statistics:
    """Yield by stage and gate."""

    tried: int = 0
    accepted: int = 0
    seconds: float = 0.0
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """(stage, reason) to count."""
    distances: list[float] = field(default_factory=list[float])

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

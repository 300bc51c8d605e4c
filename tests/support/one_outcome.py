"""One outcome of a writer and its gates, as the worker makes it."""

from __future__ import annotations

from collections.abc import Sequence

from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.gates.overlap import Prints
from rods.synthesis.pipeline import Pipeline, RequestOutcome
from rods.synthesis.writer import Writer
from rods.task import Task


def synthesize(
    seed: Task,
    writer: Writer,
    keeper: Gatekeeper,
    rng_seed: int,
    attempts: int,
    seen: Sequence[Prints] = (),
) -> RequestOutcome:
    return Pipeline(keeper.environment, writer, keeper, attempts).make(seed, rng_seed, seen)

"""Writers by name: what proposes variants of a seed.

`resample/`, `graph/` and `family.py` (for questions) need no model, `llm` asks a chat server.

    writer = make_writer("resample", training_tasks, environment)
    candidate = writer.propose(seed, random.Random(7))
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.abilities import QuestionSource, ability
from rods.config import SynthesisSettings
from rods.env import Environment
from rods.registry import Registry, require, takes
from rods.synthesis.gates.case import Gate
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Reviewer, Writer, WriterOptions
from rods.task import Task
from rods.writers.resample import ResampleSettings

WRITERS = Registry(
    "synthesis.writer",
    "writer",
    {
        "resample": "rods.writers.resample.writer:ResampleWriter",
        "graph": "rods.writers.graph.writer:GraphWriter",
        "family": "rods.writers.family:FamilyWriter",
        "llm": "rods.synthesis.llm.writer:make_llm_writer",
    },
    more=" To mix two: --writer graph --synthesis.resample.share 0.5.",
)
OF_CALLS = ("resample", "graph")  # They vary calls; for questions, `family` takes their place
VARYING = ("resample", "family")  # They change what a seed says, and make none from nothing
LOCAL = ("resample", "graph", "family")  # They ask nobody: a short wait, and a run can be repeated


def in_words(settings: SynthesisSettings) -> str:
    """Name the writers of variants, with the share of the resample writer beside another one."""
    share = settings.section(ResampleSettings).share
    if not share or settings.writer in ("resample", "family"):
        return settings.writer
    return f"{settings.writer}, and resample for {share:.0%} of the candidates"


def make_writer(
    name: str,
    pool: Sequence[Task],
    environment: Environment,
    resample_share: float = 0.0,
    options: SynthesisSettings | None = None,
    cache: Path | None = None,
) -> Writer:
    """A writer by its short name, or by the `module:attribute` of a factory.

    Args:
        pool: tasks that may give words, texts and turns: originals of the training split.
        resample_share: share of the candidates that the resample writer makes beside it, in [0, 1].
        options: all settings of synthesis, for `llm`.
        cache: file of a chat server's answers, for `llm`.

    Raises `ConfigError` where there is no such writer, or `llm` has no server.
    """
    options = options or SynthesisSettings()
    if name in OF_CALLS and ability(environment, QuestionSource):
        name = "family"
    writer = _made(name, pool, environment, options, cache)
    if resample_share == 0 or name in ("resample", "family"):
        return writer
    other = _made("resample", pool, environment, options, cache)
    return MixedWriter(writer, other, resample_share)


def writer_factory(name: str) -> Any:
    """What makes a writer of a pool and an environment; raises `ConfigError`."""
    found = WRITERS.find(name)
    return takes("synthesis.writer", name, found, "a pool", "an environment", options=None)


def _made(
    name: str,
    pool: Sequence[Task],
    environment: Environment,
    settings: SynthesisSettings,
    cache: Path | None,
) -> Writer:
    factory = writer_factory(name)
    more: dict[str, Any] = {}
    if "options" in inspect.signature(factory).parameters:
        more["options"] = WriterOptions(settings, cache, WRITERS.find("graph"))
    writer = factory(pool, environment, **more)
    require("synthesis.writer", name, writer, Writer)
    return writer


class MixedWriter(Writer):
    """Asks `other` with chance `share`, else `main`."""

    def __init__(self, main: Writer, other: Writer, share: float):
        """`share`: in [0, 1]."""
        self.name = f"{main.name}+{other.name}"
        self._main, self._other, self._share = main, other, share
        self.parallel, self.worlds = main.parallel, main.worlds
        self.usage, self.close = main.usage, main.close

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One candidate of one of both."""
        other = rng.random() < self._share and not seed.is_stage
        writer = self._other if other else self._main
        return writer.propose(seed, rng, history)

    def review(self, seed: Task, variant: Task, rng: random.Random) -> Task | Rejection:
        """Asked of the writer that made it, where that one reviews."""
        writer = self._writer_of(variant)
        return writer.review(seed, variant, rng) if isinstance(writer, Reviewer) else variant

    def gates(self, variant: Task) -> Mapping[str, Gate]:
        """Return the gates of the writer that made a variant."""
        return self._writer_of(variant).gates(variant)

    def _writer_of(self, variant: Task) -> Writer:
        made_by = variant.provenance.recipe.partition(":")[0]
        return self._other if made_by == self._other.name else self._main

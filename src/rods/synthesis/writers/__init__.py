"""Writers: what proposes variants of a seed.

Owns the protocol that every writer fulfils and their short names. A writer never decides whether
its proposal is good; the gates do. `resample/`, `graph/` and `family.py` (for questions) need no
model.

    writer = make_writer("resample", training_tasks, environment)
    proposal = writer.propose(seed, random.Random(7))
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from rods.config import SynthesisSettings
from rods.env import Environment, QuestionSource
from rods.errors import ConfigError
from rods.synthesis.rejection import Rejection
from rods.task import Task

WRITERS = {
    "resample": "rods.synthesis.writers.resample.writer:ResampleWriter",
    "graph": "rods.synthesis.writers.graph.writer:GraphWriter",
    "family": "rods.synthesis.writers.family:FamilyWriter",
}
"""Short name to `module:attribute`; each is called with the pool and the environment."""


class Writer(Protocol):
    """Proposes variants. A pure function of seed, random state and its own construction."""

    name: str
    """Short name, the first part of `provenance.recipe`."""

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One variant of `seed`, or why there is none. Draws randomness from `rng` alone.

        Args:
            seed: the task to be varied.
            rng: the only source of chance.
            history: why earlier attempts at this variant failed (the feedback loop).
        """
        ...


@runtime_checkable
class Reviewer(Protocol):
    """A writer that also judges what passed the gates."""

    def review(self, seed: Task, variant: Task, rng: random.Random) -> Task | Rejection:
        """The variant, a refined one (the gates are asked again), or why it is turned down."""
        ...


@runtime_checkable
class Asking(Protocol):
    """A writer that asks a server: several proposals at once, and figures of what they cost."""

    parallel: int
    """Proposals that may be under way at once, in threads."""
    worlds: AbstractContextManager[object]
    """Held by a thread while worlds are at work; the writer releases it while it waits."""

    def usage(self) -> Mapping[str, Any]:
        """What the server was asked so far, by stage (a dataclass of figures)."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class NoServer:
    """What stands in `Asking`'s place where a writer asks nobody."""

    parallel = 1

    def __init__(self) -> None:
        self.worlds: AbstractContextManager[object] = nullcontext()

    def usage(self) -> Mapping[str, Any]:
        """Nothing was asked."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


def make_writer(
    name: str,
    pool: Sequence[Task],
    environment: Environment,
    resample_share: float = 0.0,
    options: SynthesisSettings | None = None,
    cache: Path | None = None,
) -> Writer:
    """A writer by its short name or `module:attribute`.

    Args:
        name: `resample`, `graph`, `family`, `llm`, or where to import a factory from.
        pool: Tasks that may give words, texts and turns: originals of the training side.
        environment: Opens their worlds.
        resample_share: Share of the proposals that the resample writer makes beside it, in [0, 1].
        options: All settings of synthesis, for `llm`.
        cache: File of a chat server's answers, for `llm`.

    Raises:
        ConfigError: there is no such writer, or `llm` has no server.
    """
    if name in ("resample", "graph") and isinstance(environment, QuestionSource):
        return _named("family", pool, environment)  # questions have no calls to be varied
    if name == "llm":
        from rods.synthesis.writers.llm.writer import make_llm_writer

        writer = make_llm_writer(pool, environment, options or SynthesisSettings(), cache)
    else:
        writer = _named(name, pool, environment)
    if resample_share == 0 or name in ("resample", "family"):
        return writer
    from rods.synthesis.writers.mixed import MixedWriter

    return MixedWriter(writer, _named("resample", pool, environment), resample_share)


def _named(name: str, pool: Sequence[Task], environment: Environment) -> Writer:
    module, _, attribute = WRITERS.get(name, name).partition(":")
    try:
        factory: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join([*WRITERS, "llm"])
        raise ConfigError(
            f"synthesis.writer: {name!r} is neither one of {known} nor an importable "
            f"module:attribute ({error})."
        ) from error
    return cast("Writer", factory(pool, environment))

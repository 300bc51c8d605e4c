"""Protocol of writers, which propose variants of a seed task; the gates decide.

`Groundwork` is the part of a writer without a model that a writer with one uses.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from rods.config import SynthesisSettings
from rods.env import Environment
from rods.errors import ConfigError
from rods.synthesis.gates.case import Gate
from rods.synthesis.planned import CallRequest, PlannedTurn, descent
from rods.synthesis.rejection import Rejection
from rods.task import Task


class Writer(Protocol):
    """Proposes variants. A pure function of seed, random state and its own construction.

    Derive from it: all but `name` and `propose` has a default.
    """

    name: str
    """Short name, the first part of `provenance.recipe`."""
    parallel: int = 1
    """Candidates that may be under way at once, in threads."""
    promises: Mapping[str, Gate] = MappingProxyType({})
    """Further gates, by name, which its own candidates promise to pass when they are made."""
    worlds: AbstractContextManager[object] = nullcontext()
    """Held by a thread while worlds are at work; a writer releases it while it waits."""

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One variant of `seed`, or why there is none; `rng` is the only source of chance.

        `history`: why earlier attempts at this variant failed (the feedback loop).
        """
        ...

    def gates(self, variant: Task) -> Mapping[str, Gate]:
        """Return the gates that a candidate of its own promises to pass."""
        return self.promises

    def unusable(self, stages: Sequence[Task]) -> Mapping[str, str]:
        """Return why no task from nothing can use a tool, for each tool; empty where one can."""
        return {}

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """Return what it asked of a server so far, by stage (figures by name)."""
        return {}

    def close(self) -> None:
        """End what it keeps open, such as a connection."""
        return


@runtime_checkable
class Reviewer(Protocol):
    """A writer that also judges what passed the gates."""

    def review(self, seed: Task, variant: Task, rng: random.Random) -> Task | Rejection:
        """The variant, a refined one (the gates are asked again), or why it is rejected."""
        ...


class WriterOptions(NamedTuple):
    """Options of a factory that has a parameter `options`."""

    settings: SynthesisSettings
    cache: Path | None
    """File for a server's answers, so that none is asked for twice."""
    groundwork: Callable[[Sequence[Task], Environment], Groundwork] | None = None
    """Makes what a writer with a model takes over from one without."""


class Groundwork:
    """Other worlds for seeds, calls planned without a model, and words for what results showed.

    This one has none: plans are made for the seed's own world, and a model finds all words.
    """

    def rename(self, seed: Task, rng: random.Random) -> Task | Rejection:
        """The world that a plan is made for: the seed as it is, as its own ancestor."""
        made = descent(seed, seed.provenance.recipe, rng.getrandbits(31))
        return dataclasses.replace(seed, provenance=made)

    def plan(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> tuple[Task, list[PlannedTurn]] | Rejection:
        """A renamed seed and executed calls near its profile, not worded yet.

        Raises `ConfigError` where there is nobody who plans without a model.
        """
        raise ConfigError(
            "synthesis.llm.planner: a planner without a model was not handed over. Take model."
        )

    def may_blur(self, tool: str, name: str) -> bool:
        """Tell whether a message still reads well when it leaves this argument open."""
        return True

    def references(self, request: CallRequest, name: str) -> Sequence[str]:
        """Words that may stand for an argument whose value a result showed."""
        return ()

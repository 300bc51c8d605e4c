"""What the writer with a model takes over from one without, and what it does where there is none.

Owns `Groundwork`, from which another writer derives. Whoever makes the writer hands one over, so
that nothing here knows another writer. Never asks a model.

    LlmWriter(environment, chat, settings)                  # on the seeds' own worlds
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from rods.errors import ConfigError
from rods.synthesis.planned import CallRequest, PlannedTurn, descent
from rods.synthesis.rejection import Rejection
from rods.task import Task


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

        Raises:
            ConfigError: there is nobody who plans without a model.
        """
        raise ConfigError(
            "synthesis.llm.planner: a planner without a model was not handed over. Take model."
        )

    def may_blur(self, tool: str, name: str) -> bool:
        """Whether a message still reads well when it leaves this argument open."""
        return True

    def references(self, request: CallRequest, name: str) -> Sequence[str]:
        """Words that may stand for an argument whose value a result showed."""
        return ()

"""Another question of the seed's family, at the seed's difficulty, made by the environment."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from rods.abilities import QuestionSource, ability
from rods.env import Environment
from rods.errors import ConfigError, TaskError
from rods.synthesis.planned import descent
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.writer import Writer
from rods.task import Task

DRAWS = 16  # Questions that are drawn until one is none of the originals


class FamilyWriter(Writer):
    """Draws other questions of the same kind."""

    name = "family"

    def __init__(self, pool: Sequence[Task], environment: Environment):
        """`pool`: originals, not to be repeated.

        Raises `ConfigError` where the environment makes no questions.
        """
        source = ability(environment, QuestionSource)
        if source is None:
            raise ConfigError(
                f"synthesis.writer: 'family' makes questions, but env.name {environment.name!r} "
                "has none. Use resample or graph."
            )
        self._source = source
        self._known = {turn.user for task in pool for turn in task.turns}

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """Another instance of the seed's family; the gates refuse one that is known."""
        made: Task | None = None
        try:
            for _ in range(DRAWS):
                made = self._source.another(seed, rng)
                if made is None or made.turns[0].user not in self._known:
                    break
        except (TaskError, ConfigError) as error:
            return Rejection("write", ErrorClass.NO_PATTERN, str(error), self.name)
        if made is None:
            detail = f"task {seed.id} is of no family that makes another question"
            return Rejection("write", ErrorClass.NO_PATTERN, detail, self.name)
        number = made.world.get("seed")
        drawn = number if isinstance(number, int) else 0
        origin = descent(seed, f"{self.name}:{made.category}", drawn)
        return dataclasses.replace(made, provenance=origin)

"""Two writers in one: a share of the proposals comes from the second.

writer = MixedWriter(GraphWriter(tasks, world), ResampleWriter(tasks, world), share=0.25)
"""

from __future__ import annotations

import random

from rods.synthesis.rejection import Rejection
from rods.synthesis.writers import Writer
from rods.task import Task


class MixedWriter:
    """Asks `other` with chance `share`, else `main`."""

    def __init__(self, main: Writer, other: Writer, share: float):
        """`share`: in [0, 1]."""
        self.name = f"{main.name}+{other.name}"
        self._main, self._other, self._share = main, other, share

    def propose(self, seed: Task, rng: random.Random) -> Task | Rejection:
        """One proposal of one of both."""
        writer = self._other if rng.random() < self._share else self._main
        return writer.propose(seed, rng)

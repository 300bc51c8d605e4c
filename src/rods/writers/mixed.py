"""Two writers in one: a share of the proposals comes from the second.

writer = MixedWriter(GraphWriter(tasks, world), ResampleWriter(tasks, world), share=0.25)
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from rods.synthesis.gates.case import Gate
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Reviewer, Writer
from rods.task import Task


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
        """One proposal of one of both."""
        writer = self._other if rng.random() < self._share else self._main
        return writer.propose(seed, rng, history)

    def review(self, seed: Task, variant: Task, rng: random.Random) -> Task | Rejection:
        """Asked of the writer that made it, where that one reviews."""
        writer = self._writer_of(variant)
        return writer.review(seed, variant, rng) if isinstance(writer, Reviewer) else variant

    def gates(self, variant: Task) -> Mapping[str, Gate]:
        """Those of the writer that made it."""
        return self._writer_of(variant).gates(variant)

    def _writer_of(self, variant: Task) -> Writer:
        made_by = variant.provenance.recipe.partition(":")[0]
        return self._other if made_by == self._other.name else self._main

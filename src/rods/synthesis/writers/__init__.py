"""Writers: what proposes variants of a seed.

Owns the protocol that every writer fulfils. A writer never decides whether its proposal is good;
the gates do. `resample.py` needs no model.

    proposal = writer.propose(seed, random.Random(7))
"""

from __future__ import annotations

import random
from typing import Protocol

from rods.synthesis.rejection import Rejection
from rods.task import Task


class Writer(Protocol):
    """Proposes variants. A pure function of seed, random state and its own construction."""

    name: str
    """Short name, the first part of `provenance.recipe`."""

    def propose(self, seed: Task, rng: random.Random) -> Task | Rejection:
        """One variant of `seed`, or why there is none. Draws randomness from `rng` alone."""
        ...

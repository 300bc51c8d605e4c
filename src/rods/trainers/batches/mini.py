"""Mini-batches: the samples of one optimiser step, and what each weighs in its mean.

for some in minibatches(samples, 16, rng):
    weights = loss_weights(some, "sequence")
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from rods.trainers.samples import Sample


def loss_weights(samples: Sequence[Sample], aggregation: str, longest: int = 0) -> list[float]:
    """What each token of a sample weighs in the mean over a mini-batch.

    Args:
        samples: the mini-batch.
        aggregation: `token`: every sampled token alike. `sequence`: every trajectory alike, within
            it every token; in both all tokens sum to 1. `constant`: 1 / (trajectories * `longest`),
            the same for long and short ones (Dr. GRPO, arXiv 2503.20783).
        longest: tokens that a trajectory may sample at most.
    """
    if aggregation == "token":
        total = sum(s.sampled for s in samples)
        return [1.0 / total for _ in samples]
    if aggregation == "constant":
        return [1.0 / (len(samples) * longest) for _ in samples]
    return [1.0 / (len(samples) * s.sampled) for s in samples]


def minibatches(
    samples: Sequence[Sample], size: int, rng: np.random.Generator
) -> list[list[Sample]]:
    """Mini-batches of about `size` samples, as equal as whole groups allow, in a random order."""
    groups = [list(group) for _, group in groupby(samples, lambda s: s.task_id)]
    count = min(len(groups), max(1, int(len(samples) / size + 0.5)))
    parts: list[list[Sample]] = [[] for _ in range(count)]
    shuffled = [groups[i] for i in rng.permutation(len(groups))]
    for group in sorted(shuffled, key=len, reverse=True):  # large ones first, small ones fill up
        min(parts, key=len).extend(group)
    return parts

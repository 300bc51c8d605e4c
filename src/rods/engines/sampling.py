"""Sampling: noise that depends on seed and position alone, and inverse-CDF draws.

The noise of a session is a stream of uniforms made by a counter-based generator (Philox), so the
sample at a position does not depend on what else is in the batch. Nothing here knows models.

    noise = Noise(seed=7)
    ids, logprobs = draw(logits, [1.0], [noise.at(512)])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_BLOCK = 512


class Noise:
    """Uniforms in [0, 1) indexed by the position of the token to be sampled."""

    def __init__(self, seed: int) -> None:
        self._key = seed & (2**64 - 1)
        self._blocks: dict[int, list[float]] = {}

    def at(self, position: int) -> float:
        """The uniform of one 0-based position in the context."""
        number, offset = divmod(position, _BLOCK)
        block = self._blocks.get(number)
        if block is None:
            # Block `number` has a generator of its own, so a session that is resumed in the middle
            # of its context needs no draws before it.
            key = np.array([self._key, number], dtype=np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key))
            block = self._blocks[number] = generator.random(_BLOCK).tolist()
        return block[offset]


def draw(
    logits: Tensor,
    temperatures: Sequence[float],
    uniforms: Sequence[float],
    top_ps: Sequence[float] = (),
) -> tuple[list[int], list[float]]:
    """One id for each row of logits.

    Args:
        logits: float32, shape (rows, vocabulary).
        temperatures: one a row, at least 0; 0 takes the most probable id.
        uniforms: one a row, in [0, 1).
        top_ps: one a row, in (0, 1]: draw among the most probable ids that together have this
            probability; none: among all.

    Returns:
        ids and their natural log-probabilities after the temperature, before `top_ps`. Greedy rows
        report the log-probability at temperature 1, because the one at 0 would always be 0.
    """
    greedy = [t == 0 for t in temperatures]
    if any(t not in (0.0, 1.0) for t in temperatures):
        scale = torch.tensor([t or 1.0 for t in temperatures], device=logits.device)
        logits = logits / scale[:, None]
    logprobs = logits.log_softmax(-1)
    if all(greedy):
        ids = logprobs.argmax(-1, keepdim=True)
    else:
        probs = logprobs.exp()
        if any(p < 1 for p in top_ps):
            probs = _nucleus(probs, torch.tensor(top_ps, device=logits.device)[:, None])
        # float64: over a vocabulary of 150,000 a float32 sum loses the rare ids.
        cdf = probs.cumsum(-1, dtype=torch.float64)
        noise = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
        # The first id whose cumulated probability exceeds u times the total, which is almost 1.
        # `right`: an id of probability 0 is never taken, not even at u = 0.
        ids = torch.searchsorted(cdf, noise * cdf[:, -1:], right=True)
        ids = ids.clamp_(max=logits.shape[-1] - 1)
        if any(greedy):
            mask = torch.tensor(greedy, device=logits.device)[:, None]
            ids = torch.where(mask, logprobs.argmax(-1, keepdim=True), ids)
    sampled: Any = ids[:, 0]
    taken: Any = logprobs.gather(1, ids)[:, 0]
    return sampled.tolist(), taken.tolist()


def _nucleus(probs: Tensor, top_ps: Tensor) -> Tensor:
    """The probabilities with all but each row's most probable ids set to 0."""
    ordered, places = probs.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered  # what the more probable ids have together
    # An id stays while those before it have less than top_p, so the one that crosses it stays.
    ordered = ordered.masked_fill((before >= top_ps) & (top_ps < 1), 0.0)
    return torch.zeros_like(probs).scatter(-1, places, ordered)

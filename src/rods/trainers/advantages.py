"""Advantages: how much better than its peers each trajectory was.

Owns the arithmetic from rewards to advantages, in float64. It never sees a token or a weight, only
how many tokens each member has. An invalid member is `None`: it enters no baseline and gets no
advantage (invariant 5).

    advantages("rloo", [[1.0, 0.0, None]])      # [[1.0, -1.0, None]]

Standard deviations are those of a sample (divided by n - 1), as in verl and TRL, whose numbers the
systems we follow were made with; a single value has deviation 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rods.errors import TrainError
from rods.reward import EQUAL

EPSILON = 1e-6
"""Added to every standard deviation that divides."""

ROOT = 1e-8
"""verl's guard of a mean over tokens (in the divisor) and of its variance (under the root)."""

KINDS = ("dr_grpo", "grpo", "reinforce++", "reinforce++_baseline", "rloo")

Rewards: TypeAlias = Sequence[Sequence[float | None]]
Counts: TypeAlias = Sequence[Sequence[int]]
Array: TypeAlias = NDArray[np.float64]


def advantages(kind: str, rewards: Rewards, tokens: Counts = ()) -> list[list[float | None]]:
    """One advantage for each member, of the same shape as `rewards`; None stays None.

    Args:
        kind: `grpo`: (r - mean) / (std + 1e-6) within the group (DeepSeekMath, arXiv 2402.03300).
            `dr_grpo`: r - mean (arXiv 2503.20783). `rloo`: r - mean of the others (arXiv
            2402.14740). `reinforce++`: r whitened over the batch, no group baseline (arXiv
            2501.03262). `reinforce++_baseline`: r - group mean, then whitened over the batch. The
            batch's mean and deviation are those of its *tokens*, as in verl and OpenRLHF: a member
            weighs by its length.
        rewards: one row a group; finite numbers, or None for an invalid member.
        tokens: of the same shape: how many tokens of a member carry loss; needed where they weigh.

    Members of a group whose rewards are equal get exactly 0, save under the `reinforce++` kinds,
    which take their mean from the batch: there it takes a whole batch of equal rewards.

    Raises:
        TrainError: `kind` is unknown, a reward is not finite, or `tokens` has another shape.
    """
    if kind not in KINDS:
        raise TrainError(f"there is no advantage {kind!r}. Known: {', '.join(KINDS)}.")
    for index, row in enumerate(rewards):
        if not all(r is None or math.isfinite(r) for r in row):
            raise TrainError(f"group {index}: rewards must be finite numbers, got {list(row)}.")
    groups = [np.array([r for r in row if r is not None], dtype=np.float64) for row in rewards]
    # What is all equal becomes exactly 0, which its mean would miss by rounding.
    centred = [g - (g if is_flat(g) else g.mean()) for g in groups]
    found = groups if kind == "reinforce++" else centred
    if kind == "grpo":
        # DeepSeekMath, section 4.1.2: (r_i - mean(r)) / std(r). `dr_grpo` has no deviation: it
        # would weigh groups that are almost always right or wrong the most.
        found = [c / (_deviation(g) + EPSILON) for c, g in zip(found, groups, strict=True)]
    elif kind == "rloo":
        # The baseline is the mean of the others: r - (sum - r) / (n - 1) is
        # (r - mean) * n / (n - 1).
        found = [c * (c.size / max(c.size - 1, 1)) for c in found]
    elif kind.startswith("reinforce++"):
        found = _whiten_tokens(found, _weights(rewards, tokens))
    left = [iter(values.tolist()) for values in found]
    return [
        [None if r is None else next(values) for r in row]
        for row, values in zip(rewards, left, strict=True)
    ]


def zero_variance(rewards: Sequence[float | None]) -> bool:
    """True if the valid rewards of one group are all equal (or fewer than two)."""
    return is_flat(np.array([r for r in rewards if r is not None], dtype=np.float64))


def _weights(rewards: Rewards, tokens: Counts) -> Array:
    """Tokens of all valid members in order."""
    if [len(row) for row in rewards] != [len(row) for row in tokens]:
        raise TrainError(
            f"rewards of {[len(row) for row in rewards]} members came with token counts of "
            f"{[len(row) for row in tokens]}; expected one count for each."
        )
    pairs = [zip(row, counts, strict=True) for row, counts in zip(rewards, tokens, strict=True)]
    return np.array([n for row in pairs for r, n in row if r is not None], dtype=np.float64)


def is_flat(values: Array) -> bool:
    """True if all values are equal, or fewer than two: then there is nothing to compare."""
    return values.size < 2 or float(np.ptp(values)) <= EQUAL


def _deviation(values: Array) -> float:
    return float(np.std(values, ddof=1)) if values.size > 1 else 0.0


def whiten(groups: Sequence[Array]) -> list[Array]:
    """All numbers together to mean 0 and deviation 1; numbers that are all equal become 0."""
    values = np.concatenate([np.zeros(0), *groups])
    if is_flat(values):
        return [np.zeros_like(g) for g in groups]
    mean, deviation = values.mean(), _deviation(values) + EPSILON
    return [(g - mean) / deviation for g in groups]


def _whiten_tokens(groups: list[Array], weights: Array) -> list[Array]:
    """verl's `masked_whiten` over tokens that all carry their member's value."""
    values, count = np.concatenate([np.zeros(0), *groups]), float(weights.sum())
    if is_flat(values[weights > 0]):
        return [np.zeros_like(g) for g in groups]
    mean = float(weights @ values) / (count + ROOT)
    # Variance over tokens with Bessel's correction count / (count - 1), as verl computes it.
    spread = float(weights @ (values - mean) ** 2) / (count + ROOT) * (count / (count - 1))
    return [(g - mean) / math.sqrt(spread + ROOT) for g in groups]

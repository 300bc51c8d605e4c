"""Generalised advantage estimation (arXiv 1506.02438) over the sampled tokens of trajectories.

Owns the arithmetic from values and a reward to advantages and returns, in float64. It never runs a
model. Only sampled tokens are time steps: what the environment inserted is skipped, so the value
after an insertion follows the one before it. The reward comes at the last sampled token.

    token_advantages([0.5, 0.2], reward=1.0, gamma=1.0, lam=1.0)        # [0.5, 0.8]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from rods.errors import TrainError
from rods.trainers.advantages import Array, is_flat, whiten
from rods.trainers.samples import Estimates, Floats, Sample


def token_advantages(
    values: Sequence[float], reward: float, gamma: float, lam: float, costs: Sequence[float] = ()
) -> list[float]:
    """A_t = d_t + gamma lam A_{t+1} with d_t = r_t + gamma V_{t+1} - V_t; V is 0 after the end.

    Args:
        values: V_t, what was expected before each sampled token.
        reward: r of the last token; all others earn 0.
        costs: taken from the r of each token; empty: none.
        gamma: discount of one token.
        lam: 1: return minus value; 0: d_t alone.
    """
    # gamma V_{t+1} for all but the last token, whose V_{t+1} is 0 and which earns the reward.
    after = [gamma * v for v in values[1:]] + [reward]
    paid = costs or [0.0] * len(after)
    errors = [b - c - a for a, b, c in zip(values, after, paid, strict=True)]
    # Equation 16 of the paper as a recursion, from the last token to the first.
    return list(accumulate(reversed(errors), lambda later, d: d + gamma * lam * later))[::-1]


def explained_variance(returns: Array, values: Array) -> float | None:
    """1 - Var(returns - values) / Var(returns): 1 is perfect, 0 as good as a constant.

    None: the returns are all equal.
    """
    if is_flat(returns):
        return None
    return float(1 - np.var(returns - values) / np.var(returns))


def with_estimates(
    samples: Sequence[Sample], values: Sequence[Floats], gamma: float, lam: float, kl: float = 0.0
) -> list[Sample]:
    """The samples with advantages, whitened over all their tokens, returns and values.

    Args:
        samples: with what their trajectories earned, and where `kl` is not 0 their reference.
        values: of each sampled token.
        gamma, lam: see `token_advantages`.
        kl: what each token pays for its log-ratio to the reference (k1).

    Raises:
        TrainError: a value is not finite, or they are not one for each sampled token.
    """
    for sample, some in zip(samples, values, strict=True):
        if len(some) != sample.sampled or not np.isfinite(some).all():
            raise TrainError(
                f"task {sample.task_id}, member {sample.member}: {len(some)} values came for "
                f"{sample.sampled} sampled tokens; expected one finite value for each. Lower "
                "train.gae.critic_lr, or go back to an older checkpoint."
            )
    exact = [np.asarray(v, dtype=np.float64) for v in values]
    raw = [
        np.array(token_advantages(v.tolist(), s.reward, gamma, lam, _costs(s, kl)))
        for s, v in zip(samples, exact, strict=True)
    ]
    # The critic's target is A + V, the lambda-return, before whitening.
    return [
        replace(s, estimates=Estimates(_single(white), _single(a + v), _single(v)))
        for s, white, a, v in zip(samples, whiten(raw), raw, exact, strict=True)
    ]


def _costs(sample: Sample, kl: float) -> list[float]:
    return (kl * sample.log_ratio).tolist() if kl else []


def _single(values: Array) -> Floats:
    return values.astype(np.float32)

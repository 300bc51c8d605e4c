"""Losses: from log-probabilities and advantages to one number to minimize.

Owns the surrogates, the KL loss, the entropy bonus and the numbers that describe them. It never
runs a model. Everything is per sampled token, flat, shape (N,); `weights` makes the mean, so sums
over micro-batches are the mean over the mini-batch. Three log-probabilities of a token, in nats:

* `rollout_logprobs`: by the engine, when it sampled the token (pi_engine);
* `old_logprobs`: recomputed by the trainer under the weights before the update (pi_old);
* `logprobs`: by the trainer under the current weights, with gradient (pi).

    terms = objective(logprobs, entropy, LossInputs(rollout_logprobs, ...), settings)
    terms.loss.backward()
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rods.config import TrainSettings
from rods.config.train import CAP

CLAMP = 20.0
"""Log-ratios are held within +-20, so that their exponentials stay finite."""


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Inputs of the loss that are known before the forward pass, by sampled token; shape (N,)."""

    rollout_logprobs: Tensor
    """NaN where the token was not sampled: its ratio is 1."""
    advantages: Tensor
    weights: Tensor
    """Share of the mini-batch's mean; sums to 1 over the mini-batch (less under `constant`)."""
    rows: Tensor
    """Which trajectory of the micro-batch a token belongs to, from 0 in steps of at most 1."""
    reference: Tensor | None = None
    """Log-probability under the frozen reference; None: no KL loss."""
    old_logprobs: Tensor | None = None
    """None: they are not known, or are those of this forward pass (`first_step`)."""
    first_step: bool = False
    """True if no optimizer step of this update was made yet: then `logprobs` are the old ones."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A policy-gradient loss by token, and where it was clipped; all of shape (N,)."""

    loss: Tensor
    ratio: Tensor
    """pi / pi_old, detached; of the sequence under `gspo`."""
    clipped_high: Tensor
    """The ratio stands above 1 + clip_high where that stops the gradient."""
    clipped_low: Tensor
    """The ratio stands below 1 - clip_low where that stops the gradient."""
    clipped_dual: Tensor
    """The dual clip holds the loss."""


@dataclass(frozen=True, slots=True)
class Terms:
    """One micro-batch's share of the objective."""

    loss: Tensor
    """Scalar with gradient."""
    sums: dict[str, Tensor]
    """Detached scalars: weighted shares (`policy`, `kl`, `entropy_mean`), the sum of weights
    (`weight`), and counts to be divided by the tokens (`clip_high`, `clip_low`, `clip_dual`,
    `approx_kl`)."""
    ratio_max: Tensor
    mismatch: Tensor | None = None
    """old_logprobs - rollout_logprobs, NaN where the token was not sampled; None: not known."""


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """KL(policy || reference) by token: exp(q - p) - (q - p) - 1 with p = logprobs, q = reference.

    At least 0; unbiased for tokens sampled from the policy (Schulman, "Approximating KL
    divergence"; DeepSeekMath, arXiv 2402.03300, equation 4).
    """
    difference = (reference - logprobs).clamp(-CLAMP, CLAMP)
    return difference.exp() - difference - 1


def clipped(
    log_ratio: Tensor, advantages: Tensor, low: float, high: float, dual: float
) -> Surrogate:
    """PPO's clipped surrogate with separate bounds (clip-higher, DAPO, arXiv 2503.14476).

    max(-A r, -A clip(r, 1 - low, 1 + high)) (PPO, arXiv 1707.06347, equation 7); for A < 0 at most
    -A * dual (dual-clip PPO, arXiv 1912.09729).

    Args:
        log_ratio: log pi - log pi_old, shape (N,).
        advantages: A, shape (N,).
        low, high: how far below and above 1 the ratio may move.
        dual: above 1, or 0 for no dual clip.
    """
    ratio = log_ratio.clamp(-CLAMP, CLAMP).exp()
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - low, 1 + high))
    negative = advantages < 0
    # For A < 0 the clip has no upper bound: a token that became likely weighs without limit.
    held = negative & (ratio > dual) if dual else torch.zeros_like(negative)
    if dual:
        loss = torch.where(negative, torch.minimum(loss, -advantages * dual), loss)
    above, below = (advantages > 0) & (ratio > 1 + high), negative & (ratio < 1 - low)
    return Surrogate(loss, ratio.detach(), above, below, held)


def gspo(
    log_ratio: Tensor,
    advantages: Tensor,
    rows: Tensor,
    sampled: Tensor,
    low: float,
    high: float,
    dual: float,
) -> Surrogate:
    """GSPO-token (arXiv 2507.18071, equation 14): the sequence's ratio, each token's gradient.

    s_t = sg(s) pi_t / sg(pi_t) with s = exp(mean log-ratio) and sg a stop of the gradient. Where
    all advantages and weights of a trajectory are equal, loss and gradient are those of GSPO; where
    they differ by token (credit, importance weights), each token keeps its own. The paper has
    `aggregation = "sequence"` and much smaller bounds (3e-4 and 4e-4).

    Args:
        rows: trajectory of each token, shape (N,); the others are those of `clipped`.
        sampled: False for tokens of the environment: their log-ratio is 0, so their ratio is 1.
    """
    count = int(rows.max()) + 1 if rows.numel() else 0
    # The sequence's ratio is a constant: through it, every token would move by the mean of all
    # advantages, which cancels credit by token.
    frozen = log_ratio.detach()
    total = frozen.new_zeros(count).index_add(0, rows, frozen)
    lengths = torch.bincount(rows[sampled], minlength=count).clamp(min=1)
    mean = torch.where(sampled, (total / lengths)[rows], 0.0)
    # log_ratio - frozen is 0 with the gradient of log pi_t: the value is s, the slope by token.
    return clipped(mean + (log_ratio - frozen), advantages, low, high, dual)


def importance(mismatch: Tensor, cap: float) -> Tensor:
    """Truncated importance weight of each token: min(pi_old / pi_engine, cap).

    Constant in the gradient (Yao et al., "Your efficient RL framework secretly brings you
    off-policy RL training", 2025; decoupled from the ratio that is clipped as in AReaL, arXiv
    2505.24298). 1 where the token was not sampled.

    Args:
        mismatch: old_logprobs - rollout_logprobs, NaN where not sampled.
        cap: at least 1.
    """
    log_weight = torch.where(mismatch.isnan(), 0.0, mismatch).clamp(-CLAMP, CLAMP)
    return log_weight.exp().clamp(max=cap)


def objective(
    logprobs: Tensor, entropy: Tensor, inputs: LossInputs, settings: TrainSettings
) -> Terms:
    """Surrogate + kl * k3 - entropy coefficient * entropy, weighted.

    Args:
        logprobs: of each sampled token under the current weights, with gradient, shape (N,).
        entropy: of the same distributions, in nats, shape (N,); needs a gradient only if
            `settings.entropy` > 0.
        inputs: see `LossInputs`.
    """
    recomputed, rollout_logprobs = inputs.old_logprobs, inputs.rollout_logprobs
    if recomputed is None and inputs.first_step:
        recomputed = logprobs.detach()
    mismatch = None if recomputed is None else recomputed - rollout_logprobs
    sampled = ~rollout_logprobs.isnan()
    # Without a correction the engine is taken at its word: pi_old is the policy that sampled.
    old_logprobs = rollout_logprobs
    if recomputed is not None and settings.correction.method != "none":
        old_logprobs = recomputed
    old_logprobs = torch.where(sampled, old_logprobs, logprobs.detach())
    log_ratio, advantages = logprobs - old_logprobs, inputs.advantages
    low, high, dual = settings.clip_low, settings.clip_high, settings.dual_clip
    if settings.loss == "gspo":
        part = gspo(log_ratio, advantages, inputs.rows, sampled, low, high, dual)
    else:
        part = clipped(log_ratio, advantages, low, high, dual)
    weights, corrected = inputs.weights, part.loss
    if settings.correction.method == "truncated" and mismatch is not None:
        corrected = corrected * importance(mismatch, CAP)
    loss = policy = (corrected * weights).sum()
    moved = log_ratio.detach().clamp(-CLAMP, CLAMP)
    sums = {
        "policy": policy.detach(),
        "weight": weights.sum(),
        "entropy_mean": (entropy.detach() * weights).sum(),
        "clip_high": part.clipped_high.sum(),
        "clip_low": part.clipped_low.sum(),
        "clip_dual": part.clipped_dual.sum(),
        # k3 of KL(pi_old || pi) for tokens of pi_old: r - 1 - log r.
        "approx_kl": (moved.exp() - 1 - moved).sum(),
    }
    if settings.entropy:
        loss = loss - settings.entropy * (entropy * weights).sum()
    if inputs.reference is not None:
        divergence = (k3(logprobs, inputs.reference) * weights).sum()
        sums["kl"] = divergence.detach()
        if settings.kl_in == "loss":
            loss = loss + settings.kl * divergence
    return Terms(loss, sums, part.ratio.max(), mismatch)

"""Training samples: what of a trajectory reaches a loss.

Owns the step from trajectories to samples, with the checks that ids and masks arrive unchanged
(invariant 1). It never decodes a token and knows no model. No torch here, so that every trainer can
share it; what a step makes of samples stands in `batches/`.

    sample = to_sample(trajectory, advantage=0.5)
    sample.ids, sample.mask, sample.advantages
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rods.errors import TokenError, TrainError
from rods.trajectory import Trajectory

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Bools: TypeAlias = NDArray[np.bool_]

ABOVE_ZERO = 1e-4
"""A log-probability may exceed 0 by so much through rounding."""


class Estimates(NamedTuple):
    """Estimates of a critic for one trajectory, by sampled token; all of shape (`sampled`,)."""

    advantages: Floats
    returns: Floats
    """Targets of the critic."""
    values: Floats
    """Predictions before the update."""


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """One trajectory as a trainer reads it."""

    ids: Ints
    """Token ids, int64, shape (T,)."""
    mask: Bools
    """True where the token carries loss: where the policy sampled it; shape (T,); never at 0."""
    rollout_logprobs: Floats
    """Natural log-probability at sampling, 0 elsewhere; shape (T,). NaN: not sampled, but carries
    loss (`mask_env_tokens=False`)."""
    advantage: float
    """Advantage of every sampled token, unless `credit` or `estimates` are set."""
    task_id: str
    member: int
    """Index within its group."""
    temperature: float = 1.0
    """Temperature at sampling, which divided the logits; above 0."""
    reference: Floats | None = None
    """Log-probability of the sampled tokens under the frozen reference; shape (`sampled`,)."""
    reward: float = 0.0
    """Reward of the whole trajectory."""
    group: int = 0
    """Index of its group among those of the update."""
    estimates: Estimates | None = None
    """Estimates of a critic, under `gae`."""
    credit: Floats | None = None
    """Advantage of each sampled token, in the place of `advantage`; shape (`sampled`,)."""
    old_logprobs: Floats | None = None
    """Log-probabilities, recomputed before the update; shape (`sampled`,)."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sampled(self) -> int:
        """Tokens that carry loss."""
        return int(self.mask.sum())

    @property
    def context(self) -> Ints:
        """The ids that some sampled token depends on: all before the last sampled one."""
        return self.ids[: int(np.flatnonzero(self.mask)[-1])]

    @property
    def advantages(self) -> Floats:
        """Advantage of each sampled token, by token, turn or trajectory; shape (`sampled`,)."""
        if self.estimates is not None:
            return self.estimates.advantages
        if self.credit is not None:
            return self.credit
        return np.full(self.sampled, self.advantage, dtype=np.float32)

    @property
    def log_ratio(self) -> NDArray[np.float64]:
        """k1 of each sampled token: log pi_old - log pi_ref; shape (`sampled`,).

        See Schulman, "Approximating KL divergence". Raises `TrainError` without a reference.
        """
        if self.reference is None:
            raise TrainError(
                f"task {self.task_id}, member {self.member}: a KL reward needs the reference's "
                "log-probabilities, and none were computed."
            )
        old = self.rollout_logprobs[self.mask] if self.old_logprobs is None else self.old_logprobs
        return old.astype(np.float64) - self.reference.astype(np.float64)


def to_sample(trajectory: Trajectory, advantage: float, mask_env_tokens: bool = True) -> Sample:
    """The sample of one valid trajectory: its ledger's ids, mask and log-probabilities as they are.

    `mask_env_tokens=False` is the world-model experiment: whatever the environment added after the
    first sampled token carries loss too, as in systems that forget this mask; the prompt never
    does. Such a token has no log-probability of sampling. It gets NaN, and the loss then takes the
    current one, without gradient: its ratio is always 1, nothing is clipped, and what remains is
    its log-likelihood times the advantage.

    Raises:
        TrainError: the trajectory is invalid, was sampled greedily, or the advantage is not finite.
        TokenError: nothing was sampled, the first token was, or a log-probability is impossible.
    """
    where = f"task {trajectory.task_id}, member {trajectory.member}"
    if not trajectory.valid:
        raise TrainError(f"{where}: invalid ({trajectory.failure}); it must not reach a loss.")
    if not trajectory.temperature > 0:
        raise TrainError(
            f"{where}: sampled at temperature {trajectory.temperature}; training needs trajectories"
            " sampled at a temperature above 0 (rollout.temperature)."
        )
    if not math.isfinite(advantage):
        raise TrainError(f"{where}: the advantage is {advantage}, expected a finite number.")
    ledger = trajectory.ledger
    ids = np.array(ledger.ids, dtype=np.int64)
    mask = np.array(ledger.mask, dtype=np.bool_)
    logprobs = np.array(ledger.logprobs, dtype=np.float32)
    if not len(ids) == len(mask) == len(logprobs):
        raise TokenError(
            f"{where}: {len(ids)} ids, {len(mask)} mask entries and {len(logprobs)} "
            "log-probabilities; the lengths must be equal."
        )
    if not mask.any() or mask[0]:
        first = ", the first among them" if mask.any() else ""
        raise TokenError(
            f"{where}: {int(mask.sum())} of {len(mask)} tokens were sampled{first}; expected a "
            "context token first and at least one sampled token."
        )
    if not np.isfinite(logprobs).all() or float(logprobs.max()) > ABOVE_ZERO:
        raise TokenError(
            f"{where}: log-probabilities must be finite and at most 0, got {logprobs.max()} as "
            "the largest; the engine is at fault."
        )
    if not mask_env_tokens:
        added = ~mask & (np.cumsum(mask) > 0)
        mask, logprobs = mask | added, np.where(added, np.float32(np.nan), logprobs)
    whose = (trajectory.task_id, trajectory.member, trajectory.temperature)
    return Sample(ids, mask, logprobs, advantage, *whose)


@dataclass(frozen=True, slots=True)
class HostRow:
    """A trajectory as host trainers read one: a prompt, and a completion to be trained on.

    It ends with the last sampled token, on which nothing that follows depends.
    """

    prompt: list[int]
    """Ids before the first sampled token."""
    completion: list[int]
    """Ids from there on, C of them."""
    mask: list[int]
    """1 where the policy sampled the id of the completion, else 0; length C."""
    rollout_logprobs: list[float]
    """Log-probability at sampling, 0 elsewhere; length C."""
    trained: list[int]
    """1 where the id carries loss, as the sample says; length C."""
    advantages: list[float]
    """Advantage of each id of the completion, 0 where it carries no loss; length C."""


def host_row(trajectory: Trajectory, sample: Sample | None, filler: int = 0) -> HostRow:
    """Split a trajectory into prompt and completion, with masks and advantages by token.

    Args:
        trajectory: valid or not.
        sample: what `collect` made of it; None: it carries no loss.
        filler: id that stands twice, without loss, for what must not or cannot be shown: it is
            invalid, or nothing was sampled.

    Raises:
        TokenError: its first token was sampled, or a log-probability is impossible.
    """
    if not (trajectory.valid and trajectory.ledger.generated):
        return HostRow([filler], [filler], [0], [0.0], [0], [0.0])
    whole = to_sample(trajectory, 0.0)
    first, last = np.flatnonzero(whole.mask)[[0, -1]].tolist()
    part = slice(first, last + 1)
    trained = np.zeros_like(whole.mask) if sample is None else sample.mask
    advantages = np.zeros(len(whole), dtype=np.float32)
    if sample is not None:
        advantages[trained] = sample.advantages
    return HostRow(
        whole.ids[:first].tolist(),
        whole.ids[part].tolist(),
        whole.mask[part].astype(int).tolist(),
        whole.rollout_logprobs[part].tolist(),
        trained[part].astype(int).tolist(),
        advantages[part].tolist(),
    )


def span_advantages(trajectory: Trajectory, sample: Sample | None) -> tuple[float | None, ...]:
    """The mean advantage of each span's tokens with loss; None: none has a loss, or no sample."""
    if sample is None:
        return (None,) * len(trajectory.spans)
    by_token = np.zeros(len(sample))
    by_token[sample.mask] = sample.advantages
    # Mask and advantages run over the spans end to end.
    ends = np.cumsum([len(span.ids) for span in trajectory.spans])[:-1]
    pieces = zip(np.split(by_token, ends), np.split(sample.mask, ends), strict=True)
    return tuple(float(of[mask].mean()) if mask.any() else None for of, mask in pieces)


def loss_tokens(trajectory: Trajectory, mask_env_tokens: bool = True) -> int:
    """Number of tokens of a trajectory that carry loss; see `to_sample`."""
    spans = trajectory.spans
    first = next((i for i, span in enumerate(spans) if span.sampled), len(spans))
    return sum(len(s.ids) for s in spans[first:] if s.sampled or not mask_env_tokens)

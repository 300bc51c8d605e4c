"""Training samples: what of a trajectory reaches a loss.

Owns the step from trajectories to samples and micro-batches, with the checks that ids and masks
arrive unchanged (invariant 1). It never decodes a token and knows no model. No torch here, so that
every trainer can share it.

    sample = to_sample(trajectory, advantage=0.5)
    for micro in pack([sample], max_tokens=16_384):
        micro.padded, micro.targets, micro.advantages
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rods.errors import TokenError, TrainError
from rods.trainers.tree import Tree, common_prefix, grow
from rods.trajectory import Trajectory

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Bools: TypeAlias = NDArray[np.bool_]

ABOVE_ZERO = 1e-4
"""A log-probability may exceed 0 by so much through rounding."""


@dataclass(frozen=True, eq=False, slots=True)
class Estimates:
    """What a critic made of one trajectory, by sampled token; all of shape (`sampled`,)."""

    advantages: Floats
    returns: Floats
    """What the critic should have said."""
    values: Floats
    """What it said before the update."""


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """One trajectory as a trainer reads it."""

    ids: Ints
    """Token ids, int64, shape (T,)."""
    mask: Bools
    """True where the token carries loss: where the policy sampled it; shape (T,); never at 0."""
    logprobs: Floats
    """Natural log-probability at sampling, 0 elsewhere; shape (T,). NaN: not sampled, but carries
    loss (`mask_env_tokens=False`)."""
    advantage: float
    """The same for every sampled token; `estimates`, where there are any, stand in its place."""
    task_id: str
    member: int
    """Index within its group."""
    temperature: float = 1.0
    """What the logits were divided by at sampling; above 0."""
    reference: Floats | None = None
    """Log-probability of the sampled tokens under the frozen reference; shape (`sampled`,)."""
    reward: float = 0.0
    """What the whole trajectory earned."""
    group: int = 0
    """Index of its group among those of the update."""
    estimates: Estimates | None = None
    """Those of a critic, under `gae`."""
    credit: Floats | None = None
    """Advantage of each sampled token, in the place of `advantage`; shape (`sampled`,)."""
    anew: Floats | None = None
    """Log-probability of the sampled tokens by the trainer before the update; (`sampled`,)."""

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
        raise TokenError(
            f"{where}: {int(mask.sum())} of {len(mask)} tokens were sampled"
            f"{', the first among them' if len(mask) and mask[0] else ''}; expected a context "
            "token first and at least one sampled token."
        )
    if not np.isfinite(logprobs).all() or float(logprobs.max()) > ABOVE_ZERO:
        raise TokenError(
            f"{where}: log-probabilities must be finite and at most 0, got {logprobs.max()} as "
            "the largest; the engine is at fault."
        )
    if not mask_env_tokens:
        added = ~mask & (np.cumsum(mask) > 0)
        mask, logprobs = mask | added, np.where(added, np.float32(np.nan), logprobs)
    return Sample(
        ids, mask, logprobs, advantage, trajectory.task_id, trajectory.member,
        trajectory.temperature,
    )  # fmt: skip


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
    logprobs: list[float]
    """Log-probability at sampling, 0 elsewhere; length C."""
    trained: list[int]
    """1 where the id carries loss, as the sample says; length C."""
    advantages: list[float]
    """Of each id of the completion, 0 where it carries no loss; length C."""


def host_row(trajectory: Trajectory, sample: Sample | None, filler: int = 0) -> HostRow:
    """The row of a trajectory.

    Args:
        trajectory: valid or not.
        sample: what `collect` made of it; None: it carries no loss.
        filler: id that stands twice, without loss, for what must not or cannot be shown: it is
            invalid, or nothing was sampled.

    Raises:
        TokenError: see `to_sample`.
    """
    if not (trajectory.valid and trajectory.ledger.generated):
        return HostRow([filler], [filler], [0], [0.0], [0], [0.0])
    whole = to_sample(trajectory, 0.0)
    first, last = np.flatnonzero(whole.mask)[[0, -1]].tolist()
    part = slice(first, last + 1)
    trained = np.zeros_like(whole.mask) if sample is None else sample.mask
    advantages = np.zeros(len(whole), dtype=np.float32)
    if sample is not None:
        advantages[trained] = _advantages_of(sample)
    return HostRow(
        whole.ids[:first].tolist(),
        whole.ids[part].tolist(),
        whole.mask[part].astype(int).tolist(),
        whole.logprobs[part].tolist(),
        trained[part].astype(int).tolist(),
        advantages[part].tolist(),
    )


def loss_tokens(trajectory: Trajectory, mask_env_tokens: bool = True) -> int:
    """How many tokens of a trajectory carry loss; see `to_sample`."""
    spans = trajectory.spans
    first = next((i for i, span in enumerate(spans) if span.sampled), len(spans))
    return sum(len(s.ids) for s in spans[first:] if s.sampled or not mask_env_tokens)


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _advantages_of(sample: Sample) -> Floats:
    """The advantage of each sampled token, by trajectory or by turn; shape (`sampled`,)."""
    if sample.credit is not None:
        return sample.credit
    return np.full(sample.sampled, sample.advantage, dtype=np.float32)


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
    """Mini-batches of about `size` samples, as equal as whole groups allow.

    A group (neighbours with the same task) is never split, so its peers push against each other in
    the same optimiser step.

    Args:
        samples: in the order of groups.
        size: samples wanted in each; their number is rounded to what comes nearest.
        rng: shuffles the groups.
    """
    groups = [list(group) for _, group in groupby(samples, lambda s: s.task_id)]
    count = min(len(groups), max(1, int(len(samples) / size + 0.5)))
    parts: list[list[Sample]] = [[] for _ in range(count)]
    shuffled = [groups[i] for i in rng.permutation(len(groups))]
    for group in sorted(shuffled, key=len, reverse=True):  # large ones first, small ones fill up
        min(parts, key=len).extend(group)
    return parts


@dataclass(frozen=True, eq=False)
class Microbatch:
    """Samples of one forward pass. Arrays of sampled tokens run over samples, then positions.

    Only the tokens that some sampled token depends on are computed (`Sample.context`).
    """

    samples: tuple[Sample, ...]
    weights: tuple[float, ...]
    """Loss weight of a token of each sample; see `loss_weights`."""
    shared: bool = False
    """Whether it is computed as a tree of common prefixes; else as right-padded rows."""

    @cached_property
    def padded(self) -> Ints:
        """Contexts as rows, right-padded with 0; shape (B, longest)."""
        contexts = [s.context for s in self.samples]
        out = np.zeros((len(contexts), max(map(len, contexts))), dtype=np.int64)
        for row, context in enumerate(contexts):
            out[row, : len(context)] = context
        return out

    @cached_property
    def tree(self) -> Tree:
        """Contexts as a tree; `places` says where each sample's tokens are."""
        return grow([s.context for s in self.samples])

    @property
    def positions(self) -> int:
        """Token positions that a forward pass computes."""
        return len(self.tree.ids) if self.shared else self.padded.size

    @cached_property
    def rows(self) -> Ints:
        """Sample of each sampled token; shape (N,)."""
        return np.repeat(np.arange(len(self.samples)), [s.sampled for s in self.samples])

    @cached_property
    def columns(self) -> Ints:
        """Position whose next token is the sampled one; shape (N,)."""
        return np.concatenate([np.flatnonzero(s.mask) - 1 for s in self.samples])

    @property
    def places(self) -> Ints:
        """Where those positions stand in the tree; shape (N,)."""
        pairs = zip(self.tree.places, self.samples, strict=True)
        return np.concatenate([place[np.flatnonzero(s.mask) - 1] for place, s in pairs])

    @cached_property
    def targets(self) -> Ints:
        """The sampled ids; shape (N,)."""
        return np.concatenate([s.ids[s.mask] for s in self.samples])

    @cached_property
    def old(self) -> Floats:
        """Their log-probabilities at sampling; shape (N,)."""
        return np.concatenate([s.logprobs[s.mask] for s in self.samples])

    @property
    def reference(self) -> Floats | None:
        """Their log-probabilities under the reference, shape (N,); None unless all are known."""
        return _joined([s.reference for s in self.samples])

    @property
    def anew(self) -> Floats | None:
        """Those by the trainer before the update, shape (N,); None unless all are known."""
        return _joined([s.anew for s in self.samples])

    @property
    def advantages(self) -> Floats:
        """Advantage of each sampled token; shape (N,)."""
        if self.estimates is not None:
            return self.estimates.advantages
        return np.concatenate([_advantages_of(s) for s in self.samples])

    @cached_property
    def estimates(self) -> Estimates | None:
        """Those of all sampled tokens, each of shape (N,); None unless all are known."""
        known = [s.estimates for s in self.samples if s.estimates is not None]
        if len(known) < len(self.samples):
            return None
        return Estimates(
            np.concatenate([e.advantages for e in known]),
            np.concatenate([e.returns for e in known]),
            np.concatenate([e.values for e in known]),
        )

    @property
    def temperatures(self) -> Floats:
        """Sampling temperature of each sampled token; shape (N,)."""
        return self._spread([s.temperature for s in self.samples])

    @property
    def token_weights(self) -> Floats:
        """Loss weight of each sampled token; shape (N,)."""
        return self._spread(self.weights)

    def _spread(self, values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float32)[self.rows]


def pack(
    samples: Sequence[Sample],
    max_tokens: int,
    weights: Sequence[float] | None = None,
    shared: bool = False,
) -> list[Microbatch]:
    """Micro-batches of at most `max_tokens` positions each; equal samples give equal batches.

    Padded: longest first, so that neighbours are of similar length; rows times width counts.
    Shared: by task, then in the order of their ids, so that neighbours have the longest common
    prefixes; a prefix counts once. A sample longer than `max_tokens` is never cut: it forms a
    batch of its own.

    Args:
        samples: what to pack.
        max_tokens: positions of a batch.
        weights: loss weight of each sample's tokens; default: the mean over all tokens.
        shared: whether common prefixes are computed once.
    """
    weights = loss_weights(samples, "token") if weights is None else weights
    bins = _by_prefix(samples, max_tokens) if shared else _by_length(samples, max_tokens)
    return [
        Microbatch(tuple(samples[i] for i in some), tuple(weights[i] for i in some), shared)
        for some in bins
    ]


def _by_length(samples: Sequence[Sample], max_tokens: int) -> list[list[int]]:
    sizes = [len(s.context) for s in samples]
    bins: list[list[int]] = []
    for index in sorted(range(len(samples)), key=lambda i: -sizes[i]):
        if bins and (len(bins[-1]) + 1) * sizes[bins[-1][0]] <= max_tokens:
            bins[-1].append(index)
        else:
            bins.append([index])
    return bins


def _by_prefix(samples: Sequence[Sample], max_tokens: int) -> list[list[int]]:
    contexts = [s.context for s in samples]
    tasks = {s.task_id: None for s in samples}
    rank = {task: n for n, task in enumerate(tasks)}
    order = sorted(
        range(len(samples)), key=lambda i: (rank[samples[i].task_id], contexts[i].tolist())
    )
    bins: list[list[int]] = []
    used = 0
    for index in order:
        size = len(contexts[index])
        extra = size - common_prefix(contexts[bins[-1][-1]], contexts[index]) if bins else size
        if bins and used + extra <= max_tokens:
            bins[-1].append(index)
            used += extra
        else:
            bins.append([index])
            used = size
    return bins

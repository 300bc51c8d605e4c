"""Batches: the samples of an optimizer step and what each weighs, and those of a forward pass.

A mini-batch makes one step. Its micro-batches are padded rows, or trees of common prefixes: the
members of a group start with the same prompt and often go on alike, and what they share is computed
once, laid out flat in one row without padding (`tree_attention.py` runs it).

Decodes no token, knows no model, and needs no torch.

    for some in minibatches(samples, 16, rng):
        for micro in pack(some, 16_384, loss_weights(some, "sequence")):
            micro.padded, micro.targets, micro.advantages
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from rods.trainers.samples import Estimates, Floats, Ints, Sample

if TYPE_CHECKING:
    from torch import Tensor


LEAST = 16
"""Shorter common parts below a branch are computed for each branch: a node costs about as much."""


@dataclass(frozen=True, slots=True)
class Node:
    """Consecutive tokens that stand in the same samples."""

    length: int
    path: tuple[int, ...]
    """Indices of the nodes before it in its samples, root first, then its own."""


@dataclass(frozen=True, eq=False, slots=True)
class Tree:
    """Samples laid out flat, every node once."""

    ids: Ints
    """Shape (T,), node after node."""
    positions: Ints
    """Position of each token in its samples; shape (T,)."""
    nodes: tuple[Node, ...]
    places: tuple[Ints, ...]
    """For each sample, where its tokens stand in `ids`; shape (length,)."""


def grow(sequences: Sequence[Ints], least: int = LEAST) -> Tree:
    """The tree of the sequences' common prefixes.

    Args:
        sequences: token ids of each sample; each holds at least one.
        least: a common part shorter than this is computed for each sample, unless one ends there.
    """
    nodes: list[Node] = []
    starts: list[tuple[int, int]] = []
    paths: list[tuple[int, ...]] = [()] * len(sequences)
    todo: list[tuple[list[int], int, tuple[int, ...]]] = [(list(range(len(sequences))), 0, ())]
    while todo:
        members, start, above = todo.pop()
        if not members:
            continue
        first = sequences[members[0]]
        end = min(common_prefix(first, sequences[m]) for m in members)
        ended = [m for m in members if len(sequences[m]) == end]
        if end > start and (ended or end - start >= least):
            above = (*above, len(nodes))
            nodes.append(Node(end - start, above))
            starts.append((members[0], start))
            start = end
        branches: dict[int, list[int]] = {}
        for m in members:
            if m in ended:
                paths[m] = above
            else:
                branches.setdefault(int(sequences[m][end]), []).append(m)
        todo.extend((branch, start, above) for branch in reversed(branches.values()))
    none = np.zeros(0, dtype=np.int64)
    spans = [(m, start, start + n.length) for n, (m, start) in zip(nodes, starts, strict=True)]
    at = np.cumsum([0, *(n.length for n in nodes)])
    return Tree(
        ids=np.concatenate([none, *(sequences[m][a:b] for m, a, b in spans)]),
        positions=np.concatenate([none, *(np.arange(a, b) for _, a, b in spans)]),
        nodes=tuple(nodes),
        places=tuple(
            np.concatenate([none, *(np.arange(at[i], at[i + 1]) for i in path)]) for path in paths
        ),
    )


def common_prefix(one: Ints, other: Ints) -> int:
    """Number of first tokens that are equal."""
    size = min(len(one), len(other))
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size


@dataclass(frozen=True, eq=False)
class Microbatch:
    """Samples of one forward pass. Arrays of sampled tokens run over samples, then positions.

    Only the tokens that some sampled token depends on are computed (`Sample.context`).
    """

    samples: tuple[Sample, ...]
    weights: tuple[float, ...]
    """Loss weight of a token of each sample; see `loss_weights`."""
    shared: bool = False
    """True if it is computed as a tree of common prefixes; else as right-padded rows."""

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
    def rollout_logprobs(self) -> Floats:
        """Log-probabilities of the sampled tokens at sampling; shape (N,)."""
        return np.concatenate([s.rollout_logprobs[s.mask] for s in self.samples])

    @property
    def reference(self) -> Floats | None:
        """Log-probabilities under the reference, shape (N,); None unless all are known."""
        return _joined([s.reference for s in self.samples])

    @property
    def old_logprobs(self) -> Floats | None:
        """Log-probabilities of the trainer before the update, (N,); None unless all are known."""
        return _joined([s.old_logprobs for s in self.samples])

    @property
    def advantages(self) -> Floats:
        """Advantage of each sampled token; shape (N,)."""
        return np.concatenate([s.advantages for s in self.samples])

    @cached_property
    def estimates(self) -> Estimates | None:
        """Estimates of all sampled tokens, each of shape (N,); None unless all are known."""
        known = [s.estimates for s in self.samples if s.estimates is not None]
        if len(known) < len(self.samples):
            return None
        return Estimates(*(np.concatenate(parts) for parts in zip(*known, strict=True)))

    @property
    def temperatures(self) -> Floats:
        """Sampling temperature of each sampled token; shape (N,)."""
        return np.array([s.temperature for s in self.samples], dtype=np.float32)[self.rows]

    @property
    def token_weights(self) -> Floats:
        """Loss weight of each sampled token; shape (N,)."""
        return np.array(self.weights, dtype=np.float32)[self.rows]


def pack(
    samples: Sequence[Sample],
    max_tokens: int,
    weights: Sequence[float] | None = None,
    shared: bool = False,
) -> list[Microbatch]:
    """Micro-batches of at most `max_tokens` positions each; equal samples give equal batches.

    Padded: longest first, so that neighbors are of similar length; rows times width counts.
    `shared`: by task, then in the order of their ids, so that neighbors have the longest common
    prefixes; a prefix counts once. A sample longer than `max_tokens` is never cut: it forms a
    batch of its own. `weights` are of each sample's tokens; default: the mean over all tokens.
    """
    weights = loss_weights(samples, "token") if weights is None else weights
    bins = _by_prefix(samples, max_tokens) if shared else _by_length(samples, max_tokens)
    return [
        Microbatch(tuple(samples[i] for i in some), tuple(weights[i] for i in some), shared)
        for some in bins
    ]


def by_sample(
    samples: Sequence[Sample], max_tokens: int, shared: bool, run: Callable[[Microbatch], Tensor]
) -> list[Floats]:
    """Results of `run` for the sampled tokens of each sample, in micro-batches; see `pack`."""
    found: dict[int, Floats] = {}
    for micro in pack(samples, max_tokens, None, shared):
        values = run(micro).cpu().numpy()
        parts = np.split(values, np.cumsum([s.sampled for s in micro.samples])[:-1])
        found |= {id(s): part for s, part in zip(micro.samples, parts, strict=True)}
    return [found[id(s)] for s in samples]


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


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
    rank = {task: n for n, task in enumerate(dict.fromkeys(s.task_id for s in samples))}
    order = sorted(
        range(len(samples)), key=lambda i: (rank[samples[i].task_id], contexts[i].tolist())
    )
    bins = fill([contexts[i] for i in order], max_tokens)
    return [[order[place] for place in some] for some in bins]


def fill(contexts: Sequence[Ints], max_tokens: int) -> list[list[int]]:
    """Bins of neighbors, each of at most `max_tokens` positions; a common prefix counts once.

    Contexts, given in the order in which they go into bins, come back as their indices. A longer
    one forms a bin of its own.
    """

    def fits(some: list[int]) -> bool:
        # `used` counts short common parts once, and a tree computes them for each branch.
        most = used + extra + (LEAST - 1) * (len(some) - 1)
        return most <= max_tokens or len(grow([contexts[i] for i in some]).ids) <= max_tokens

    bins: list[list[int]] = []
    used = 0
    for index, context in enumerate(contexts):
        size = len(context)
        extra = size - common_prefix(contexts[index - 1], context) if bins else size
        if bins and used + extra <= max_tokens and fits([*bins[-1], index]):
            bins[-1].append(index)
            used += extra
        else:
            bins.append([index])
            used = size
    return bins


def loss_weights(samples: Sequence[Sample], aggregation: str, longest: int = 0) -> list[float]:
    """Weight of each token of a sample in the mean over a mini-batch.

    Args:
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
    groups = [list(group) for _, group in groupby(samples, lambda s: s.group)]
    count = min(len(groups), max(1, int(len(samples) / size + 0.5)))
    parts: list[list[Sample]] = [[] for _ in range(count)]
    shuffled = [groups[i] for i in rng.permutation(len(groups))]
    for group in sorted(shuffled, key=len, reverse=True):  # large ones first, small ones fill up
        min(parts, key=len).extend(group)
    return parts

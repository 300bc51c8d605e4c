"""Prefix trees: tokens that several samples share are computed once.

The members of a group start with the same prompt, and often go on alike. Owns the tree of such
samples, laid out flat in one row without padding. It runs no model: see `tree_attention`.

    tree = grow([ids_a, ids_b])
    tree.ids[tree.places[1]]            # ids_b again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

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
    """How many first tokens are equal."""
    size = min(len(one), len(other))
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size

"""Rows of cached contexts: what the scheduler asks of a model that has them, and where they lie.

A `Backend` is the seam between batching and architecture: `kv.py` is the fast one, `fallback.py`
takes any architecture. Each row caches the keys and values of one context; tokens are only ever
appended. It never samples and knows nothing of sessions.

`KeyValues` are rows of one length, which grow by need within a budget.
Nothing is allocated before it is used. Where contexts get longer all rows are made longer; where
the budget does not allow that there are fewer: the caller has emptied the last ones before
(`Rows.make_room`).

    kept = KeyValues(layers=36, heads=8, width=128, rows=256, longest=18_193, ...)
    kept.reserve(rows=4, length=700)
    kept.keys[0][row, :, position] = key
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FIRST = 256
"""Positions of a row at first; then half as many again, as often as needed."""
CALL = 2**16
"""Numbers that a kernel reads while another would be called."""


class Backend(ABC):
    """Rows of cached contexts of one model."""

    name: str
    """Short name for people: `kv` or `transformers`."""
    lengths: list[int]
    """Cached tokens of each row; read only."""
    copied: bool
    """True if it computes with a copy of the weights, so that the model may change meanwhile."""

    @abstractmethod
    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Append a chunk of at least one id to each row (all different).

        Returns:
            float32 logits after the last id of each chunk, shape (len(rows), vocabulary).
        """

    @abstractmethod
    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Append one id to each row (ascending, all different); logits as in `prefill`."""

    @abstractmethod
    def fork(self, source: int, target: int, length: int) -> bool:
        """Make `target` a copy of the first `length` cached tokens of `source`.

        If both are the same row, it is cut.

        Returns:
            False if this cache cannot be cut there; `source` is then as it was, and another
            `target` is empty.
        """

    @abstractmethod
    def swap(self, a: int, b: int) -> None:
        """Exchange the contents of two rows."""

    def limit(self, length: int | None = None) -> int:
        """Rows that memory allows if one has `length` tokens (None: a whole context), at least 1.

        Rows beyond must be empty before a longer one is filled.
        """
        return len(self.lengths)

    def clear(self, row: int) -> None:
        """Empty a row."""
        self.lengths[row] = 0

    def release(self) -> None:
        """Empty every row and give its memory back until it is needed."""
        for row in range(len(self.lengths)):
            self.clear(row)

    def sync(self) -> None:
        """Read the model's weights again and empty every row."""
        Backend.release(self)


class KeyValues:
    """Tensors of shape (rows, heads, capacity, width), two a layer."""

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        rows: int,
        longest: int,
        device: torch.device,
        dtype: torch.dtype,
        budget: int | None = None,
    ) -> None:
        """Allocate nothing; there may be `rows` rows of `longest` positions at most.

        Args:
            heads: key heads of a layer, each of `width` numbers.
            budget: most bytes, whatever they suffice for; one row of `longest` is always allowed.
        """
        self._layers, self._heads, self._width = layers, heads, width
        self._rows, self._longest, self._budget = rows, longest, budget
        self.device, self.dtype = device, dtype
        self._token = 2 * layers * heads * width * dtype.itemsize
        self.release()

    @property
    def rows(self) -> int:
        """Rows that are allocated."""
        return int(self.keys[0].shape[0])

    @property
    def capacity(self) -> int:
        """Positions of each of them."""
        return int(self.keys[0].shape[2])

    @property
    def bytes(self) -> int:
        """Allocated bytes."""
        return self.rows * self.capacity * self._token

    def release(self) -> None:
        """Give all memory back; every row is empty."""
        shape = (0, self._heads, 0, self._width)
        none = torch.zeros(shape, device=self.device, dtype=self.dtype)
        self.keys, self.values = [none] * self._layers, [none] * self._layers

    def limit(self, length: int | None = None) -> int:
        """Rows that there may be if one has `length` positions (None: the longest), at least 1."""
        if self._budget is None:
            return self._rows
        wide = self._wide(self._longest if length is None else length)
        return max(1, min(self._rows, self._budget // (wide * self._token)))

    @torch.inference_mode(False)  # tensors made in it could not be written to outside
    @torch.no_grad()
    def reserve(self, rows: int, length: int) -> None:
        """Have at least so many rows (at most `limit(length)`) of at least so many positions."""
        have, wide = self.rows, self._wide(length)
        if rows <= have and wide == self.capacity:
            return
        most = self.limit(length)
        assert rows <= most, f"{rows} rows of {length} positions, {most} are allowed"
        count = min(most, have if rows <= have else max(rows, 2 * have))
        for kept in (self.keys, self.values):
            for layer, old in enumerate(kept):
                new = zeros((count, self._heads, wide, self._width), old)
                new[:have, :, : old.shape[2]] = old[:count]
                kept[layer] = new

    def _wide(self, length: int) -> int:
        """Positions of a row that has so many, now that rows have `capacity`."""
        size = max(FIRST, self.capacity)
        while size < length:
            size += size // 2
        return min(size, self._longest)

    def copy(self, source: int, target: int, length: int) -> None:
        """The first positions of one row to another."""
        for kept in (*self.keys, *self.values):
            kept[target, :, :length] = kept[source, :, :length]

    def swap(self, a: int, b: int, length_a: int, length_b: int) -> None:
        """Exchange two rows, as far as they are filled; empty ones may not be allocated yet."""
        for kept in (*self.keys, *self.values) if length_a or length_b else ():
            moved = kept[a, :, :length_a].clone()
            kept[a, :, :length_b] = kept[b, :, :length_b]
            kept[b, :, :length_a] = moved


def zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros, because a masked position still multiplies what lies there, and NaN * 0 is NaN.

    A host's come from the system and go back to it. glibc would keep those of a cache that grew,
    on top of the new ones: 2 GB at the end of a rollout of 64 trajectories by SmolLM2-135M.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    size = math.prod(shape) * like.itemsize
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(block, dtype=like.dtype).view(shape)


class Run(NamedTuple):
    """Rows `begin` .. `end` - 1, as far as `span` positions."""

    begin: int
    end: int
    span: int


def runs_of(rows: Sequence[int], lengths: Sequence[int], width: int) -> list[Run]:
    """Rows in runs, each as wide as its longest row and the token that is appended to it.

    A kernel takes neighboring rows as a rectangle that is as wide as the longest of them; what the
    others lack is read for nothing. Another call costs as much as some reading, so rows are split
    where their lengths differ by more than that.

    Args:
        rows: those that are wanted; idle ones may lie within a run.
        lengths: positions that each row of the cache has filled.
        width: numbers that a position has, of its keys or of its values.
    """
    most = CALL // width
    runs: list[Run] = []
    for row in sorted(rows):
        span = lengths[row] + 1
        if runs:
            last = runs[-1]
            longest = max(last.span, span)
            apart = (last.end - last.begin) * last.span + span
            if (row + 1 - last.begin) * longest - apart <= most:
                runs[-1] = Run(last.begin, row + 1, longest)
                continue
        runs.append(Run(row, row + 1, span))
    return runs

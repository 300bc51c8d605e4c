"""What the scheduler asks of a model with a cache: the seam between batching and architecture.

A backend holds a number of rows, fewer where contexts are long and memory is short. Each row
caches the keys and values of one context; tokens are only ever appended. `kv.py` is the fast one,
`fallback.py` takes any architecture. A backend never samples and knows nothing of sessions.

    logits = backend.prefill([0, 3], [[5, 6, 7], [8]])   # append, logits after the last token
    logits = backend.decode([0, 3], [9, 9])              # append one token each
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor


class Backend(ABC):
    """Rows of cached contexts of one model."""

    name: str
    """Short name for people: `kv` or `transformers`."""
    lengths: list[int]
    """Cached tokens of each row; read only."""
    copied: bool
    """Whether it computes with a copy of the weights, so that the model may change meanwhile."""

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
        for row in range(len(self.lengths)):
            self.clear(row)

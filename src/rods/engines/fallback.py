"""The general path: transformers' own cache, one for each row, for any causal language model.

It is right for every architecture that transformers can generate with (sliding windows, mixtures of
experts, state-space layers) and slow: rows are computed one after the other. It reads the model's
live weights and never samples.

    cache = TransformersCache(model, rows=8)
    logits = cache.prefill([0], [[5, 6, 7]])
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from rods.engines.weights import base_of
from rods.errors import PolicyError


class TransformersCache:
    """Rows that each own a `transformers` cache of batch size 1."""

    name = "transformers"
    copied = False

    def __init__(self, model: nn.Module, rows: int) -> None:
        """Make the rows.

        Raises:
            PolicyError: the model keeps no key-value cache.
        """
        base: Any = base_of(model)
        accepted = inspect.signature(base.forward).parameters
        if "past_key_values" not in accepted:
            raise PolicyError(
                f"{type(base).__name__} takes no past_key_values, so the engine cannot keep its "
                "context over turns; use a model with a key-value cache, or serve it elsewhere."
            )
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._model = model
        self._config: Any = base.config
        self._device = next(model.parameters()).device
        self._caches: list[Cache | None] = [None] * rows
        self.lengths = [0] * rows

    def sync(self) -> None:
        """Empty all rows; the weights are the model's own."""
        for row in range(len(self.lengths)):
            self.clear(row)

    def clear(self, row: int) -> None:
        """Empty a row."""
        self._caches[row], self.lengths[row] = None, 0

    def fork(self, source: int, target: int, length: int) -> bool:
        """Copy and cut a cache, if its layers can be cut at any length."""
        cache = self._caches[source]
        if source != target:
            self.clear(target)
        if not isinstance(cache, DynamicCache) or any(
            type(layer) is not DynamicLayer for layer in cache.layers
        ):
            return False
        forked = cache if source == target else copy.deepcopy(cache)
        surplus = self.lengths[source] - length
        if surplus:
            forked.crop(-surplus)
        self._caches[target], self.lengths[target] = forked, length
        return True

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        self._caches[a], self._caches[b] = self._caches[b], self._caches[a]
        self.lengths[a], self.lengths[b] = self.lengths[b], self.lengths[a]

    @torch.inference_mode()
    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Append chunks; float32 logits after the last token of each, (len(rows), vocabulary)."""
        training = self._model.training
        if training:
            self._model.eval()
        logits = [self._append(row, chunk) for row, chunk in zip(rows, chunks, strict=True)]
        if training:
            self._model.train()
        return torch.stack(logits).float()

    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Append one token to each row; logits as in `prefill`."""
        return self.prefill(rows, [[i] for i in ids])

    def _append(self, row: int, chunk: Sequence[int]) -> Tensor:
        start = self.lengths[row]
        cache = self._caches[row] if start else None
        if cache is None:
            cache = DynamicCache(config=self._config)
        output: Any = self._model(
            input_ids=torch.tensor([list(chunk)], device=self._device),
            past_key_values=cache,
            use_cache=True,
            **self._options,
        )
        self._caches[row] = output.past_key_values
        self.lengths[row] = start + len(chunk)
        return output.logits[0, -1]

"""The general path: any causal language model of transformers, with its own code.

Models whose layers all take keys and values from a cache are batched: rows of one store
(`storage.py`) stand behind transformers' cache, and masks say what each row sees, also where layers
look back through a window only. Others (state-space layers, positions that follow from a mask) get
a cache of transformers' own for each row and are computed row by row. Which of both is right for a
model is tried out at the start, on a few random tokens, not looked up by name. It reads the model's
live weights and never samples.

    cache = general_cache(model, rows=8, max_context=1024)
    logits = cache.prefill([0], [[5, 6, 7]])
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from rods.engines.storage import Backend, KeyValues
from rods.engines.weights import base_of
from rods.errors import PolicyError

_CLOSE = {True: 0.02, False: 1e-3}
"""Relative difference of log-probabilities up to which batched and single rows say the same, in
half and in full precision."""
_KINDS = {"full_attention", "sliding_attention"}
"""Layers whose masks are known here."""
_NAMES = ("past_key_values", "cache")
"""Names of a model's cache: before transformers 5.24, and since."""
_GROWING_ROPE = {"dynamic", "longrope"}
"""Rotary embeddings that depend on the longest row of a batch."""


def general_cache(
    model: nn.Module, rows: int, max_context: int, budget: int | None = None
) -> BatchedCache | SingleCache:
    """The cache that is right for any causal language model of transformers.

    A batched one may grow to `budget` bytes; raises `PolicyError` where the model keeps no
    key-value cache.
    """
    single, reason = SingleCache(model, rows), _why_single(model)
    single.cost = f"one row at a time, because {reason}"
    return single if reason else BatchedCache(model, rows, max_context, budget)


def _why_single(model: nn.Module) -> str:
    """Why rows cannot be batched, by its config and by trial; empty: they can."""
    text: Any = base_of(model).config.get_text_config()
    if others := set(getattr(text, "layer_types", None) or []) - _KINDS:
        return f"it has layers of kind {', '.join(sorted(others))}"
    rope: Any = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") in _GROWING_ROPE:
        return "its rotary embedding changes with the length"
    chunks = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], [3, 1, 2]]
    half = next(model.parameters()).dtype is not torch.float32
    try:
        batched, single = BatchedCache(model, 2, 64), SingleCache(model, 2)
        for part in (chunks, [[4], [5, 6, 7, 8, 9]], [[2], [2]]):
            got, want = batched.prefill([0, 1], part), single.prefill([0, 1], part)
            got, want = got.log_softmax(-1), want.log_softmax(-1)
            off = float((got - want).norm() / want.norm())
            if not off < _CLOSE[half]:
                return f"batched ones differ from single ones by {off:.1%}"
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        words = (str(error).splitlines() or [""])[0]
        return f"a batch failed ({type(error).__name__}: {words})"
    return ""


class _Live(Backend):
    """Base of both ways: a model that is called with a cache."""

    copied = False

    def __init__(self, model: nn.Module) -> None:
        base: Any = base_of(model)
        accepted = inspect.signature(base.forward).parameters
        self._name = next((name for name in _NAMES if name in accepted), "")
        if not self._name:
            raise PolicyError(
                f"{type(base).__name__} takes no {' or '.join(_NAMES)}, so the engine cannot keep "
                "its context over turns; use a model with a key-value cache, or serve it elsewhere."
            )
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._model = model
        self._config: Any = base.config
        first = next(model.parameters())
        self._device, self._dtype = first.device, first.dtype

    @contextmanager
    def _evaluating(self) -> Generator[None]:
        training = self._model.training
        self._model.eval()
        try:
            yield
        finally:
            self._model.train(training)


class _Layer(DynamicLayer):
    """One layer of a `_Cache`: writes to the rows of this pass and reads them up to its span."""

    def __init__(self, cache: _Cache, number: int) -> None:
        super().__init__()
        self._cache, self._number = cache, number

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write (rows, heads, tokens, width) at the rows' places; the rows up to the span."""
        cache = self._cache
        kept = cache.kept = cache.kept or cache.make(key_states)
        kept.reserve(int(cache.rows.max()) + 1, int(cache.places.max()) + 1)
        found: list[Tensor] = []
        both = (kept.keys[self._number], key_states), (kept.values[self._number], value_states)
        for held, new in both:
            held[cache.rows[:, None], :, cache.places] = new.transpose(1, 2)
            rows = held[: len(cache.rows)] if cache.whole else held[cache.rows]
            found.append(rows[:, :, : cache.span])
        return found[0], found[1]

    def get_seq_length(self) -> int:
        """Cached tokens of the longest row of this pass."""
        return self._cache.before

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what a query may see."""
        return self._cache.span, 0


class _Cache(Cache):
    """transformers' cache, as it sees the rows of one pass."""

    def __init__(self, layers: int, make: Callable[[Tensor], KeyValues]) -> None:
        super().__init__(layers=[_Layer(self, number) for number in range(layers)])
        self.before = self.span = 0
        self.kept: KeyValues | None = None
        self.make = make
        self.rows = self.places = torch.empty(0)
        self.whole = False
        """True if the rows are the first ones, which are sliced and not copied."""


class BatchedCache(_Live):
    """Rows of one store, behind a model that is called with all of a batch at once."""

    name = "transformers"
    cost = "batched, without the fast path's fused layers and shared prompts"

    def __init__(
        self, model: nn.Module, rows: int, max_context: int, budget: int | None = None
    ) -> None:
        """Make the rows; nothing is allocated before the first pass."""
        super().__init__(model)
        text = self._config.get_text_config()
        self._layers = int(text.num_hidden_layers)
        self._window = int(getattr(text, "sliding_window", None) or 0)
        alone = "sliding_attention" if self._window else "full_attention"
        self._kinds: list[str] = list(getattr(text, "layer_types", None) or [alone])
        self._rows, self._longest, self._budget = rows, max_context + 1, budget
        self._cache = _Cache(self._layers, self._make)
        self.lengths = [0] * rows

    def _make(self, keys: Tensor) -> KeyValues:
        """The store, by the sizes of the first keys: a config does not always tell them."""
        return KeyValues(
            self._layers, keys.shape[1], keys.shape[3], self._rows, self._longest, self._device,
            keys.dtype, self._budget,
        )  # fmt: skip

    def limit(self, length: int | None = None) -> int:
        """See `Backend.limit`."""
        if self._cache.kept is None and self._budget is not None:
            self.prefill([0], [[1]])  # its sizes are known only then
            self.clear(0)
        return self._rows if self._cache.kept is None else self._cache.kept.limit(length)

    def release(self) -> None:
        """Empty all rows and give their memory back."""
        super().release()
        if self._cache.kept is not None:
            self._cache.kept.release()

    def fork(self, source: int, target: int, length: int) -> bool:
        """See `Backend.fork`."""
        kept = self._cache.kept
        if source != target and kept is not None:
            kept.reserve(target + 1, length)
            kept.copy(source, target, length)
        self.lengths[target] = length
        return True

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows; copies only what is cached."""
        if self._cache.kept is not None:
            self._cache.kept.swap(a, b, self.lengths[a], self.lengths[b])
        self.lengths[a], self.lengths[b] = self.lengths[b], self.lengths[a]

    @torch.inference_mode()
    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """See `Backend.prefill`; shorter chunks are padded on the left, where nothing sees it."""
        width = max(map(len, chunks))
        ids = torch.tensor([[*[0] * (width - len(chunk)), *chunk] for chunk in chunks])
        logits = self._run(rows, ids, list(map(len, chunks)))
        for row, chunk in zip(rows, chunks, strict=True):
            self.lengths[row] += len(chunk)
        return logits

    @torch.inference_mode()
    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """See `Backend.decode`; idle rows below the highest are computed too, to copy nothing."""
        top = max(rows) + 1
        tokens = torch.zeros(top, 1, dtype=torch.long)
        tokens[list(rows), 0] = torch.tensor(list(ids))
        logits = self._run(range(top), tokens, [1] * top)
        for row in rows:
            self.lengths[row] += 1
        return logits if len(rows) == top else logits[list(rows)]

    def _run(self, rows: Sequence[int], ids: Tensor, counts: Sequence[int]) -> Tensor:
        """One pass over ids (rows, width); the last `counts` of a row are real. Its last logits."""
        cache, device, width = self._cache, self._device, ids.shape[1]
        starts = torch.tensor([self.lengths[row] for row in rows], device=device)
        pads = width - torch.tensor(list(counts), device=device)
        steps = torch.arange(width, device=device) - pads[:, None]
        positions = (starts[:, None] + steps).clamp(min=0)
        cache.before = max(self.lengths[row] for row in rows)
        cache.span = max(self.lengths[row] + n for row, n in zip(rows, counts, strict=True))
        # What pads write goes to a place behind everything that is seen.
        cache.places = torch.where(steps < 0, cache.span, positions)
        cache.rows = torch.tensor(list(rows), device=device)
        cache.whole = list(rows) == list(range(len(rows)))
        with self._evaluating():
            output: Any = self._model(
                input_ids=ids.to(device),
                attention_mask=self._masks(positions, cache.span),
                position_ids=positions,
                use_cache=True,
                **{self._name: cache, **self._options},
            )
        return output.logits[:, -1].float()

    def _masks(self, positions: Tensor, span: int) -> Tensor | dict[str, Tensor]:
        """Additive masks, (rows, 1, queries, span), by kind of layer where there are several."""
        seen = torch.arange(span, device=self._device)
        places = positions[:, None, :, None]
        masks: dict[str, Tensor] = {}
        for kind in dict.fromkeys(self._kinds):
            hidden = seen > places
            if kind == "sliding_attention":
                hidden = hidden | (seen <= places - self._window)
            mask = torch.zeros(hidden.shape, device=self._device, dtype=self._dtype)
            masks[kind] = mask.masked_fill_(hidden, torch.finfo(self._dtype).min)
        return next(iter(masks.values())) if len(masks) == 1 else masks


class SingleCache(_Live):
    """Rows that each own a `transformers` cache of batch size 1, computed one after the other."""

    name = "transformers, row by row"
    cost = "one row at a time"

    def __init__(self, model: nn.Module, rows: int) -> None:
        super().__init__(model)
        self._caches: list[Cache | None] = [None] * rows
        self.lengths = [0] * rows

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
        with self._evaluating():
            logits = [self._append(row, chunk) for row, chunk in zip(rows, chunks, strict=True)]
        return torch.stack(logits).float()

    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Append one token to each row; logits as in `prefill`."""
        return self.prefill(rows, [[i] for i in ids])

    def _append(self, row: int, chunk: Sequence[int]) -> Tensor:
        start = self.lengths[row]
        cache = self._caches[row] if start else DynamicCache(config=self._config)
        output: Any = self._model(
            input_ids=torch.tensor([list(chunk)], device=self._device),
            use_cache=True,
            **{self._name: cache, **self._options},
        )
        self._caches[row] = output[self._name]
        self.lengths[row] = start + len(chunk)
        return output.logits[0, -1]

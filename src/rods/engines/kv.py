"""The fast path: a cache of keys and values with a length of its own for every row.

Rows advance independently, so there is no padding over turns and no second prefill. Chunks of
several rows are packed end to end for the linear layers; attention runs per row in a prefill and
over all rows up to the highest live one in a decode step (rows are never gathered). A forked prompt
is kept once (`prefix.py`), a row then holds only what follows it. It knows no sessions and does not
sample.

    cache = RowCache(model, rows=64, max_context=1024, device="cpu", dtype=torch.float32)
    logits = cache.prefill([0], [[5, 6, 7]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rods.engines.attention import after, flash, flashes
from rods.engines.backend import Backend
from rods.engines.prefix import PrefixPlan, PrefixStore, attend
from rods.engines.storage import KeyValues, Run, runs_of
from rods.engines.weights import DecoderWeights, Layer

_PIECE = 1024
"""Most tokens of one row in one pass."""


class _Place(NamedTuple):
    """Where one row's chunk lies in a packed prefill."""

    row: int
    begin: int
    stop: int
    length: int
    """Cached tokens of the row after this chunk."""
    mask: Tensor | None
    """Additive causal mask, shape (queries, length); None: the kernels need none."""
    slot: int | None
    """Slot of the shared prompt that the row starts with."""
    base: int
    """Length of that prompt; the row's own cache begins there."""


class RowCache(Backend):
    """Fused decoder with a cache of rows that grow by need (`storage.py`)."""

    name = "kv"

    def __init__(
        self,
        model: nn.Module,
        rows: int,
        max_context: int,
        device: torch.device,
        dtype: torch.dtype,
        budget: int | None = None,
        share: bool = False,
    ) -> None:
        """Take over the weights.

        Args:
            model: one that `unsupported` has nothing against.
            rows: contexts that are cached at once.
            max_context: most tokens of one.
            device: where it computes.
            dtype: numbers of weights and cache.
            budget: bytes that the cache may grow to; None: as many as all rows take.
            share: compute with the model's own weights, not with a copy; see `DecoderWeights`.
        """
        self._device, self._dtype = device, dtype
        self.copied = not share
        self._w = DecoderWeights(model, device, dtype, share)
        self._cos, self._sin = self._w.rotary(max_context + 1)
        # On a CPU folding the heads of a group into rows is worth a mask.
        self._flash = device.type == "cuda" and flashes(self._cos)
        # Merging two softmaxes needs exact log-sum-exps; without them prompts are copied.
        exact = dtype is torch.float32 or (device.type == "cpu" and flashes(self._cos))
        slots = max(1, rows // 4) if exact else 0
        sizes = len(self._w.layers), self._w.kv_heads, self._w.head_dim

        def kept(count: int, share: float) -> KeyValues:
            most = None if budget is None else int(share * budget)
            return KeyValues(*sizes, count, max_context + 1, device, dtype, most)

        self._kept = kept(rows, 0.8 if slots else 1.0)
        self._store = PrefixStore(kept(slots, 0.2), slots)
        self.lengths = [0] * rows
        self._slots: list[int | None] = [None] * rows

    def clear(self, row: int) -> None:
        """Empty a row and leave its shared prompt."""
        slot = self._slots[row]
        if slot is not None:
            self._store.leave(slot)
        self._slots[row], self.lengths[row] = None, 0

    def limit(self, length: int | None = None) -> int:
        """Rows that there may be if one has `length` tokens; None: a whole context."""
        return self._kept.limit(length)

    def release(self) -> None:
        """Empty all rows and give their memory back."""
        super().release()
        self._kept.release()
        self._store.kept.release()

    def sync(self) -> None:
        """Read the weights again and empty all rows."""
        self._w.sync()
        super().sync()

    def _base(self, row: int) -> int:
        slot = self._slots[row]
        return 0 if slot is None else self._store.lengths[slot]

    def fork(self, source: int, target: int, length: int) -> bool:
        """Let `target` share the first `length` tokens of `source`; copies them at most once."""
        if source == target:
            kept = self._base(source) <= length <= self.lengths[source]
            self.lengths[source] = length if kept else self.lengths[source]
            return kept
        self.clear(target)
        if self._slots[source] is None and not self._share(source, length):
            self._kept.reserve(target + 1, length)
            self._kept.copy(source, target, length)
        elif self._base(source) == length:
            slot = self._slots[target] = self._slots[source]
            self._store.use(slot or 0)
        else:
            return False
        self.lengths[target] = length
        return True

    def _share(self, row: int, length: int) -> bool:
        """Move the first tokens of a row to a slot, if one is free, and the others to its start."""
        slot = self._store.take(length)
        if slot is None:
            return False
        rest = self.lengths[row] - length
        own, shared = self._kept, self._store.kept
        rows, stored = (*own.keys, *own.values), (*shared.keys, *shared.values)
        for cache, store in zip(rows, stored, strict=True):
            store[slot, :, :length] = cache[row, :, :length]
            cache[row, :, :rest] = cache[row, :, length : length + rest].clone()
        self._store.use(slot)
        self._slots[row] = slot
        return True

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows; copies only what is cached."""
        own_a, own_b = self.lengths[a] - self._base(a), self.lengths[b] - self._base(b)
        self._kept.swap(a, b, own_a, own_b)
        self.lengths[a], self.lengths[b] = self.lengths[b], self.lengths[a]
        self._slots[a], self._slots[b] = self._slots[b], self._slots[a]

    @torch.inference_mode()
    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Append chunks; float32 logits after the last token of each, (len(rows), vocabulary).

        Long chunks go in pieces, because a mask grows with queries times keys.
        """
        rest = [list(chunk) for chunk in chunks]
        for number, row in enumerate(rows):
            while len(rest[number]) > _PIECE:
                self._append([row], [rest[number][:_PIECE]])
                rest[number] = rest[number][_PIECE:]
        return self._append(rows, rest)

    def _append(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        w = self._w
        places = self._places(rows, chunks)
        self._kept.reserve(max(rows) + 1, max(p.length - p.base for p in places))
        ids = torch.tensor([i for chunk in chunks for i in chunk], device=self._device)
        positions = torch.cat(
            [torch.arange(p.length - p.stop + p.begin, p.length) for p in places]
        ).to(self._device)
        owners = torch.tensor([p.row for p in places for _ in range(p.begin, p.stop)])
        owners = owners.to(self._device)
        own = positions - torch.tensor(
            [p.base for p in places for _ in range(p.begin, p.stop)], device=self._device
        )
        cos, sin = self._cos[positions], self._sin[positions]
        hidden = F.embedding(ids, w.embedding)
        for number, layer in enumerate(w.layers):
            query, key, value = self._project(layer, hidden, cos, sin)
            keys, values = self._kept.keys[number], self._kept.values[number]
            keys[owners, :, own], values[owners, :, own] = key, value
            mixed = torch.empty(
                len(ids), w.heads * w.head_dim, device=self._device, dtype=self._dtype
            )
            for p in places:
                mixed[p.begin : p.stop] = self._attend(query[p.begin : p.stop], number, p)
            hidden = self._finish(layer, hidden, mixed)
        for p in places:
            self.lengths[p.row] = p.length
        return self._logits(hidden[torch.tensor([p.stop - 1 for p in places], device=self._device)])

    def _places(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> list[_Place]:
        places: list[_Place] = []
        begin = 0
        for row, chunk in zip(rows, chunks, strict=True):
            start, count = self.lengths[row], len(chunk)
            mask = None if self._flash else self._mask(start, count)
            slot, base = self._slots[row], self._base(row)
            places.append(_Place(row, begin, begin + count, start + count, mask, slot, base))
            begin += count
        return places

    def _mask(self, start: int, count: int) -> Tensor:
        """Token i of a chunk may see the `start` tokens before it and the chunk up to itself.

        It has a row for each query of a group, because `_attend` folds groups into rows.
        """
        mask = torch.full((count, start + count), -math.inf, dtype=self._dtype)
        mask = mask.triu_(start + 1).repeat_interleave(self._w.heads // self._w.kv_heads, 0)
        return mask.to(self._device)

    def _attend(self, query: Tensor, layer: int, place: _Place) -> Tensor:
        """Attention of one row's chunk; heads that share keys are folded into the queries."""
        w, count = self._w, query.shape[0]
        groups = w.heads // w.kv_heads
        keys = self._kept.keys[layer][place.row, :, : place.length - place.base]
        values = self._kept.values[layer][place.row, :, : place.length - place.base]
        if place.slot is not None:
            store = self._store.kept
            keys = torch.cat([store.keys[layer][place.slot, :, : place.base], keys], 1)
            values = torch.cat([store.values[layer][place.slot, :, : place.base], values], 1)
        if place.mask is None:
            return self._attend_after(query, keys, values)
        # Instead of copying keys for each query head that shares them: row i * groups + g is head g
        # of token i.
        folded = query.view(count, w.kv_heads, groups, w.head_dim).transpose(0, 1)
        mixed = F.scaled_dot_product_attention(
            folded.reshape(1, w.kv_heads, count * groups, w.head_dim),
            keys[None],
            values[None],
            attn_mask=place.mask,
        )
        return mixed.reshape(w.kv_heads, count, -1).transpose(0, 1).reshape(count, -1)

    def _attend_after(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of a chunk, whose own keys are the last ones, by flash kernels."""
        w, count = self._w, len(query)
        start, scale = keys.shape[1] - count, w.head_dim**-0.5
        heads = query.transpose(0, 1)[None]
        own = keys[None, :, start:], values[None, :, start:]
        if start:
            mixed = after(heads, keys[None, :, :start], values[None, :, :start], *own, scale)
        else:
            mixed = flash(heads, *own, causal=True, scale=scale).out
        return mixed[0].transpose(0, 1).reshape(count, -1)

    @torch.inference_mode()
    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Append one token to each of some rows; float32 logits, (len(rows), vocabulary).

        Idle rows below the highest are computed too; what they write lies behind their length.
        """
        w, top = self._w, max(rows) + 1
        tokens = [0] * top
        for row, token in zip(rows, ids, strict=True):
            tokens[row] = token
        bases = [self._base(row) for row in range(top)]
        lengths = [length - base for length, base in zip(self.lengths, bases, strict=False)]
        # Idle rows write, too, right behind what they hold.
        self._kept.reserve(top, max(lengths) + 1)
        runs = self._runs(rows, lengths)
        positions = torch.tensor(self.lengths[:top], device=self._device)
        own = torch.tensor(lengths, device=self._device)
        everyone = torch.arange(top, device=self._device)
        cos, sin = self._cos[positions], self._sin[positions]
        future = torch.arange(max(run.span for run in runs), device=self._device) > own[:, None]
        bias = torch.zeros(future.shape, device=self._device, dtype=self._dtype)
        bias = bias.masked_fill_(future, -math.inf)[:, None, None]
        live = set(rows)
        plan = self._store.plan([self._slots[r] if r in live else None for r in range(top)])
        hidden = F.embedding(torch.tensor(tokens, device=self._device), w.embedding)
        for number, layer in enumerate(w.layers):
            query, key, value = self._project(layer, hidden, cos, sin)
            keys, values = self._kept.keys[number], self._kept.values[number]
            keys[everyone, :, own], values[everyone, :, own] = key, value
            query = query.view(top, w.kv_heads, -1, w.head_dim)
            mixed = self._mix(number, query, bias, runs, plan)
            hidden = self._finish(layer, hidden, mixed.reshape(top, -1))
        for row in rows:
            self.lengths[row] += 1
        if len(rows) < top:
            hidden = hidden[torch.tensor(rows, device=self._device)]
        return self._logits(hidden)

    def _mix(
        self, layer: int, query: Tensor, bias: Tensor, runs: Sequence[Run], plan: PrefixPlan | None
    ) -> Tensor:
        """Attention of one token a row to its own cache and to its shared prompt."""
        own = [self._cached(layer, run) for run in runs]
        if plan is None and query.is_cuda:
            return F.scaled_dot_product_attention(query, *own[0], attn_mask=bias)
        query = query * self._w.head_dim**-0.5
        parts = [
            attend(query[run.begin : run.end], *kept, bias[run.begin : run.end, ..., : run.span])
            for run, kept in zip(runs, own, strict=True)
        ]
        mixed, weight = parts[0]
        if len(mixed) < len(query):  # several runs; rows between them are idle
            mixed, weight = torch.zeros_like(query), weight.new_zeros(*query.shape[:-1], 1)
            for run, (some, some_weight) in zip(runs, parts, strict=True):
                mixed[run.begin : run.end], weight[run.begin : run.end] = some, some_weight
        if plan is None:
            return mixed
        # Softmax over two sets of keys from the softmax over each: their weights are the sums of
        # exponentials, here as logarithms, and e^b / (e^a + e^b) = sigmoid(b - a).
        shared, shared_weight = self._store.attend(layer, query, plan)
        part = (shared_weight - weight).sigmoid()
        return mixed.float().lerp(shared.float(), part).to(query.dtype)

    def _runs(self, rows: Sequence[int], lengths: Sequence[int]) -> list[Run]:
        """Rows that one kernel takes; a GPU has more to do with calls than with reading."""
        if self._device.type != "cpu":
            return [Run(0, max(rows) + 1, max(lengths[row] for row in rows) + 1)]
        return runs_of(rows, lengths, self._w.kv_heads * self._w.head_dim)

    def _cached(self, layer: int, run: Run) -> tuple[Tensor, Tensor]:
        """Keys and values of some rows' own tokens, (rows, kv heads, span, head dim)."""
        rows = slice(run.begin, run.end)
        keys, values = self._kept.keys[layer], self._kept.values[layer]
        return keys[rows, :, : run.span], values[rows, :, : run.span]

    def _project(
        self, layer: Layer, hidden: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values; each (tokens, heads, head dim)."""
        w = self._w
        normed = F.rms_norm(hidden, layer.norm_in.shape, layer.norm_in, w.eps)
        qkv = layer.qkv(normed).view(len(hidden), -1, w.head_dim)
        both = w.heads + w.kv_heads
        qk = qkv[:, :both]
        if layer.norm_qk is not None:
            # Queries and keys have weights of their own, stacked, so that one call normalises both.
            qk = F.rms_norm(qk, (w.head_dim,), None, w.eps) * layer.norm_qk
        # The rotation pairs coordinate j with j + half; the sign of the first half is in `sin`.
        qk = qk * cos + qk.roll(w.head_dim // 2, -1) * sin
        return qk[:, : w.heads], qk[:, w.heads :], qkv[:, both:]

    def _finish(self, layer: Layer, hidden: Tensor, mixed: Tensor) -> Tensor:
        """Output projection and feed-forward block with their residuals."""
        hidden = hidden + layer.out(mixed)
        normed = F.rms_norm(hidden, layer.norm_mid.shape, layer.norm_mid, self._w.eps)
        gate, up = layer.gate_up(normed).chunk(2, -1)
        return hidden + layer.down(F.silu(gate) * up)

    def _logits(self, hidden: Tensor) -> Tensor:
        w = self._w
        normed = F.rms_norm(hidden, w.norm_out.shape, w.norm_out, w.eps)
        return w.head(normed).float()

"""The fast path: a static cache of keys and values with a length of its own for every row.

Rows advance independently, so there is no padding over turns and no second prefill. Chunks of
several rows are packed end to end for the linear layers; attention runs per row in a prefill and
over all rows up to the highest live one in a decode step (rows are never gathered). It knows no
sessions and does not sample.

    cache = StaticKV(model, rows=64, max_context=1024, device="cpu", dtype=torch.float32)
    logits = cache.prefill([0], [[5, 6, 7]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rods.engines.weights import Layer, Weights


class _Place(NamedTuple):
    """Where one row's chunk lies in a packed prefill."""

    row: int
    begin: int
    stop: int
    length: int
    """Cached tokens of the row after this chunk."""
    mask: Tensor
    """Additive causal mask, shape (queries, length)."""


class StaticKV:
    """Fused decoder with a cache of shape (rows, kv heads, max_context + 1, head dim) a layer."""

    name = "kv"

    def __init__(
        self,
        model: nn.Module,
        rows: int,
        max_context: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._device, self._dtype = device, dtype
        self._w = Weights(model, device, dtype)
        self._capacity = max_context + 1
        self._cos, self._sin = self._w.rotary(self._capacity)
        shape = (rows, self._w.kv_heads, self._capacity, self._w.head_dim)
        # Zeros, not empty: a masked position still multiplies what lies there, and NaN * 0 is NaN.
        self._keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in self._w.layers]
        self._values = [torch.zeros(shape, device=device, dtype=dtype) for _ in self._w.layers]
        self.lengths = [0] * rows

    def sync(self) -> None:
        """Copy the weights again and empty all rows."""
        self._w.sync()
        self.lengths[:] = [0] * len(self.lengths)

    def fork(self, source: int, target: int, length: int) -> bool:
        """Copy the first `length` tokens of one row to another."""
        for cache in (*self._keys, *self._values):
            cache[target, :, :length] = cache[source, :, :length]
        self.lengths[target] = length
        return True

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows; copies only what is cached."""
        length_a, length_b = self.lengths[a], self.lengths[b]
        for cache in (*self._keys, *self._values):
            kept = cache[a, :, :length_a].clone()
            cache[a, :, :length_b] = cache[b, :, :length_b]
            cache[b, :, :length_a] = kept
        self.lengths[a], self.lengths[b] = length_b, length_a

    @torch.inference_mode()
    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Tensor:
        """Append chunks; float32 logits after the last token of each, (len(rows), vocabulary)."""
        w = self._w
        places = self._places(rows, chunks)
        ids = torch.tensor([i for chunk in chunks for i in chunk], device=self._device)
        positions = torch.cat(
            [torch.arange(p.length - p.stop + p.begin, p.length) for p in places]
        ).to(self._device)
        owners = torch.tensor([p.row for p in places for _ in range(p.begin, p.stop)])
        owners = owners.to(self._device)
        cos, sin = self._cos[positions], self._sin[positions]
        hidden = F.embedding(ids, w.embedding)
        for number, layer in enumerate(w.layers):
            query, key, value = self._project(layer, hidden, cos, sin)
            keys, values = self._keys[number], self._values[number]
            keys[owners, :, positions], values[owners, :, positions] = key, value
            mixed = torch.empty(
                len(ids), w.heads * w.head_dim, device=self._device, dtype=self._dtype
            )
            for p in places:
                mixed[p.begin : p.stop] = self._attend(query[p.begin : p.stop], keys, values, p)
            hidden = self._finish(layer, hidden, mixed)
        for p in places:
            self.lengths[p.row] = p.length
        return self._logits(hidden[torch.tensor([p.stop - 1 for p in places], device=self._device)])

    def _places(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> list[_Place]:
        places: list[_Place] = []
        begin = 0
        for row, chunk in zip(rows, chunks, strict=True):
            start, count = self.lengths[row], len(chunk)
            mask = torch.full((count, start + count), -math.inf, dtype=self._dtype)
            mask = mask.triu_(start + 1).repeat_interleave(self._w.heads // self._w.kv_heads, 0)
            places.append(_Place(row, begin, begin + count, start + count, mask.to(self._device)))
            begin += count
        return places

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, place: _Place) -> Tensor:
        """Attention of one row's chunk; heads that share keys are folded into the queries."""
        w, count = self._w, query.shape[0]
        groups = w.heads // w.kv_heads
        folded = query.view(count, w.kv_heads, groups, w.head_dim).transpose(0, 1)
        mixed = F.scaled_dot_product_attention(
            folded.reshape(1, w.kv_heads, count * groups, w.head_dim),
            keys[place.row : place.row + 1, :, : place.length],
            values[place.row : place.row + 1, :, : place.length],
            attn_mask=place.mask,
        )
        return mixed.view(w.kv_heads, count, -1).transpose(0, 1).reshape(count, -1)

    @torch.inference_mode()
    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Append one token to each of some rows; float32 logits, (len(rows), vocabulary).

        Idle rows below the highest are computed too; what they write lies behind their length.
        """
        w, top = self._w, max(rows) + 1
        starts = self.lengths[:top]
        tokens = [0] * top
        for row, token in zip(rows, ids, strict=True):
            tokens[row] = token
        span = max(starts[row] for row in rows) + 1
        positions = torch.tensor(starts, device=self._device)
        everyone = torch.arange(top, device=self._device)
        cos, sin = self._cos[positions], self._sin[positions]
        future = torch.arange(span, device=self._device) > positions[:, None]
        bias = torch.zeros(top, 1, 1, span, device=self._device, dtype=self._dtype)
        bias.masked_fill_(future[:, None, None], -math.inf)
        hidden = F.embedding(torch.tensor(tokens, device=self._device), w.embedding)
        for number, layer in enumerate(w.layers):
            query, key, value = self._project(layer, hidden, cos, sin)
            keys, values = self._keys[number], self._values[number]
            keys[everyone, :, positions], values[everyone, :, positions] = key, value
            mixed = F.scaled_dot_product_attention(
                query.view(top, w.kv_heads, -1, w.head_dim),
                keys[:top, :, :span],
                values[:top, :, :span],
                attn_mask=bias,
            )
            hidden = self._finish(layer, hidden, mixed.reshape(top, -1))
        for row in rows:
            self.lengths[row] += 1
        if len(rows) < top:
            hidden = hidden[torch.tensor(rows, device=self._device)]
        return self._logits(hidden)

    def _project(
        self, layer: Layer, hidden: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values; each (tokens, heads, head dim)."""
        w = self._w
        normed = F.rms_norm(hidden, layer.norm_in.shape, layer.norm_in, w.eps)
        qkv = F.linear(normed, layer.qkv.weight, layer.qkv.bias).view(len(hidden), -1, w.head_dim)
        both = w.heads + w.kv_heads
        qk = qkv[:, :both]
        if layer.norm_qk is not None:
            qk = F.rms_norm(qk, (w.head_dim,), None, w.eps) * layer.norm_qk
        qk = qk * cos + qk.roll(w.head_dim // 2, -1) * sin
        return qk[:, : w.heads], qk[:, w.heads :], qkv[:, both:]

    def _finish(self, layer: Layer, hidden: Tensor, mixed: Tensor) -> Tensor:
        """Output projection and feed-forward block with their residuals."""
        hidden = hidden + F.linear(mixed, layer.out.weight, layer.out.bias)
        normed = F.rms_norm(hidden, layer.norm_mid.shape, layer.norm_mid, self._w.eps)
        gate, up = F.linear(normed, layer.gate_up.weight, layer.gate_up.bias).chunk(2, -1)
        return hidden + F.linear(F.silu(gate) * up, layer.down.weight, layer.down.bias)

    def _logits(self, hidden: Tensor) -> Tensor:
        w = self._w
        normed = F.rms_norm(hidden, w.norm_out.shape, w.norm_out, w.eps)
        return F.linear(normed, w.head.weight, w.head.bias).float()

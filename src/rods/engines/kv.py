"""The fast path: a cache of keys and values with a length of its own for every row.

Rows advance independently, so there is no padding over turns and no second prefill. Chunks of
several rows are packed end to end for the linear layers; attention runs per row in a prefill and
over all rows up to the highest live one in a decode step (rows are never gathered). A forked prompt
is kept once (`prefix.py`), a row then holds what follows it. It knows no sessions, no sampling.

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

from rods.engines.attention import flashes
from rods.engines.prefix import PrefixPlan, PrefixStore, attend
from rods.engines.storage import Backend, KeyValues, Run, runs_of
from rods.engines.weights import DecoderWeights, Layer

_PIECE = 1024
"""Most tokens of one row in one pass."""
_MASK = 2**27
"""Most numbers of one mask of several rows."""


class _Part(NamedTuple):
    """Chunks that one kernel takes: one row's, or on a GPU those of rows with like many tokens."""

    tokens: Tensor
    """Places in the packed prefill, (rows, tokens); a shorter chunk repeats its last token."""
    rows: slice | Tensor
    span: int
    """Cached tokens of the longest row after this chunk."""
    mask: Tensor
    """Additive causal mask, (rows, 1, queries, span); queries of a group of heads in turn."""
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
        """Take over the weights of a model that `unsupported` has nothing against.

        `budget` is what the cache may grow to, in bytes; None: as many as all rows take. With
        `share` it computes with the model's own weights, not with a copy; see `DecoderWeights`.
        """
        self._device, self._dtype = device, dtype
        self.copied = not share
        self._w = DecoderWeights(model, device, dtype, share)
        self._cos, self._sin = self._w.rotary(max_context + 1)
        self._batched = device.type == "cuda"
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
        """See `Backend.limit`."""
        return self._kept.limit(length)

    def release(self) -> None:
        """Empty all rows and give their memory back."""
        super().release()
        self._kept.release()
        self._store.kept.release()

    def sync(self) -> None:
        """See `Backend.sync`."""
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
        self._kept.swap(a, b, *(self.lengths[row] - self._base(row) for row in (a, b)))
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
        starts = [self.lengths[row] for row in rows]
        bases = [self._base(row) for row in rows]
        counts = [len(chunk) for chunk in chunks]
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        own = max(end - base for end, base in zip(ends, bases, strict=True))
        self._kept.reserve(max(rows) + 1, own)
        parts = self._parts(rows, counts)
        ids = torch.tensor([i for chunk in chunks for i in chunk], device=self._device)
        spans = zip(starts, ends, strict=True)
        positions = torch.cat([torch.arange(*span) for span in spans]).to(self._device)
        often = torch.tensor(counts)
        owners = torch.tensor(rows).repeat_interleave(often).to(self._device)
        own_places = positions - torch.tensor(bases).repeat_interleave(often).to(self._device)
        cos, sin = self._cos[positions], self._sin[positions]
        hidden = F.embedding(ids, w.embedding)
        for number, layer in enumerate(w.layers):
            query, key, value = self._project(layer, hidden, cos, sin)
            keys, values = self._kept.keys[number], self._kept.values[number]
            keys[owners, :, own_places], values[owners, :, own_places] = key, value
            mixed = hidden.new_empty(len(ids), w.heads * w.head_dim)
            for part in parts:
                mixed[part.tokens] = self._attend(query[part.tokens], number, part)
            hidden = self._finish(layer, hidden, mixed)
        for row, end in zip(rows, ends, strict=True):
            self.lengths[row] = end
        return self._logits(hidden[often.cumsum(0).to(self._device) - 1])

    def _parts(self, rows: Sequence[int], counts: Sequence[int]) -> list[_Part]:
        """One for each row reads no padding; a GPU has more to do with calls than with that."""
        alike: dict[int, list[tuple[int, int, int]]] = {}
        begin = 0
        for row, count in zip(rows, counts, strict=True):
            batched = self._batched and self._slots[row] is None
            kind = count.bit_length() if batched else -1 - row
            alike.setdefault(kind, []).append((row, begin, count))
            begin += count
        parts: list[_Part] = []
        for some in alike.values():
            longest = max(self.lengths[row] + count for row, _, count in some)
            most = max(count for _, _, count in some) * self._w.heads * longest
            step = max(1, _MASK // most)
            parts += [self._part(some[i : i + step]) for i in range(0, len(some), step)]
        return parts

    def _part(self, chunks: Sequence[tuple[int, int, int]]) -> _Part:
        """Token i of a chunk may see what stands before the chunk, and the chunk up to itself."""
        row = chunks[0][0]
        starts = torch.tensor([self.lengths[row] for row, _, _ in chunks])[:, None]
        begins, counts = torch.tensor([chunk[1:] for chunk in chunks]).T[..., None]
        token = torch.arange(int(counts.max())).minimum(counts - 1)
        span = int((starts + counts).max())
        future = torch.arange(span) > (starts + token)[..., None]
        mask = torch.zeros(future.shape, dtype=self._dtype).masked_fill_(future, -math.inf)
        mask = mask.repeat_interleave(self._w.heads // self._w.kv_heads, 1)[:, None]
        many = torch.tensor([row for row, _, _ in chunks], device=self._device)
        return _Part(
            (begins + token).to(self._device),
            many if len(chunks) > 1 else slice(row, row + 1),
            span,
            mask.to(self._device),
            self._slots[row],
            self._base(row),
        )

    def _attend(self, query: Tensor, layer: int, part: _Part) -> Tensor:
        """Attention of chunks, (rows, tokens, heads x head dim)."""
        w, (rows, width) = self._w, part.tokens.shape
        keys = self._kept.keys[layer][part.rows, :, : part.span - part.base]
        values = self._kept.values[layer][part.rows, :, : part.span - part.base]
        if part.slot is not None:
            store, slot = self._store.kept, slice(part.slot, part.slot + 1)
            keys = torch.cat([store.keys[layer][slot, :, : part.base], keys], 2)
            values = torch.cat([store.values[layer][slot, :, : part.base], values], 2)
        # Heads that share keys are folded into the queries instead of copying keys for each: query
        # i * groups + g is head g of token i.
        folded = query.view(rows, width, w.kv_heads, -1, w.head_dim).transpose(1, 2).flatten(2, 3)
        mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=part.mask)
        return mixed.reshape(rows, w.kv_heads, width, -1).transpose(1, 2).flatten(2)

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
        both = self._kept.keys[layer], self._kept.values[layer]
        own = [[kept[run.begin : run.end, :, : run.span] for kept in both] for run in runs]
        if plan is None and query.is_cuda:
            return F.scaled_dot_product_attention(query, own[0][0], own[0][1], attn_mask=bias)
        query = query * self._w.head_dim**-0.5
        parts = [
            attend(query[r.begin : r.end], keys, values, bias[r.begin : r.end, ..., : r.span])
            for r, (keys, values) in zip(runs, own, strict=True)
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
            # Queries and keys have weights of their own, stacked, so that one call normalizes both.
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

"""Attention in bfloat16 on a CPU, by blocks of queries, in plain matrix products.

torch's own CPU kernel multiplies small tiles, which reach a fifth of what the processor's bfloat16
units can do; the products of a whole block reach most of it. Scores and softmax are float32. The
backward pass computes a block's probabilities again, so memory is that of one block.

    if blocks(query): out = attend(query, keys, values, scale)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

BLOCK = 128
"""Queries whose scores are held at once: with usual contexts they fit a core's second cache."""


def blocks(query: Tensor) -> bool:
    """Whether attention of such queries, as autocast would have them, is computed here."""
    autocast = torch.is_autocast_enabled("cpu")
    kind = torch.get_autocast_dtype("cpu") if autocast else query.dtype
    return query.device.type == "cpu" and kind is torch.bfloat16


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of the last tokens of a context to all of it.

    Args:
        query: of the last tokens, (1, heads, tokens, head dim).
        keys: of the whole context, these tokens included: (1, key heads, context, head dim).
        values: likewise.
        scale: what scores are multiplied with.

    Returns:
        bfloat16, shaped like `query`; differentiable.
    """
    return _Attend.apply(*(t.to(torch.bfloat16) for t in (query, keys, values)), scale)


class _Block(NamedTuple):
    """Consecutive queries and the context that the last of them sees."""

    rows: slice
    seen: slice


def _blocks(tokens: int, context: int) -> Iterator[_Block]:
    for start in range(0, tokens, BLOCK):
        end = min(start + BLOCK, tokens)
        yield _Block(slice(start, end), slice(0, context - tokens + end))


def _rows(grouped: Tensor, block: _Block) -> Tensor:
    """A block of (key heads, group, tokens, width): the group's heads below each other."""
    return grouped[:, :, block.rows].flatten(1, 2)


def _probabilities(query: Tensor, keys: Tensor, tokens: int) -> Tensor:
    """Of scaled queries (key heads, group x tokens, width) over what each of them may see."""
    # Products of bfloat16 numbers are exact in float32; sums in bfloat16 would cost 1 % of them.
    scores = torch.bmm(query.float(), keys.float().transpose(1, 2))
    future = torch.full((tokens, tokens), -torch.inf).triu_(1)
    scores.unflatten(1, (-1, tokens))[..., -tokens:].add_(future)
    return scores.softmax(-1).to(query.dtype)


class _Attend(Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        grouped = (query[0] * scale).unflatten(0, (keys.shape[1], -1))
        out = torch.empty_like(grouped)
        for block in _blocks(query.shape[2], keys.shape[2]):
            size = block.rows.stop - block.rows.start
            shares = _probabilities(_rows(grouped, block), keys[0, :, block.seen], size)
            mixed = torch.bmm(shares, values[0, :, block.seen])
            out[:, :, block.rows] = mixed.unflatten(1, (-1, size))
        ctx.save_for_backward(grouped, keys, values, out)
        ctx.scale = scale
        return out.flatten(0, 1)[None]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, keys, values, out = ctx.saved_tensors
        gradient = gradients[0][0].unflatten(0, query.shape[:2])
        # What the softmax's own derivative takes off: one number a query, as in FlashAttention.
        taken = (gradient.float() * out).sum(-1, keepdim=True).to(query.dtype)
        to_query = torch.empty_like(query)
        to_keys, to_values = (torch.zeros(t.shape[1:], dtype=torch.float32) for t in (keys, values))
        for block in _blocks(query.shape[2], keys.shape[2]):
            size, seen = block.rows.stop - block.rows.start, block.seen
            q, g, off = (_rows(t, block) for t in (query, gradient, taken))
            shares = _probabilities(q, keys[0, :, seen], size)
            to_values[:, seen] += torch.bmm(shares.transpose(1, 2), g)
            scores = torch.bmm(g, values[0, :, seen].transpose(1, 2)).sub_(off).mul_(shares)
            to_query[:, :, block.rows] = torch.bmm(scores, keys[0, :, seen]).unflatten(1, (-1, size))
            to_keys[:, seen] += torch.bmm(scores.transpose(1, 2), q)
        return (
            (to_query * ctx.scale).flatten(0, 1)[None],
            to_keys[None].to(keys.dtype),
            to_values[None].to(values.dtype),
            None,
        )

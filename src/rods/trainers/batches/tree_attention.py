"""Attention along a prefix tree: every token sees exactly the context of its own sample.

Owns the attention function that transformers calls while `tree_attention` is on. Works for models
that take their attention from transformers' interface and attend to their whole past.

Where torch has no fast kernel, it goes by blocks of queries, in matrix products (`attend`). On a
CPU torch's flash kernel multiplies small tiles, which reach a fifth of what the processor's
bfloat16 units can do; products of whole blocks reach most of it. Scores and softmax are float32.
The backward pass computes a block's probabilities again, so one block's are in memory.

    with tree_attention(model):
        decoder(input_ids=ids, position_ids=positions, rods_tree=tree.nodes, use_cache=False)
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from rods.engines.attention import after, flashes, numbers_of
from rods.trainers.batches.micro import Node

NAME = "rods_tree"
"""Name of the attention in transformers; also that of its argument."""

TYPES = ("llama", "qwen2", "qwen3")
"""Model types that are known to qualify."""

BLOCK = 128
"""Queries whose scores are held at once: with usual contexts they fit a core's second cache."""


def supports_trees(model: PreTrainedModel) -> bool:
    """True if the model's attention can follow a tree: known type, no sliding window."""
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    return model.config.model_type in TYPES and kinds == {"full_attention"}


@contextmanager
def tree_attention(model: PreTrainedModel) -> Generator[None]:
    """Make `model` attend along trees inside the block; calls there must pass `rods_tree`."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _along_the_tree(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    rods_tree: Sequence[Node] = (),
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of each node over its path; heads stand in dimension 1, tokens in 2."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    flash = flashes(query) and not cpu_bfloat16(query)
    lengths = [n.length for n in rods_tree]
    queries, keys, values = (t.split(lengths, dim=2) for t in (query, key, value))
    outputs: list[Tensor] = []
    for node, q in zip(rods_tree, queries, strict=True):
        *above, own = node.path
        if not flash:
            found = attend(q, _joined(keys, node.path), _joined(values, node.path), scale)
        elif above:
            past = _joined(keys, above), _joined(values, above)
            found = after(q, *past, keys[own], values[own], scale)
        else:
            found = scaled_dot_product_attention(
                q, keys[own], values[own], is_causal=True, scale=scale, enable_gqa=True
            )
        outputs.append(found)
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _joined(parts: Sequence[Tensor], path: Sequence[int]) -> Tensor:
    return torch.cat([parts[i] for i in path], dim=2)


def cpu_bfloat16(query: Tensor) -> bool:
    """True if attention of these queries is computed on a CPU in bfloat16, by autocast or type."""
    return query.device.type == "cpu" and numbers_of(query) is torch.bfloat16


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Causal attention of the last tokens of a context to all of it; differentiable.

    `query` is (1, heads, tokens, head dim); `keys` and `values` are of the whole context, these
    tokens included: (1, key heads, context, head dim). Scores are multiplied with `scale`.
    """
    kind = torch.bfloat16 if cpu_bfloat16(query) else query.dtype
    return _Attend.apply(*(t[0].to(kind) for t in (query, keys, values)), scale)[None]


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Consecutive queries, and the part of the context that the last of them sees."""
    tokens, context = query.shape[2], keys.shape[1]
    for start in range(0, tokens, BLOCK):
        end = min(start + BLOCK, tokens)
        yield slice(start, end), slice(context - tokens + end)


def _space(query: Tensor, keys: Tensor) -> Tensor:
    """Room for a block's scores, taken once: taken for each block, the time varied by half."""
    return keys.new_empty(len(query) * query.shape[1] * BLOCK * keys.shape[1], dtype=torch.float32)


def _probabilities(query: Tensor, keys: Tensor, tokens: int, scale: float, space: Tensor) -> Tensor:
    """Probabilities of queries (key heads, group x tokens, width) over what each may see."""
    # Products of bfloat16 numbers are exact in float32; scores in bfloat16 would be 1 % off.
    shape = (*query.shape[:2], keys.shape[1])
    scores = space[: shape[0] * shape[1] * shape[2]].view(shape)
    torch.bmm(query.float() * scale, keys.float().transpose(1, 2), out=scores)
    future = torch.full((tokens, tokens), -torch.inf, device=query.device).triu_(1)
    scores.unflatten(1, (-1, tokens))[..., -tokens:].add_(future)
    return torch.softmax(scores, -1, out=scores).to(query.dtype)


class _Attend(Function):
    """Queries stand in groups, one for each key head: (key heads, group, tokens, width)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        query = query.unflatten(0, (len(keys), -1))
        out, space = torch.empty_like(query), _space(query, keys)
        for rows, seen in _blocks(query, keys):
            some = query[:, :, rows]
            flat = some.flatten(1, 2)
            shares = _probabilities(flat, keys[:, seen], some.shape[2], scale, space)
            out[:, :, rows] = torch.bmm(shares, values[:, seen]).view_as(some)
        ctx.save_for_backward(query, keys, values, out)
        ctx.scale = scale
        return out.flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, keys, values, out = ctx.saved_tensors
        gradient = gradients[0].unflatten(0, query.shape[:2])
        # What the softmax's derivative takes off: one number a query, as in FlashAttention.
        taken = (gradient.float() * out).sum(-1, keepdim=True).to(query.dtype)
        to_query, space = torch.empty_like(query), _space(query, keys)
        to_keys, to_values = (torch.zeros_like(t, dtype=torch.float32) for t in (keys, values))
        for rows, seen in _blocks(query, keys):
            q, g, off = (t[:, :, rows].flatten(1, 2) for t in (query, gradient, taken))
            shares = _probabilities(q, keys[:, seen], rows.stop - rows.start, ctx.scale, space)
            to_values[:, seen] += torch.bmm(shares.transpose(1, 2), g)
            scores = torch.bmm(g, values[:, seen].transpose(1, 2)).sub_(off).mul_(shares)
            to_query[:, :, rows] = torch.bmm(scores, keys[:, seen]).view_as(to_query[:, :, rows])
            to_keys[:, seen] += torch.bmm(scores.transpose(1, 2), q)
        to_keys, to_values = (to_keys * ctx.scale).to(keys.dtype), to_values.to(values.dtype)
        return (to_query * ctx.scale).flatten(0, 1), to_keys, to_values, None


AttentionInterface.register(NAME, _along_the_tree)

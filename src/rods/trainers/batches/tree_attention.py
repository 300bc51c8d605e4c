"""Attention along a prefix tree: every token sees exactly the context of its own sample.

Owns the attention function that transformers calls while `tree_attention` is on. Works for models
that take their attention from transformers' interface and attend to their whole past.

    with tree_attention(model):
        decoder(input_ids=ids, position_ids=positions, rods_tree=tree.nodes, use_cache=False)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from rods.engines.attention import after, flashes
from rods.trainers.batches.blocked_attention import attend, blocks
from rods.trainers.batches.tree import Node

NAME = "rods_tree"
"""How transformers finds the attention; also the name of its argument."""

TYPES = ("llama", "qwen2", "qwen3")
"""Model types that are known to qualify."""


def supports_trees(model: PreTrainedModel) -> bool:
    """Whether the model's attention can follow a tree: known type, no sliding window."""
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


def _attend(
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
    block, flash = blocks(query), flashes(query)
    if query.shape[1] != key.shape[1] and not flash:
        # Masked attention of grouped heads has no fused kernel where there is no flash one.
        key, value = (
            t.repeat_interleave(query.shape[1] // t.shape[1], dim=1) for t in (key, value)
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    lengths = [n.length for n in rods_tree]
    queries, keys, values = (t.split(lengths, dim=2) for t in (query, key, value))
    outputs: list[Tensor] = []
    for node, q in zip(rods_tree, queries, strict=True):
        *above, own = node.path
        if block:
            context = [torch.cat([parts[i] for i in node.path], dim=2) for parts in (keys, values)]
            outputs.append(attend(q, *context, scale))
            continue
        if not above:
            outputs.append(
                scaled_dot_product_attention(
                    q, keys[own], values[own], is_causal=True, scale=scale, enable_gqa=flash
                )
            )
            continue
        past = [torch.cat([parts[i] for i in above], dim=2) for parts in (keys, values)]
        split = after if flash else _masked
        outputs.append(split(q, past[0], past[1], keys[own], values[own], scale))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _masked(
    query: Tensor,
    past_keys: Tensor,
    past_values: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
) -> Tensor:
    """As `after`, with a mask."""
    rows, columns = query.shape[2], past_keys.shape[2] + keys.shape[2]
    ones = torch.ones(rows, columns, dtype=torch.bool, device=query.device)
    return scaled_dot_product_attention(
        query, torch.cat([past_keys, keys], 2), torch.cat([past_values, values], 2),
        attn_mask=ones.tril(diagonal=columns - rows), scale=scale,
    )  # fmt: skip


AttentionInterface.register(NAME, _attend)

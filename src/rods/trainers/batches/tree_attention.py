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
from rods.trainers.batches.blocked_attention import attend, cpu_bfloat16
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


AttentionInterface.register(NAME, _attend)

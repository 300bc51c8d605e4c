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

from rods.trainers.tree import Node

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
    grouped = query.shape[1] != key.shape[1]
    if grouped and not _groups_heads(query.device):
        key, value = (
            t.repeat_interleave(query.shape[1] // t.shape[1], dim=1) for t in (key, value)
        )
        grouped = False
    lengths = [n.length for n in rods_tree]
    queries, keys, values = (t.split(lengths, dim=2) for t in (query, key, value))
    outputs: list[Tensor] = []
    for node, q in zip(rods_tree, queries, strict=True):
        root = len(node.path) == 1
        k, v = (
            parts[node.path[0]] if root else torch.cat([parts[i] for i in node.path], dim=2)
            for parts in (keys, values)
        )
        outputs.append(
            scaled_dot_product_attention(
                q, k, v,
                attn_mask=None if root else _last_rows(node.length, k.shape[2], q.device),
                is_causal=root, scale=scaling, enable_gqa=grouped,
            )
        )  # fmt: skip
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _groups_heads(device: torch.device) -> bool:
    """Whether masked attention of grouped heads has a fused kernel; CUDA's takes equal heads."""
    return device.type == "cpu"


def _last_rows(rows: int, columns: int, device: torch.device) -> Tensor:
    """The last rows of a causal mask: True where the column may be seen."""
    ones = torch.ones(rows, columns, dtype=torch.bool, device=device)
    return ones.tril(diagonal=columns - rows)


AttentionInterface.register(NAME, _attend)

"""The sizes of a model, from its config alone: it is built without storage, and counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from rods.errors import PolicyError
from rods.trainers.loading import quiet
from rods.trainers.memory.context import positions_of


class Shape(NamedTuple):
    """Sizes of one causal language model; widths are those of all heads together.

    `feedforward` counts the experts that one token meets; `norms_heads`: as in Qwen3."""

    parameters: int
    """Weights; one that is used twice (tied embeddings) counts once."""
    sides: int
    """Inputs and outputs of all linear layers with adapters; rank r has r weights for each."""
    layers: int
    hidden: int
    queries: int
    keys: int
    feedforward: int
    vocabulary: int
    norms_heads: bool
    positions: int


def shape_of(config: PretrainedConfig) -> Shape:
    """Count; raises `PolicyError` where transformers cannot build a model from this config."""
    try:
        with torch.device("meta"), quiet():
            model: Any = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, RuntimeError, AttributeError, TypeError, ImportError) as error:
        raise PolicyError(
            f"a model of type {config.model_type!r} cannot be built from its config: {error}."
        ) from error
    text: Any = config.get_text_config()
    head = model.get_output_embeddings()
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not head]
    heads = int(text.num_attention_heads)
    width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
    experts = int(getattr(text, "num_experts_per_tok", None) or 0)
    # GPT-2's config leaves the width out where it is the usual four times the hidden one.
    wide = int(getattr(text, "intermediate_size", None) or 4 * text.hidden_size)
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        sides=sum(m.in_features + m.out_features for m in linear),
        layers=int(text.num_hidden_layers),
        hidden=int(text.hidden_size),
        queries=heads * width,
        keys=int(getattr(text, "num_key_value_heads", None) or heads) * width,
        feedforward=experts * int(getattr(text, "moe_intermediate_size", None) or 0) or wide,
        vocabulary=int(model.get_input_embeddings().weight.shape[0]),
        norms_heads=any(name.endswith("q_norm") for name, _ in model.named_modules()),
        positions=positions_of(config),
    )

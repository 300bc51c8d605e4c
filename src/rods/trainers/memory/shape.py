"""The sizes of a model, from its config alone: no weight is loaded.

Owns how a transformers config becomes numbers. The model is built without storage (torch's meta
device), so parameters are counted, not estimated.

    shape = shape_of(load_architecture(ModelSettings(name="tiny")))
    shape.parameters
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from rods.engines.weights import FAMILIES
from rods.errors import PolicyError
from rods.trainers.loading import quiet
from rods.trainers.memory.context import positions_of


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one causal language model."""

    kind: str
    """Its `model_type`."""
    parameters: int
    """Weights; one that is used twice (tied embeddings) counts once."""
    decoder: int
    """Those of the decoder alone, without an output matrix of its own."""
    linear_sides: int
    """Sum of inputs and outputs of the linear layers that adapters go to, all but the output
    matrix: adapters of rank r have r times as many weights."""
    layers: int
    hidden: int
    queries: int
    """Width of all query heads together."""
    keys: int
    """Width of all key heads together; values have the same."""
    feedforward: int
    """Width of the feed-forward block; for experts, of those that one token meets."""
    vocabulary: int
    norms_heads: bool
    """Whether queries and keys are normalised by head (Qwen3)."""
    positions: int = 0
    """Tokens of a row at most; 0: its config names no limit."""

    @property
    def fast(self) -> bool:
        """Whether the embedded engine's fast path knows this architecture by name."""
        return self.kind in FAMILIES

    def adapters(self, rank: int) -> int:
        """Weights of LoRA adapters of this rank."""
        return rank * self.linear_sides


def shape_of(config: PretrainedConfig) -> Shape:
    """Count.

    Raises:
        PolicyError: transformers cannot build a causal language model from this config.
    """
    try:
        with torch.device("meta"), quiet():
            model = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, RuntimeError, AttributeError, TypeError, ImportError) as error:
        raise PolicyError(
            f"a model of type {config.model_type!r} cannot be built from its config: {error}."
        ) from error
    network = cast("nn.Module", model)
    text: Any = config.get_text_config()
    head = model.get_output_embeddings()
    linear = [m for m in network.modules() if isinstance(m, nn.Linear) and m is not head]
    heads = int(text.num_attention_heads)
    width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
    decoder = cast("nn.Module", model.get_decoder())
    return Shape(
        kind=str(config.model_type),
        parameters=sum(p.numel() for p in network.parameters()),
        decoder=sum(p.numel() for p in decoder.parameters()),
        linear_sides=sum(m.in_features + m.out_features for m in linear),
        layers=int(text.num_hidden_layers),
        hidden=int(text.hidden_size),
        queries=heads * width,
        keys=int(getattr(text, "num_key_value_heads", None) or heads) * width,
        feedforward=_feedforward(text),
        vocabulary=int(cast("Any", model.get_input_embeddings()).weight.shape[0]),
        norms_heads=any(name.endswith("q_norm") for name, _ in network.named_modules()),
        positions=positions_of(config),
    )


def _feedforward(text: Any) -> int:
    experts, wide = (
        getattr(text, "num_experts_per_tok", None),
        getattr(text, "moe_intermediate_size", None),
    )
    if experts and wide:
        return int(experts) * int(wide)
    # GPT-2's config leaves it out where it is the usual four times the width.
    return int(getattr(text, "intermediate_size", None) or 4 * text.hidden_size)

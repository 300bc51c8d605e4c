"""The sizes of a model, from its config alone, and what is free on a machine.

A model is built without storage, and counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from rods.config import RunConfig
from rods.errors import PolicyError
from rods.infra.host import host_memory
from rods.trainers.loading import pick_device, positions_of, quiet

GIB = 1 << 30


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


class Device(NamedTuple):
    """Device that a run is planned for, in bytes that it may hold."""

    on_gpu: bool
    memory: int
    stated: bool
    """True if the settings say how much memory; else it is what was free."""
    host: int = 1 << 62
    """Bytes of the host's memory, where the device is a GPU."""
    disk: int = 1 << 62


def device_of(config: RunConfig, here: bool = True) -> Device:
    """The device that the settings mean; one that need not be `here` may be a GPU elsewhere.

    Raises:
        PolicyError: CUDA was asked for, is not here, and nothing says how large it is.
    """
    stated = int(config.train.local.memory_gib * GIB)
    if stated and not here and config.model.device != "cpu":
        return Device(True, stated, True)
    device = pick_device(config.model)
    on_gpu = device.type == "cuda"
    free = int(torch.cuda.mem_get_info(device)[0]) if on_gpu else host_memory()
    return Device(on_gpu, stated or free, bool(stated))


def is_here(device: Device) -> bool:
    """True if a device is in this machine, so that its host and its disk are this one's."""
    return not device.on_gpu or torch.cuda.is_available()


def keep_within(device: Device) -> None:
    """Hold torch, with what it keeps for later, to the memory of a GPU that the settings state."""
    if device.on_gpu and device.stated:
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, device.memory / whole))

"""The engine that the settings name or leave open, and the chat template it decodes with.

Owns the choice, by the model's size and what is installed, and the device, precision and memory
that an engine gets. It loads no model.

    config, said = with_engine(config, parameters=4_022_468_096, on_gpu=True)
    policy = engine_of(config, model, template_of(model, tokenizer))
"""

from __future__ import annotations

import shutil
from typing import Any

from rods.config import RunConfig
from rods.engines import make_engine
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.engines.processes import processes_of
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.trainers.loading import pick_device, uses_bfloat16
from rods.trainers.memory.plan import updates_beside
from rods.trainers.memory.shape import device_of, keep_within

LARGE = 1_000_000_000
"""Parameters above which `auto` means vLLM: the engine in this process has no captured graphs."""
SMALL = 50_000_000
"""Parameters up to which it means a process a core on a CPU: each has a copy of the weights."""


def template_of(model: Any, tokenizer: Any) -> ChatTemplate:
    """The chat template, with all ids at which the model ends a generation."""
    return ChatTemplate(tokenizer, generation_stops(model))


def engine_of(config: RunConfig, model: Any, template: ChatTemplate) -> Engine:
    """The engine that the settings name; its cache may take nine tenths of what is stated or free.

    Args:
        model: the trainer's; None where none is loaded, because a server has its own.
        template: says how texts are decoded, and at which ids the model ends.
    """
    device = device_of(config)
    if model is not None:
        config, _ = with_engine(config, model.num_parameters(), device.on_gpu)
    keep_within(device)
    return engine_within(config, model, template, int(0.9 * device.memory))


def engine_within(
    config: RunConfig, model: Any, template: ChatTemplate, cache: int | None
) -> Engine:
    """The same, whose cache may take so many bytes; None: the engine decides."""
    device = pick_device(config.model)
    half = uses_bfloat16(config.model, device)
    share = not updates_beside(config)
    return make_engine(EngineOptions(config, template, model, str(device), half, cache, share))


def with_engine(config: RunConfig, parameters: int, on_gpu: bool) -> tuple[RunConfig, str]:
    """The settings with an engine in the place of `auto`, and why, where that wants saying.

    An engine that they name is kept. `on_gpu` says whether the run computes on a GPU.
    """
    if not config.engine.traits.undecided:
        return config, ""
    size = f"{parameters / 1e9:.1f} billion parameters"
    if parameters <= LARGE or not on_gpu:
        return with_name(config, "hf" if on_gpu else _on_cpu(config, parameters)), ""
    if _has_vllm(config):
        said = f'vLLM samples, because the model has {size} (engine.name = "hf": in this process)'
        return with_name(config, "vllm"), said
    return with_name(config, "hf"), (
        f"the model has {size}, for which vLLM is meant, but it is not installed here or gets no "
        "LoRA adapters: the engine in this process samples instead (engine.name, "
        "engine.vllm.command, model.lora_rank; docs/engines.md)"
    )


def _on_cpu(config: RunConfig, parameters: int) -> str:
    """A process with one thread pays only where `model.threads` is left open."""
    small = parameters <= SMALL and config.model.dtype != "bfloat16"
    many = processes_of(config.rollout) > 1
    return "processes" if small and many and not config.model.threads else "hf"


def with_name(config: RunConfig, name: str) -> RunConfig:
    """The settings with this `engine.name`."""
    return config.model_copy(update={"engine": config.engine.model_copy(update={"name": name})})


def _has_vllm(config: RunConfig) -> bool:
    """Whether its program is here, and LoRA adapters are trained, which it takes alone."""
    return bool(config.model.lora_rank) and shutil.which(config.engine.vllm.command) is not None

"""The engine that the settings name, and the chat template it decodes with.

Owns what of device, precision and memory an engine is told. It loads no model.

    policy = engine_of(config, model, template_of(model, tokenizer))
"""

from __future__ import annotations

from typing import Any

from rods.assemble.choice import with_engine
from rods.config import RunConfig
from rods.engines import make_engine
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.trainers.loading import pick_device, uses_bfloat16
from rods.trainers.memory.machine import at_hand
from rods.trainers.memory.plan import updates_beside


def template_of(model: Any, tokenizer: Any) -> ChatTemplate:
    """The chat template, with all ids at which the model ends a generation."""
    return ChatTemplate(tokenizer, generation_stops(model))


def engine_of(config: RunConfig, model: Any, template: ChatTemplate) -> Engine:
    """The engine that the settings name, whose cache may take nine tenths of what is free.

    Args:
        config: settings.
        model: the trainer's; None where none is loaded, because a server has its own.
        template: says how texts are decoded, and at which ids the model ends.
    """
    if model is not None:
        on_gpu = pick_device(config.model).type == "cuda"
        config, _ = with_engine(config, model.num_parameters(), on_gpu)
    return engine_within(config, model, template, int(0.9 * at_hand(pick_device(config.model))))


def engine_within(
    config: RunConfig, model: Any, template: ChatTemplate, cache: int | None
) -> Engine:
    """The same, whose cache may take so many bytes; None: the engine decides."""
    device = pick_device(config.model)
    half = uses_bfloat16(config.model, device)
    share = not updates_beside(config)
    return make_engine(EngineOptions(config, template, model, str(device), half, cache, share))

"""Inference engines: policies that sample from real weights, by name.

`hf.py` runs a causal language model of transformers in this process; its neighbors are the parts
it is made of. `openai.py` asks a server, `vllm.py` starts one. Nothing of them is
imported before it is asked for, so that the core never loads torch by accident.

    engine = make_engine(EngineOptions(config, template, model, "cpu", half, cache, share))
"""

from __future__ import annotations

from typing import Any

from rods.config import RunConfig
from rods.engines.options import EngineOptions
from rods.errors import ConfigError
from rods.policy import Engine
from rods.registry import Registry, require, takes

ENGINES = Registry(
    "engine.name",
    "engine",
    {
        "hf": "rods.engines.hf:make_hf",
        "processes": "rods.engines.processes:make_processes",
        "openai": "rods.engines.openai:make_openai",
        "vllm": "rods.engines.vllm:VllmEngine",
    },
)


def engine_factory(name: str) -> Any:
    """Factory of an engine from `EngineOptions`; raises `ConfigError`."""
    return takes("engine.name", name, ENGINES.find(name), "engine options")


def require_engine(name: str) -> None:
    """Find an engine, without an import of ours, which need torch; raises `ConfigError`."""
    if name not in ENGINES:
        engine_factory(name)


def make_engine(options: EngineOptions) -> Engine:
    """The engine that the configuration names; its driver starts it.

    Raises:
        ConfigError: there is no such engine, or its settings contradict each other.
    """
    name = options.config.engine.name
    engine = engine_factory(name)(options)
    require("engine.name", name, engine, Engine)
    return engine


def require_trainable(config: RunConfig, engine: Engine) -> None:
    """Raises `ConfigError` for an engine from which nothing can be learned."""
    if engine.capabilities.weights == "fixed":
        raise ConfigError(
            f'engine.name = "{config.engine.name}": its weights never change, so it can only be '
            'evaluated (rods eval). To train, set model.lora_rank and engine.weights = "lora", or '
            "take another engine: docs/guides/engines.md."
        )
    if config.rollout.top_p < 1 and not engine.capabilities.top_p:
        raise ConfigError(
            f"rollout.top_p = {config.rollout.top_p:g}: the log-probabilities of "
            f'engine.name = "{config.engine.name}" are then those within the nucleus, with which '
            "a trainer cannot compare its own. Set it to 1 for training."
        )

"""Inference engines: policies that sample from real weights, by name.

`hf.py` runs a causal language model of transformers in this process; its neighbours are the parts
it is made of. `openai.py` asks a server, `vllm.py` starts one, `serve.py` is one. Nothing of them
is imported before it is asked for, so that the core never loads torch by accident.

    engine = make_engine(EngineOptions(config, template, model, "cpu", half, cache, share))
"""

from __future__ import annotations

from typing import Any, cast

from rods.engines.options import EngineOptions
from rods.policy import Engine
from rods.registry import Registry, require, takes

ENGINES = Registry(
    "engine.name",
    "engine",
    {
        "hf": "rods.engines.hf:make_hf",
        "openai": "rods.engines.openai:make_openai",
        "vllm": "rods.engines.vllm:make_vllm",
    },
)


def engine_factory(name: str) -> Any:
    """What makes an engine of `EngineOptions`; raises `ConfigError`."""
    return takes("engine.name", name, ENGINES.find(name), "engine options")


def make_engine(options: EngineOptions) -> Engine:
    """The engine that the configuration names; it is started by whoever drives it.

    Raises:
        ConfigError: there is no such engine, or its settings contradict each other.
    """
    name = options.config.engine.name
    engine = engine_factory(name)(options)
    require("engine.name", name, engine, Engine)
    return cast("Engine", engine)

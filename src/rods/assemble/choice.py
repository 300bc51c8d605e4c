"""Which engine a run gets where its settings leave it open.

Owns the choice alone, by the model's size and what is installed; it starts nothing.

    config, said = with_engine(config, parameters=4_022_468_096, on_gpu=True)
    config.engine.name, said
"""

from __future__ import annotations

import shutil

from rods.config import RunConfig
from rods.engines.processes import processes_of

LARGE = 1_000_000_000
"""Parameters above which `auto` means vLLM: the engine in this process has no captured graphs."""
SMALL = 50_000_000
"""Parameters up to which it means a process a core on a CPU: each has a copy of the weights."""


def with_engine(config: RunConfig, parameters: int, on_gpu: bool) -> tuple[RunConfig, str]:
    """The settings with an engine in the place of `auto`, and why, where that wants saying.

    Args:
        config: settings; an engine that they name is kept.
        parameters: of the model.
        on_gpu: whether the run computes on a GPU.
    """
    if not config.engine.traits.undecided:
        return config, ""
    size = f"{parameters / 1e9:.1f} billion parameters"
    if parameters <= LARGE or not on_gpu:
        return _named(config, "hf" if on_gpu else _on_cpu(config, parameters)), ""
    if _has_vllm(config):
        said = f'vLLM samples, because the model has {size} (engine.name = "hf": in this process)'
        return _named(config, "vllm"), said
    return _named(config, "hf"), (
        f"the model has {size}, for which vLLM is meant, but it is not installed here or gets no "
        "LoRA adapters: the engine in this process samples instead (engine.name, "
        "engine.vllm.command, model.lora_rank; docs/engines.md)"
    )


def _on_cpu(config: RunConfig, parameters: int) -> str:
    """One thread a process pays where threads are not told, which says that runs may differ."""
    small = parameters <= SMALL and config.model.dtype != "bfloat16"
    many = processes_of(config.rollout) > 1
    return "processes" if small and many and not config.model.threads else "hf"


def _named(config: RunConfig, name: str) -> RunConfig:
    return config.model_copy(update={"engine": config.engine.model_copy(update={"name": name})})


def _has_vllm(config: RunConfig) -> bool:
    """Whether its program is here, and LoRA adapters are trained, which it takes alone."""
    return bool(config.model.lora_rank) and shutil.which(config.engine.vllm.command) is not None

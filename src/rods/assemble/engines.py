"""The engine that the settings name or leave open, and the chat template it decodes with.

Owns the choice, by the model's size and what is installed, the device, precision and memory that an
engine gets, and the record of these in a run's manifest. Which engine is installed and how much
memory is free are facts of a moment; batches that come together otherwise round otherwise, so a
resumed run must not look again. It loads no model.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from rods.config import RunConfig
from rods.engines import make_engine
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.engines.processes import processes_of
from rods.infra.host import host_memory
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.store import RunDirectory
from rods.trainers import memory
from rods.trainers.loading import cpu_halves, load_architecture, pick_device, uses_bfloat16

_LOG = logging.getLogger("rods.engines")
SETTLED = "settled"  # key of the manifest
LARGE = 1_000_000_000
"""Parameters above which `auto` means vLLM: the engine in this process has no captured graphs."""
SMALL = 50_000_000
"""Parameters up to which it means a process a core on a CPU: each has a copy of the weights."""


def template_of(model: Any, tokenizer: Any) -> ChatTemplate:
    """The chat template, with all ids at which the model ends a generation."""
    return ChatTemplate(tokenizer, generation_stops(model))


def engine_of(config: RunConfig, model: Any, template: ChatTemplate) -> Engine:
    """The engine that the settings name; its cache may take nine tenths of what is stated or free.

    `model` is None where none is loaded, because a server has its own.
    """
    device = memory.device_of(config)
    if model is not None:
        config, _ = with_engine(config, model.num_parameters(), device.on_gpu)
    memory.keep_within(device)
    return engine_within(config, model, template, int(0.9 * device.memory))


def engine_within(
    config: RunConfig, model: object, template: ChatTemplate, cache: int | None
) -> Engine:
    """The engine of a run, whose cache may take so many bytes; None: the engine decides."""
    device = pick_device(config.model)
    half = uses_bfloat16(config.model, device)
    share = not memory.updates_beside(config)
    return make_engine(EngineOptions(config, template, model, str(device), half, cache, share))


def with_engine(config: RunConfig, parameters: int, on_gpu: bool) -> tuple[RunConfig, str]:
    """The settings with an engine in the place of `auto`, and why, where that wants saying.

    An engine that they name is kept. `on_gpu` says whether the run computes on a GPU.
    """
    if not config.engine.traits.undecided:
        return config, ""
    size = f"{parameters / 1e9:.1f} billion parameters"
    if parameters <= LARGE or not on_gpu:
        # A process with one thread pays only where `model.threads` is left open.
        small = parameters <= SMALL and config.model.dtype != "bfloat16"
        alone = on_gpu or not small or config.model.threads or processes_of(config.rollout) < 2
        return with_name(config, "hf" if alone else "processes"), ""
    # vLLM takes LoRA adapters alone.
    if config.model.lora_rank and shutil.which(config.engine.vllm.command):
        why = f'vLLM samples, because the model has {size} (engine.name = "hf": in this process)'
        return with_name(config, "vllm"), why
    command = config.engine.vllm.command
    lacks = "model.lora_rank = 0 trains all weights and vLLM takes LoRA adapters alone"
    if config.model.lora_rank:
        lacks = f"there is no command {command!r} here (engine.vllm.command)"
    return with_name(config, "hf"), (
        f"the model has {size}, for which vLLM is meant, but {lacks}: the engine in this process "
        "samples instead (engine.name; docs/guides/engines.md)"
    )


def with_name(config: RunConfig, name: str) -> RunConfig:
    """The settings with this `engine.name`."""
    return config.model_copy(update={"engine": config.engine.model_copy(update={"name": name})})


class Settled(NamedTuple):
    """Choices made once; `engine` and `dtype` in the place of `auto`."""

    engine: str
    dtype: Literal["float32", "bfloat16"]
    cache_bytes: int | None
    """Bytes that a cache here may grow to beside training; None: all rows fit."""
    memory_gib: float
    """`train.local.memory_gib`, by which the cache was bounded; 0: by what was free."""


def settle(config: RunConfig, run: RunDirectory) -> tuple[RunConfig, int | None]:
    """The settings with their engine, and the bytes that a cache here may grow to.

    The manifest of the run keeps them for a resume; only another `train.local.memory_gib` bounds
    the cache again. Raises `ConfigError`, with the setting to change, where the run cannot fit.
    """
    device = memory.device_of(config)
    shape = memory.shape_of(load_architecture(config.model))
    found = cast("dict[str, Any] | None", run.manifest.get(SETTLED))
    before = None if found is None else Settled(**found)
    dtype = config.model.dtype
    if dtype == "auto":
        half = device.on_gpu or cpu_halves(shape.hidden)
        dtype = before.dtype if before else "bfloat16" if half else "float32"
        model = config.model.model_copy(update={"dtype": dtype})
        config = config.model_copy(update={"model": model})
    if before is not None and config.engine.traits.undecided:
        config = with_name(config, before.engine)
    config, why = with_engine(config, shape.parameters, device.on_gpu)
    if why:
        _LOG.warning(why)
    plan = memory.require_fit(shape, config, with_room(device, run.path))
    memory.keep_within(device)
    cache = plan.cache(device.memory)
    bounded = cache if cache < plan.rows * plan.row else None
    now = Settled(config.engine.name, dtype, bounded, config.train.local.memory_gib)
    if before is None or before.memory_gib != now.memory_gib:
        run.update_manifest(**{SETTLED: dict(now._asdict())})
        return config, now.cache_bytes
    at_start = plan.rows * plan.row if before.cache_bytes is None else before.cache_bytes
    if now.cache_bytes is not None and now.cache_bytes < at_start:
        _LOG.warning(
            "this run's cache may grow to %.2f GiB, as at its start, so that its batches stay the "
            "same. Now %.2f GiB are free for it. If they do not suffice, use --memory N, in GiB",
            at_start / memory.GIB,
            now.cache_bytes / memory.GIB,
        )
    return config, before.cache_bytes


def with_room(device: memory.Device, run: Path) -> memory.Device:
    """The device, in this machine, with what is free in the host's memory and on disk for a run.

    The run's folder need not exist; what it holds already counts as free.
    """
    held = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    return device._replace(host=host_memory(), disk=free_disk(run) + held)


def free_disk(folder: Path) -> int:
    """Bytes that are free where a folder is, or would be made."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free

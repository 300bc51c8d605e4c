"""What TRL's trainer would hold, before it starts.

Owns how far its passes are larger than the local trainer's: TRL computes a whole micro-batch of
padded rows at once, with all logits, and the engine beside it has a copy of the weights.

    for line in trl_memory(config, args.per_device_train_batch_size):
        say(line)
"""

from __future__ import annotations

import os
from dataclasses import replace

from rods.config import RunConfig, with_overrides
from rods.errors import ConfigError
from rods.trainers.loading import load_architecture
from rods.trainers.memory.advice import changes
from rods.trainers.memory.context import require_context
from rods.trainers.memory.machine import GIB, device_of
from rods.trainers.memory.plan import Item, MemoryPlan, plan_of
from rods.trainers.memory.shape import Shape, shape_of

NOT_READ = ("train.local.microbatch_tokens", "train.local.optimizer_memory", "engine.vllm.sleep")
"""Settings that would make `rods train` fit and that TRL does not read."""
BATCH = "--trl.per_device_train_batch_size"


def plan_of_trl(shape: Shape, config: RunConfig, rows: int, on_gpu: bool) -> MemoryPlan:
    """The plan of a training inside TRL.

    Args:
        shape: of the model.
        config: settings.
        rows: trajectories of a micro-batch; each may be as long as `rollout.context_tokens`.
        on_gpu: whether it computes on a GPU.
    """
    engine = "hf" if config.engine.name in ("auto", "processes") else config.engine.name
    tokens = rows * config.rollout.context_tokens
    asked = [f"engine.name={engine}", f"train.local.microbatch_tokens={max(128, tokens)}"]
    plan = plan_of(shape, with_overrides(config, asked), on_gpu)
    half = config.model.dtype == "bfloat16" or (config.model.dtype == "auto" and on_gpu)
    each = 22 if half else 20
    why = f"{tokens:,} tokens x {shape.vocabulary:,} words x {each} bytes, all at once in TRL"
    items = [item for item in plan.items if item.name not in ("logits", "engine", "checkpoints")]
    items.append(Item("logits", tokens * shape.vocabulary * each, why, "update"))
    if engine == "hf":
        size = 2 if half else 4
        why = f"{shape.parameters:,} x {size} bytes: the engine's copy of the weights"
        items.append(Item("engine", size * shape.parameters, why, "always"))
    return replace(plan, items=tuple(items))


def trl_memory(config: RunConfig, rows: int) -> list[str]:
    """A warning where a micro-batch of full rows would not fit, and what would.

    Args:
        config: settings.
        rows: trajectories of a micro-batch (`per_device_train_batch_size`).

    Raises:
        ConfigError: not even one row of full context fits, or the context is longer than the
            model's positions.
        PolicyError: the model's sizes are not known.
    """
    shape, device = shape_of(load_architecture(config.model)), device_of(config)
    require_context(config, shape.positions)
    beside = 1 if device.on_gpu else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    free = device.memory // beside

    def needs(rows: int, *asked: str) -> int | None:
        """Bytes with other settings; None where they do not fit."""
        plan = plan_of_trl(shape, with_overrides(config, asked), rows, device.on_gpu)
        return plan.needed if plan.fits(free) else None

    plan = plan_of_trl(shape, config, rows, device.on_gpu)
    if plan.fits(free):
        return []
    fewer = next((n for n in range(rows, 0, -1) if rows % n == 0 and needs(n)), 0)
    ways = [
        f"--{text.replace('=', ' ', 1)} ({price}): {found / GIB:.1f} GiB"
        for text, price in changes(config)
        if not text.startswith(NOT_READ) and (found := needs(rows if fewer else 1, text))
    ]
    said = (
        f"model {config.model.name!r} inside TRL: a micro-batch of {rows} rows of "
        f"{config.rollout.context_tokens:,} tokens needs {plan.needed / GIB:.1f} GiB, and "
        f"{free / GIB:.1f} GiB are free for each process. "
    )
    if not fewer:
        way = f"{BATCH} 1 with {' or '.join(ways)}" if ways else "a smaller model, or more memory"
        raise ConfigError(f"{said}Not even one such row fits. What would: {way}.")
    ways.insert(0, f"{BATCH} {fewer}: {(needs(fewer) or 0) / GIB:.1f} GiB")
    shorter = "Shorter rows need less. If they grow so long, the system may end the training."
    return [f"{said}{shorter} What would fit: {'; '.join(ways)}."]

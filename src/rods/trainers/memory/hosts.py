"""The estimate for TRL's trainer, whose micro-batches are rows of full context, all at once.

for line in trl_memory(config, args.per_device_train_batch_size):
    say(line)
"""

from __future__ import annotations

import os

from rods.config import RunConfig
from rods.errors import ConfigError
from rods.trainers.loading import load_architecture
from rods.trainers.memory.machine import GIB, device_of
from rods.trainers.memory.plan import MemoryPlan, plan_of, ways
from rods.trainers.memory.shape import require_context, shape_of

NOT_READ = ("train.local.microbatch_tokens", "train.local.optimizer_memory", "engine.vllm.sleep")
"""Settings that would make `rods train` fit and that TRL does not read."""


def trl_memory(config: RunConfig, rows: int) -> list[str]:
    """A warning where a micro-batch of so many full rows would not fit, and what would.

    Raises:
        ConfigError: not even one row of full context fits, or the context is longer than the
            model's positions.
        PolicyError: the model's sizes are not known.
    """
    shape, device = shape_of(load_architecture(config.model)), device_of(config)
    require_context(config, shape.positions)
    beside = 1 if device.on_gpu else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    device = device._replace(memory=device.memory // beside)

    def planned(rows: int, config: RunConfig = config) -> MemoryPlan:
        return plan_of(shape, config, device.on_gpu, rows)

    if not planned(rows).lacks(device):
        return []
    fewer = (n for n in range(rows, 0, -1) if rows % n == 0 and not planned(n).lacks(device))
    fit = next(fewer, 0)
    found = ways(config, device, lambda changed: planned(rows if fit else 1, changed), *NOT_READ)
    said = (
        f"model {config.model.name!r} inside TRL: a micro-batch of {rows} rows of "
        f"{config.rollout.context_tokens:,} tokens needs {planned(rows).needed / GIB:.1f} GiB, and "
        f"{device.memory / GIB:.1f} GiB are free for each process. "
    )
    batch = "--trl.per_device_train_batch_size"
    if not fit:
        way = f"{batch} 1 with {' or '.join(found)}" if found else "a smaller model, or more memory"
        raise ConfigError(f"{said}Not even one such row fits. What would: {way}.")
    found.insert(0, f"{batch} {fit}: {planned(fit).needed / GIB:.1f} GiB")
    shorter = "Shorter rows need less. If they grow so long, the system may end the training."
    return [f"{said}{shorter} What would fit: {'; '.join(found)}."]

"""Memory that a training inside TRL needs: a micro-batch of full rows, all at once.

trl_memory(config, rows, device)                # raises ConfigError where not one row fits
"""

from __future__ import annotations

import os

from rods.config import RunConfig
from rods.errors import ConfigError
from rods.trainers.loading import load_architecture
from rods.trainers.memory import GIB, Device, MemoryPlan, plan_of, shape_of, ways

NOT_READ = ("train.local.microbatch_tokens", "train.local.optimizer_memory", "engine.vllm.sleep")
"""Settings that would make `rods train` fit and that TRL does not read."""


def trl_memory(config: RunConfig, rows: int, device: Device) -> list[str]:
    """Return an estimate for a micro-batch of full rows in TRL, and what fits where it does not.

    TRL computes the rows of a micro-batch at their full context, all at once.

    Raises:
        ConfigError: not even one row fits.
        PolicyError: the model's sizes are not known.
    """
    shape = shape_of(load_architecture(config.model))
    beside = 1 if device.on_gpu else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    device = device._replace(memory=device.memory // beside)

    def planned(rows: int, config: RunConfig = config) -> MemoryPlan:
        return plan_of(shape, config, device.on_gpu, rows)

    message = (
        f"model {config.model.name!r} inside TRL: a micro-batch of {rows} rows of "
        f"{config.rollout.context_tokens:,} tokens needs {planned(rows).needed / GIB:.1f} GiB, and "
        f"{device.memory / GIB:.1f} GiB are free for each process. "
    )
    if not planned(rows).lacks(device):
        return [f"{message}It fits."]
    fewer = (n for n in range(rows, 0, -1) if rows % n == 0 and not planned(n).lacks(device))
    fit = next(fewer, 0)
    found = ways(config, device, lambda changed: planned(rows if fit else 1, changed), *NOT_READ)
    batch = "--trl.per_device_train_batch_size"
    if not fit:
        way = f"{batch} 1 with {' or '.join(found)}" if found else "a smaller model, or more memory"
        raise ConfigError(f"{message}Not even one such row fits. Try {way}.")
    found.insert(0, f"{batch} {fit}: {planned(fit).needed / GIB:.1f} GiB")
    shorter = "Shorter rows need less. If they grow so long, the system may end the training."
    return [f"{message}{shorter} What would fit: {'; '.join(found)}."]

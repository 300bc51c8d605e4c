"""What a run settles at its start, by what it then finds, and keeps when it goes on.

Owns the record of it in the manifest, and when it holds no more. Which engine is installed and how
much memory is free are facts of a moment; batches that come together otherwise round otherwise, so
a resumed run must not look again.

    config, cache = settle(config, run)
    run.manifest["settled"]               # {"engine": "hf", "cache_bytes": null, "memory_gib": 0.0}
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any, NamedTuple, cast

from rods.assemble.engines import with_engine, with_name
from rods.config import RunConfig
from rods.infra.host import host_memory
from rods.store import RunDirectory
from rods.trainers.loading import load_architecture
from rods.trainers.memory.plan import require_fit
from rods.trainers.memory.shape import GIB, Device, device_of, keep_within, shape_of

_LOG = logging.getLogger("rods.engines")
SETTLED = "settled"
"""Key of the manifest."""


class Settled(NamedTuple):
    """What is decided once."""

    engine: str
    """`engine.name`, in the place of `auto`."""
    cache_bytes: int | None
    """Bytes that a cache here may grow to beside training; None: all rows fit."""
    memory_gib: float
    """`train.local.memory_gib`, by which the cache was bounded; 0: by what was free."""


def settle(config: RunConfig, run: RunDirectory) -> tuple[RunConfig, int | None]:
    """The settings with their engine, and the bytes that a cache here may grow to.

    Of a run that goes on they are those of its start. Only another `train.local.memory_gib` bounds
    the cache again.

    Args:
        run: where it is written down; a run of an older version settles it when it goes on.

    Raises:
        ConfigError: the run cannot fit; the message says which setting would make it.
    """
    device = device_of(config)
    shape = shape_of(load_architecture(config.model))
    found = cast("dict[str, Any] | None", run.manifest.get(SETTLED))
    before = None if found is None else Settled(**found)
    if before is not None and config.engine.traits.undecided:
        config = with_name(config, before.engine)
    config, said = with_engine(config, shape.parameters, device.on_gpu)
    if said:
        _LOG.warning(said)
    plan = require_fit(shape, config, with_room(device, run.path))
    keep_within(device)
    cache = plan.cache(device.memory)
    bounded = cache if cache < plan.rows * plan.row else None
    now = Settled(config.engine.name, bounded, config.train.local.memory_gib)
    if before is None or before.memory_gib != now.memory_gib:
        run.update_manifest(**{SETTLED: dict(now._asdict())})
        return config, now.cache_bytes
    at_start = plan.rows * plan.row if before.cache_bytes is None else before.cache_bytes
    if now.cache_bytes is not None and now.cache_bytes < at_start:
        _LOG.warning(
            "this run's cache may grow to %.2f GiB, as at its start, so that its batches stay the "
            "same; %.2f GiB are free for it now. Should they not suffice: --memory N, in GiB",
            at_start / GIB,
            now.cache_bytes / GIB,
        )
    return config, before.cache_bytes


def with_room(device: Device, run: Path) -> Device:
    """The device with what is free in the host's memory, and on disk for a run there.

    Args:
        device: one that is in this machine.
        run: folder of the run, which need not exist; what it holds already counts as free.
    """
    held = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    return device._replace(host=host_memory(), disk=free_disk(run) + held)


def free_disk(folder: Path) -> int:
    """Bytes that are free where a folder is, or would be made."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free

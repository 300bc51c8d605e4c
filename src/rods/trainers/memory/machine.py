"""How much memory there is for a run.

Owns where that is read: the settings, CUDA, or the kernel's own accounts (`/proc/meminfo`, and the
limit of a control group, which a container has). It plans nothing.

    at_hand(torch.device("cpu")) / GIB
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import torch

from rods.config import RunConfig
from rods.trainers.loading import pick_device

GIB = 1 << 30
_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_ENDLESS = 1 << 62


class Device(NamedTuple):
    """What a run is planned for."""

    on_gpu: bool
    memory: int
    """Bytes that it may hold."""
    stated: bool
    """Whether the settings say so; else it is what was free."""


def device_of(config: RunConfig, here: bool = True) -> Device:
    """The device that the settings mean.

    Args:
        config: settings; `train.local.memory_gib` is taken at its word.
        here: whether it must be in this machine. A plan may be made for a GPU that is not.

    Raises:
        PolicyError: CUDA was asked for, is not here, and nothing says how large it is.
    """
    stated = int(config.train.local.memory_gib * GIB)
    asked = config.model.device
    if stated and not here and asked != "cpu":
        return Device(True, stated, True)
    device = pick_device(config.model)
    return Device(device.type == "cuda", stated or at_hand(device), bool(stated))


def is_here(device: Device) -> bool:
    """Whether a device is in this machine, so that its host and its disk are this one's."""
    return not device.on_gpu or torch.cuda.is_available()


def free_disk(folder: Path) -> int:
    """Bytes that are free where a folder is, or would be made."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def at_hand(device: torch.device) -> int:
    """Bytes that may still be allocated on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return host_memory()


def host_memory(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int:
    """Bytes that the host may still give to processes, within the limit of its control group."""
    return min(_available(meminfo), _left_in(group))


def _available(meminfo: Path) -> int:
    if meminfo.is_file():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # not Linux: all there is


def _left_in(group: Path) -> int:
    limit, used = group / "memory.max", group / "memory.current"
    if not (limit.is_file() and used.is_file()):
        return _ENDLESS
    text = limit.read_text(encoding="ascii").strip()
    if text == "max":
        return _ENDLESS
    return int(text) - int(used.read_text(encoding="ascii")) + _reclaimable(group / "memory.stat")


def _reclaimable(stat: Path) -> int:
    """What counts as used but is given back when it is wanted: file cache that is idle, slabs."""
    if not stat.is_file():
        return 0
    pairs = (line.split() for line in stat.read_text(encoding="ascii").splitlines())
    return sum(int(n) for name, n in pairs if name in ("inactive_file", "slab_reclaimable"))

"""What is free on a machine: by the settings, by CUDA, or by the kernel's own accounts."""

from __future__ import annotations

from typing import NamedTuple

import torch

from rods.config import RunConfig
from rods.infra.host import host_memory
from rods.trainers.loading import pick_device

GIB = 1 << 30


class Device(NamedTuple):
    """What a run is planned for, in bytes that it may hold."""

    on_gpu: bool
    memory: int
    stated: bool
    """Whether the settings say how much memory; else it is what was free."""
    host: int = 1 << 62
    """Of the host's memory, where the device is a GPU."""
    disk: int = 1 << 62


def device_of(config: RunConfig, here: bool = True) -> Device:
    """The device that the settings mean; one that need not be `here` may be a GPU elsewhere.

    Raises:
        PolicyError: CUDA was asked for, is not here, and nothing says how large it is.
    """
    stated = int(config.train.local.memory_gib * GIB)
    if stated and not here and config.model.device != "cpu":
        return Device(True, stated, True)
    device = pick_device(config.model)
    on_gpu = device.type == "cuda"
    free = int(torch.cuda.mem_get_info(device)[0]) if on_gpu else host_memory()
    return Device(on_gpu, stated or free, bool(stated))


def is_here(device: Device) -> bool:
    """Whether a device is in this machine, so that its host and its disk are this one's."""
    return not device.on_gpu or torch.cuda.is_available()


def keep_within(device: Device) -> None:
    """Hold torch, with what it keeps for later, to the memory of a GPU that the settings state."""
    if device.on_gpu and device.stated:
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, device.memory / whole))

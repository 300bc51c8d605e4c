"""A CPU as a platform of verl's, so that its trainer is tested without a GPU.

verl loads it in every process (VERL_USE_EXTERNAL_MODULES), while it is imported itself: only its
platforms can be named here. The rest is in `verl_server.py`.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def nothing(*_: Any, **__: Any) -> None:
    return None


def device_module() -> types.ModuleType:
    """What verl asks of `torch.cuda`, answered for a CPU."""
    module = types.ModuleType("cpu_device")
    for name in dir(torch.cpu):
        setattr(module, name, getattr(torch.cpu, name))
    for name in ("empty_cache", "synchronize", "set_device", "ipc_collect"):
        setattr(module, name, nothing)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        setattr(module, name, lambda *_: 0)
    module.max_memory_reserved = lambda *_: 0  # type: ignore[attr-defined]
    module.reset_peak_memory_stats = nothing  # type: ignore[attr-defined]
    module.mem_get_info = lambda *_: (1 << 34, 1 << 34)  # type: ignore[attr-defined]
    module.current_device = lambda: "cpu"  # type: ignore[attr-defined]
    module.device_count = lambda: 1  # type: ignore[attr-defined]
    module.is_available = lambda: True  # type: ignore[attr-defined]
    module.get_rng_state = torch.get_rng_state  # type: ignore[attr-defined]
    module.set_rng_state = torch.set_rng_state  # type: ignore[attr-defined]
    module.manual_seed = module.manual_seed_all = torch.manual_seed  # type: ignore[attr-defined]
    module.get_device_name = lambda *_: "cpu"  # type: ignore[attr-defined]
    module.get_device_capability = lambda *_: (None, None)  # type: ignore[attr-defined]
    module.OutOfMemoryError = MemoryError  # type: ignore[attr-defined]
    return module


MODULE = device_module()


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = property(lambda _: "cpu")
    vendor_name = property(lambda _: "cpu")
    device_module = property(lambda _: MODULE)

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        return "GPU"  # Ray is told of one that is not there

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def ray_resource_options(self, n: Any) -> dict[str, Any]:
        return {"num_gpus": n}

    def is_ipc_supported(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed
    set_device = synchronize = set_allocator_settings = empty_cache = nothing
    profiler_start = profiler_stop = cudart = nothing


def gloo_once(backend: Any = None, *args: Any, **others: Any) -> Any:
    """verl asks for a backend of the CPU and one of the device, which are the same here."""
    importlib.import_module("verl_server")  # what trains looks for its engine next
    return ORIGINAL("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **others)


ORIGINAL = dist.init_process_group
dist.init_process_group = dist.distributed_c10d.init_process_group = gloo_once

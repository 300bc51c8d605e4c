"""The refusal of a run that cannot fit, and which settings would make it fit.

require_fit(shape, config, Device(on_gpu=True, memory=80 * GIB, stated=True))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rods.config import RunConfig, with_overrides
from rods.errors import ConfigError
from rods.trainers.memory.context import require_context
from rods.trainers.memory.machine import GIB, Device
from rods.trainers.memory.plan import MemoryPlan, plan_of, updates_beside
from rods.trainers.memory.shape import Shape

Planner: TypeAlias = Callable[[RunConfig], MemoryPlan]


def changes(config: RunConfig) -> list[tuple[str, str]]:
    """What may be changed, as overrides with their price; what costs least comes first."""
    local, vllm = config.train.local, config.engine.vllm
    served = config.engine.name == "vllm" and not updates_beside(config)
    shorter = max(64, config.rollout.context_tokens // 2)
    mode, again = "train.local.optimizer_memory", "train.local.gradient_checkpointing=true"
    found = [
        (not local.gradient_checkpointing, again, "a third more arithmetic in updates"),
        (local.microbatch_tokens > 2048, "train.local.microbatch_tokens=2048", "smaller products"),
        (local.optimizer_memory != "8bit", f'{mode}="8bit"', "moments rounded"),
        (local.optimizer_memory != "offload", f'{mode}="offload"', "the host's memory and bus"),
        (served and not vllm.sleep, "engine.vllm.sleep=true", "the server wakes for every step"),
        (not config.model.lora_rank, "model.lora_rank=32", "adapters in place of all weights"),
        (shorter < config.rollout.context_tokens, f"rollout.context_tokens={shorter}",
         "longer trajectories are cut"),
    ]  # fmt: skip
    return [(text, price) for possible, text, price in found if possible]


def ways(
    config: RunConfig, device: Device, planned: Planner, without: tuple[str, ...] = ()
) -> list[str]:
    """Lines of settings with which a run fits: each alone, or all that it takes together."""

    def line(overrides: list[str], price: str) -> list[str]:
        plan = planned(with_overrides(config, overrides))
        if plan.lacks(device):
            return []
        words = " ".join(f"--{text.replace('=', ' ', 1)}" for text in overrides)
        return [f"{words} ({price}): {plan.needed / GIB:.1f} GiB"]

    possible = [change for change in changes(config) if not change[0].startswith(without)]
    alone = [found for text, price in possible for found in line([text], price)]
    together: dict[str, str] = {}
    for text, _ in possible if not alone else []:
        together[text.partition("=")[0]] = text
        if found := line([*together.values()], "together"):
            return found
    return alone


def require_fit(shape: Shape, config: RunConfig, device: Device) -> MemoryPlan:
    """The plan; raises `ConfigError`, with settings that would fit, where memory or disk lack."""
    require_context(config, shape.positions)
    plan = plan_of(shape, config, device.on_gpu)
    place = plan.lacks(device)
    if not place:
        return plan
    found = ways(config, device, lambda changed: plan_of(shape, changed, device.on_gpu))
    way = "No setting here makes it fit: take a smaller model, or more GPUs by a host trainer"
    way = f"These settings would: {'; '.join(found)}" if found else way
    places = ("always", "update") if place == "device" else (place,)
    items = sorted((i for i in plan.items if i.place in places), key=lambda item: -item.bytes)
    large = ", ".join(f"{item.name} {item.bytes / GIB:.1f}" for item in items[:4])
    needed, free, other = {
        "device": (plan.needed, plan.room(device.memory), "If there is more memory: --memory GIB."),
        "host": (plan.total("host"), device.host, "That is the host's memory."),
        "disk": (plan.total("disk"), device.disk, "That is the disk; or take another --out FOLDER"),
    }[place]
    raise ConfigError(
        f"model {config.model.name!r} needs at least {needed / GIB:.1f} GiB and there are "
        f"{free / GIB:.1f} ({large}; all of it: rods train --dry-run). {way}. {other}"
    )

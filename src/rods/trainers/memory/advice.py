"""Which settings would make a run fit.

Owns the list of what can be changed, from what costs least to what changes most. It changes
nothing itself.

    require_fit(shape, config, on_gpu=True, memory=80 * GIB)
"""

from __future__ import annotations

from typing import NamedTuple

from rods.config import RunConfig, with_overrides
from rods.errors import ConfigError
from rods.trainers.memory.context import require_context
from rods.trainers.memory.machine import GIB, Device
from rods.trainers.memory.plan import MemoryPlan, Place, plan_of, updates_beside
from rods.trainers.memory.shape import Shape


def changes(config: RunConfig) -> list[tuple[str, str]]:
    """What may be changed, as overrides, and at what price."""
    found: list[tuple[str, str]] = []
    local = config.train.local
    if not local.gradient_checkpointing:
        found.append(
            ("train.local.gradient_checkpointing=true", "a third more arithmetic in updates")
        )
    if local.microbatch_tokens > 2048:
        found.append(("train.local.microbatch_tokens=2048", "smaller products"))
    if local.optimizer_memory != "8bit":
        found.append(('train.local.optimizer_memory="8bit"', "moments rounded"))
    if local.optimizer_memory != "offload":
        found.append(('train.local.optimizer_memory="offload"', "the host's memory, and its bus"))
    vllm = config.engine.name == "vllm" and not updates_beside(config)
    if vllm and not config.engine.vllm.sleep:
        found.append(("engine.vllm.sleep=true", "the server wakes for every step"))
    if not config.model.lora_rank:
        found.append(("model.lora_rank=32", "adapters in place of all weights"))
    shorter = max(64, config.rollout.context_tokens // 2)
    if shorter < config.rollout.context_tokens:
        found.append((f"rollout.context_tokens={shorter}", "longer trajectories are cut"))
    return found


def advice(shape: Shape, config: RunConfig, on_gpu: bool, memory: int) -> list[str]:
    """Lines of settings with which the run fits: each alone, or all that it takes together."""

    def planned(overrides: list[str]) -> MemoryPlan:
        return plan_of(shape, with_overrides(config, overrides), on_gpu)

    def line(overrides: list[str], price: str) -> str:
        words = " ".join(f"--{text.replace('=', ' ', 1)}" for text in overrides)
        return f"{words} ({price}): {planned(overrides).needed / GIB:.1f} GiB"

    possible = changes(config)
    alone = [line([text], price) for text, price in possible if planned([text]).fits(memory)]
    if alone:
        return alone
    together: list[str] = []
    for text, _ in possible:
        key = text.partition("=")[0]
        together = [other for other in together if other.partition("=")[0] != key] + [text]
        if planned(together).fits(memory):
            return [line(together, "together")]
    return []


def require_fit(shape: Shape, config: RunConfig, on_gpu: bool, memory: int) -> MemoryPlan:
    """The plan, if the device suffices.

    Raises:
        ConfigError: it does not; the message says what would. Or the context is longer than the
            model's positions.
    """
    require_context(config, shape.positions)
    plan = plan_of(shape, config, on_gpu)
    if plan.fits(memory):
        return plan
    most = sorted(
        (i for i in plan.items if i.place in ("always", "update")), key=lambda i: -i.bytes
    )
    large = ", ".join(f"{item.name} {item.bytes / GIB:.1f}" for item in most[:4])
    room = plan.room(memory)
    found = advice(shape, config, on_gpu, memory)
    way = (
        "These settings would: " + "; ".join(found)
        if found
        else "No setting here makes it fit: take a smaller model, or more GPUs by a host trainer"
    )
    raise ConfigError(
        f"model {config.model.name!r} needs at least {plan.needed / GIB:.1f} GiB and there are "
        f"{room / GIB:.1f} ({large}; all of it: rods train --dry-run). {way}. If there is more "
        "memory than that, say how many GiB: --memory N."
    )


class Room(NamedTuple):
    """What is free beside the device."""

    host: int
    """Bytes of the host's memory."""
    disk: int
    """Bytes where checkpoints go."""


def require_room(shape: Shape, config: RunConfig, device: Device, room: Room) -> None:
    """Refuse a run whose checkpoints or whose offloaded states have no room here.

    Raises:
        ConfigError: they have none; the message says which settings need less.
    """
    plan = plan_of(shape, config, device.on_gpu)
    places: tuple[tuple[Place, int, str, str], ...] = (
        ("host", room.host, "in the host's memory", ""),
        ("disk", room.disk, "on disk", " Or put the run's folder elsewhere: --out FOLDER."),
    )
    for place, free, where, other in places:
        needed = plan.total(place)
        if needed > free:
            held = ", ".join(item.name for item in plan.items if item.place == place)
            found = _smaller(shape, config, device, place, free)
            way = (
                "These settings would: " + "; ".join(found)
                if found
                else "No setting here takes so little: take a smaller model"
            )
            raise ConfigError(
                f"{held}: {needed / GIB:.1f} GiB {where}, where {free / GIB:.1f} are free. "
                f"{way}.{other}"
            )


def _smaller(shape: Shape, config: RunConfig, device: Device, place: Place, free: int) -> list[str]:
    """Lines of settings with which a place suffices and the device still does."""
    lines: list[str] = []
    for text, price in changes(config):
        plan = plan_of(shape, with_overrides(config, [text]), device.on_gpu)
        needed = plan.total(place)
        if needed <= free and plan.fits(device.memory):
            words = f"--{text.replace('=', ' ', 1)}"
            lines.append(f"{words} ({price}): {needed / GIB:.1f} GiB")
    return lines

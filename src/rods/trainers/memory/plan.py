"""What a run holds, item by item, worked out from its settings and the model's sizes.

Owns the arithmetic alone: it allocates nothing and asks no device. Weights, gradients, optimiser,
reference, cache and checkpoint are exact; activations and logits follow from what the layers of
these architectures save, as tests measure it; the reserve is an assumption, and says so.

    plan = plan_of(shape, config, on_gpu=True)
    plan.needed / GIB, plan.cache_rows(left=20 * GIB)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from rods.config import RunConfig
from rods.engines.processes import processes_of
from rods.infra.checkpoints import KEPT
from rods.trainers.adamw import BLOCK
from rods.trainers.forward import LOGITS
from rods.trainers.memory.machine import GIB
from rods.trainers.memory.shape import Shape

Place: TypeAlias = Literal["always", "rollout", "update", "host", "disk"]
"""On the device during the whole run, in rollouts or in updates alone; in the host's memory; on
disk."""

RESERVE = {True: 2 * GIB, False: GIB // 2}
"""With and without a GPU: context and libraries, fragments, buffers of kernels. Assumed."""


class Item(NamedTuple):
    """One thing that is held."""

    name: str
    bytes: int
    why: str
    """How it follows from which settings."""
    place: Place


@dataclass(frozen=True)
class MemoryPlan:
    """All of it."""

    items: tuple[Item, ...]
    token: int
    """Bytes of one cached token."""
    context: int
    """Most tokens of a row."""
    rows: int
    """Rows that a step could use at once."""
    parameters: int
    on_gpu: bool
    beside: bool = False
    """Whether the engine samples while updates run, so that both need their memory at once."""
    server: float = 0.0
    """Share of the device that a server takes which the run starts beside itself."""
    server_sleeps: bool = False
    """Whether it gives its memory back during updates."""

    def total(self, *places: Place) -> int:
        """Bytes of all items of some places."""
        return sum(item.bytes for item in self.items if item.place in places)

    @property
    def row(self) -> int:
        """Bytes of a row of full context."""
        return self.token * (self.context + 1)

    @property
    def wanted_cache(self) -> int:
        """Bytes of all rows at full context, which nothing allocates at once."""
        return self.rows * self.row

    @property
    def needed(self) -> int:
        """The least bytes of the device with which the run works: one row at a time."""
        both = (self.row, self.total("update"))
        return self.total("always") + (sum(both) if self.beside else max(both))

    def cache(self, memory: int) -> int:
        """Bytes that the cache may grow to on a device with so many; it is freed for updates."""
        taken = self.total("always", "update") if self.beside else self.total("always")
        return max(self.row, min(self.wanted_cache, self.room(memory) - taken))

    def fits(self, memory: int) -> bool:
        """Whether the device suffices."""
        room = self.room(memory)
        if self.beside or not self.server_sleeps:
            return self.needed <= room
        always = self.total("always")
        return always <= room and always + self.total("update") <= memory

    def room(self, memory: int) -> int:
        """What of a device is left beside a server."""
        return int(memory * (1 - self.server))

    def most(self, memory: int) -> int:
        """What of a device there is for updates, during which a server may sleep."""
        return memory if self.server_sleeps and not self.beside else self.room(memory)


def plan_of(shape: Shape, config: RunConfig, on_gpu: bool) -> MemoryPlan:
    """Work it out."""
    half = config.model.dtype == "bfloat16" or (config.model.dtype == "auto" and on_gpu)
    size = 2 if half else 4
    numbers = "bfloat16" if half else "float32"
    engine = config.engine
    # A server has a cache of its own; so may whatever a module of the user's is.
    token = (
        2 * shape.layers * shape.keys * size if engine.name in ("auto", "hf", "processes") else 0
    )
    items = [
        *_weights(shape, config, size, numbers),
        *_optimiser(shape, config, half, on_gpu),
        *_beside(shape, config, size, numbers, on_gpu),
        *_passes(shape, config, size),
        Item("reserve", RESERVE[on_gpu], "assumed, not measured: libraries, fragments", "always"),
        _checkpoint(shape, config, half),
    ]
    rollout = config.rollout
    return MemoryPlan(
        items=tuple(item for item in items if item.bytes),
        token=token,
        context=rollout.context_tokens,
        rows=rollout.in_flight,
        parameters=shape.parameters,
        on_gpu=on_gpu,
        beside=updates_beside(config),
        server=engine.vllm.memory if engine.name == "vllm" else 0.0,
        server_sleeps=engine.vllm.sleep,
    )


def _trained(shape: Shape, config: RunConfig) -> tuple[int, str]:
    rank = config.model.lora_rank
    if rank:
        count = shape.adapters(rank)
        return count, f"{count:,} weights of adapters (model.lora_rank = {rank})"
    return shape.parameters, f"all {shape.parameters:,} weights (model.lora_rank = 0)"


def _weights(shape: Shape, config: RunConfig, size: int, numbers: str) -> list[Item]:
    why = f"{shape.parameters:,} parameters x {size} bytes ({numbers}: model.dtype)"
    items = [Item("weights", size * shape.parameters, why, "always")]
    if rank := config.model.lora_rank:
        count = shape.adapters(rank)
        why = f"{count:,} x 4 bytes (model.lora_rank = {rank})"
        items.append(Item("adapters", 4 * count, why, "always"))
    return items


def _moments(config: RunConfig, count: int) -> tuple[int, str]:
    """Bytes of Adam's two moments, and how they are kept."""
    if config.train.local.optimizer_memory == "8bit":
        return 2 * count + 2 * 4 * -(-count // BLOCK), "2 x 8 bits and their scales"
    return 8 * count, "2 x 4 bytes"


def _optimiser(shape: Shape, config: RunConfig, half: bool, on_gpu: bool) -> list[Item]:
    count, which = _trained(shape, config)
    mode = config.train.local.optimizer_memory
    place: Place = "host" if mode == "offload" and on_gpu else "always"
    moments, kept = _moments(config, count)
    setting = f'train.local.optimizer_memory = "{mode}"'
    items = [
        Item("gradients", 4 * count, f"{which} x 4 bytes, summed in float32", "update"),
        Item("optimiser", moments, f"{which}, {kept} ({setting})", place),
    ]
    if half and not config.model.lora_rank:
        why = f"{which} x 2 bytes: what bfloat16 weights lack of float32 ({setting})"
        items.append(Item("masters", 2 * count, why, place))
    return items


def _beside(shape: Shape, config: RunConfig, size: int, numbers: str, on_gpu: bool) -> list[Item]:
    """Reference, critic and the engine's own weights."""
    train, rank = config.train, config.model.lora_rank
    items: list[Item] = []
    unlikely = train.filter != "none" and train.filtering.max_perplexity > 0
    if (train.kl or unlikely) and not rank:
        asks = "train.kl" if train.kl else "train.filtering.max_perplexity"
        why = f"a frozen copy in {numbers} ({asks}); LoRA needs none, kl = 0 neither"
        items.append(Item("reference", size * shape.parameters, why, "always"))
    if train.advantage == "gae":
        own = shape.adapters(rank) if rank else shape.decoder
        moments, _ = _moments(config, own)
        held = (4 if rank else size) * own + (0 if rank or size == 4 else 2 * own)
        offloaded = train.local.optimizer_memory == "offload" and on_gpu
        why = 'weights, gradients and optimiser of the critic (train.advantage = "gae")'
        items.append(Item("critic", held + 4 * own + (0 if offloaded else moments), why, "always"))
    merged = bool(rank) and size == 4
    here = config.engine.name in ("auto", "hf")
    if here and shape.fast and (merged or updates_beside(config)):
        asks = "float32 adapters are merged into a copy"
        asks = asks if merged else 'rollout.schedule = "pipelined" samples while weights change'
        why = f"{shape.parameters:,} x {size} bytes: {asks}"
        items.append(Item("engine", size * shape.parameters, why, "always"))
    if config.engine.name == "processes":
        each, count = size * shape.parameters + RESERVE[False], processes_of(config.rollout)
        why = f"{count} processes x {each:,} bytes: weights, and libraries as below"
        items.append(Item("engine", count * each, why, "always"))
    if on_gpu and config.engine.name == "vllm" and config.engine.vllm.sleep:
        why = f"{shape.parameters:,} x {size} bytes, in updates (engine.vllm.sleep)"
        items.append(
            Item("weights of the server that sleeps", size * shape.parameters, why, "host")
        )
    return items


def updates_beside(config: RunConfig) -> bool:
    """Whether updates run while the engine samples, so that it needs weights of its own."""
    return config.rollout.schedule == "pipelined" and config.rollout.pipeline.staleness > 0


def _passes(shape: Shape, config: RunConfig, size: int) -> list[Item]:
    """Activations and logits of one micro-batch."""
    local = config.train.local
    longest = config.rollout.context_tokens
    tokens = max(local.microbatch_tokens, longest)
    named = "rollout.context_tokens" if longest >= tokens else "train.local.microbatch_tokens"
    layer = layer_bytes(shape, size)
    backward = 2 * size * shape.feedforward + 4 * size * shape.hidden
    if local.gradient_checkpointing:
        saved = shape.layers * size * shape.hidden + layer
        how = f"{shape.layers} layer inputs and one layer (train.local.gradient_checkpointing)"
    else:
        saved = shape.layers * layer
        how = f"{shape.layers} layers (train.local.gradient_checkpointing = false)"
    rows = min(tokens, max(1, LOGITS // shape.vocabulary))
    each = size + (20 if size == 2 else 16)
    return [
        Item(
            "activations", tokens * (saved + backward),
            f"{tokens:,} tokens ({named}) x {(saved + backward):,} bytes: {how}", "update",
        ),
        Item(
            "logits", rows * shape.vocabulary * each,
            f"{rows:,} tokens at once x {shape.vocabulary:,} words x {each} bytes", "update",
        ),
    ]  # fmt: skip


def layer_bytes(shape: Shape, size: int) -> int:
    """Bytes that one decoder layer saves of one token for its backward pass.

    Adapters change it little: they read what frozen layers no longer keep.
    """
    # A norm saves its input in float32, what it normalised, and its output, which a product saves.
    norm = 12 if size == 4 else 8
    heads = norm - size if shape.norms_heads else 0  # the rotation saves no input
    rotated = size * (shape.queries + shape.keys)
    found = 2 * norm * shape.hidden + heads * (shape.queries + shape.keys) + rotated
    found += size * shape.keys  # values
    found += 2 * size * shape.queries  # attention's output, and as the next product reads it
    found += 4 * size * shape.feedforward  # gate, its activation, up, their product
    return found


def _checkpoint(shape: Shape, config: RunConfig, half: bool) -> Item:
    count, which = _trained(shape, config)
    lora = bool(config.model.lora_rank)
    weights = (4 if lora or not half else 2) * count
    moments, _ = _moments(config, count)
    masters = 0 if lora or not half else 2 * count
    once = weights + moments + masters
    if config.train.advantage == "gae":
        once += once * (1 if lora else shape.decoder) // (1 if lora else shape.parameters)
    why = (
        f"{which}: weights and one optimiser state, {once / GIB:.2f} GiB, {KEPT} kept and one made"
    )
    return Item("checkpoints", (KEPT + 1) * once, why, "disk")


def table(plan: MemoryPlan, memory: int, stated: bool) -> list[str]:
    """The plan in lines for people.

    Args:
        plan: what is held.
        memory: bytes of the device.
        stated: whether somebody said so (else it is what was free).
    """
    lines = [_line(item) for item in plan.items if item.place in ("always", "update")]
    cache = plan.cache(memory)
    held = "cache: it is the server's (engine.name)"
    if plan.token:
        rows = max(1, cache // plan.row)
        freed = "" if plan.beside else ", freed for updates"
        held = (
            f"cache: what is left{freed}; {plan.token:,} bytes a token, {rows} of {plan.rows} rows "
            f"at full context (rollout.context_tokens = {plan.context:,}), more while they are "
            f"shorter; all would be {plan.wanted_cache / GIB:.2f} GiB"
        )
    if plan.server:
        taken = memory - plan.room(memory)
        lines.append(f"{taken / GIB:8.2f} GiB  server: {plan.server:.0%} (engine.vllm.memory)")
    lines += [
        f"{cache / GIB:8.2f} GiB  {held}",
        f"{plan.needed / GIB:8.2f} GiB  needed at least, of {plan.most(memory) / GIB:.2f} GiB "
        f"{'stated' if stated else 'free'}: "
        f"{'it fits' if plan.fits(memory) else 'it does not fit'}",
    ]
    lines += [_line(item, " (host)") for item in plan.items if item.place == "host"]
    lines += [_line(item, " (disk)") for item in plan.items if item.place == "disk"]
    return lines


def _line(item: Item, where: str = "") -> str:
    phase = ", in updates" if item.place == "update" else ""
    return f"{item.bytes / GIB:8.2f} GiB  {item.name}{where}{phase}: {item.why}"

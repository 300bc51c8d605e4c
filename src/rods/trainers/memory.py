"""The estimate: what a run holds, and the refusal of what cannot fit, with settings that would.

A model is built without storage, and counted. Weights, gradients, optimizer state and cache are
exact. Activations and logits follow from what the layers of Llama-like models save, for a full
micro-batch. The reserve is assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from rods.config import RunConfig, with_overrides
from rods.config.checks import limits_perplexity
from rods.engines.processes import processes_of
from rods.engines.weights import PACKED
from rods.errors import ConfigError, PolicyError
from rods.infra.checkpoints import KEPT
from rods.infra.host import host_memory
from rods.trainers.adamw import BLOCK
from rods.trainers.forward import LOGITS
from rods.trainers.loading import cpu_halves, pick_device, positions_of, quiet, require_context

GIB = 1 << 30
RESERVE = {True: 2 * GIB, False: GIB // 2}
"""With and without a GPU: libraries, fragments, buffers of kernels. Assumed."""
MODE = "train.local.optimizer_memory"
SHOWN = "; all of it: rods train --dry-run"


class Shape(NamedTuple):
    """Sizes of one causal language model; widths are those of all heads together.

    `feedforward` counts the experts that one token meets; `norms_heads`: as in Qwen3."""

    parameters: int
    """Weights; one that is used twice (tied embeddings) counts once."""
    sides: int
    """Inputs and outputs of all linear layers with adapters; rank r has r weights for each."""
    layers: int
    hidden: int
    queries: int
    keys: int
    feedforward: int
    vocabulary: int
    norms_heads: bool
    positions: int


def shape_of(config: PretrainedConfig) -> Shape:
    """Count; raises `PolicyError` where transformers cannot build a model from this config."""
    try:
        with torch.device("meta"), quiet():
            model: Any = AutoModelForCausalLM.from_config(config)
    except (ValueError, KeyError, RuntimeError, AttributeError, TypeError, ImportError) as error:
        raise PolicyError(
            f"a model of type {config.model_type!r} cannot be built from its config: {error}."
        ) from error
    text: Any = config.get_text_config()
    head = model.get_output_embeddings()
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not head]
    heads = int(text.num_attention_heads)
    width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
    experts = int(getattr(text, "num_experts_per_tok", None) or 0)
    # GPT-2's config leaves the width out where it is the usual four times the hidden one.
    wide = int(getattr(text, "intermediate_size", None) or 4 * text.hidden_size)
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        sides=sum(m.in_features + m.out_features for m in linear),
        layers=int(text.num_hidden_layers),
        hidden=int(text.hidden_size),
        queries=heads * width,
        keys=int(getattr(text, "num_key_value_heads", None) or heads) * width,
        feedforward=experts * int(getattr(text, "moe_intermediate_size", None) or 0) or wide,
        vocabulary=int(model.get_input_embeddings().weight.shape[0]),
        norms_heads=any(name.endswith("q_norm") for name, _ in model.named_modules()),
        positions=positions_of(config),
    )


class Device(NamedTuple):
    """Device that a run is planned for, in bytes that it may hold."""

    on_gpu: bool
    memory: int
    stated: bool
    """True if the settings say how much memory; else it is what was free."""
    host: int = 1 << 62
    """Bytes of the host's memory, where the device is a GPU."""
    disk: int = 1 << 62


def device_of(config: RunConfig, here: bool = True) -> Device:
    """The device that the settings mean; one that need not be `here` may be a GPU elsewhere.

    Raises `PolicyError` where CUDA was asked for, is not here, and nothing says how large it is.
    """
    stated = int(config.train.local.memory_gib * GIB)
    if stated and not here and config.model.device != "cpu":
        return Device(True, stated, True)
    device = pick_device(config.model)
    on_gpu = device.type == "cuda"
    free = int(torch.cuda.mem_get_info(device)[0]) if on_gpu else host_memory()
    return Device(on_gpu, stated or free, bool(stated))


def is_here(device: Device) -> bool:
    """True if a device is in this machine, so that its host and its disk are this one's."""
    return not device.on_gpu or torch.cuda.is_available()


def keep_within(device: Device) -> None:
    """Hold torch, with what it keeps for later, to the memory of a GPU that the settings state."""
    if device.on_gpu and device.stated:
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, device.memory / whole))


class Item(NamedTuple):
    """One thing that is held, and how it follows from which settings."""

    name: str
    bytes: int
    why: str
    place: str = "always"
    """On the device during the whole run, or in an `update` alone; on the `host`; on `disk`."""


class MemoryPlan(NamedTuple):
    """All of it."""

    items: tuple[Item, ...]
    row: int
    """Bytes of the keys and values of a row of full context; 0: a server has the cache."""
    rows: int
    """Rows that a step could use at once."""
    beside: bool
    """True if the engine samples while updates run, so that both need their memory at once."""
    server: float
    """Share of the device that a server takes; if it `sleeps`, in rollouts alone."""
    sleeps: bool

    def total(self, *places: str) -> int:
        """Bytes of all items of some places."""
        return sum(item.bytes for item in self.items if item.place in places)

    @property
    def needed(self) -> int:
        """The least bytes of the device with which the run works: one row at a time."""
        both = (self.row, self.total("update"))
        return self.total("always") + (sum(both) if self.beside else max(both))

    def cache(self, memory: int) -> int:
        """Bytes that the cache may grow to on a device with so many; it is freed for updates."""
        taken = self.total("always", "update") if self.beside else self.total("always")
        return max(self.row, min(self.rows * self.row, self.room(memory) - taken))

    def room(self, memory: int) -> int:
        """Bytes of a device that are left beside a server."""
        return int(memory * (1 - self.server))

    def lacks(self, device: Device) -> str:
        """Where there is too little: `device`, `host`, `disk`; empty: it fits."""
        room, most = self.room(device.memory), device.memory
        asleep = self.total("always", "update") if self.sleeps and not self.beside else most + 1
        if self.needed > room and (self.total("always") + self.row > room or asleep > most):
            return "device"
        if self.total("host") > device.host:
            return "host"
        return "disk" if self.total("disk") > device.disk else ""


def updates_beside(config: RunConfig) -> bool:
    """True if updates run while the engine samples, so that it needs weights of its own."""
    return config.rollout.schedule == "pipelined" and config.rollout.pipeline.staleness > 0


def plan_of(shape: Shape, config: RunConfig, on_gpu: bool, trl_rows: int = 0) -> MemoryPlan:
    """Estimate what a run holds; `trl_rows`: in TRL, with micro-batches of so many full rows."""
    size = _bytes(shape, config, on_gpu)
    half, engine, vllm = size == 2, config.engine.traits, config.engine.vllm
    processes = processes_of(config.rollout) if engine.processes and not trl_rows else 0
    copies = _copies(config, size, bool(trl_rows), processes)
    if engine.embedded and not on_gpu and size * shape.parameters <= PACKED:
        copies += ["packed for the CPU's kernels"] * max(1, processes)
    rank, mode = config.model.lora_rank, config.train.local.optimizer_memory
    trained = rank * shape.sides or shape.parameters
    trained *= 2 if config.train.advantage == "gae" else 1
    moments = 2 * trained + 8 * trained // BLOCK if mode == "8bit" else 8 * trained
    state = moments + (2 * trained if half and not rank else 0)
    saved = (4 if rank else size) * trained + state
    away = "host" if mode == "offload" and on_gpu else "always"
    held = size * shape.parameters * len(copies) + (4 * trained if rank else 0)
    counts = Counter(copies).items()
    named = [c if n == 1 else f"{n} {c.replace('process', 'processes')}" for c, n in counts]
    which = f"{trained:,} weights (model.lora_rank = {rank})"
    kept = f'{which} x {state / trained:.1f} bytes ({MODE} = "{mode}")'
    asleep = size * shape.parameters if on_gpu and engine.started and vllm.sleep else 0
    items = (
        Item("weights", held, f"{size} bytes each (model.dtype): {', '.join(named)}"),
        Item("gradients", 4 * trained, f"{which} x 4 bytes", "update"),
        Item("optimizer", state, kept, away),
        *_passes(shape, config, on_gpu, trl_rows * config.rollout.context_tokens),
        Item("reserve", RESERVE[on_gpu] + processes * RESERVE[False], "libraries: an assumption"),
        Item("sleeping server", asleep, "its weights, in updates (engine.vllm.sleep)", "host"),
        Item("checkpoints", (KEPT + 1) * saved, f"{KEPT} kept and one made, {which}", "disk"),
    )
    token = 2 * shape.layers * shape.keys * size if engine.embedded else 0
    return MemoryPlan(
        items=tuple(item for item in items if item.bytes),
        row=token * (config.rollout.context_tokens + 1),
        rows=config.rollout.in_flight,
        beside=updates_beside(config),
        server=vllm.memory if engine.started else 0.0,
        sleeps=vllm.sleep,
    )


def _bytes(shape: Shape, config: RunConfig, on_gpu: bool) -> int:
    if config.model.dtype == "auto":
        return 2 if on_gpu or cpu_halves(shape.hidden) else 4
    return 2 if config.model.dtype == "bfloat16" else 4


def _copies(config: RunConfig, size: int, trl: bool, processes: int) -> list[str]:
    """Name all that hold a copy of the whole model's weights, and why."""
    train, rank, copies = config.train, config.model.lora_rank, ["policy"]
    if (train.kl or limits_perplexity(train)) and not rank:
        copies.append("reference (train.kl)" if train.kl else "reference (train.filtering)")
    if train.advantage == "gae" and not rank:
        copies.append("critic (train.advantage)")
    # Adapters of float32 are merged into a copy; TRL's trainer shares no weights with the engine.
    apart = trl or updates_beside(config) or (rank and size == 4)
    if apart and not processes and config.engine.traits.embedded:
        copies.append("engine")
    return copies + ["engine process"] * processes


def _passes(shape: Shape, config: RunConfig, on_gpu: bool, trl_tokens: int) -> list[Item]:
    """Activations and logits of one micro-batch; TRL computes all logits of it at once."""
    local, tokens, size = config.train.local, trl_tokens, _bytes(shape, config, on_gpu)
    tokens = tokens or max(local.microbatch_tokens, config.rollout.context_tokens)
    saved = shape.layers * layer_bytes(shape, size)
    if local.gradient_checkpointing:
        saved = shape.layers * size * shape.hidden + layer_bytes(shape, size)
    each = saved + size * (2 * shape.feedforward + 4 * shape.hidden)
    at_once = LOGITS["cuda" if on_gpu else "cpu"] // shape.vocabulary
    rows = trl_tokens or min(tokens, max(1, at_once))
    logit = 22 if size == 2 else 20
    why = f"{tokens:,} tokens (train.local.microbatch_tokens, rollout.context_tokens) x {each:,} "
    why += f"bytes (train.local.gradient_checkpointing = {local.gradient_checkpointing})"
    words = f"{rows:,} tokens x {shape.vocabulary:,} words x {logit} bytes"
    return [
        Item("activations", tokens * each, why, "update"),
        Item("logits", rows * shape.vocabulary * logit, words, "update"),
    ]


def layer_bytes(shape: Shape, size: int) -> int:
    """Bytes that one decoder layer saves of one token for its backward pass, adapters or not."""
    # A norm saves its input in float32, what it normalized, and its output, which a product saves.
    norm = 12 if size == 4 else 8
    heads = (norm - size) * (shape.queries + shape.keys) if shape.norms_heads else 0
    attention = size * (3 * shape.queries + 2 * shape.keys)
    return 2 * norm * shape.hidden + heads + attention + 4 * size * shape.feedforward


def table(plan: MemoryPlan, device: Device) -> list[str]:
    """The plan in lines for people."""
    cache = plan.cache(device.memory)
    held = "it is the server's (engine.name)"
    if plan.row:
        held = f"what is left: {max(1, cache // plan.row)} of {plan.rows} whole conversations"
    which = "you named" if device.stated else "are free"
    least = f"{round(device.memory / GIB, 2):g} GiB that {which}"
    if plan.server:
        least += f", of which a server has {plan.server:.0%} (engine.vllm.memory)"
    fits = "it does not fit into the" if plan.lacks(device) == "device" else "it fits into the"
    apart = {"host": " (host)", "disk": " (disk)"}
    rows = [(i.name + apart.get(i.place, ""), i.bytes, i.why) for i in plan.items]
    rows += [("cache", cache, held), ("needed at least", plan.needed, f"{fits} {least}")]
    return [f"{size / GIB:8.2f} GiB  {name}: {why}" for name, size, why in rows]


def ways(
    config: RunConfig, device: Device, planned: Callable[[RunConfig], MemoryPlan], *without: str
) -> list[str]:
    """Lines of settings with which a run fits: each alone, or all that it takes together.

    What costs least comes first; settings that begin with a text of `without` are not named.
    """
    local, vllm = config.train.local, config.engine.vllm
    served = config.engine.traits.started and not updates_beside(config)
    shorter = max(64, config.rollout.context_tokens // 2)
    again = "train.local.gradient_checkpointing=true"
    changes = [
        (not local.gradient_checkpointing, again, "a third more arithmetic in updates"),
        (local.microbatch_tokens > 2048, "train.local.microbatch_tokens=2048", "smaller products"),
        (local.optimizer_memory != "8bit", f'{MODE}="8bit"', "moments rounded"),
        (local.optimizer_memory != "offload", f'{MODE}="offload"', "the host's memory and bus"),
        (served and not vllm.sleep, "engine.vllm.sleep=true", "the server wakes for every step"),
        (not config.model.lora_rank, "model.lora_rank=32", "adapters in place of all weights"),
        (shorter < config.rollout.context_tokens, f"rollout.context_tokens={shorter}",
         "longer trajectories are cut"),
    ]  # fmt: skip
    prices = {text: price for on, text, price in changes if on and not text.startswith(without)}

    def lines(overrides: Iterable[str], price: str) -> list[str]:
        plan = planned(with_overrides(config, [*overrides]))
        words = " ".join(f"--{text.replace('=', ' ', 1)}" for text in overrides)
        fits = not plan.lacks(device)
        return [f"{words} ({price}): {plan.needed / GIB:.1f} GiB"] if fits else []

    found = [line for text, price in prices.items() for line in lines([text], price)]
    together: dict[str, str] = {}
    for text in prices:
        together[text.partition("=")[0]] = text  # a later value takes the place of an earlier one
        found = found or lines(together.values(), "together")
    return found


def require_fit(shape: Shape, config: RunConfig, device: Device, where: str = SHOWN) -> MemoryPlan:
    """The plan; raises `ConfigError`, with settings that would fit, where memory or disk lack."""
    require_context(config, shape.positions)
    plan = plan_of(shape, config, device.on_gpu)
    place = plan.lacks(device)
    if not place:
        return plan
    way = "No setting here makes it fit: take a smaller model, or several GPUs inside TRL or verl"
    if found := ways(config, device, lambda changed: plan_of(shape, changed, device.on_gpu)):
        way = f"These settings would: {'; '.join(found)}"
    places = ("always", "update") if place == "device" else (place,)
    items = sorted((i for i in plan.items if i.place in places), key=lambda item: -item.bytes)
    large = ", ".join(f"{item.name} {item.bytes / GIB:.1f}" for item in items[:4])
    needed, free, other = {
        "device": (plan.needed, plan.room(device.memory), "If there is more, set --memory N."),
        "host": (plan.total("host"), device.host, "That is the host's memory."),
        "disk": (plan.total("disk"), device.disk, "That is the disk; another one: --out FOLDER."),
    }[place]
    raise ConfigError(
        f"model {config.model.name!r} needs at least {needed / GIB:.1f} GiB and there are "
        f"{free / GIB:.1f} ({large}{where}). {way}. {other}"
    )

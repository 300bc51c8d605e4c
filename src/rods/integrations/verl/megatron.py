"""A recipe for verl's Megatron engine, which calls some things otherwise than its FSDP engine.

Owns those names; the table for FSDP is in `config.py`. How a model is cut stays verl's
(`actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4`).

    named = for_engine(given_to(config, folder, nodes, gpus), ["model_engine=megatron"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rods.errors import ConfigError

CHOICE = "model_engine="
FSDP, MEGATRON = "dp", "megatron"
"""verl's names of its engines."""
RENAMED = {
    "optim.lr_scheduler_type": "optim.lr_decay_style",
    "model.lora_rank": "model.lora.rank",
    "model.lora_alpha": "model.lora.alpha",
}
LEFT_OUT = ("actor.strategy", "critic.strategy", "actor.grad_clip", "fsdp_size")
"""Of FSDP alone; Megatron clips by `optim.clip_grad`."""


def for_engine(given: Mapping[str, object], asked: Sequence[str]) -> dict[str, object]:
    """verl's names and values for the engine that the overrides choose.

    Args:
        given: those for FSDP.
        asked: overrides in Hydra's form.

    Raises:
        ConfigError: an engine that the adapter does not know, or what Megatron cannot do.
    """
    chosen = [word.removeprefix(CHOICE) for word in asked if word.startswith(CHOICE)]
    engine = chosen[-1].strip("'\"") if chosen else FSDP
    if engine == FSDP:
        return dict(given)
    if engine != MEGATRON:
        raise ConfigError(f"{CHOICE}{engine}: the adapter knows {FSDP} (FSDP) and {MEGATRON}.")
    if any(key.endswith(("fsdp_config.dtype", "fsdp.dtype")) for key in given):
        raise ConfigError(
            f'{CHOICE}{engine}: it has no float32. Set --model.dtype bfloat16, or leave it "auto".'
        )
    return {_renamed(key): value for key, value in given.items() if not key.endswith(LEFT_OUT)}


def _renamed(key: str) -> str:
    for ours, theirs in RENAMED.items():
        if key.endswith(ours):
            return key.removesuffix(ours) + theirs
    return key

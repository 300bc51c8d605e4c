"""A recipe as TRL's AsyncGRPOConfig, and what TRL's asynchronous trainer cannot take over of one.

Owns what differs from `args.py`, which has the rest.

    args = async_grpo_args(config, "out", logging_steps=1)
    require_same(config, args)                      # raises ConfigError
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from rods.config import RunConfig
from rods.errors import ConfigError, PrerequisiteError
from rods.trainers.trl.args import Parts, agree, common_args, made, refuse, sampled
from rods.trainers.trl.shared import trl_module

MODULE = "trl.experimental.async_grpo"
"""Where TRL 1.16 has its asynchronous trainer."""


def async_grpo_args(config: RunConfig, output_dir: str, **others: Any) -> Any:
    """The `AsyncGRPOConfig` of a recipe.

    Args:
        config: settings; `rollout.schedule` is `pipelined`.
        output_dir: TRL's folder.
        others: arguments of `AsyncGRPOConfig`, which win.

    Raises:
        ConfigError: TRL has no such thing as a setting or an argument asks for, nothing says how
            long to train, or an update cannot be parted evenly.
    """
    require_known(config)
    parts = Parts.of(config, others.get("per_device_train_batch_size", config.rollout.k))
    given = {
        **common_args(config, output_dir, parts, others),
        "max_staleness": config.rollout.pipeline.staleness,
        "weight_sync_steps": parts.steps,
        # Forward passes of so many samples each, none of which is too long for TRL.
        "token_budget": 0,
    }
    return made(trl_module(MODULE).AsyncGRPOConfig, {**given, **others})


def require_known(config: RunConfig) -> None:
    """Refuse settings of the update that TRL would leave out; raises `ConfigError`."""
    train, ranks = config.train, int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        raise ConfigError(
            f"WORLD_SIZE = {ranks}: TRL's AsyncGRPOTrainer over a curriculum runs in one process. "
            'Start it without a launcher, or set rollout.schedule = "asynchronous".'
        )
    refuse(
        config,
        "AsyncGRPOTrainer",
        {
            f"train.kl = {train.kl:g}": train.kl > 0,
            f"train.entropy = {train.entropy:g}": train.entropy > 0,
            f"train.dual_clip = {train.dual_clip:g}": train.dual_clip > 0,
            f'train.loss = "{train.loss}"': train.loss != "clipped",
            f'train.credit = "{train.credit}"': train.credit != "trajectory",
            f'train.correction.method = "{train.correction.method}"': train.correction.method
            != "none",
            f'rollout.schedule = "{config.rollout.schedule}"': config.rollout.schedule
            != "pipelined",
        },
    )


def require_same(config: RunConfig, args: Any) -> None:
    """Refuse arguments that say otherwise than the settings; raises `ConfigError`."""
    require_known(config)
    parts = Parts.of(config, args.per_device_train_batch_size)
    agree(
        args,
        "async_grpo_args",
        {
            **sampled(config, args),
            "gradient_accumulation_steps (train.minibatch)": (
                args.gradient_accumulation_steps,
                parts.gathered,
            ),
            "max_staleness (rollout.pipeline.staleness)": (
                args.max_staleness,
                config.rollout.pipeline.staleness,
            ),
            "weight_sync_steps (steps of an update)": (args.weight_sync_steps, parts.steps),
            "token_budget (rows are counted)": (args.token_budget, 0),
            "save_steps, beyond whole updates": (args.save_steps % parts.steps, 0),
            "max_steps, beyond whole updates": (args.max_steps % parts.steps, 0),
            "log_completions": (args.log_completions, False),
        },
    )


def require_kernel(args: Any) -> None:
    """Look for what TRL's attention runs on.

    Raises:
        ConfigError: there is no GPU.
        PrerequisiteError: the package that fetches the kernel is missing.
    """
    packing = trl_module(f"{MODULE}.packing")
    if packing._flash_attn.__module__ != packing.__name__:
        return  # somebody else's
    if args.use_cpu:
        raise ConfigError(
            "TRL's AsyncGRPOTrainer needs a GPU: its attention is the kernel FlashAttention 3. "
            'On this device set rollout.schedule = "asynchronous".'
        )
    if find_spec("kernels") is None:
        raise PrerequisiteError(
            "TRL's AsyncGRPOTrainer fetches its attention by the package kernels, which is "
            "missing: pip install kernels."
        )

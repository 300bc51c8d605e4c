"""A recipe as TRL's GRPOConfig, and what TRL cannot take over of one.

Owns the table of names. TRL's other arguments pass through untouched.

    args = grpo_args(config, "out", logging_steps=1)
    require_same(config, args)                      # raises ConfigError
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from rods.config import RunConfig
from rods.config.capabilities import HostTrainer
from rods.config.checks import require_host
from rods.errors import ConfigError
from rods.infra.dotted import nearest
from rods.trainers.loading import pick_device, uses_bfloat16

HOST = HostTrainer(
    "TRL's GRPOTrainer",
    frozenset(
        {
            *("critic", "kl in rewards", "loss of inserted tokens", "perplexity"),
            *("further draws", "truncated weights", "aggregation of cispo"),
            # Its ratio by sequence moves all tokens alike, so that credit by token would cancel.
            *("credit of gspo", "lower bound of cispo", "pipeline", "synchronous turns"),
            *("fixed weights", "all weights for a server"),
            *("limit of trajectories", "evaluation on the way"),
        }
    ),
    # Only the local trainer knows them; TRL's optimiser is `optim`.
    unread={"train.local": ("optimizer_memory", "memory_gib")},
)
PLAYED_BY_US = (
    *("top_k", "min_p", "repetition_penalty", "generation_kwargs", "chat_template_kwargs"),
    *("cache_implementation", "use_transformers_paged", "use_transformers_continuous_batching"),
    *("transformers_continuous_batching_config", "max_tool_calling_iterations"),
    *("num_generations_eval", "reward_weights", "multi_objective_aggregation"),
    *("fork_threshold_tokens", "request_timeout", "weight_sync_timeout", "max_inflight_tasks"),
    *("queue_maxsize", "heartbeat_stale_after_s"),
)
"""Arguments of TRL's generation and rewards, which are ours; those of its vLLM begin with vllm_."""
AGGREGATIONS = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}
"""TRL's `loss_type` for `train.aggregation`."""


def grpo_args(config: RunConfig, output_dir: str, **others: Any) -> Any:
    """The `GRPOConfig` of a recipe.

    Args:
        config: settings.
        output_dir: TRL's folder.
        others: arguments of `GRPOConfig`, which win.

    Raises:
        ConfigError: TRL has no such thing as a setting or an argument asks for, nothing says how
            long to train, or the processes cannot share a batch evenly.
    """
    require_known(config)
    train, rollout = config.train, config.rollout
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    parts = Parts.of(config, others.get("per_device_train_batch_size", rollout.k), ranks)
    given: dict[str, Any] = {
        **common_args(config, output_dir, parts, others),
        "generation_batch_size": parts.rows,
        "num_iterations": train.epochs,
        "beta": train.kl,
        "entropy_coef": train.entropy,
        "epsilon_high": 1 + train.clip_high if train.loss == "cispo" else train.clip_high,
        "delta": train.dual_clip or None,
        "loss_type": "cispo" if train.loss == "cispo" else AGGREGATIONS[train.aggregation],
        "importance_sampling_level": "sequence" if train.loss == "gspo" else "token",
        "disable_dropout": True,
        "shuffle_dataset": False,
    }
    return made(importlib.import_module("trl").GRPOConfig, {**given, **others})


def made(kind: Any, arguments: Mapping[str, Any]) -> Any:
    """Arguments of one of TRL's trainers; raises `ConfigError` where TRL has no such one."""
    known = [field.name for field in fields(kind) if field.init]
    for name in arguments:
        if name not in known:
            raise ConfigError(f"{kind.__name__} has no argument {name!r}.{nearest(name, known)}")
    return kind(**arguments)


class Parts(NamedTuple):
    """How the trajectories of an update are parted."""

    rows: int
    """Trajectories of an update."""
    share: int
    """Of one forward pass of one process."""
    gathered: int
    """Forward passes of one step of the optimiser."""
    steps: int
    """Steps of the optimiser in one update, all its passes together."""

    @classmethod
    def of(cls, config: RunConfig, share: int, ranks: int = 1) -> Parts:
        """As the settings want them; raises `ConfigError` where the rows cannot be shared out."""
        train, rollout = config.train, config.rollout
        rows = rollout.k * rollout.tasks_per_step
        if rows % (share * ranks):
            raise ConfigError(
                f"{ranks} processes with {share} rows each do not part the {rows} trajectories of "
                "an update evenly (rollout.k * rollout.tasks_per_step). Set "
                "per_device_train_batch_size."
            )
        parts = rows // (share * ranks)
        wanted = parts if not train.minibatch else max(1, parts * train.minibatch // rows)
        gathered = max(n for n in range(1, wanted + 1) if parts % n == 0)
        return cls(rows, share, gathered, parts // gathered * train.epochs)


def common_args(
    config: RunConfig, output_dir: str, parts: Parts, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments that both of TRL's trainers know; raises `ConfigError` where the run has no end."""
    train, rollout, steps = config.train, config.rollout, parts.steps
    device = pick_device(config.model)
    if not (config.updates or "max_steps" in others):
        raise ConfigError("updates = 0: TRL must be told how long to train. Set updates.")
    return {
        "output_dir": output_dir,
        "seed": config.seed,
        "max_steps": config.updates * steps,
        "num_generations": rollout.k,
        "per_device_train_batch_size": parts.share,
        "gradient_accumulation_steps": parts.gathered,
        "temperature": rollout.temperature,
        "top_p": rollout.top_p,
        "max_completion_length": rollout.generated_tokens,
        "learning_rate": train.lr,
        "lr_scheduler_type": "cosine" if train.schedule == "cosine" else "constant_with_warmup",
        "warmup_steps": train.warmup * steps,
        "adam_beta2": 0.999,
        "weight_decay": train.local.weight_decay,
        "max_grad_norm": train.local.grad_clip,
        "gradient_checkpointing": train.local.gradient_checkpointing,
        "bf16": uses_bfloat16(config.model, device),
        "use_cpu": device.type == "cpu",
        "epsilon": train.clip_low,
        "epsilon_high": train.clip_high,
        "ignore_data_skip": True,
        "save_steps": train.local.checkpoint_steps * steps,
        "logging_steps": 1,
        "report_to": list(config.track.names) or "none",
        "project": config.track.project,
    }


def require_known(config: RunConfig) -> None:
    """Refuse settings of the update that TRL would leave out; raises `ConfigError`."""
    require_host(config, HOST)


def defaults(args: Any) -> dict[str, Any]:
    """Of the fields that have one."""
    return {f.name: f.default for f in fields(args) if f.default is not MISSING}


def require_same(config: RunConfig, args: Any) -> None:
    """Refuse arguments that say otherwise than the settings; raises `ConfigError`."""
    require_known(config)
    agree(
        args,
        "grpo_args",
        {
            **sampled(config, args),
            "generation_batch_size (rollout.k * rollout.tasks_per_step)": (
                args.generation_batch_size,
                config.rollout.k * config.rollout.tasks_per_step,
            ),
            'use_vllm (engine.name = "vllm" or "openai" takes vLLM)': (args.use_vllm, False),
            "scale_rewards (advantages are those of train.advantage)": (
                args.scale_rewards,
                "group",
            ),
        },
    )


Pairs = dict[str, tuple[Any, Any]]
"""What arguments say and what is expected, by their names."""


def sampled(config: RunConfig, args: Any) -> Pairs:
    """Arguments of sampling and rewards, of either trainer."""
    rollout = config.rollout
    return {
        "num_generations (rollout.k)": (args.num_generations, rollout.k),
        "temperature (rollout.temperature)": (args.temperature, rollout.temperature),
        "top_p (rollout.top_p)": (args.top_p, rollout.top_p),
        "max_completion_length (rollout.generated_tokens)": (
            args.max_completion_length,
            rollout.generated_tokens,
        ),
        "eval_strategy (rods eval plays a checkpoint)": (args.eval_strategy, "no"),
        "auto_find_batch_size (an update has a size)": (args.auto_find_batch_size, False),
        # It saves between a batch's judgement and its update.
        "enable_jit_checkpoint": (args.enable_jit_checkpoint, False),
        **{
            f"{name} (sampling and rewards are the run's)": (getattr(args, name), default)
            for name, default in defaults(args).items()
            if name in PLAYED_BY_US or name.startswith("vllm_")
        },
    }


def agree(args: Any, expected_from: str, pairs: Pairs) -> None:
    """Refuse arguments that are not as expected; raises `ConfigError`."""
    wrong = [f"{name}: {ours!r}, expected {theirs!r}" for name, (ours, theirs) in pairs.items()
             if ours != theirs]  # fmt: skip
    if args.max_steps < 1:
        wrong.append(f"max_steps: {args.max_steps}, expected at least 1")
    if wrong:
        raise ConfigError(
            f"these arguments of {type(args).__name__} contradict the run's settings: "
            f"{'; '.join(wrong)}. {expected_from}(config, output_dir) gives those of the settings."
        )

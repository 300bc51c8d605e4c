"""A recipe as TRL's GRPOConfig, and what TRL cannot take over of one.

Owns the table of names. TRL's other arguments pass through untouched.

    args = grpo_args(config, "out", logging_steps=1)
    require_same(config, args)                      # raises ConfigError
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rods.config import ModelSettings, RunConfig, require_config
from rods.config.bundled import adapters_at
from rods.config.checks import NO_END, HostTrainer, require_host
from rods.errors import ConfigError
from rods.infra.dotted import SYNONYMS, nearest, not_among, shown
from rods.integrations import TrackSettings

HOST = HostTrainer(
    "TRL's GRPOTrainer",
    frozenset(
        {
            "critic", "kl in rewards", "loss of inserted tokens", "perplexity",
            "further draws", "truncated weights",
            # Its ratio by sequence moves all tokens alike, so that credit by token would cancel.
            "credit of gspo", "pipeline", "synchronous turns",
            "fixed weights", "all weights for a server",
            "limit of trajectories", "evaluation on the way",
        }
    ),
    # Only the local trainer knows them; TRL's optimizer is `optim`.
    unread={"train.local": ("optimizer_memory", "memory_gib")},
)  # fmt: skip
ROLLED_OUT_BY_US = (
    "top_k", "min_p", "repetition_penalty", "generation_kwargs", "chat_template_kwargs",
    "cache_implementation", "use_transformers_paged", "use_transformers_continuous_batching",
    "transformers_continuous_batching_config", "max_tool_calling_iterations",
    "num_generations_eval", "reward_weights", "multi_objective_aggregation",
    "fork_threshold_tokens", "request_timeout", "weight_sync_timeout", "max_inflight_tasks",
    "queue_maxsize", "heartbeat_stale_after_s",
)  # fmt: skip
"""Arguments of TRL's generation and rewards, which are ours; those of its vLLM begin with vllm_."""
OWNED = (  # Arguments of TRL's trainer that are the run's; on a command line, all of `TAKEN` are
    "reward_funcs", "reward_processing_classes", "train_dataset", "eval_dataset",
    "tools", "environment_factory", "rollout_func",
)  # fmt: skip
SIZED = "steps_per_generation"  # TRL has it of the rows of a batch
TAKEN = (*OWNED, "output_dir", "model", "processing_class", "peft_config", SIZED)
ROWS = "per_device_train_batch_size"
COUNTS = (ROWS, "gradient_accumulation_steps", "num_iterations", "max_steps")
"""Arguments that decide how many steps of the optimizer there are."""
AGGREGATIONS = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}
"""TRL's `loss_type` for `train.aggregation`."""
LOSSES = (*AGGREGATIONS.values(), "bnpo", "cispo", "sapo", "luspo", "vespo")


def grpo_args(config: RunConfig, output_dir: str | Path, **others: Any) -> Any:
    """Make a `trl.GRPOConfig` from settings of RODS; `others` replace what the settings give.

    Raises:
        ConfigError: TRL lacks what a setting or an argument asks for, nothing limits the training,
            or the processes cannot share a batch evenly.
    """
    given = given_to(config, str(output_dir), **others)
    kind: Any = importlib.import_module("trl").GRPOConfig
    known = [field.name for field in fields(kind) if field.init]
    for name in given:
        if name not in known:
            raise ConfigError(f"{kind.__name__} has no argument {name!r}.{nearest(name, known)}")
    try:
        return kind(**given)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{kind.__name__} refuses its arguments: {error}") from error


def given_to(config: RunConfig, output_dir: str, **others: Any) -> dict[str, Any]:
    """TRL's names and the values that a recipe and `others` give them; no TRL is needed."""
    require_known(config, others)
    ours = {
        "output_dir": output_dir, "seed": config.seed,
        **of_device(config.model), "ignore_data_skip": True, "logging_steps": 1,
        "report_to": list(config.section(TrackSettings).names) or "none",
        "project": config.section(TrackSettings).project, "disable_dropout": True,
        "shuffle_dataset": False,
        **_of_settings(config, others),
    }  # fmt: skip
    for name in ours.keys() & others.keys():
        _require_kind(name, others[name], ours[name])
    return ours | others


def require_known(
    config: RunConfig, others: Mapping[str, object], owned: Sequence[str] = (SIZED,)
) -> None:
    """Refuse what TRL lacks, what `others` contradict or is `owned`; raises `ConfigError`."""
    require_theirs(others, owned)
    require_config(config)
    whole = adapters_at(config.model.name) is not None and not config.model.lora_rank
    # TRL loads its reference from the folder of the model, which must be a whole one.
    merge = f"train.kl with the LoRA adapters {config.model.name!r} as the start of all weights"
    require_host(config, HOST, *[merge] * (whole and others.get("beta", config.train.kl) != 0))
    for name in COUNTS:
        _require_count(name, others.get(name, 1))
    _refuse(config, others, {})
    if others.get("loss_type") == "cispo" and "epsilon_high" not in others:
        raise ConfigError(
            "loss_type = 'cispo' takes epsilon_high as the largest importance weight, and that of "
            f"train.clip_high, {config.train.clip_high:g}, would cut nearly all. Set it, such as 5."
        )
    require_end(config, others)


def of_device(settings: ModelSettings, on_gpu: bool = False) -> dict[str, bool]:
    """Arguments that follow the device: this machine's, or `on_gpu`, elsewhere."""
    import torch

    from rods.trainers.loading import pick_device, uses_bfloat16

    device = torch.device("cuda") if on_gpu else pick_device(settings)
    return {"bf16": uses_bfloat16(settings, device), "use_cpu": device.type == "cpu"}


def _require_kind(name: str, value: object, usual: object) -> None:
    """Raise `ConfigError` if an argument has another type than the value that RODS sets."""
    known = (bool, int, float)
    wrong = type(value) not in known or (type(value) is bool) != (type(usual) is bool)
    if type(usual) in known and wrong:
        raise ConfigError(f"{name}: {value!r}, expected a value such as {shown(usual)}.")


def _require_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}: {value!r}, expected a whole number of at least 1.")


def require_theirs(given: Iterable[str], owned: Sequence[str] = OWNED) -> None:
    """Refuse arguments of TRL's trainer that are the run's; raises `ConfigError`."""
    if wrong := [f"{name} (use --{SYNONYMS[name]})" for name in given if name in owned]:
        raise ConfigError(f"the run gives TRL these arguments: {', '.join(wrong)}. Leave them out.")


def require_end(config: RunConfig, given: Mapping[str, object]) -> None:
    """Refuse a training without a number of updates or of TRL's steps; raises `ConfigError`."""
    _require_count("max_steps", given.get("max_steps", 1))
    if not (config.updates or "max_steps" in given):
        raise ConfigError(NO_END.format(HOST.name))


def _steps(
    config: RunConfig, rows: int, share: int, ranks: int, others: Mapping[str, Any]
) -> tuple[int, int]:
    """Forward passes of `share` rows in one step of the optimizer, and its steps in one update."""
    train = config.train
    if rows % (share * ranks):
        raise ConfigError(
            f"{ROWS} = {share}, times {ranks} (processes), does not evenly divide the {rows} "
            "trajectories of an update (rollout.k * rollout.tasks_per_step). Set another one."
        )
    parts = rows // (share * ranks)
    wanted = parts if not train.minibatch else max(1, parts * train.minibatch // rows)
    gathered = max(n for n in range(1, wanted + 1) if parts % n == 0)
    # TRL steps behind the last pass of an update, too, however few passes it has gathered.
    passes = parts * others.get("num_iterations", train.epochs)
    return gathered, math.ceil(passes / others.get("gradient_accumulation_steps", gathered))


def _of_settings(config: RunConfig, others: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that say what the settings of rollouts and of the update say."""
    train, rollout = config.train, config.rollout
    rows, share = rollout.k * rollout.tasks_per_step, others.get(ROWS, rollout.k)
    gathered, steps = _steps(config, rows, share, int(os.environ.get("WORLD_SIZE", "1")), others)
    save = others.get("save_steps", steps)
    if type(save) is int and save % steps and others.get("save_strategy", "steps") == "steps":
        raise ConfigError(
            f"save_steps: {save}. An update has {steps} steps of the optimizer, and a checkpoint "
            f"between them would lose the rest of its trajectories. Set a multiple of {steps}."
        )
    return {
        ROWS: share,
        "max_steps": config.updates * steps, "num_generations": rollout.k,
        "generation_batch_size": rows, "gradient_accumulation_steps": gathered,
        "temperature": rollout.temperature, "top_p": rollout.top_p,
        "max_completion_length": rollout.generated_tokens, "learning_rate": train.lr,
        "lr_scheduler_type": "cosine" if train.schedule == "cosine" else "constant_with_warmup",
        "warmup_steps": train.warmup * steps, "adam_beta2": 0.999,
        "weight_decay": train.local.weight_decay, "max_grad_norm": train.local.grad_clip,
        "gradient_checkpointing": train.local.gradient_checkpointing,
        "num_iterations": train.epochs, "beta": train.kl, "entropy_coef": train.entropy,
        "epsilon": train.clip_low, "epsilon_high": train.clip_high,
        "delta": train.dual_clip or None, "loss_type": AGGREGATIONS[train.aggregation],
        "importance_sampling_level": "sequence" if train.loss == "gspo" else "token",
        "save_steps": train.local.checkpoint_steps * steps,
    }  # fmt: skip


def start_of(
    settings: ModelSettings, model: object, tokenizer: object, adapters: object
) -> dict[str, Any]:
    """Arguments of TRL's trainer: what is trained, that of the settings where none is given."""
    from rods.trainers.adapters import lora_config
    from rods.trainers.loading import load_model, load_tokenizer, path_or_name

    name = str(getattr(model, "name_or_path", model) or settings.name)
    ours, theirs = (Path(path_or_name(of)).resolve() for of in (settings.name, name))
    if tokenizer is None and ours != theirs:
        raise ConfigError(
            f"the model is {name}, and the tokenizer would be that of model.name = "
            f"{settings.name!r}. Pass processing_class, or set model.name."
        )
    if adapters is None and settings.lora_rank and not hasattr(model, "peft_config"):
        adapters = lora_config(settings.lora_rank)
    if model is None and adapters_at(settings.name) is not None:
        model, _ = load_model(settings)  # TRL would train on in these adapters
    return {
        "model": path_or_name(settings.name) if model is None else model,
        "processing_class": tokenizer or load_tokenizer(settings),
        "peft_config": adapters,
    }


def require_same(config: RunConfig, args: Any) -> None:
    """Refuse arguments that say otherwise than the settings; raises `ConfigError`."""
    require_host(config, HOST)
    theirs = {f.name: f.default for f in fields(args) if f.default is not MISSING}
    _refuse(config, {name: getattr(args, name) for name in theirs}, theirs)
    require_end(config, {"max_steps": args.max_steps})


def _refuse(config: RunConfig, given: Mapping[str, object], free: Mapping[str, object]) -> None:
    """Refuse arguments that contradict the settings; `free` are TRL's own defaults."""
    rollout, ours = config.rollout, "sampling and rewards are the run's"
    rows = rollout.k * rollout.tasks_per_step
    if (loss := given.get("loss_type", "grpo")) not in LOSSES:  # TRL looks in the first update
        raise ConfigError(not_among("loss_type", str(loss), LOSSES))
    scale = given.get("scale_rewards", "group")
    fits = ("none", False) if config.train.advantage == "dr_grpo" else ("group", True)
    # A GRPOConfig that does not set it has TRL's default.
    if scale not in (*fits, free.get("scale_rewards")):
        scale = fits[0]
    expected: dict[str, tuple[str, Any]] = {
        "num_generations": ("rollout.k", rollout.k),
        "temperature": ("rollout.temperature", rollout.temperature),
        "top_p": ("rollout.top_p", rollout.top_p),
        "max_completion_length": ("rollout.generated_tokens", rollout.generated_tokens),
        "generation_batch_size": ("rollout.k * rollout.tasks_per_step", rows),
        "eval_strategy": ("rods eval evaluates a checkpoint", "no"),
        "auto_find_batch_size": ("an update has a size", False),
        "enable_jit_checkpoint": ("it saves between a batch's judgement and its update", False),
        "use_vllm": ('engine.name = "vllm" or "openai" takes vLLM', False),
        "scale_rewards": ("advantages are those of train.advantage", scale),
    }
    ours_only = [name for name in given if name in ROLLED_OUT_BY_US or name.startswith("vllm_")]
    expected |= {name: (ours, free.get(name)) for name in ours_only}
    wrong = [
        f"{name} ({why}): {given[name]!r}, expected {value!r}"
        for name, (why, value) in expected.items()
        if name in given and given[name] != value
    ]
    if wrong:
        raise ConfigError(
            f"these arguments of GRPOConfig contradict the run's settings: {'; '.join(wrong)}. "
            "Leave them out, or change the settings: they give TRL its values."
        )

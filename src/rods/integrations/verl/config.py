"""A recipe as verl's configuration.

Owns the table of names; what cannot be taken over is refused in `checks.py`. Everything else of
verl's configuration stays as verl has it; overrides in its own form (Hydra's) come last and win,
unless they contradict the recipe.

    cfg = compose(config, "runs/verl", ["actor_rollout_ref.rollout.name=sglang"], nodes=4)
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.config import RunConfig
from rods.config.train import CAP
from rods.errors import ConfigError
from rods.infra.dotted import override
from rods.infra.install import needed
from rods.integrations import TrackSettings
from rods.integrations.verl.checks import of_schedule, require_accepted, require_known, require_same
from rods.integrations.verl.rows import AGENT, ESTIMATOR
from rods.trainers.loading import path_or_name

ENDLESS = 1_000_000_000  # Steps where the stages alone say how long a training is
AGGREGATIONS = {  # verl's `loss_agg_mode` for `train.aggregation`
    "token": "token-mean",
    "sequence": "seq-mean-token-mean",
    "constant": "seq-mean-token-sum-norm",
}
LOSSES = {"clipped": "vanilla", "gspo": "gspo"}  # verl's `loss_mode` for `train.loss`
OFF = 1e9  # A clip range that nothing reaches
CHOICE = "model_engine="
FSDP, MEGATRON = "dp", "megatron"  # verl's names of its engines
RENAMED = {
    "optim.lr_scheduler_type": "optim.lr_decay_style",
    "model.lora_rank": "model.lora.rank",
    "model.lora_alpha": "model.lora.alpha",
}
LEFT_OUT = ("actor.strategy", "critic.strategy", "actor.grad_clip", "fsdp_size")
"""Settings of FSDP alone; Megatron clips by `optim.clip_grad`."""


def compose(
    config: RunConfig,
    folder: str,
    asked: Sequence[str] = (),
    nodes: int = 1,
    gpus: int = 8,
    drift: bool = False,
) -> Any:
    """verl's configuration of a recipe, checked by verl.

    Args:
        folder: of verl's checkpoints; our live files are in its folder `rods`.
        asked: overrides in Hydra's form, which win.
        gpus: of each machine.
        drift: a checkpoint of other settings may go on under these.

    Raises:
        ConfigError: a setting or an override asks for what there is not, or they contradict.
        PrerequisiteError: verl is not installed.
    """
    require_known(config)
    table = for_engine(given_to(config, folder, nodes, gpus), asked)
    require_same(config, table, _overridden(asked))
    with needed("verl is needed", "train", "verl"):
        verl: Any = importlib.import_module("verl")
        hydra: Any = importlib.import_module("hydra")
        omegaconf: Any = importlib.import_module("omegaconf").OmegaConf
    errors: Any = importlib.import_module("hydra.errors")
    given = [f"{k}={json.dumps(v)}" for k, v in table.items()]  # Hydra quotes as JSON does
    defaults = str(Path(verl.__file__).parent / "trainer" / "config")
    try:
        with hydra.initialize_config_dir(defaults, version_base=None):
            cfg = hydra.compose("ppo_trainer", overrides=[*given, *asked])
    except errors.HydraException as error:
        raise ConfigError(f"verl's configuration: {error}") from error
    omegaconf.set_struct(cfg, False)
    # `$` would begin an interpolation of OmegaConf's.
    ours = {"folder": str(Path(folder).absolute() / "rods"), **(cfg.get("rods") or {})}
    settings = config.model_dump_json().replace("$", "\\u0024")
    cfg.rods = {**ours, "settings": settings, "drift": drift}
    omegaconf.set_struct(cfg, True)
    require_same(config, table, lambda key, _: omegaconf.select(cfg, key))
    require_accepted(cfg, errors.HydraException)
    return cfg


def _overridden(words: Sequence[str]) -> Callable[[str, object], object]:
    """Find what overrides in Hydra's form say of a key; no verl is needed."""
    values: dict[str, object] = {}
    for key, _, text in (word.lstrip("+~").partition("=") for word in words):
        value: dict[str, object] = {}
        override(value, f"it={text.lower() if text in ('True', 'False') else text}")
        values[key] = None if text == "null" else value["it"]
    return values.get


def given_to(config: RunConfig, folder: str, nodes: int, gpus: int) -> dict[str, object]:
    """verl's names and the values that a recipe gives them."""
    return {
        **_of_data(config),
        **_of_rollout(config, nodes),
        **_of_actor(config),
        **_of_algorithm(config),
        **_of_trainer(config, folder, nodes, gpus),
        **of_schedule(config),
    }


def _of_data(config: RunConfig) -> dict[str, object]:
    rollout = config.rollout
    response = min(rollout.generated_tokens, rollout.context_tokens - 1)
    return {
        # There are no files: the curriculum draws. Workers would keep an old pool.
        "data.train_files": AGENT, "data.val_files": AGENT, "data.dataloader_num_workers": 0,
        "data.train_batch_size": rollout.tasks_per_step, "data.shuffle": False,
        "data.max_prompt_length": rollout.context_tokens - response,
        "data.max_response_length": response,
        "data.custom_cls.path": "pkg://rods.integrations.verl.data",
        "data.custom_cls.name": "CurriculumDataset",
    }  # fmt: skip


def _of_rollout(config: RunConfig, nodes: int) -> dict[str, object]:
    rollout, place = config.rollout, "actor_rollout_ref.rollout"
    return {
        f"{place}.name": "vllm", f"{place}.n": rollout.k,
        f"{place}.temperature": rollout.temperature, f"{place}.top_p": rollout.top_p,
        f"{place}.top_k": -1, f"{place}.seed": config.seed,
        f"{place}.max_model_len": rollout.context_tokens,
        f"{place}.tensor_model_parallel_size": 1,
        f"{place}.gpu_memory_utilization": config.engine.vllm.memory,
        f"{place}.calculate_log_probs": True, f"{place}.agent.num_workers": 8 * nodes,
        f"{place}.agent.default_agent_loop": AGENT,
    }  # fmt: skip


def _of_actor(config: RunConfig) -> dict[str, object]:
    train, actor = config.train, "actor_rollout_ref.actor"
    groups = config.rollout.tasks_per_step
    step = max(1, train.minibatch // config.rollout.k)  # of the optimizer, in groups
    own: dict[str, object] = {
        "actor_rollout_ref.model.path": path_or_name(config.model.name),
        "actor_rollout_ref.model.lora_rank": config.model.lora_rank,
        "actor_rollout_ref.model.lora_alpha": 2 * config.model.lora_rank or 16,
        "actor_rollout_ref.model.enable_gradient_checkpointing": train.local.gradient_checkpointing,
        f"{actor}.optim.lr": train.lr, f"{actor}.optim.lr_scheduler_type": train.schedule,
        f"{actor}.optim.lr_warmup_steps": train.warmup or -1,
        f"{actor}.optim.weight_decay": train.local.weight_decay,
        f"{actor}.optim.clip_grad": train.local.grad_clip,
        f"{actor}.grad_clip": train.local.grad_clip, f"{actor}.strategy": "fsdp2",
        f"{actor}.ppo_mini_batch_size": min(groups, step) if train.minibatch else groups,
        f"{actor}.ppo_epochs": train.epochs, f"{actor}.shuffle": bool(train.minibatch),
        f"{actor}.data_loader_seed": config.seed, f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": max(
            config.rollout.context_tokens, train.local.microbatch_tokens
        ),
        f"{actor}.clip_ratio": train.clip_low, f"{actor}.clip_ratio_low": train.clip_low,
        f"{actor}.clip_ratio_high": train.clip_high,
        f"{actor}.clip_ratio_c": train.dual_clip or OFF,
        f"{actor}.policy_loss.loss_mode": LOSSES[train.loss],
        f"{actor}.loss_agg_mode": AGGREGATIONS[train.aggregation],
        f"{actor}.entropy_coeff": train.entropy,
        f"{actor}.use_kl_loss": train.kl > 0 and train.kl_in == "loss",
        f"{actor}.kl_loss_coef": train.kl, f"{actor}.kl_loss_type": "low_var_kl",
    }  # fmt: skip
    if train.aggregation == "constant":
        own[f"{actor}.loss_scale_factor"] = config.rollout.generated_tokens
    if config.model.dtype == "float32":
        own["actor_rollout_ref.rollout.dtype"] = "float32"
        own[f"{actor}.fsdp_config.dtype"] = "float32"
        own["actor_rollout_ref.ref.fsdp_config.dtype"] = "float32"
        own["critic.fsdp.dtype"] = "float32"
    return own


def _of_algorithm(config: RunConfig) -> dict[str, object]:
    train = config.train
    truncated = train.correction.method == "truncated"
    # Under top_p servers tell log-probabilities within the nucleus, which nobody can train with.
    sampled = train.correction.method == "none" and config.rollout.top_p == 1
    own: dict[str, object] = {
        "algorithm.adv_estimator": "gae" if train.advantage == "gae" else ESTIMATOR,
        "algorithm.use_kl_in_reward": train.kl > 0 and train.kl_in == "reward",
        "algorithm.kl_ctrl.kl_coef": train.kl,
        # The old log-probabilities are those of sampling, or the trainer's own.
        "algorithm.rollout_correction.bypass_mode": sampled,
        "algorithm.rollout_correction.rollout_is": "token" if truncated else None,
        "algorithm.rollout_correction.rollout_is_threshold": CAP,
    }
    if train.advantage != "gae":
        return own
    return own | {
        "algorithm.gamma": train.gae.gamma,
        "algorithm.lam": train.gae.lam,
        "critic.model.path": path_or_name(config.model.name),
        "critic.model.lora_rank": config.model.lora_rank,
        "critic.strategy": "fsdp2",
        "critic.optim.lr": train.gae.critic_lr,
        "critic.optim.lr_scheduler_type": train.schedule,
        "critic.optim.weight_decay": train.local.weight_decay,
        "critic.optim.clip_grad": train.local.grad_clip,
        "critic.cliprange_value": train.gae.value_clip or OFF,
        # verl updates the actor from the step with this number on, and counts from 1.
        "trainer.critic_warmup": train.gae.critic_warmup + 1,
    }


def _of_trainer(config: RunConfig, folder: str, nodes: int, gpus: int) -> dict[str, object]:
    own: dict[str, object] = {
        "trainer.nnodes": nodes, "trainer.n_gpus_per_node": gpus,
        "trainer.total_training_steps": config.updates or ENDLESS,
        "trainer.save_freq": config.train.local.checkpoint_steps, "trainer.total_epochs": 1,
        "trainer.test_freq": -1, "trainer.val_before_train": False,
        "trainer.logger": ["console", *config.section(TrackSettings).names],
        "trainer.project_name": config.section(TrackSettings).project,
        "trainer.experiment_name": Path(folder).name,
        "trainer.default_local_dir": str(Path(folder).absolute()),
        "reward.num_workers": 0,  # rewards are the run's
    }  # fmt: skip
    if nodes > 1:  # shards within a machine, copies between machines
        for role in ("actor", "ref"):
            own[f"actor_rollout_ref.{role}.fsdp_config.fsdp_size"] = gpus
        own["transfer_queue.backend.SimpleStorage.num_data_storage_units"] = 8 * nodes
    return own


def for_engine(given: Mapping[str, object], asked: Sequence[str]) -> dict[str, object]:
    """verl's names and values for the engine that the overrides choose; `given` are FSDP's.

    How a model is cut stays verl's. `asked` are overrides in Hydra's form. Raises `ConfigError` for
    an engine that the adapter does not know, or what Megatron cannot do.
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

"""What of a recipe verl cannot take over, and overrides that contradict the recipe.

Owns the refusals; the table of names is in `config.py`.

    require_known(config)                           # raises ConfigError
"""

from __future__ import annotations

import importlib
from typing import Any

from rods.config import RunConfig
from rods.errors import ConfigError
from rods.trainers.verl.modes import COLOCATED, MODE, SEPARATE, of_schedule


def require_known(config: RunConfig) -> None:
    """Refuse settings that verl would leave out; raises `ConfigError`."""
    train = config.train
    in_reward = bool(train.kl) and train.kl_in == "reward"
    missing = {
        'train.kl_in = "reward" without train.advantage = "gae"': in_reward
        and train.advantage != "gae",
        "train.mask_env_tokens = false": not train.mask_env_tokens,
        "train.filtering.max_perplexity": train.filtering.max_perplexity > 0,
        "train.filtering.redraw": train.filtering.redraw > 0,
        'train.schedule = "cosine" without updates': train.schedule == "cosine"
        and not config.updates,
        'rollout.schedule = "synchronous"': config.rollout.schedule == "synchronous",
        f'engine.name = "{config.engine.name}" (verl has servers of its own)': config.engine.name
        not in ("auto", "vllm"),
        "trajectories": config.trajectories > 0,
        "evaluation.every": config.evaluation.every > 0,
    }
    asked = [name for name, wrong in missing.items() if wrong]
    if asked:
        raise ConfigError(
            f"inside verl there is nothing for {', '.join(asked)}. Change it, or train with "
            "`rods train`."
        )


def require_same(config: RunConfig, cfg: Any) -> None:
    """Refuse overrides that say otherwise than the settings; raises `ConfigError`."""
    rollout = config.rollout
    same: dict[str, object] = {
        "data.train_batch_size": rollout.tasks_per_step,
        "data.dataloader_num_workers": 0,
        "data.shuffle": False,
        "data.custom_cls.path": "pkg://rods.trainers.verl.data",
        "actor_rollout_ref.rollout.n": rollout.k,
        "actor_rollout_ref.rollout.temperature": rollout.temperature,
        "actor_rollout_ref.rollout.top_p": rollout.top_p,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "algorithm.filter_groups.enable": False,
        "trainer.use_v1": True,
        "trainer.v1.sampler.sync_refill_failed_groups": False,
        "trainer.total_epochs": 1,
        "trainer.test_freq": -1,
        "trainer.val_before_train": False,
        **of_schedule(config),
    }
    select: Any = importlib.import_module("omegaconf").OmegaConf.select
    found = {key: select(cfg, key) for key in same}
    if found[MODE] == SEPARATE and same[MODE] == COLOCATED:
        same[MODE] = SEPARATE  # on whose GPUs rollouts run is the cluster's business
    wrong = [f"{k}={found[k]}, expected {same[k]}" for k in same if found[k] != same[k]]
    if wrong:
        raise ConfigError(
            "these overrides contradict the settings, or ask for what the adapter has not: "
            f"{'; '.join(wrong)}. Change the settings (--rollout.k, --rollout.schedule, ...), or "
            "leave them out."
        )


def require_accepted(cfg: Any, refusal: type[Exception]) -> None:
    """Let verl look at its configuration, which raises `refusal` itself; raises `ConfigError`."""
    utils: Any = importlib.import_module("verl.trainer.ppo.utils")
    checks: Any = importlib.import_module("verl.utils.config")
    importlib.import_module("verl.utils.device").auto_set_device(cfg)
    try:
        checks.validate_config(
            config=cfg,
            use_reference_policy=utils.need_reference_policy(cfg),
            use_critic=utils.need_critic(cfg),
        )
        checks.omega_conf_to_dataclass(cfg.actor_rollout_ref.rollout)
        checks.omega_conf_to_dataclass(cfg.algorithm)
    except (AssertionError, ValueError, TypeError, refusal) as error:
        raise ConfigError(f"verl refuses the configuration: {error}") from error

"""What of a recipe verl cannot take over, and overrides that contradict the recipe.

Owns the refusals; the table of names is in `config.py`.

    require_known(config)                           # raises ConfigError
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from rods.config import RunConfig
from rods.config.unread import unread_by_hosts
from rods.errors import ConfigError
from rods.integrations.verl.modes import COLOCATED, MODE, SEPARATE, of_schedule
from rods.integrations.verl.rows import ESTIMATOR
from rods.trainers.adapters import adapters_at

HELD = (
    *("data.train_batch_size", "data.max_prompt_length", "data.max_response_length"),
    *("data.shuffle", "data.dataloader_num_workers", "data.custom_cls.path"),
    *("data.custom_cls.name", "actor_rollout_ref.model.path", "actor_rollout_ref.rollout.n"),
    *("actor_rollout_ref.rollout.temperature", "actor_rollout_ref.rollout.top_p"),
    *("actor_rollout_ref.rollout.top_k", "actor_rollout_ref.rollout.max_model_len"),
    *("actor_rollout_ref.rollout.calculate_log_probs", "trainer.total_epochs"),
    *("actor_rollout_ref.rollout.agent.default_agent_loop", "trainer.test_freq"),
    "trainer.val_before_train",
)
"""What our half of the work counts on: no override changes it."""
OURS = {
    "algorithm.filter_groups.enable": False,
    "trainer.use_v1": True,
    "trainer.v1.sampler.sync_refill_failed_groups": False,
}
"""Likewise, where verl's own value holds."""
UNREAD = {
    "engine": ("timeout", "folder", "weights"),
    "engine.vllm": ("command", "sleep", "options"),
    "train.local": ("optimizer_memory", "memory_gib"),
}
"""Settings by section that only engines and memory of our own know."""


def require_known(config: RunConfig) -> None:
    """Refuse settings that verl would leave out; raises `ConfigError`."""
    train, gae = config.train, config.train.advantage == "gae"
    in_reward = bool(train.kl) and train.kl_in == "reward"
    missing = {
        'train.kl_in = "reward" without train.advantage = "gae"': in_reward and not gae,
        "train.mask_env_tokens = false": not train.mask_env_tokens,
        "train.filtering.max_perplexity": train.filtering.max_perplexity > 0,
        "train.filtering.redraw": train.filtering.redraw > 0,
        # verl's own GSPO is always the mean over sequence means.
        f'train.aggregation = "{train.aggregation}" with train.loss = "gspo"': train.loss == "gspo"
        and train.aggregation != "sequence",
        'train.schedule = "cosine" without updates': train.schedule == "cosine"
        and not config.updates,
        'rollout.schedule = "synchronous"': config.rollout.schedule == "synchronous",
        'rollout.top_p below 1 with train.correction.method = "truncated" (its servers tell the '
        "log-probabilities within the nucleus)": config.rollout.top_p < 1
        and train.correction.method == "truncated",
        f'engine.name = "{config.engine.name}" (verl has servers of its own)': config.engine.name
        not in ("auto", "vllm"),
        'train.filter with train.advantage = "gae"': train.filter != "none" and gae,
        f"model.name = {config.model.name!r} (LoRA adapters; merge them first)": adapters_at(
            config.model.name
        )
        is not None,
        "trajectories": config.trajectories > 0,
        "evaluation.every": config.evaluation.every > 0,
    }
    asked = [name for name, wrong in missing.items() if wrong]
    asked += unread_by_hosts(config, UNREAD)
    if asked:
        raise ConfigError(
            f"inside verl there is nothing for {', '.join(asked)}. Change it, or train with "
            "`rods train`."
        )


def require_same(config: RunConfig, given: Mapping[str, object], cfg: Any) -> None:
    """Refuse overrides that say otherwise than the settings.

    Args:
        config: settings.
        given: verl's names and the values that the settings give them.
        cfg: verl's configuration, with the overrides.

    Raises:
        ConfigError: one contradicts, or takes away what the settings ask for.
    """
    same = {**{key: given[key] for key in HELD}, **OURS, **of_schedule(config)}
    select: Any = importlib.import_module("omegaconf").OmegaConf.select
    found = {key: select(cfg, key) for key in same}
    if found[MODE] == SEPARATE and same[MODE] == COLOCATED:
        same[MODE] = SEPARATE  # on whose GPUs rollouts run is the cluster's business
    wrong = [f"{k}={found[k]}, expected {same[k]}" for k in same if found[k] != same[k]]
    if wrong:
        raise ConfigError(
            "these overrides contradict the settings, or ask for what the adapter has not: "
            f"{'; '.join(wrong)}. Change the settings (--model, --rollout.k, --rollout.schedule, "
            "...), or leave them out."
        )
    _require_estimator(config, str(select(cfg, "algorithm.adv_estimator")))


def _require_estimator(config: RunConfig, estimator: str) -> None:
    """Raises `ConfigError` where an estimator of verl's own would leave settings out."""
    train = config.train
    lost = {
        f'train.filter = "{train.filter}"': train.filter != "none",
        f'train.credit = "{train.credit}"': train.credit != "trajectory",
    }
    wrong = [name for name, given in lost.items() if given]
    if estimator != ESTIMATOR and wrong:
        raise ConfigError(
            f"algorithm.adv_estimator={estimator} trains on all that was sampled and knows no "
            f"{', '.join(wrong)}. Set --train.filter none and --train.credit trajectory with it."
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

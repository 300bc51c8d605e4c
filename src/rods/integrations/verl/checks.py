"""Checks for verl: what of a recipe it cannot take over, and overrides that contradict it.

Owns the refusals, and what `rollout.schedule` becomes; the table of names is in `config.py`.

    require_known(config)                           # raises ConfigError
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from rods.config import RunConfig
from rods.config.bundled import adapters_at
from rods.config.checks import HostTrainer, endless, require_host
from rods.errors import ConfigError
from rods.integrations.verl.rows import ESTIMATOR

MODE = "trainer.v1.trainer_mode"
SYNC, COLOCATED, SEPARATE = "sync", "colocate_async", "separate_async"
"""Everything in turn; rollouts that go on under new weights, on the GPUs that train; on others."""
HELD = (  # Keys on which our half of the work counts: no override changes them
    "data.train_files", "data.val_files", "trainer.default_local_dir",
    "data.train_batch_size", "data.max_prompt_length", "data.max_response_length",
    "data.shuffle", "data.dataloader_num_workers", "data.custom_cls.path",
    "data.custom_cls.name", "actor_rollout_ref.model.path", "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.temperature", "actor_rollout_ref.rollout.top_p",
    "actor_rollout_ref.rollout.top_k", "actor_rollout_ref.rollout.max_model_len",
    "actor_rollout_ref.rollout.calculate_log_probs", "trainer.total_epochs",
    "actor_rollout_ref.rollout.agent.default_agent_loop", "trainer.test_freq",
    "trainer.val_before_train",
)  # fmt: skip
OURS = {  # Likewise, where verl's own value holds
    "algorithm.filter_groups.enable": False,
    "trainer.use_v1": True,
    "trainer.v1.sampler.sync_refill_failed_groups": False,
    "reward.custom_reward_function.path": None,
    "actor_rollout_ref.rollout.multi_turn.tool_config_path": None,
}
HOST = HostTrainer(
    "verl",
    frozenset(
        {
            "kl in rewards of groups", "loss of inserted tokens", "perplexity",
            # Its own GSPO is always the mean over sequence means.
            "further draws", "filter of a critic", "aggregation of gspo",
            "synchronous turns", "truncated weights in a nucleus",
            "our engines", "limit of trajectories", "evaluation on the way",
        }
    ),
    # Only engines and memory of our own know them.
    unread={
        "engine": ("timeout", "folder", "weights"),
        "engine.vllm": ("command", "sleep", "options"),
        "train.local": ("optimizer_memory", "memory_gib"),
    },
)  # fmt: skip


def require_known(config: RunConfig) -> None:
    """Refuse settings that verl would leave out; raises `ConfigError`."""
    for fault in endless(config):
        raise ConfigError(fault)
    adapters = f"model.name = {config.model.name!r} (LoRA adapters; merge them first)"
    require_host(config, HOST, *[adapters] * (adapters_at(config.model.name) is not None))


def require_same(
    config: RunConfig, given: Mapping[str, object], look: Callable[[str, object], object]
) -> None:
    """Refuse overrides that say otherwise than the settings, whose names at verl are `given`.

    `look` finds the value of a key; its second argument is the value where no override says one.
    Raises `ConfigError` where one contradicts, or takes away what the settings ask for.
    """
    same = {**{key: given[key] for key in HELD}, **OURS, **of_schedule(config)}
    found = {key: look(key, value) for key, value in same.items()}
    if found[MODE] == SEPARATE and same[MODE] == COLOCATED:
        same[MODE] = SEPARATE  # on whose GPUs rollouts run is the cluster's business
    wrong = [f"{k}={found[k]}, expected {same[k]}" for k in same if found[k] != same[k]]
    if wrong:
        raise ConfigError(
            "these overrides contradict the settings, or need what the adapter lacks: "
            f"{'; '.join(wrong)}. Change the settings (--model, --env.tasks, --env.name, --out, "
            "--stages.N.reward, --rollout.k, --rollout.schedule, ...), or leave them out."
        )
    _require_estimator(config, str(look("algorithm.adv_estimator", ESTIMATOR)))


def _require_estimator(config: RunConfig, estimator: str) -> None:
    """Raises `ConfigError` where an estimator of verl's own would leave settings out."""
    train = config.train
    wrong = [f'train.filter = "{train.filter}"'] * (train.filter != "none")
    wrong += [f'train.credit = "{train.credit}"'] * (train.credit != "trajectory")
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


def of_schedule(config: RunConfig) -> dict[str, object]:
    """verl's names and the values that `rollout.schedule` gives them."""
    rollout = config.rollout
    ahead = rollout.pipeline.staleness if rollout.schedule == "pipelined" else 0
    if not ahead:
        return {MODE: SYNC}
    return {
        MODE: COLOCATED,
        f"trainer.v1.{COLOCATED}.num_warmup_batches": ahead,
        f"trainer.v1.{SEPARATE}.num_warmup_batches": ahead,
        f"trainer.v1.{SEPARATE}.parameter_sync_step": 1,
        # verl counts the versions from a group's start to its update, both included.
        "trainer.v1.sampler.max_off_policy_threshold": ahead + 1,
        "trainer.v1.sampler.max_off_policy_strategy": "wait",
    }

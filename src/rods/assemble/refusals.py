"""What a configuration must not ask for, said before anything is made.

Owns the refusals that need more than the settings: names that mean nothing, environments without
variants, engines that never change. What contradicts itself in the settings is refused by `config`.

    require_named(config)                   # raises ConfigError
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.config import EnvSettings, RunConfig
from rods.dialects import InlineDialect, get_dialect
from rods.engines import engine_factory
from rods.envs import ENVIRONMENTS, make_environment
from rods.errors import ConfigError
from rods.policy import Engine
from rods.report.trackers import packages_of
from rods.rewards import get_reward
from rods.synthesis.writers import writer_factory
from rods.task import Task


def require_named(config: RunConfig) -> None:
    """Find what settings name before anything is made; raises `ConfigError`."""
    if config.engine.name != "auto":
        engine_factory(config.engine.name)
    dialect = get_dialect(config.model.dialect)
    if config.curriculum == "envtuning" and isinstance(dialect, InlineDialect):
        raise ConfigError(
            f'curriculum = "envtuning": the programs of model.dialect = "{config.model.dialect}" '
            'are written inside one response and get no hints. Take curriculum = "static".'
        )
    ENVIRONMENTS.address(config.env.name)
    for stage in config.stages:
        get_reward(stage.reward)
    if grows(config):
        writer_factory(config.synthesis.writer)
        _require_variants(config.env)
    packages_of(config.track.names)


def _require_variants(settings: EnvSettings) -> None:
    if not make_environment(settings.name, settings.arguments).varies:
        raise ConfigError(
            f'curriculum = "rods": there is no writer of variants for env.name {settings.name!r}. '
            "Train with --curriculum static; a pool may grow before the run (rods synth, then "
            "env.tasks)."
        )


def require_trainable(config: RunConfig, engine: Engine) -> None:
    """Raises `ConfigError` for an engine from which nothing can be learned."""
    if engine.capabilities.weights == "fixed":
        raise ConfigError(
            f'engine.name = "{config.engine.name}": its weights never change, so it can only be '
            "evaluated (rods eval). To train, set engine.weights to a way that its server has: "
            "docs/engines.md."
        )
    if config.rollout.top_p < 1 and not engine.capabilities.top_p:
        raise ConfigError(
            f"rollout.top_p = {config.rollout.top_p:g}: the log-probabilities of "
            f'engine.name = "{config.engine.name}" are then those within the nucleus, with which '
            "a trainer cannot compare its own. Set it to 1 for training."
        )


def require_calls(config: RunConfig, tasks: Sequence[Task]) -> None:
    """Raises `ConfigError` where credit is to be given by call and no task wants one."""
    if config.train.credit != "call" or any(t.ground_truth for task in tasks for t in task.turns):
        return
    raise ConfigError(
        f'train.credit = "call": none of the {len(tasks)} tasks of env.name = '
        f'"{config.env.name}" has calls in its ground truth, so there is nothing to match calls '
        'with. Take train.credit = "trajectory".'
    )


def grows(config: RunConfig) -> bool:
    """Whether variants join the pool of tasks."""
    return config.curriculum == "rods" and any(s.expand for s in config.stages)

"""The environment that a run's settings mean, ready to play.

Owns the way from settings to an environment, in each process that plays.

    environment = environment_of(config)
"""

from __future__ import annotations

from typing import Any

from rods.config import RunConfig
from rods.envs import make_environment
from rods.envs.elsewhere.processes import ProcessEnvironment


def environment_of(config: RunConfig) -> Any:
    """The environment that `env.name` means, warmed up where that takes long.

    Raises:
        ConfigError: it is not a bundled environment and cannot be imported.
    """
    environment = make_environment(config.env.name, config.env.arguments)
    worlds = config.rollout.worlds
    if worlds.processes:
        environment = ProcessEnvironment(
            environment,
            config.env.name,
            config.env.arguments,
            worlds.processes,
            worlds.call_seconds or config.rollout.seconds,
        )
    environment.warm_up()  # here, not within a trajectory's deadline
    return environment

"""The environment that a run's settings mean, ready to play.

Owns the way from settings to an environment, in each process that plays.

    environment = environment_of(config)
"""

from __future__ import annotations

from typing import Any

from rods.config import RunConfig
from rods.envs import make_environment
from rods.envs.remote.processes import STARTING, ProcessEnvironment, local, on
from rods.infra.cluster import Cluster


def environment_of(config: RunConfig, players: int = 1) -> Any:
    """The environment that `env.name` means, warmed up where that takes long.

    Args:
        config: settings.
        players: processes that each play a part of the run, among which `ray.worlds` and
            `rollout.worlds.processes` are shared out; at least one for each.

    Raises:
        ConfigError: it is not a bundled environment and cannot be imported.
    """
    made_of = config.env.name, config.env.arguments
    environment = make_environment(*made_of)
    worlds, ray = config.rollout.worlds, config.ray
    seconds = worlds.call_seconds or config.rollout.seconds
    if ray.worlds:
        begin = on(Cluster.at(ray.address), *made_of, ray.cpus)
        environment = ProcessEnvironment(environment, begin, -(-ray.worlds // players), seconds)
    elif worlds.processes:
        share, begin = -(-worlds.processes // players), local(*made_of)
        environment = ProcessEnvironment(environment, begin, share, seconds, STARTING)
    environment.warm_up()  # here, not within a trajectory's deadline
    return environment

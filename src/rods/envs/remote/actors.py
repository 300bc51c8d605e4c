"""Worlds on the machines of a Ray: each actor plays one world at a time.

Owns the line to such an actor. Everything else is as with processes of this machine: as many as
`ray.worlds`, replaced when they, or their machines, die; who wants one waits where all are taken.

    environment = ProcessEnvironment(inner, on(cluster, "bfcl", {}, cpus=0.5), 64, seconds=60)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from rods.envs.remote.messages import Action, Observation
from rods.envs.remote.processes import Worker, WorldRunner
from rods.errors import EnvError
from rods.infra.cluster import ActorLost, Cluster
from rods.types import Json

_log = logging.getLogger(__name__)


def on(
    cluster: Cluster, name: str, arguments: Mapping[str, Json], cpus: float
) -> Callable[[], Worker]:
    """Starts actors that make the environment of that name, each with `cpus` set aside."""
    return partial(_Actor, cluster, name, arguments, cpus)


class _Actor:
    """An actor that plays worlds."""

    def __init__(
        self, cluster: Cluster, name: str, arguments: Mapping[str, Json], cpus: float
    ) -> None:
        self._cluster = cluster
        self._actor = cluster.start(WorldRunner, (name, dict(arguments)), cpus)
        self.alive = True

    def ask(self, action: Action, seconds: float) -> Observation:
        """See `Worker`."""
        try:
            return self._cluster.get(self._actor.answer.remote(action), seconds)
        except ActorLost as error:
            self.end()
            _log.warning("an actor that plays worlds was lost and is replaced: %s", error)
            raise EnvError(f"a world's actor was lost: {error}") from error

    def end(self) -> None:
        """See `Worker`."""
        self.alive = False
        self._cluster.end(self._actor)

"""Ray, for what may run on other machines. Owns how it is reached and what its failures are called.

Nothing else in RODS imports Ray, and nothing here starts a node.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

from rods.errors import ConfigError, RodsError
from rods.infra.install import needed


class ActorLost(RodsError):
    """An actor died, or gave no answer in time and was ended; its machine may be gone."""


class Cluster:
    """The Ray of this process."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray  # the module, connected

    @classmethod
    def at(cls, address: str) -> Cluster:
        """Connect to `auto`, HOST:PORT or `local` (see `RaySettings`), unless this process is.

        Raises `PrerequisiteError` without the package, and `ConfigError` where there is no Ray.
        """
        with needed("[ray] needs ray", "train", "ray"):
            ray: Any = importlib.import_module("ray")
        # Ray warns that a later version will change it; no actor of ours wants an accelerator.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if not ray.is_initialized():
            host, _, port = address.rpartition(":")
            try:
                if host and "://" not in host and port.isdigit():  # Ray would try for minutes
                    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                ray.init(address, logging_level=logging.WARNING, include_dashboard=None)
            except (OSError, OverflowError, RuntimeError, ValueError) as error:
                raise ConfigError(
                    f"ray.address = {address!r}: no Ray was found there ({error}). Start one with "
                    "`ray start --head` (and `ray start --address HOST:PORT` on the other "
                    "machines), or try it on this machine with ray.address = 'local'. A cluster "
                    "with a token needs RAY_AUTH_MODE=token here."
                ) from error
        return cls(ray)

    def start(self, kind: type, arguments: Sequence[object], cpus: float, **options: int) -> Any:
        """A handle to a new actor, wherever there is room; it may still be starting.

        Other machines import its class, so they need this version. `cpus` are set aside for it;
        `options` are Ray's, such as `max_concurrency`.
        """
        spread = {"num_cpus": cpus, "scheduling_strategy": "SPREAD"}
        return self._ray.remote(kind).options(**spread, **options).remote(*arguments)

    def put(self, value: object) -> Any:
        """Keep a value that many actors are given."""
        return self._ray.put(value)

    def get(self, answer: object, seconds: float | None = None) -> Any:
        """Result of a call, or its error; `ActorLost` where its actor is gone or gives none."""
        errors: Any = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=seconds)
        except errors.GetTimeoutError as error:
            raise ActorLost(f"no answer for {seconds:g} seconds; {self._room()}") from error
        except errors.RayActorError as error:
            raise ActorLost(f"it died: {' '.join(str(error).split())}") from error
        except errors.RayTaskError as error:
            raise error.cause from error

    def end(self, actor: object) -> None:
        """End an actor at once."""
        self._ray.kill(actor, no_restart=True)

    def _room(self) -> str:
        """Reasons why an actor may not start."""
        all_of_it, free = self._ray.cluster_resources(), self._ray.available_resources()
        nodes = sum(bool(node["Alive"]) for node in self._ray.nodes())
        return (
            f"this Ray has {nodes} machines with {all_of_it.get('CPU', 0):g} processors, of which "
            f"{free.get('CPU', 0):g} are free (ray.cpus are set aside for each actor)"
        )

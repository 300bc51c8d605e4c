"""Variants made on the machines of a Ray, for the generator of the worker.

Owns the actors: as many as `ray.writers`, each with environment, writer and gates of its own,
replaced when they, or their machines, die. An outcome that was under way there is made again; as it
depends on its seed and numbers alone, it is the same wherever it is made. What is ordered and what
came of it stays in the worker's queue: actors keep nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from rods.errors import WriterError
from rods.infra.cluster import ActorLost, Cluster
from rods.synthesis.gates.overlap import Prints
from rods.synthesis.pipeline import Pipeline, RequestOutcome, total_usage
from rods.synthesis.worker.settings import WorkerSettings
from rods.task import Task

THREADS = 64
"""Outcomes that one actor has under way at most; a writer says how many it can."""
LOSSES = 3
"""Actors that may be lost over one outcome before the writer is suspended."""

Usage = dict[str, Mapping[str, Any]]
_log = logging.getLogger(__name__)


class WriterFailure(NamedTuple):
    """A `WriterError` on its way: what it says, and its `fatal` and `down`."""

    message: str
    fatal: bool
    down: bool


class WriterActor:
    """Work of one actor."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Build environment, writer and gates; answers of a chat server are not kept there."""
        self._pipeline = settings.make_pipeline()

    def parallel(self) -> int:
        """Outcomes that it can have under way."""
        return min(self._pipeline.parallel, THREADS)

    def make(
        self, seed: Task, rng_seed: int, seen: Sequence[Prints]
    ) -> tuple[RequestOutcome | WriterFailure, Usage]:
        """One outcome, or why the writer cannot be used; and what it has asked for so far."""
        try:
            made = self._pipeline.make(seed, rng_seed, seen)
        except WriterError as error:
            made = WriterFailure(str(error), error.fatal, error.down)
        return made, self._pipeline.usage()


class _Place:
    """An actor; it is named as often as it can have outcomes under way."""

    def __init__(self, cluster: Cluster, settings: Any, cpus: float) -> None:
        self.actor = cluster.start(WriterActor, (settings,), cpus, THREADS)
        self.usage: Usage = {}
        self.successor: _Place | None = None


class ActorPipeline(Pipeline):
    """A pipeline whose outcomes are made elsewhere."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start the actors.

        Raises:
            PrerequisiteError: Ray is not installed.
            ConfigError: there is no Ray.
            ActorLost: one that is asked does not start, nor those in its place.
        """
        self._cluster = Cluster.at(settings.ray.address)
        self._settings, self._cpus = self._cluster.put(settings), settings.ray.cpus
        self._lock = threading.Lock()
        self._all = [self._start() for _ in range(settings.ray.writers)]
        places, each = list(self._all), self._each()
        self.parallel = each * len(places)
        self._free: SimpleQueue[_Place] = SimpleQueue()
        for place in places * each:
            self._free.put(place)

    def make(self, seed: Task, rng_seed: int, seen: Sequence[Prints] = ()) -> RequestOutcome:
        """One outcome; waits while all places are taken.

        Raises:
            WriterError: the writer cannot be used, or actors are lost again and again.
        """
        place, losses = self._free.get(), 0
        try:
            while True:
                try:
                    answer = place.actor.make.remote(seed, rng_seed, tuple(seen))
                    made, place.usage = self._cluster.get(answer)
                    break
                except ActorLost as error:
                    _log.warning("an actor that makes variants was lost: %s", error)
                    losses += 1
                    if losses == LOSSES:
                        raise WriterError(
                            f"{LOSSES} actors were lost over a variant of {seed.id}: {error}",
                            down=True,
                        ) from error
                    place = self._instead_of(place)
        finally:
            self._free.put(place)
        if isinstance(made, WriterFailure):
            raise WriterError(*made)
        return made

    def usage(self) -> Usage:
        """Return what the writers have asked of a server, by stage, lost actors included."""
        return {**total_usage(*(place.usage for place in self._all))}

    def close(self) -> None:
        """End all actors."""
        for place in self._all:
            if place.successor is None:
                self._cluster.end(place.actor)

    def _each(self) -> int:
        """Outcomes that one actor can have under way. Ray may know late that a machine is gone."""
        place = self._all[0]
        for _ in range(LOSSES - 1):
            try:
                return self._cluster.get(place.actor.parallel.remote())
            except ActorLost as error:
                _log.warning("an actor that makes variants did not start: %s", error)
                place = self._instead_of(place)
        return self._cluster.get(place.actor.parallel.remote())

    def _start(self) -> _Place:
        return _Place(self._cluster, self._settings, self._cpus)

    def _instead_of(self, place: _Place) -> _Place:
        """A new actor for one that was lost, the same for all who had outcomes under way there."""
        with self._lock:
            if place.successor is None:
                place.successor = self._start()
                self._all.append(place.successor)
            return place.successor

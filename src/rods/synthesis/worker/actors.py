"""Variants made on the machines of a Ray, for the generator of the worker.

Each of `ray.writers` actors has environment, writer and gates of its own, and keeps nothing. Ray
restarts one that dies and asks it again; an outcome depends on its seed and numbers alone, so it is
the same wherever it is made.
"""

from __future__ import annotations

import logging
import secrets
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
OPTIONS = {"max_concurrency": THREADS, "max_restarts": -1, "max_task_retries": LOSSES - 1}
_log = logging.getLogger(__name__)


class ActorAnswer(NamedTuple):
    """One outcome, and what the actor says beside it."""

    outcome: RequestOutcome
    spent: Mapping[str, Mapping[str, float]]
    """Usage of a server since the answer before, by stage."""
    life: str
    """Another one after Ray has started the actor again."""


class WriterActor:
    """Work of one actor."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Build environment, writer and gates; answers of a chat server are not kept there."""
        self._pipeline = settings.make_pipeline()
        self._lock, self._life = threading.Lock(), secrets.token_hex(8)
        self._reported: Mapping[str, Mapping[str, float]] = {}

    def parallel(self) -> int:
        """Outcomes that it can have under way."""
        return min(self._pipeline.parallel, THREADS)

    def make(self, seed: Task, rng_seed: int, seen: Sequence[Prints]) -> ActorAnswer:
        """One outcome; raises `WriterError` where the writer cannot be used."""
        outcome = self._pipeline.make(seed, rng_seed, seen)
        with self._lock:
            before, self._reported = self._reported, self._pipeline.usage()
            less = {stage: {k: -v for k, v in row.items()} for stage, row in before.items()}
            return ActorAnswer(outcome, total_usage(self._reported, less), self._life)


class ActorPipeline(Pipeline):
    """A pipeline whose outcomes are made elsewhere."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start the actors.

        Raises `PrerequisiteError` where Ray is not installed, `ConfigError` where there is no Ray,
        `ActorLost` where the first one does not start.
        """
        self._cluster = Cluster.at(settings.ray.address)
        self._settings, count = self._cluster.put(settings), settings.ray.writers
        made = (WriterActor, (self._settings,), settings.ray.cpus)
        self._actors = [self._cluster.start(*made, **OPTIONS) for _ in range(count)]
        each: int = self._cluster.get(self._actors[0].parallel.remote())
        self.parallel = each * count
        self._free: SimpleQueue[int] = SimpleQueue()
        for number in [*range(count)] * each:
            self._free.put(number)
        self._lock, self._lives = threading.Lock(), dict[int, str]()
        self._spent: Mapping[str, Mapping[str, Any]] = {}

    def make(self, seed: Task, rng_seed: int, seen: Sequence[Prints] = ()) -> RequestOutcome:
        """One outcome; waits while all places are taken.

        Raises `WriterError` where the writer cannot be used, or actors are lost again and again.
        """
        number = self._free.get()
        try:
            asked = self._actors[number].make.remote(seed, rng_seed, tuple(seen))
            answer: ActorAnswer = self._cluster.get(asked)
        except ActorLost as error:
            lost = f"{LOSSES} actors were lost over a variant of {seed.id}: {error}"
            raise WriterError(lost, down=True) from error
        finally:
            self._free.put(number)
        with self._lock:
            self._spent = total_usage(self._spent, answer.spent)
            if self._lives.setdefault(number, answer.life) != answer.life:
                self._lives[number] = answer.life
                _log.warning("an actor that makes variants was lost; another one has its place")
        return answer.outcome

    def usage(self) -> dict[str, Mapping[str, Any]]:
        """Return what the writers have asked of a server, by stage, lost actors included."""
        return {**self._spent}

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors:
            self._cluster.end(actor)

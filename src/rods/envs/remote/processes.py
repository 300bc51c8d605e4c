"""Worlds in processes: each process runs one world at a time and is ended where it hangs.

Owns the processes: as many as `rollout.worlds.processes`, started once, replaced when they die. A
world that hangs, crashes or eats its memory takes no other world along. Processes run on this
machine (`local`), or on any machine of a Ray cluster (`on`). Which of it, settings say.

    environment = ProcessEnvironment(inner, local("bfcl", {}), processes=8, seconds=60)
    world = environment.open(task)          # from a thread that may wait
    environment_of(config)                  # with or without processes
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeAlias, cast

from rods.abilities import Wrapper
from rods.config import RunConfig
from rods.env import Environment
from rods.envs import make_environment
from rods.envs.remote.messages import Action, Hosted, Observation, RemoteWorld, checked, failed
from rods.errors import EnvError, RodsError
from rods.infra.cluster import ActorLost, Cluster
from rods.task import Task
from rods.types import Json

_LOG = logging.getLogger(__name__)
STARTING = 2 * (os.cpu_count() or 1)
"""Processes of this machine that start at once: more would only slow each other down, until none is
ready in time."""
START_SECONDS = 120.0  # Seconds until the environment of a process must stand
OPENINGS = 3
"""Processes that a world is opened in, one after the other, where they die before it is: as on a
machine that is lost, on which others may yet be started."""


Worker: TypeAlias = "_Process | _Actor"
"""One process and the line to it. An empty action asks whether it is ready."""


class ProcessEnvironment(Environment, Wrapper[Environment]):
    """Another environment whose worlds run in processes; all else is the other's."""

    blocking = True

    def __init__(
        self,
        inner: Environment,
        begin: Callable[[], Worker],
        processes: int,
        seconds: float,
        starting: int = 0,
    ) -> None:
        """Start no process yet.

        Args:
            inner: the same environment in this process, for everything but its worlds.
            begin: starts a process that runs its worlds, without waiting until it is ready.
            processes: worlds at once.
            seconds: of one call; then the process is ended.
            starting: processes that start at once, where they share this machine's cores; 0: all.
        """
        super().__init__(inner)
        self.name, self.capacity = inner.name, processes
        self.tasks, self.load, self.part = inner.tasks, inner.load, inner.part
        self._begin, self._seconds, self._starting = begin, seconds, starting
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self._lock = threading.Lock()
        self._all: set[Worker] = set()
        self.replaced = 0  # Processes that were ended because they hung, or that died

    def warm_up(self) -> None:
        """Start all processes, as many at once as may."""
        left = self.capacity - len(self._all)
        while left > 0:
            wave = min(left, self._starting or left)
            with self._lock:
                new = [self._begin() for _ in range(wave)]
                self._all |= {*new}
            for worker in new:
                worker.ask({}, START_SECONDS)  # it says when it is ready
                self._free.put(worker)
            left -= wave

    def open(self, task: Task) -> RemoteWorld:
        """A world in a free process; waits for one where all are taken."""
        if not self._all:
            self.warm_up()
        worker, opened = self._opened(task, OPENINGS)

        def send(action: Action) -> Observation:
            return checked(worker.ask(action, self._seconds))

        return RemoteWorld(opened, send, lambda: self._end(worker))

    def _opened(self, task: Task, left: int) -> tuple[Worker, Observation]:
        """A process that has the world, of so many at most that may die of it or had died."""
        worker, began = self._free.get(), time.monotonic()
        try:
            return worker, checked(worker.ask({"open": task.to_json()}, START_SECONDS))
        except RodsError:
            self._give_back(worker)
            hung = time.monotonic() - began >= START_SECONDS
            if worker.alive or hung or left == 1:
                raise
        return self._opened(task, left - 1)

    def _end(self, worker: Worker) -> None:
        """The world is closed; its process may run another."""
        try:
            if worker.alive:
                worker.ask({"close": True}, self._seconds)
        except EnvError:
            worker.end()
        finally:
            self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        try:
            with self._lock:
                if not worker.alive and worker in self._all:  # none is started once all are closed
                    fresh = self._begin()
                    self.replaced += 1
                    self._all = (self._all - {worker}) | {fresh}
                    worker = fresh
        finally:  # where none could be started, who gets the dead one tries again
            self._free.put(worker)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            workers, self._all = self._all, set[Worker]()
        for worker in workers:
            worker.end()
        self._free = SimpleQueue()
        self.inner.close()


def local(name: str, arguments: Mapping[str, Json]) -> Callable[[], Worker]:
    """Starts processes on this machine that make the environment of that name."""
    return partial(_Process, name, arguments)


class _Process:
    def __init__(self, name: str, arguments: Mapping[str, Json]) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, name, dict(arguments)), name="world", daemon=True
        )
        self._process.start()
        theirs.close()
        self.alive, self._closing = True, threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def ask(self, action: Action, seconds: float) -> Observation:
        """The answer to an action; raises `EnvError` where it took too long or the process died."""
        cause: Exception | None = None
        try:
            self._line.send(action)
            if self._line.poll(seconds):
                return self._line.recv()
        except (OSError, EOFError) as error:
            cause = error
        late = f"gave no answer for {seconds:g} seconds and was ended"
        what = f"died ({type(cause).__name__})" if cause else late
        if self.alive:  # else it was closed on purpose, as at the end of a run
            _LOG.warning("a world's process %s; a new one replaces it", what)
        self.end()
        raise EnvError(f"a world's process {what}") from cause

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.join(5)
        with self._closing:  # who asked it and who closes all may both end it
            self._line.close()


class WorldRunner:
    """Main function of a process: it runs one world after the other."""

    def __init__(self, name: str, arguments: Mapping[str, Json]) -> None:
        self._environment = make_environment(name, arguments)
        self._environment.warm_up()
        self._hosted: Hosted | None = None

    def answer(self, action: Action) -> Observation:
        """Open a world, act in it, close it; what fails is the answer."""
        try:
            if "open" in action:
                task = Task.from_json(cast("Mapping[str, Json]", action["open"]))
                self._hosted = Hosted(self._environment, task)
                return self._hosted.open()
            if "close" in action or not action:
                if self._hosted is not None:
                    self._hosted.close()
                return Observation()
            if self._hosted is None:
                raise EnvError("no world is open")
            return self._hosted.step(action)
        except BaseException as error:  # noqa: BLE001 (a world's code; the other side raises it)
            return failed(error)


def _serve(line: Connection, name: str, arguments: dict[str, Json]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which then ends this
    runner = WorldRunner(name, arguments)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            line.send(runner.answer(line.recv()))


def on(
    cluster: Cluster, name: str, arguments: Mapping[str, Json], cpus: float
) -> Callable[[], Worker]:
    """Starts actors on machines of a Ray that make this environment, each with `cpus` set aside."""
    return partial(_Actor, cluster, name, arguments, cpus)


class _Actor:
    def __init__(
        self, cluster: Cluster, name: str, arguments: Mapping[str, Json], cpus: float
    ) -> None:
        self._cluster = cluster
        self._actor = cluster.start(WorldRunner, (name, dict(arguments)), cpus)
        self.alive = True

    def ask(self, action: Action, seconds: float) -> Observation:
        try:
            return self._cluster.get(self._actor.answer.remote(action), seconds)
        except ActorLost as error:
            self.end()
            _LOG.warning("an actor with a world was lost and is replaced: %s", error)
            raise EnvError(f"a world's actor was lost: {error}") from error

    def end(self) -> None:
        self.alive = False
        self._cluster.end(self._actor)


def environment_of(config: RunConfig, ranks: int = 1) -> Any:
    """The environment that `env.name` means, warmed up where that takes long.

    Of several `ranks`, processes that each roll out a part of the run, each gets its share of
    `ray.worlds` or `rollout.worlds.processes`; at least one.

    Raises:
        ConfigError: it is not a bundled environment and cannot be imported.
    """
    made_of = config.env.name, config.env.arguments
    environment = make_environment(*made_of)
    worlds, ray = config.rollout.worlds, config.ray
    seconds = worlds.call_seconds or config.rollout.seconds
    if ray.worlds:
        begin = on(Cluster.at(ray.address), *made_of, ray.cpus)
        environment = ProcessEnvironment(environment, begin, -(-ray.worlds // ranks), seconds)
    elif worlds.processes:
        share, begin = -(-worlds.processes // ranks), local(*made_of)
        environment = ProcessEnvironment(environment, begin, share, seconds, STARTING)
    environment.warm_up()  # here, not within a trajectory's deadline
    return environment

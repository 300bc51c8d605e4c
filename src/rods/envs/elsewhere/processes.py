"""Worlds in processes: each process plays one world at a time and is ended where it hangs.

Owns the processes: as many as `rollout.worlds.processes`, started once, replaced when they die. A
world that hangs, crashes or eats its memory takes no other world along.

    environment = ProcessEnvironment(inner, "bfcl", {}, processes=8, seconds=60)
    world = environment.open(task)          # from a thread that may wait
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from rods.env import Environment
from rods.envs import make_environment
from rods.envs.elsewhere.messages import (
    Action,
    Hosted,
    Observation,
    RemoteWorld,
    checked,
    failed,
    remote_world,
)
from rods.errors import EnvError, RodsError
from rods.split import Split
from rods.task import Task
from rods.types import Json

START_SECONDS = 120.0
"""How long a process may take until its environment stands."""


class ProcessEnvironment(Environment):
    """Another environment whose worlds are played in processes; all else is the other's."""

    blocking = True

    def __init__(
        self,
        inner: Environment,
        name: str,
        arguments: Mapping[str, Json],
        processes: int,
        seconds: float,
    ) -> None:
        """Start no process yet.

        Args:
            inner: the same environment in this process, for everything but its worlds.
            name: what the processes make it of.
            arguments: of its factory.
            processes: worlds at once.
            seconds: of one call; then the process is ended.
        """
        self._inner = inner
        self.name, self.capacity, self.knowledge = inner.name, processes, inner.knowledge
        self.varies = inner.varies
        self._made_of = (name, dict(arguments))
        self._seconds = seconds
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._lock = threading.Lock()
        self._all: set[_Worker] = set()
        self.replaced = 0
        """Processes that were ended because they hung, or that died."""

    def __getattr__(self, name: str) -> Any:
        # What only some environments have, such as questions of a family.
        return getattr(self._inner, name)

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Those of the other environment."""
        return self._inner.tasks(held_out)

    def load(self, path: Path) -> list[Task]:
        """As the other environment reads a file."""
        return self._inner.load(path)

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """As the other environment parts tasks."""
        return self._inner.part(tasks, held_out)

    def exporters(self) -> Mapping[str, Callable[[Path, Sequence[Task]], None]]:
        """Those of the other environment."""
        return self._inner.exporters()

    def calls_needed(self, task: Task) -> int | None:
        """As the other environment knows."""
        return self._inner.calls_needed(task)

    def warm_up(self) -> None:
        """Start all processes at once."""
        with self._lock:
            new = [_Worker(*self._made_of) for _ in range((self.capacity or 1) - len(self._all))]
            self._all |= {*new}
        for worker in new:
            worker.ask({}, START_SECONDS)  # it says when it is ready
            self._free.put(worker)

    def open(self, task: Task) -> RemoteWorld:
        """A world in a free process; waits for one where all are taken."""
        if not self._all:
            self.warm_up()
        worker = self._free.get()
        try:
            opened = checked(worker.ask({"open": task.to_json()}, START_SECONDS))
        except RodsError:
            self._give_back(worker)
            raise
        return remote_world(
            opened,
            lambda action: self._ask(worker, action),
            lambda: self._end(worker),
        )

    def _ask(self, worker: _Worker, action: Action) -> Observation:
        return checked(worker.ask(action, self._seconds))

    def _end(self, worker: _Worker) -> None:
        """The world is closed; its process may play another."""
        try:
            if worker.alive:
                worker.ask({"close": True}, self._seconds)
        except EnvError:
            worker.end()
        finally:
            self._give_back(worker)

    def _give_back(self, worker: _Worker) -> None:
        if worker.alive:
            self._free.put(worker)
            return
        fresh = _Worker(*self._made_of)
        with self._lock:
            self.replaced += 1
            self._all = (self._all - {worker}) | {fresh}
        self._free.put(fresh)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            workers, self._all = self._all, set[_Worker]()
        for worker in workers:
            worker.end()
        with contextlib.suppress(Empty):
            while True:
                self._free.get_nowait()
        self._inner.close()


class _Worker:
    """One process and the line to it."""

    def __init__(self, name: str, arguments: Mapping[str, Json]) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(
            target=_play, args=(theirs, name, dict(arguments)), name="world", daemon=True
        )
        self._process.start()
        theirs.close()
        self.alive = True

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid or 0

    def ask(self, action: Action, seconds: float) -> Observation:
        """The answer to an action.

        Raises:
            EnvError: it took too long, so the process was ended; or the process had died.
        """
        try:
            self._line.send(action)
            if self._line.poll(seconds):
                return self._line.recv()
        except (OSError, EOFError) as error:
            self.end()
            raise EnvError(f"a world's process died ({type(error).__name__})") from error
        self.end()
        raise EnvError(f"a world's process gave no answer for {seconds:g} seconds and was ended")

    def end(self) -> None:
        """End it at once."""
        self.alive = False
        self._process.kill()
        self._process.join(5)
        self._line.close()


def _play(line: Connection, name: str, arguments: dict[str, Json]) -> None:
    """What a process does: one world after the other, until the line is closed."""
    environment = make_environment(name, arguments)
    environment.warm_up()
    hosted: Hosted | None = None
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            action = line.recv()
            try:
                if "open" in action:
                    hosted = Hosted(environment, Task.from_json(action["open"]))
                    answer = hosted.open()
                elif "close" in action or not action:
                    if hosted is not None:
                        hosted.close()
                    answer = Observation()
                elif hosted is None:
                    raise EnvError("no world is open")
                else:
                    answer = hosted.step(action)
            except Exception as error:  # noqa: BLE001 (the other side raises it, or says so)
                answer = failed(error)
            line.send(answer)

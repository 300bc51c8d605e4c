"""The worker's process: a generator at work until it is stopped or its parent is gone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator as Yields
from contextlib import closing, contextmanager
from pathlib import Path

from rods.errors import RodsError, StoreError
from rods.infra.files import locked, released
from rods.synthesis.worker.actors import ActorPipeline
from rods.synthesis.worker.generator import IDLE, Generator
from rods.synthesis.worker.queue import SqliteQueue
from rods.synthesis.worker.settings import WorkerSettings

ORPHANED = 10.0
"""Seconds that a worker whose driver died may take to notice that."""


def run(path: Path, parent: int) -> None:
    """Work. What cannot be begun at all is noted for the driver, under `error`."""
    with _alone(path.with_suffix(".lock")), closing(SqliteQueue(path)) as queue:
        settings, cache = WorkerSettings.read(queue, path), path.with_name("answers.sqlite")
        try:
            elsewhere = settings.ray.writers
            pipeline = ActorPipeline(settings) if elsewhere else settings.make_pipeline(cache)
        except RodsError as error:
            queue.put("error", str(error))
            raise
        generator = Generator(queue, pipeline, settings.rng_seed, settings.max_waiting)
        with closing(generator):
            while os.getppid() == parent and not queue.get("stop"):
                generator.turn()


@contextmanager
def _alone(lock: Path) -> Yields[None]:
    """Wait for the worker of a driver that died to end."""
    until, handle = time.monotonic() + ORPHANED, None
    while handle is None:
        try:
            handle = locked(lock, f"{lock}: another worker makes these variants.")
        except StoreError:
            if time.monotonic() > until:
                raise
            time.sleep(IDLE)
    try:
        yield
    finally:
        released(handle)


def main() -> None:
    """`python -m rods.synthesis.worker.process QUEUE PARENT_PID NICENESS`."""
    os.nice(int(sys.argv[3]))
    run(Path(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # threads that wait for a server must not keep the process


if __name__ == "__main__":
    main()

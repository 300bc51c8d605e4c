"""The worker's process: takes orders from the queue, makes variants, records them.

Owns what happens inside that process, and the making of one outcome (`Maker`, also used inline). A
writer that waits for a server has several orders under way; outcomes are recorded by one thread. A
writer that keeps failing is suspended, tried again later, and never stops the process.

    python -m rods.synthesis.worker.process QUEUE PARENT_PID
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rods.config import SynthesisSettings
from rods.env import make_environment
from rods.errors import WriterError
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.gates.overlap import Prints, prints
from rods.synthesis.pipeline import Outcome, synthesize
from rods.synthesis.worker.client import IDLE, WorkerSettings, tasks_file
from rods.synthesis.worker.patience import Patience
from rods.synthesis.worker.queue import Order, SynthesisQueue
from rods.synthesis.writers import Writer, make_writer
from rods.task import read_tasks


class Maker:
    """Writer, gates and environment in one place."""

    def __init__(self, settings: WorkerSettings, cache: Path | None = None):
        """`cache`: file of a chat server's answers, for writers that ask one."""
        environment = make_environment(settings.environment, settings.arguments)
        self._writer: Writer = make_writer(
            settings.writer,
            settings.training,
            environment,
            settings.resample_share,
            SynthesisSettings.model_validate(dict(settings.options)),
            cache,
        )
        self._keeper = Gatekeeper(
            environment, settings.training, settings.held_out, settings.max_distance
        )
        self._environment, self._attempts = environment, settings.attempts
        self.parallel = int(getattr(self._writer, "parallel", 1))

    def make(self, order: Order, seen: Sequence[Prints]) -> Outcome:
        """The next outcome of an order; raises `WriterError` where the writer cannot be used."""
        rng_seed = order.rng_seed * 1009 + order.made
        with getattr(self._writer, "baton", None) or nullcontext():
            return synthesize(
                order.seed, self._writer, self._keeper, rng_seed, self._attempts, seen
            )

    def work(self, queue: SynthesisQueue, order: Order) -> None:
        """Make and record the next outcome of an order."""
        if order.made >= order.n:
            queue.finish(order)
            return
        started = time.perf_counter()
        outcome = self.make(order, [prints(task) for task in queue.variants(order.id)])
        queue.record(order, order.made, outcome, time.perf_counter() - started)

    def close(self) -> None:
        """End what the environment keeps running, such as a sandbox."""
        getattr(self._environment, "close", lambda: None)()

    def usage(self) -> dict[str, Mapping[str, Any]]:
        """What the writer asked of a server, by stage; empty where it asks none."""
        found: Mapping[str, Any] = getattr(self._writer, "usage", dict)()
        return {stage: asdict(row) for stage, row in found.items()}


class _Job(NamedTuple):
    order: Order
    started: float


class Workshop:
    """Keeps as many orders under way as the writer can have."""

    def __init__(self, queue: SynthesisQueue, maker: Maker, max_waiting: int):
        self._queue, self._maker, self._max_waiting = queue, maker, max_waiting
        self._pool = ThreadPoolExecutor(maker.parallel)
        self._jobs: dict[Future[Outcome], _Job] = {}
        self._patience = Patience()
        self._resume_at = 0.0

    def turn(self) -> None:
        """Start what can be started, record what is done; takes at most `IDLE` seconds."""
        while len(self._jobs) < self._maker.parallel and self._start():
            pass
        if not self._jobs:
            time.sleep(IDLE)
            return
        done, _ = wait(self._jobs, timeout=IDLE, return_when=FIRST_COMPLETED)
        for future in done:
            self._finish(future, self._jobs.pop(future))

    def close(self) -> None:
        """Start nothing more; what is under way is made again after the next start."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> bool:
        if time.monotonic() < self._resume_at or self._queue.waiting() >= self._max_waiting:
            return False
        order = self._queue.next_order([job.order.id for job in self._jobs.values()])
        if order is None:
            return False
        if order.made >= order.n:
            self._queue.finish(order)
            return True
        seen = [prints(task) for task in self._queue.variants(order.id)]
        future = self._pool.submit(self._maker.make, order, seen)
        self._jobs[future] = _Job(order, time.perf_counter())
        return True

    def _finish(self, future: Future[Outcome], job: _Job) -> None:
        try:
            outcome = future.result()
        except WriterError as error:
            self._suspend(str(error))
            return
        seconds = time.perf_counter() - job.started
        self._queue.record(job.order, job.order.made, outcome, seconds)
        usage = self._maker.usage()
        if usage:
            self._queue.put("usage", json.dumps(usage))
        reason = self._patience.take(outcome)
        if reason:
            self._suspend(reason)
        elif not self._patience.failures and self._queue.get("suspended"):
            self._queue.put("suspended", "")

    def _suspend(self, reason: str) -> None:
        self._queue.put("suspended", reason)
        now = time.monotonic()
        if now >= self._resume_at:  # else this was under way when another one suspended it
            self._resume_at = now + self._patience.suspend()


def run(path: Path, parent: int) -> None:
    """The process: work until told to stop or until the parent is gone."""
    queue = SynthesisQueue(path)
    plain: dict[str, Any] = json.loads(queue.get("settings"))
    for side in ("training", "held_out"):
        plain[side] = tuple(read_tasks(tasks_file(path, side)))
    settings = WorkerSettings(**plain)
    os.nice(settings.niceness)
    maker = Maker(settings, path.with_name("answers.sqlite"))
    workshop = Workshop(queue, maker, settings.max_waiting)
    try:
        while os.getppid() == parent and not queue.get("stop"):
            workshop.turn()
    finally:
        workshop.close()
        maker.close()
        queue.close()


def main() -> None:
    """`python -m rods.synthesis.worker.process QUEUE PARENT_PID`."""
    run(Path(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # threads that wait for a server must not keep the process


if __name__ == "__main__":
    main()

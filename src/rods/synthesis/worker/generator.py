"""The generator: takes requests from the queue, has the pipeline make variants, records outcomes.

As many outcomes are under way at once as the writer can have, one of each seed. A writer that keeps
failing (a rejection of the stage `writer`, or a `WriterError`) is suspended and tried again after
pauses that grow.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from rods.errors import WriterError
from rods.synthesis.gates.overlap import Prints, prints
from rods.synthesis.pipeline import Pipeline, RequestOutcome, total_usage
from rods.synthesis.worker.queue import NextOutcome, SqliteQueue

FAILURES = 8
"""Attempts in a row that fail for the writer's own reasons before it is suspended."""
PAUSE, LONGEST = 2.0, 60.0
"""Seconds of the first pause of a suspended writer, doubled each time, and of the longest."""


class Suspension(NamedTuple):
    """Why nothing is made now."""

    reason: str
    pauses: int = 0
    """Number of times in a row, this one included; 0: the worker is gone, it is not tried again."""
    seconds: float = 0.0
    fatal: bool = False
    """The address, key or model is wrong, and no answer ever came."""


class Patience:
    """Counts what one writer does."""

    def __init__(self) -> None:
        self.failures = 0
        """Attempts that failed since the last one that did not."""
        self.suspensions = 0
        """Number of suspensions since then."""

    def take(self, outcome: RequestOutcome) -> str:
        """Count one outcome; the reason why the writer has to be suspended, or nothing."""
        for rejection in outcome.rejections:
            self.failures += 1
            if rejection.stage != "writer":
                self.failures = self.suspensions = 0
        if outcome.variant is not None:
            self.failures = self.suspensions = 0
        if self.failures < FAILURES:
            return ""
        return f"{self.failures} failures in a row, the last: {outcome.rejections[-1].detail}"

    def suspend(self, reason: str, fatal: bool = False) -> Suspension:
        """The next pause."""
        self.suspensions += 1
        seconds = min(LONGEST, PAUSE * 2.0 ** (self.suspensions - 1))
        return Suspension(reason, self.suspensions, seconds, fatal)


IDLE = 0.05
"""Seconds between two looks at an empty or full queue."""
SPREAD = 1_000_003
"""Distance of the random seeds of two runs, larger than any number of outcomes."""
REMEMBERED = 4096
"""Fingerprints of variants that are kept."""


class Generator:
    """Keeps as many outcomes under way as the writer can have."""

    def __init__(
        self, queue: SqliteQueue, pipeline: Pipeline, rng_seed: int, max_waiting: int = 2000
    ):
        """`max_waiting`: it pauses while so many accepted variants wait to be taken."""
        self._queue, self._pipeline = queue, pipeline
        self._rng_seed, self._max_waiting = rng_seed, max_waiting
        self._pool = ThreadPoolExecutor(pipeline.parallel)
        self._jobs: dict[Future[RequestOutcome], tuple[NextOutcome, float]] = {}
        self._patience = Patience()
        self._resume_at = 0.0
        self._seen: dict[str, list[Prints]] = {}
        self._spent: dict[str, dict[str, float]] = json.loads(queue.get("usage") or "{}")

    def turn(self) -> None:
        """Start what can be started, record what is done; takes at most `IDLE` seconds."""
        while len(self._jobs) < self._pipeline.parallel and self._start():
            pass
        if not self._jobs:
            time.sleep(IDLE)
            return
        for future in wait(self._jobs, IDLE, FIRST_COMPLETED).done:
            self._finish(future, *self._jobs.pop(future))

    def close(self) -> None:
        """Start nothing more; what is under way is made again after the next start."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pipeline.close()

    def _start(self) -> bool:
        if time.monotonic() < self._resume_at or self._queue.waiting() >= self._max_waiting:
            return False
        request = self._queue.next_outcome([request.seed.id for request, _ in self._jobs.values()])
        if request is None:
            return False
        rng_seed, seen = self._rng_seed * SPREAD + request.number, tuple(self._before(request))
        future = self._pool.submit(self._pipeline.make, request.seed, rng_seed, seen)
        self._jobs[future] = request, time.perf_counter()
        return True

    def _before(self, request: NextOutcome) -> list[Prints]:
        """Fingerprints of the seed's earlier variants, which must not be repeated."""
        if sum(map(len, self._seen.values())) > REMEMBERED:
            self._seen.clear()
        if request.seed.id not in self._seen:
            earlier = self._queue.variants(request.seed.id, request.number)
            self._seen[request.seed.id] = [prints(task) for task in earlier]
        return self._seen[request.seed.id]

    def _finish(self, future: Future[RequestOutcome], request: NextOutcome, started: float) -> None:
        try:
            outcome = future.result()
        except WriterError as error:  # nothing was made: the same outcome is tried again
            self._suspend(str(error), error.fatal and not self._queue.statistics().tried)
            return
        seconds = time.perf_counter() - started
        # What the writer asked of a server, by stage, earlier processes included.
        usage = total_usage(self._spent, self._pipeline.usage())
        self._queue.record(request, outcome, seconds, json.dumps(usage))
        if outcome.variant is not None and request.seed.id in self._seen:
            self._seen[request.seed.id].append(prints(outcome.variant))
        if reason := self._patience.take(outcome):
            self._suspend(reason)
        elif not self._patience.failures and self._queue.get("suspended"):
            self._queue.put("suspended", "")

    def _suspend(self, reason: str, fatal: bool = False) -> None:
        now = time.monotonic()
        if now < self._resume_at:  # this was under way when another one suspended it
            return
        suspension = self._patience.suspend(reason, fatal)
        self._queue.put("suspended", json.dumps(suspension))
        self._resume_at = now + suspension.seconds

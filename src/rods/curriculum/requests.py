"""Synthesis requests: when seed tasks are chosen, how many variants, what comes back.

Owns the cycles of an epoch and the backlog's bound. It never moves a task: a variant that came back
waits in the pool. Requests are part of a checkpoint and are submitted again on resume; the worker
ignores those that it knows (invariant 8).
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rods.config import RunConfig
from rods.curriculum.boundary import select_seeds
from rods.curriculum.draws import Stages
from rods.curriculum.replay import EpochCounts, ReplayBuffer
from rods.split import EDGE
from rods.task import Task
from rods.types import Json

CYCLES = 1
"""Synthesis cycles in an epoch, evenly spaced; each submits `boundary.seeds` seed tasks."""
BACKLOG = 2.0
"""Never more variants wait than this many epochs can inject."""


class SynthesisQueue(Protocol):
    """The synthesis worker as the curriculum sees it. Durable, in its own process."""

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        """Ask for a seed task's outcomes `first` to `first + n - 1` and return at once. The same
        id again changes nothing.
        """

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether all of these requests are finished."""
        ...

    def results(self, request_ids: Sequence[str]) -> Sequence[tuple[str, int, Task, float]]:
        """Accepted variants so far: (request id, number, task, profile distance), ordered by the
        requests as given, then by number. Asking again gives them again.
        """
        ...


class SynthesisRequest(NamedTuple):
    """One synthesis request."""

    id: str
    seed_id: str
    first: int
    """Number of the first outcome among those of the seed task."""
    n: int
    priority: float
    epoch: int
    rested: int
    """First step at which the seed task may be chosen again."""


class SynthesisRequests:
    """Synthesis requests to the worker, and its results."""

    def __init__(
        self,
        config: RunConfig,
        stages: Stages,
        buffer: ReplayBuffer,
        queue: SynthesisQueue | None,
        counts: EpochCounts,
    ) -> None:
        """`queue`: the worker, None for a fixed pool; `counts`: of each epoch, to be added to."""
        self._config, self._stages, self._buffer, self._queue = config, stages, buffer, queue
        self._counts = counts
        self.open: dict[str, SynthesisRequest] = {}
        """Requests whose variants are not ingested yet, oldest first."""
        self.closed: dict[str, SynthesisRequest] = {}
        self._cycles: Counter[int] = Counter()
        """Cycles that each epoch has had."""

    def epoch_steps(self, epoch: int) -> int:
        """Training steps that an epoch fills; the rest of it shares a step with the next one."""
        draws = self._buffer.draws.done(epoch) + self._buffer.draws.open(epoch)
        return max(1, draws // self._config.rollout.tasks_per_step)

    def due(self, epoch: int) -> bool:
        """Return true if seed tasks must be chosen now.

        Cycle i of C is due when step floor(i * S / C) - 1 of the epoch's S whole steps is done. So
        the last one leaves the worker a step's time. None is due unless a later epoch can draw.
        """
        ran, coming = self._cycles[epoch], range(self._buffer.epoch + 1, len(self._stages))
        drawn = self._stages.expands(epoch) and any(map(self._stages.expands, coming))
        if not drawn or ran >= CYCLES:
            return False
        after = max(1, (ran + 1) * self.epoch_steps(epoch) // CYCLES - 1)
        groups, draws = after * self._config.rollout.tasks_per_step, self._buffer.draws
        return draws.done(epoch) >= groups or not draws.open(epoch)

    def choose(self, epoch: int, step: int) -> list[SynthesisRequest]:
        """Choose seed tasks among those judged within one epoch's steps, and keep the requests."""
        config, pool = self._config, self._buffer.pool
        n, steps = config.synthesis.variants_per_seed, self.epoch_steps(epoch)
        originals = set(self._stages.pool(epoch))
        judged = [
            j
            for j in pool.latest(step - steps, self._stages.at(epoch).categories)
            if j.task_id in originals or not pool.task(j.task_id).is_original
        ]
        thompson = config.boundary.priority == "thompson"
        rng = random.Random(f"{config.seed}/seeds/{epoch}/{self._cycles[epoch]}")
        cooldown = {r.seed_id: r.rested for r in sorted(self._all(), key=lambda r: r.rested)}
        chosen = select_seeds(
            judged,
            config.boundary,
            cooldown,
            step,
            rng,
            limit=self.most_seeds,
            types=sorted({j.category for j in judged}),
            excluded=pool.never_solved,
            visits={j.task_id: pool[j.task_id].judgements for j in judged if thompson},
        )
        rested = step + math.ceil(config.boundary.cooldown_epochs * steps - EDGE)
        requests: list[SynthesisRequest] = []
        for rank, seed in enumerate(chosen.seeds):
            task_id = seed.judgement.task_id
            name = f"e{epoch:03d}-c{self._cycles[epoch]}-{rank:03d}-{task_id}"
            first = sum(r.n for r in self._all() if r.seed_id == task_id)
            requests.append(SynthesisRequest(name, task_id, first, n, seed.priority, epoch, rested))
        self.open.update((r.id, r) for r in requests)
        self._cycles[epoch] += 1
        self._counts[epoch].update(
            cycles=1,
            seed_emitted=len(requests),
            cooldown_filtered=chosen.cooldown_filtered,
            quota_filtered=chosen.quota_filtered,
            backlog_filtered=chosen.backlog_filtered,
        )
        return requests

    def _all(self) -> Iterable[SynthesisRequest]:
        return [*self.closed.values(), *self.open.values()]

    @property
    def most_seeds(self) -> int:
        """Seed tasks that a cycle may choose now, until `boundary.seeds` or the backlog is full."""
        epoch, pool = self._buffer.epoch, self._buffer.pool
        names = self._stages.at(epoch).categories  # variants of others wait for another stage
        entering = self._buffer.injectable(len(self._stages.originals(epoch)), names)
        most = math.floor(BACKLOG * entering)
        made = [(pool.task(r.seed_id).category, r.n) for r in self.open.values()]
        waiting = sum(n for category, n in made if not names or category in names)
        waiting += len(pool.variants("pending", names))
        room = max(0, most - waiting) // self._config.synthesis.variants_per_seed
        return min(self._config.boundary.seeds, room)

    def submit(self, requests: Iterable[SynthesisRequest]) -> None:
        """Hand requests to the worker; those that it has already change nothing."""
        if self._queue is not None:
            for r in requests:
                seed = self._buffer.pool.task(r.seed_id)
                self._queue.submit(r.id, seed, r.first, r.n, r.priority, r.epoch)

    def wait(self) -> tuple[list[str], float]:
        """Requests that the worker has finished, and the seconds that this waited for it."""
        ids, patience = list(self.open), self._config.synthesis.drain_seconds
        if self._queue is None or not ids:
            return [], 0.0
        started, queue = time.perf_counter(), self._queue
        ids = ids if queue.drain(ids, patience) else [i for i in ids if queue.drain([i], 0.0)]
        return ids, time.perf_counter() - started if patience else 0.0

    def ingest(self, finished: Sequence[str], epoch: int) -> int:
        """Offer the variants of finished requests to the pool, in the order of the requests.

        Returns:
            Requests that are not finished; their variants can enter a later epoch.
        """
        if self._queue is None or not self.open:
            return 0
        for request_id, _, task, _ in self._queue.results(finished):
            new = self._buffer.pool.offer(task, self.open[request_id].epoch)
            self._counts[epoch]["accepted" if new else "duplicate"] += 1
        for request_id in finished:
            self.closed[request_id] = self.open.pop(request_id)
        self._counts[epoch]["late_requests"] += len(self.open)
        return len(self.open)

    def state_dict(self) -> dict[str, Json]:
        """All requests as plain JSON."""
        return {
            "open": [list(r) for r in self.open.values()],
            "closed": [list(r) for r in self.closed.values()],
            "cycles": {str(epoch): n for epoch, n in self._cycles.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where `state_dict` was taken; open requests are submitted again."""
        self.open = {row[0]: SynthesisRequest(*row) for row in state["open"]}
        self.closed = {row[0]: SynthesisRequest(*row) for row in state["closed"]}
        self._cycles = Counter({int(epoch): n for epoch, n in state["cycles"].items()})
        self.submit(self.open.values())


def first_variants(config: RunConfig, originals: Sequence[Task], hosted: bool = False) -> int:
    """Return the first update that can draw a variant, by the order of draws; 0: none can.

    Draws that run ahead of judgements, or a slow worker, only make it later. `hosted`: an update
    begins as many epochs as it needs, as inside another trainer or in a pipelined run.
    """
    stages, buffer = Stages(config, originals), ReplayBuffer(config.replay)
    buffer.pool.add_originals(originals)
    requests = SynthesisRequests(config, stages, buffer, None, defaultdict(Counter))
    draws, size, requested = buffer.draws, config.rollout.tasks_per_step, False
    for update in itertools.count(1):
        while draws.due < size and (hosted or not draws.untouched(buffer.epoch)):
            if (epoch := buffer.epoch + 1) == len(stages):
                break
            tasks = stages.originals(epoch)
            if requested and stages.expands(epoch) and buffer.injectable(len(tasks)):
                return update
            buffer.start_epoch(epoch, originals=tasks, expand=False)
        if not (drawn := draws.lease(size)):
            break
        for task_id, epoch in drawn:
            draws.close(task_id, epoch)
        requested |= any(requests.due(e) for _, e in drawn) and requests.most_seeds > 0
    return 0

"""Orders to the synthesis worker: when seeds are chosen, how many variants, what comes back.

Owns the cycles of an epoch and the backlog's bound. It never moves a task: what has come back waits
in the replay buffer. An order is written down before it is submitted, so a kill between the two
loses none (invariant 8).

    orders = Orders(config, stages, buffer, synthesis)
    orders.submit(orders.cycle(epoch, step) if orders.due(epoch) else [])
    waited, late = orders.take_in(epoch + 1)
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from typing import Protocol

from rods.config import RunConfig
from rods.curriculum.boundary import select_seeds
from rods.curriculum.journal import Request
from rods.curriculum.replay import ReplayBuffer
from rods.curriculum.stages import Stages
from rods.task import Task


class SynthesisQueue(Protocol):
    """The synthesis worker as the curriculum sees it. Durable, in its own process."""

    def submit(
        self,
        request_id: str,
        seed: Task,
        first: int,
        n: int,
        priority: float,
        epoch: int,
    ) -> None:
        """Order a seed's outcomes `first` to `first + n - 1` and return at once. The same id again
        changes nothing.
        """
        ...

    def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether all of these requests are finished."""
        ...

    def results(self, request_ids: Sequence[str]) -> Sequence[tuple[str, int, Task, float]]:
        """Accepted variants so far: (request id, number, task, profile distance), ordered by the
        requests as given, then by number. Asking again gives them again.
        """
        ...


class Orders:
    """What is asked of the worker, and what it has made."""

    def __init__(
        self, config: RunConfig, stages: Stages, buffer: ReplayBuffer, queue: SynthesisQueue | None
    ) -> None:
        """`queue`: the worker; None for a fixed pool."""
        self._config, self._stages, self._buffer, self._queue = config, stages, buffer, queue

    def epoch_steps(self, epoch: int) -> int:
        """Training steps that an epoch fills; what is left of it meets the next one's tasks."""
        draws = self._buffer.draws.done(epoch) + self._buffer.draws.open(epoch)
        return max(1, draws // self._config.rollout.tasks_per_step)

    def due(self, epoch: int) -> bool:
        """Whether seeds are to be chosen now.

        Cycle i of C is due when step floor(i * S / C) - 1 of the epoch's S whole steps is done: the
        last one leaves the worker a step's time before the next epoch starts.
        """
        if not self._stages.expands(epoch):
            return False
        cycles = self._config.synthesis.pace.cycles
        ran = self._buffer.journal.meter("cycles", epoch)
        if ran >= cycles:
            return False
        after = max(1, (ran + 1) * self.epoch_steps(epoch) // cycles - 1)
        groups = after * self._config.rollout.tasks_per_step
        draws = self._buffer.draws
        return draws.done(epoch) >= groups or not draws.open(epoch)

    def cycle(self, epoch: int, step: int) -> list[Request]:
        """Choose seeds among the tasks judged within one epoch's steps, and write the orders."""
        config, journal = self._config, self._buffer.journal
        cycle = journal.meter("cycles", epoch)
        n, steps = config.synthesis.variants_per_seed, self.epoch_steps(epoch)
        limit = min(config.boundary.seeds, self._room() // n)
        judged = self._buffer.visits.latest(step - steps, self._stages.at(epoch).categories)
        originals = set(self._stages.pool(epoch))
        judged = [
            j
            for j in judged
            if j.task_id in originals or not self._buffer.pool.task(j.task_id).is_original
        ]
        thompson = config.boundary.priority == "thompson"
        chosen = select_seeds(
            judged,
            config.boundary,
            journal.cooldown(),
            step,
            random.Random(f"{config.seed}/seeds/{epoch}/{cycle}"),
            limit=limit,
            types=sorted({j.category for j in judged}),
            excluded=self._buffer.visits.never_solved,
            visits={j.task_id: self._buffer.visits.of(j.task_id) for j in judged if thompson},
        )
        rested = step + math.ceil(config.boundary.cooldown_epochs * steps)
        requests: list[Request] = []
        for rank, seed in enumerate(chosen.seeds):
            task_id = seed.judgement.task_id
            name = f"e{epoch:03d}-c{cycle}-{rank:03d}-{task_id}"
            first = journal.ordered(task_id)
            requests.append(Request(name, task_id, first, n, seed.priority, epoch, rested))
        journal.order(requests)
        for meter, by in (
            ("cycles", 1),
            ("seed_emitted", len(requests)),
            ("cooldown_filtered", chosen.cooldown_filtered),
            ("variance_filtered", chosen.variance_filtered),
            ("quota_filtered", chosen.quota_filtered),
            ("backlog_filtered", config.boundary.seeds - limit),
        ):
            journal.add(meter, epoch, by)
        return requests

    def _room(self) -> int:
        """Variants that may still be ordered before the backlog is full."""
        entering = self._buffer.injectable(len(self._stages.originals(self._buffer.epoch)))
        most = math.floor(self._config.synthesis.pace.backlog * entering)
        ordered = sum(r.n for r in self._buffer.journal.open_requests())
        return max(0, most - self._buffer.pool.count("pending") - ordered)

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand orders to the worker; those that it has already change nothing."""
        if self._queue is None:
            return
        for r in requests:
            seed = self._buffer.pool.task(r.seed_id)
            self._queue.submit(r.id, seed, r.first, r.n, r.priority, r.epoch)

    def take_in(self, epoch: int) -> tuple[float, int]:
        """Offer what the worker has made, in the order of the requests.

        Returns:
            Seconds that it waited for the worker, and orders that were not finished by then.
        """
        requests = self._buffer.journal.open_requests()
        if self._queue is None or not requests:
            return 0.0, 0
        ids = [r.id for r in requests]
        finished, patience = set(ids), self._config.synthesis.drain_seconds
        started = time.perf_counter()
        if not self._queue.drain(ids, patience):
            finished = {i for i in ids if self._queue.drain([i], 0.0)}
        waited = time.perf_counter() - started if patience else 0.0
        late = len(ids) - len(finished)
        made_in = {r.id: r.epoch for r in requests}
        results = self._queue.results([i for i in ids if i in finished])
        add = self._buffer.journal.add
        with self._buffer.atomic():
            for request_id, _, task, distance in results:
                new = self._buffer.pool.offer(task, made_in[request_id], request_id, distance)
                add("accepted" if new else "duplicate", epoch)
            for request_id in finished:
                self._buffer.journal.close_request(request_id)
            add("late_requests", epoch, late)
        return waited, late

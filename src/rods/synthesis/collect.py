"""A data set of variants: the seeds in turn until `n` are accepted, none of which repeats another.

What is in it depends on the seeds and the worker's settings, never on timing or interruptions:
outcomes are taken in order, and no more are requested than are needed.

    collection = Collection(worker, seeds, n=100)
    collection.run(report)
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from rods.errors import SynthesisError, TaskError
from rods.split import of_held_out
from rods.synthesis.gates.overlap import Neighbors, prints
from rods.synthesis.pipeline import Statistics
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.yields import SeedYield
from rods.task import Task
from rods.types import Json

LIMIT = 20
"""Outcomes for each wanted variant, after which the making stops with fewer."""
SUSPENSIONS = 6
"""Pauses in a row, two minutes in all, after which a writer that still fails is given up."""
LOOK = 0.5
"""Seconds between two reports while an outcome is waited for."""
AHEAD = 256
"""Outcomes that may be requested before the first of them is taken."""


def not_held_out(
    seeds: Sequence[Task], training: Sequence[Task], held_out: Sequence[Task]
) -> list[Task]:
    """Return the seeds outside held-out scenarios; no gate accepts a variant of the others.

    Raises:
        TaskError: all of them are held out.
    """
    out = {*of_held_out(seeds, training, held_out)}
    free = [task for task in seeds if task not in out]
    if seeds and not free:
        raise TaskError(
            f"all {len(seeds)} seeds are of held-out scenarios (first: task {seeds[0].id}, "
            f"{seeds[0].provenance.scenario}). No variant may overlap those: give other seeds."
        )
    return free


class Collection:
    """Requests outcome after outcome until enough variants are accepted."""

    def __init__(self, worker: SynthesisWorker, seeds: Sequence[Task], n: int):
        """Takes what an earlier, interrupted making left."""
        if not seeds:
            raise SynthesisError("there are no seeds to make variants of.")
        self.worker, self.n = worker, n
        self._seeds = list({task.id: task for task in seeds}.values())
        self.accepted: list[Task] = []
        self._neighbors = Neighbors()
        self._shapes: set[tuple[tuple[str, ...], ...]] = set()
        """Tools by turn of the seed tasks that were made from nothing."""
        self._ahead: deque[str] = deque()
        self._made: dict[str, Task | None] = {}
        self._requested = self._taken = self._failed = 0
        self._repeated = Counter[str]()
        """Accepted variants that repeat another seed's, by the id of their seed."""
        self._advance()
        self.taken_over = len(self.accepted)
        """Variants that were there already."""

    @property
    def finished(self) -> bool:
        """Tell whether enough variants were accepted, or too many outcomes gave none."""
        return len(self.accepted) >= self.n or self._taken >= LIMIT * self.n

    @property
    def tried(self) -> list[Task]:
        """Return the seeds of which an outcome was taken."""
        return self._seeds[: self._taken]

    def run(self, report: Callable[[Collection], None]) -> None:
        """Request and take what is missing; a writer that fails is waited for, not for ever.

        Args:
            report: called whenever outcomes were taken, and while they are waited for.

        Raises `SynthesisError` where the worker cannot work, or its writer was suspended too often;
        the message says why.
        """
        while not self.finished:
            if not self.worker.drain([self._ahead[0]], LOOK) and self._suspended():
                time.sleep(LOOK)
            self._advance()
            report(self)

    def statistics(self) -> Statistics:
        """Count all outcomes; a variant that repeats another seed's is not accepted."""
        counted = self.worker.queue.statistics()
        if repeated := self._repeated.total():
            counted.accepted -= repeated
            counted.rejected["gate", "novelty"] += repeated
        return counted

    def yields(self) -> list[SeedYield]:
        """Return the yield of each seed of which an outcome was made."""
        found = self.worker.queue.yields()
        for made in found:
            again = self._repeated[made.seed.id]
            made.accepted -= again
            made.rejections += [("gate", "novelty", "repeats another seed's variant", "")] * again
        return found

    def state(self) -> dict[str, Json]:
        """Return the worker's state with these counts, for the live line."""
        return {**self.worker.state(), **self.statistics().figures()}

    def _suspended(self) -> bool:
        """Tell whether the writer pauses.

        Raises `SynthesisError` where it makes no sense to wait.
        """
        now = self.worker.suspension
        if now is not None and (now.fatal or not now.pauses):
            raise SynthesisError(now.reason)
        if now is not None and now.pauses > SUSPENSIONS:
            raise SynthesisError(
                f"the writer failed again after {SUSPENSIONS} pauses: {now.reason}"
            )
        return now is not None

    def _advance(self) -> None:
        """Request what is surely needed, take what is finished, until neither can be done."""
        moved = True
        while moved and not self.finished:
            self._request()
            waiting = [request for request in self._ahead if request not in self._made]
            late = set(self.worker.unfinished(waiting))
            done = [request for request in waiting if request not in late]
            found = {request: task for request, _, task, _ in self.worker.results(done)}
            self._made |= {request: found.get(request) for request in done}
            self._failed += len(done) - len(found)
            while self._ahead and self._ahead[0] in self._made and not self.finished:
                self._take(self._made.pop(self._ahead.popleft()))
            moved = bool(done)

    def _request(self) -> None:
        wanted = min(self.n + self._failed + self._repeated.total(), LIMIT * self.n)
        while self._requested < wanted and len(self._ahead) < AHEAD:
            first, place = divmod(self._requested, len(self._seeds))
            request = f"{self._requested:07d}"
            self.worker.submit(request, self._seeds[place], first, 1, -self._requested, 0)
            self._ahead.append(request)
            self._requested += 1

    def _take(self, variant: Task | None) -> None:
        seed = self._seeds[self._taken % len(self._seeds)]
        self._taken += 1
        if variant is None:
            return
        mine = prints(variant)
        shape = tuple(tuple(call.name for call in turn.ground_truth) for turn in variant.turns)
        again = variant.is_original and shape in self._shapes
        # seeds can meet in the same calls or words
        if again or self._neighbors.repeated(mine) is not None:
            self._repeated[seed.id] += 1
            return
        self._shapes.add(shape)
        self._neighbors.add(mine)
        self.accepted.append(variant)

"""The dynamic replay buffer: which tasks are drawn, which variants come and go.

Owns the rules by which the pool changes, and its one SQLite file; the tables are owned by
`pool.py`, `draws.py`, `visits.py` and `journal.py`. Original tasks stay for ever. A variant is
`pending` until an epoch's start injects it, then `active`, then `retired` (mastered, too_hard,
burn_in, stale, pruned). It never judges, never samples and never talks to the synthesis worker.
Each public method is one transaction: a kill at any moment loses nothing accepted and doubles
nothing (invariant 8).

    buffer = ReplayBuffer(path, settings, seed=0)
    buffer.pool.add_originals(tasks)
    report = buffer.start_epoch(0)
    for task, epoch in buffer.lease(16): ...
    buffer.record(judgement, epoch)
    buffer.complete([task.id], epoch)

Facts: arXiv 2606.19047. A task is drawn once an epoch, in an order that depends on the seed, the
epoch and the pool alone, so a resumed run draws what the run without a kill would have drawn. The
next epoch may start while tasks of this one are out (`draws.py`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from rods.config import ReplaySettings
from rods.curriculum.boundary import EDGE, Judgement
from rods.curriculum.draws import Draws, Lease
from rods.curriculum.journal import LAYOUT, SCHEMA, EpochReport, Journal
from rods.curriculum.pool import Pool
from rods.curriculum.visits import Visits
from rods.errors import StoreError
from rods.infra.database import Database, Kept


class ReplayBuffer:
    """The pool of tasks in one file."""

    def __init__(self, path: Path, settings: ReplaySettings, seed: int = 0) -> None:
        """Open or make the file; leases of a process that died are due again.

        Raises:
            StoreError: the file is damaged, of another layout, or belongs to another seed.
        """
        self._settings = settings
        self._seed = seed
        self._db = Database(path, SCHEMA, LAYOUT, "replay buffer")
        self.journal, self.visits = Journal(self._db), Visits(self._db)
        self.pool, self.draws = Pool(self._db, self.journal), Draws(self._db)
        self._first_steps = Kept(self._db, dict[int, int])
        try:
            self._adopt()
        except StoreError:
            self._db.close()
            raise

    def _adopt(self) -> None:
        with self._db.atomic():
            self._db.run("INSERT OR IGNORE INTO meta VALUES ('seed', ?)", (str(self._seed),))
            found = self._db.number("SELECT value FROM meta WHERE key = 'seed'")
            if found != self._seed:
                raise StoreError(
                    f"{self._db.path}: this replay buffer was made with seed {found}, not "
                    f"{self._seed}. Resume with that seed, or start a new run."
                )
            self.draws.adopt()

    def snapshot(self, path: Path) -> None:
        """Write a consistent copy, all or nothing."""
        self._db.snapshot(path)

    def dump(self) -> bytes:
        """The same copy as one value."""
        with TemporaryDirectory(dir=self._db.path.parent) as folder:
            copy = Path(folder) / "buffer.sqlite"
            self._db.snapshot(copy)
            return copy.read_bytes()

    def restore(self, data: bytes) -> None:
        """Stand where a copy stood; leases that were out are due again.

        Raises:
            StoreError: it is damaged, of another layout, or of another seed. If it is damaged,
                nothing has changed.
        """
        with TemporaryDirectory(dir=self._db.path.parent) as folder:
            copy = Path(folder) / "buffer.sqlite"
            copy.write_bytes(data)
            self._db.restore(copy)
        self._adopt()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def atomic(self) -> AbstractContextManager[None]:
        """Several calls as one transaction."""
        return self._db.atomic()

    def held(self) -> AbstractContextManager[object]:
        """No other thread changes anything meanwhile."""
        return self._db.lock

    # -- epochs -----------------------------------------------------------------------------

    def start_epoch(
        self,
        epoch: int,
        *,
        originals: Collection[str] | None = None,
        categories: Collection[str] = (),
        expand: bool = True,
        first_step: int = 0,
    ) -> EpochReport:
        """Retire stale variants, inject new ones, prune above the cap, and lay out the draws.

        Args:
            epoch: number over all stages; each is started once (again gives the same report).
            originals: ids of the stage's original tasks; None: all.
            categories: categories of variants that take part; empty: all.
            expand: False: no variant enters and none is drawn.
            first_step: training step at which the epoch begins.

        Raises:
            StoreError: the epoch before has tasks that were not drawn, or the number does not
                follow it.
        """
        with self._db.atomic():
            last = self.epoch
            if epoch == last:
                return self.journal.report(epoch)
            if epoch <= last or self.draws.due:
                raise StoreError(
                    f"{self._db.path}: epoch {epoch} cannot start: epoch {last} is the last one "
                    f"and has {self.draws.due} draws left. Lease them first."
                )
            base = self.pool.originals(originals)
            injected = deferred = 0
            self._retire_stale(epoch)
            if expand:
                injected, deferred = self._inject(epoch, len(base), categories)
            self._prune(epoch)
            draws = self._draw_order(epoch, base, categories, expand)
            active, pending = self.pool.count("active"), self.pool.count("pending")
            mark = self._db.number("SELECT MAX(seq) FROM events")
            self._db.run(
                "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (epoch, first_step, len(base), active, pending, injected, deferred, draws, mark),
            )
            return self.journal.report(epoch)

    def _retire_stale(self, epoch: int) -> None:
        if self._settings.retire:
            for task_id in self.pool.stale(epoch, self._settings.stale_epochs):
                self.pool.retire(task_id, epoch, "stale")

    def injectable(self, originals: int) -> int:
        """Variants that may enter at an epoch's start, for so many original tasks in the stage."""
        share = _floor(self._settings.inject * (originals + self.pool.count("active")))
        return min(share, self._settings.cap)

    def _inject(self, epoch: int, originals: int, categories: Collection[str]) -> tuple[int, int]:
        ready = self.pool.ready(epoch, categories)
        chosen = ready[: self.injectable(originals)]
        for task_id in chosen:
            self.pool.enter(task_id, epoch)
        return len(chosen), len(ready) - len(chosen)

    def _prune(self, epoch: int) -> None:
        for task_id in self.pool.lowest(self.pool.count("active") - self._settings.cap):
            self.pool.retire(task_id, epoch, "pruned")

    def _draw_order(
        self, epoch: int, originals: Sequence[str], categories: Collection[str], expand: bool
    ) -> int:
        rng = random.Random(f"{self._seed}/draws/{epoch}")
        ids = list(originals)
        if expand:
            ids += self.pool.variants("active", categories)
            again = self.pool.variants("retired", categories)
            ids += rng.sample(again, min(len(again), _floor(self._settings.retest * len(ids))))
        rng.shuffle(ids)
        self.draws.lay_out(epoch, ids)
        return len(ids)

    # -- draws ------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of the epoch that was started last; -1 before the first."""
        return self._db.number("SELECT COALESCE(MAX(epoch), -1) FROM epochs")

    @property
    def remaining(self) -> int:
        """Draws of this epoch that are not completed."""
        return self.draws.open(self.epoch)

    @property
    def completed(self) -> int:
        """Draws of this epoch that are completed."""
        return self.draws.done(self.epoch)

    @property
    def laid_out(self) -> int:
        """Draws of all epochs so far."""
        return self._db.number("SELECT COALESCE(SUM(draws), 0) FROM epochs")

    def first_step(self, epoch: int) -> int:
        """Training step at which an epoch began."""
        known = self._first_steps.get()
        if epoch not in known:
            rows = self._db.rows("SELECT first_step FROM epochs WHERE epoch = ?", (epoch,))
            if not rows:
                return 0
            known[epoch] = int(rows[0][0] or 0)
        return known[epoch]

    def drawn(self, epoch: int) -> list[str]:
        """Task ids of an epoch in the order of the draws."""
        return self.draws.order(epoch)

    def lease(self, n: int) -> list[Lease]:
        """The next tasks of one epoch, at most `n`; they are due again after a crash."""
        with self._db.atomic():
            drawn = self.draws.lease(n)
        return [Lease(self.pool.task(task_id), epoch) for task_id, epoch in drawn]

    def complete(self, task_ids: Sequence[str], epoch: int | None = None) -> None:
        """Close leases.

        Args:
            task_ids: tasks that are out.
            epoch: the one that drew them; None: the current one.

        Raises:
            TaskError: a task is not leased in this epoch.
        """
        with self._db.atomic():
            self.draws.close(task_ids, self.epoch if epoch is None else epoch)

    def release(self, task_ids: Sequence[str], epoch: int) -> None:
        """Leases are due again, because whoever held them died.

        Raises:
            TaskError: a task is not leased in this epoch.
        """
        with self._db.atomic():
            self.draws.release(task_ids, epoch)

    # -- judgements -------------------------------------------------------------------------

    def record(self, judgement: Judgement, epoch: int) -> str | None:
        """Keep a judgement and retire the variant if it calls for that.

        Returns:
            The reason of retirement, `revived` for a retired task that came back, else None. A
            second judgement of a task in one epoch changes nothing.
        """
        j = judgement
        with self._db.atomic():
            status = self.pool.status(j.task_id)
            if not self.visits.add(j, epoch, original=status is None) or status is None:
                return None
            return self._move(j, epoch, status, first=self.visits.count(j.task_id) == 1)

    def _move(self, j: Judgement, epoch: int, status: str, first: bool) -> str | None:
        if status == "active":
            reason = self._verdict(j.rbar, first)
            if reason:
                self.pool.retire(j.task_id, epoch, reason)
            return reason
        if j.region != "boundary" or self.pool.count("active") >= self._settings.cap:
            return None
        self.pool.enter(j.task_id, epoch, "revived")
        return "revived"

    def _verdict(self, rbar: float, first: bool) -> str | None:
        s = self._settings
        if not s.retire:
            return None
        low, high = s.retire
        if first and rbar < s.burn_in - EDGE:
            return "burn_in"
        if rbar < low - EDGE:
            return "too_hard"
        return "mastered" if rbar > high + EDGE else None


def _floor(value: float) -> int:
    return math.floor(value + EDGE)

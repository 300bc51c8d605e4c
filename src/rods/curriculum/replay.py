"""The dynamic replay buffer: which tasks are drawn, which variants come and go.

Owns the pool in one SQLite file. Original tasks stay for ever. A variant is `pending` until an
epoch's start injects it, then `active`, then `retired` (mastered, too_hard, burn_in, stale,
pruned). It never judges, never samples and never talks to the synthesis worker. Each public method
is one transaction: a kill at any moment loses nothing accepted and doubles nothing (invariant 8).

    buffer = ReplayBuffer(path, settings, seed=0)
    buffer.add_originals(tasks)
    report = buffer.start_epoch(0)
    for task, epoch in buffer.lease(16): ...
    buffer.record(judgement, epoch)
    buffer.complete([task.id], epoch)

Facts: rods.md, section 5. A task is drawn once an epoch, in an order that depends on the seed, the
epoch and the pool alone, so a resumed run draws what the run without a kill would have drawn. The
next epoch may start while tasks of this one are out (`draws.py`).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rods.config import ReplaySettings
from rods.curriculum.boundary import EDGE, Judgement
from rods.curriculum.draws import Draws, Lease
from rods.curriculum.journal import LAYOUT, SCHEMA, Counts, EpochReport, Journal
from rods.curriculum.visits import Visits
from rods.errors import StoreError, TaskError
from rods.infra.database import Database
from rods.task import Task


class ReplayBuffer:
    """The pool of tasks in one file."""

    def __init__(self, path: Path, settings: ReplaySettings, seed: int = 0) -> None:
        """Open or make the file; leases of a process that died are due again.

        Raises:
            StoreError: the file is damaged, of another layout, or belongs to another seed.
        """
        self._settings = settings
        self._seed = seed
        self._tasks: dict[str, Task] = {}
        self._db = Database(path, SCHEMA, LAYOUT, "replay buffer")
        self.journal, self.visits = Journal(self._db), Visits(self._db)
        self.draws = Draws(self._db)
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

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def counts(self) -> Counts:
        """The pool in numbers."""
        return self.journal.counts()

    @property
    def waiting(self) -> int:
        """Variants that were accepted and not injected yet."""
        return self._count("pending")

    def atomic(self) -> AbstractContextManager[None]:
        """Several calls as one transaction."""
        return self._db.atomic()

    # -- what enters ------------------------------------------------------------------------

    def add_originals(self, tasks: Sequence[Task], fixed: bool = False) -> None:
        """Make the human tasks known. On a buffer that has some already they must be the same.

        Args:
            tasks: they stay for ever.
            fixed: the pool never changes, so that variants made before may stand among them.

        Raises:
            TaskError: a task is a variant or stands twice.
            StoreError: the buffer was made with other original tasks.
        """
        ids = [t.id for t in tasks]
        if len(set(ids)) < len(ids):
            double = next(i for i in ids if ids.count(i) > 1)
            raise TaskError(f"task {double} stands twice among the original tasks; remove one.")
        for task in tasks:
            if not (fixed or task.is_original):
                raise TaskError(f"task {task.id} is a variant; only original tasks stay for ever.")
        with self._db.atomic():
            known = {str(r[0]) for r in self._db.rows("SELECT id FROM tasks WHERE generated = 0")}
            if known and known != set(ids):
                raise StoreError(
                    f"{self._db.path}: the original tasks differ from those of this buffer: "
                    f"{len(known & set(ids))} match, {len(known - set(ids))} are missing, "
                    f"{len(set(ids) - known)} are new. Resume with the same tasks and split."
                )
            self._db.run_many(
                "INSERT OR IGNORE INTO tasks(id, category, generated, status) "
                "VALUES (?, ?, 0, 'active')",
                [(t.id, t.category) for t in tasks],
            )
        self._tasks.update((t.id, t) for t in tasks)

    def offer(self, task: Task, epoch_made: int, request: str, distance: float = 0.0) -> bool:
        """Accept a variant; it waits for the start of an epoch after `epoch_made`.

        Returns:
            False if the same task is known already, in whatever state: nothing doubles.

        Raises:
            TaskError: the task names no ancestors.
        """
        if task.is_original:
            raise TaskError(
                f"request {request}: task {task.id} names no ancestors; a variant must."
            )
        body = json.dumps(task.to_json(), ensure_ascii=False)
        row = (task.id, body, task.category, epoch_made, request, distance)
        with self._db.atomic():
            added = self._db.run(
                "INSERT OR IGNORE INTO tasks(id, body, category, generated, status, made, "
                "request, distance) VALUES (?, ?, ?, 1, 'pending', ?, ?, ?)",
                row,
            )
        return added > 0

    # -- epochs -----------------------------------------------------------------------------

    def start_epoch(
        self,
        epoch: int,
        *,
        originals: Collection[str] | None = None,
        categories: Collection[str] = (),
        expand: bool = True,
        first_step: int = 0,
        drained: bool = True,
    ) -> EpochReport:
        """Retire stale variants, inject new ones, prune above the cap, and lay out the draws.

        Args:
            epoch: number over all stages; each is started once (again gives the same report).
            originals: ids of the stage's original tasks; None: all.
            categories: categories of variants that take part; empty: all.
            expand: False: no variant enters and none is drawn.
            first_step: training step at which the epoch begins.
            drained: False: tasks of epochs before may be out, as long as none of theirs is due.

        Raises:
            StoreError: the epoch before is not finished, or the number does not follow it.
        """
        with self._db.atomic():
            last = self.epoch
            if epoch == last:
                return self.journal.report(epoch)
            left = self.remaining if drained else self.draws.due
            if epoch <= last or left:
                raise StoreError(
                    f"{self._db.path}: epoch {epoch} cannot start: epoch {last} is the last one "
                    f"and has {left} open draws. Complete them first."
                )
            base = self._originals(originals)
            injected = deferred = 0
            self._retire_stale(epoch)
            if expand:
                injected, deferred = self._inject(epoch, len(base), categories)
            self._prune(epoch)
            draws = self._draw_order(epoch, base, categories, expand)
            active = self._count("active")
            pending = self._count("pending")
            mark = self._db.number("SELECT MAX(seq) FROM events")
            self._db.run(
                "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (epoch, first_step, len(base), active, pending, injected, deferred, draws, mark),
            )
            return self.journal.report(epoch)

    def _originals(self, wanted: Collection[str] | None) -> list[str]:
        known = [str(r[0]) for r in self._db.rows("SELECT id FROM tasks WHERE generated = 0")]
        chosen = known if wanted is None else [i for i in known if i in set(wanted)]
        if wanted is not None and len(chosen) < len(set(wanted)):
            missing = sorted(set(wanted) - set(known))
            raise StoreError(f"{self._db.path}: unknown original tasks: {', '.join(missing)}.")
        return sorted(chosen)

    def _count(self, status: str) -> int:
        return self._db.number(
            "SELECT COUNT(*) FROM tasks WHERE generated = 1 AND status = ?", (status,)
        )

    def _retire_stale(self, epoch: int) -> None:
        if not self._settings.retire:
            return
        rows = self._db.rows(
            "SELECT id FROM tasks WHERE generated = 1 AND status = 'active' "
            "AND ? - 1 - MAX(COALESCE(judged, -1), entered - 1) >= ?",
            (epoch, self._settings.stale_epochs),
        )
        for row in rows:
            self._retire(str(row[0]), epoch, "stale")

    def injectable(self, originals: int) -> int:
        """Variants that may enter at an epoch's start, for so many original tasks in the stage."""
        share = _floor(self._settings.inject * (originals + self._count("active")))
        return min(share, self._settings.cap)

    def _inject(self, epoch: int, originals: int, categories: Collection[str]) -> tuple[int, int]:
        rows = self._db.rows(
            "SELECT id, category FROM tasks WHERE status = 'pending' AND made < ? ORDER BY seq",
            (epoch,),
        )
        ready = [str(r[0]) for r in rows if not categories or r[1] in categories]
        chosen = ready[: self.injectable(originals)]
        for task_id in chosen:
            self._db.run(
                "UPDATE tasks SET status = 'active', entered = ? WHERE id = ?", (epoch, task_id)
            )
            self.journal.event(epoch, task_id, "injected")
        return len(chosen), len(ready) - len(chosen)

    def _prune(self, epoch: int) -> None:
        """Lowest phi first; variants that were never judged go last, the oldest of them first."""
        rows = self._db.rows(
            "SELECT id FROM tasks WHERE generated = 1 AND status = 'active' "
            "ORDER BY phi IS NULL, phi, seq LIMIT MAX(0, ?)",
            (self._count("active") - self._settings.cap,),
        )
        for row in rows:
            self._retire(str(row[0]), epoch, "pruned")

    def _retire(self, task_id: str, epoch: int, reason: str) -> None:
        self._db.run(
            "UPDATE tasks SET status = 'retired', reason = ? WHERE id = ?", (reason, task_id)
        )
        self.journal.event(epoch, task_id, "retired", reason)

    def _draw_order(
        self, epoch: int, originals: Sequence[str], categories: Collection[str], expand: bool
    ) -> int:
        rng = random.Random(f"{self._seed}/draws/{epoch}")
        ids = list(originals)
        if expand:
            ids += self._generated("active", categories)
            again = self._generated("retired", categories)
            ids += rng.sample(again, min(len(again), _floor(self._settings.retest * len(ids))))
        rng.shuffle(ids)
        self.draws.lay_out(epoch, ids)
        return len(ids)

    def _generated(self, status: str, categories: Collection[str]) -> list[str]:
        rows = self._db.rows(
            "SELECT id, category FROM tasks WHERE generated = 1 AND status = ? ORDER BY id",
            (status,),
        )
        return [str(r[0]) for r in rows if not categories or r[1] in categories]

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

    def first_step(self, epoch: int) -> int:
        """Training step at which an epoch began."""
        return self._db.number("SELECT first_step FROM epochs WHERE epoch = ?", (epoch,))

    def drawn(self, epoch: int) -> list[str]:
        """Task ids of an epoch in the order of the draws."""
        return self.draws.order(epoch)

    def lease(self, n: int) -> list[Lease]:
        """The next tasks of one epoch, at most `n`; they are due again after a crash."""
        with self._db.atomic():
            drawn = self.draws.lease(n)
        return [Lease(self.task(task_id), epoch) for task_id, epoch in drawn]

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

    def task(self, task_id: str) -> Task:
        """A task by its id.

        Raises:
            StoreError: it is not in the buffer, or `add_originals` was not called.
        """
        if task_id not in self._tasks:
            rows = self._db.rows("SELECT body FROM tasks WHERE id = ?", (task_id,))
            if not rows or rows[0][0] is None:
                raise StoreError(f"{self._db.path}: task {task_id} is not in this replay buffer.")
            where = f"{self._db.path}, task {task_id}"
            self._tasks[task_id] = Task.from_json(json.loads(str(rows[0][0])), where)
        return self._tasks[task_id]

    # -- judgements -------------------------------------------------------------------------

    def record(self, judgement: Judgement, epoch: int) -> str | None:
        """Keep a judgement and retire the variant if it calls for that.

        Returns:
            The reason of retirement, `revived` for a retired task that came back, else None. A
            second judgement of a task in one epoch changes nothing.
        """
        j = judgement
        with self._db.atomic():
            new = self.visits.add(j, epoch)
            rows = self._db.rows(
                "SELECT generated, status, visits FROM tasks WHERE id = ?", (j.task_id,)
            )
            if not rows:
                raise TaskError(f"task {j.task_id} was judged but is not in the replay buffer.")
            if not new:
                return None
            self._db.run(
                "UPDATE tasks SET visits = visits + 1, judged = ?, phi = ? WHERE id = ?",
                (epoch, j.phi, j.task_id),
            )
            generated, status, visits = rows[0]
            if not generated:
                return None
            return self._move(j, epoch, str(status), first=not visits)

    def _move(self, j: Judgement, epoch: int, status: str, first: bool) -> str | None:
        if status == "active":
            reason = self._verdict(j.rbar, first)
            if reason:
                self._retire(j.task_id, epoch, reason)
            return reason
        if j.region != "boundary" or self._count("active") >= self._settings.cap:
            return None
        self._db.run(
            "UPDATE tasks SET status = 'active', reason = '', entered = ? WHERE id = ?",
            (epoch, j.task_id),
        )
        self.journal.event(epoch, j.task_id, "revived")
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

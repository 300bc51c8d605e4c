"""The tasks of the pool: which there are, and where each of them stands.

Owns the table `tasks` in the replay buffer's file. An original task is active for ever; a variant
is `pending`, `active` or `retired` with a reason. It never decides which; `replay.py` does.

    pool.add_originals(tasks)
    pool.offer(variant, epoch_made=3, request="e003-c0-000-base_7")
    pool.retire(variant.id, epoch=5, reason="mastered")
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from rods.curriculum.journal import Journal
from rods.errors import StoreError, TaskError
from rods.infra.database import Cell, Database, Kept, Row
from rods.task import Task


class Counts(NamedTuple):
    """The pool in numbers."""

    originals: int
    pending: int
    active: int
    retired: dict[str, int]
    """By reason."""


class Pool:
    """The table `tasks`, and the tasks that were read from it."""

    def __init__(self, db: Database, journal: Journal) -> None:
        """`journal`: is told of what comes and goes."""
        self._db, self._journal = db, journal
        self._tasks: dict[str, Task] = {}
        self._originals: set[str] = set()
        self._variants = Kept(db, self._read_variants)
        """Status of each variant, read once and kept up: a step asks for each of its tasks."""
        self._by_status = Kept(db, self._read_by_status)
        """Tasks by `generated`, status and reason, counted once and kept up."""

    def _read_variants(self) -> dict[str, str]:
        rows = self._db.rows("SELECT id, status FROM tasks WHERE generated = 1")
        return {str(task_id): str(status) for task_id, status in rows}

    def _read_by_status(self) -> Counter[tuple[bool, str, str]]:
        rows = self._db.rows(
            "SELECT generated, status, reason, COUNT(*) FROM tasks GROUP BY 1, 2, 3"
        )
        return Counter({(bool(g), str(s), str(why)): int(n or 0) for g, s, why, n in rows})

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
        by_status = self._by_status.get()
        with self._db.atomic():
            known = set(_ids(self._db.rows("SELECT id FROM tasks WHERE generated = 0")))
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
            by_status[False, "active", ""] += 0 if known else len(tasks)
        self._originals = set(ids)
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
        by_status, variants = self._by_status.get(), self._variants.get()
        with self._db.atomic():
            added = self._db.run(
                "INSERT OR IGNORE INTO tasks(id, body, category, generated, status, made, "
                "request, distance) VALUES (?, ?, ?, 1, 'pending', ?, ?, ?)",
                row,
            )
        by_status[True, "pending", ""] += added
        if added:
            variants[task.id] = "pending"
        return added > 0

    def task(self, task_id: str) -> Task:
        """A task by its id.

        Raises:
            TaskError: it is not in the buffer, or `add_originals` was not called.
        """
        if task_id not in self._tasks:
            rows = self._db.rows("SELECT body FROM tasks WHERE id = ?", (task_id,))
            if not rows or rows[0][0] is None:
                raise TaskError(f"{self._db.path}: task {task_id} is not in the replay buffer.")
            where = f"{self._db.path}, task {task_id}"
            self._tasks[task_id] = Task.from_json(json.loads(str(rows[0][0])), where)
        return self._tasks[task_id]

    def counts(self) -> Counts:
        """The pool in numbers."""
        by_status = list(
            self._by_status.get().items()
        )  # a list, as another thread may start an epoch
        originals = sum(n for (generated, _, _), n in by_status if not generated)
        retired = {why: n for (_, status, why), n in by_status if status == "retired" and n}
        return Counts(originals, self.count("pending"), self.count("active"), retired)

    def originals(self, wanted: Collection[str] | None) -> list[str]:
        """Ids of these original tasks, or of all; raises `StoreError` where one is unknown."""
        known = set(_ids(self._db.rows("SELECT id FROM tasks WHERE generated = 0")))
        chosen = known if wanted is None else known.intersection(wanted)
        if wanted is not None and (missing := sorted(set(wanted) - known)):
            raise StoreError(f"{self._db.path}: unknown original tasks: {', '.join(missing)}.")
        return sorted(chosen)

    def count(self, status: str) -> int:
        """Variants that stand there."""
        by_status = list(self._by_status.get().items())
        return sum(n for (generated, where, _), n in by_status if generated and where == status)

    def variants(self, status: str, categories: Collection[str] = ()) -> list[str]:
        """Ids of the variants that stand there, of these categories or of all."""
        rows = self._db.rows(
            "SELECT id, category FROM tasks WHERE generated = 1 AND status = ? ORDER BY id",
            (status,),
        )
        return _ids(rows, categories)

    def stale(self, epoch: int, epochs: int) -> list[str]:
        """Active variants that were not judged for so many epochs before this one."""
        return _ids(
            self._db.rows(
                "SELECT id FROM tasks WHERE generated = 1 AND status = 'active' AND ? - 1 - MAX("
                "COALESCE((SELECT MAX(epoch) FROM visits WHERE task_id = id), -1), entered - 1) "
                ">= ?",
                (epoch, epochs),
            )
        )

    def ready(self, epoch: int, categories: Collection[str]) -> list[str]:
        """Pending variants that were made before an epoch, the oldest first."""
        rows = self._db.rows(
            "SELECT id, category FROM tasks WHERE status = 'pending' AND made < ? ORDER BY seq",
            (epoch,),
        )
        return _ids(rows, categories)

    def lowest(self, most: int) -> list[str]:
        """Active variants of the lowest phi; never judged ones go last, the oldest first."""
        return _ids(
            self._db.rows(
                "SELECT id, (SELECT rbar * (1 - rbar) FROM visits WHERE task_id = id "
                "ORDER BY epoch DESC LIMIT 1) AS quarter_phi FROM tasks "
                "WHERE generated = 1 AND status = 'active' "
                "ORDER BY quarter_phi IS NULL, quarter_phi, seq LIMIT MAX(0, ?)",
                (most,),
            )
        )

    def enter(self, task_id: str, epoch: int, kind: str = "injected") -> None:
        """A variant is active from this epoch on: `injected`, or `revived`."""
        self._move(task_id, "active")
        self._db.run("UPDATE tasks SET entered = ? WHERE id = ?", (epoch, task_id))
        self._journal.event(epoch, task_id, kind)

    def retire(self, task_id: str, epoch: int, reason: str) -> None:
        """A variant is drawn no more, but to test it again."""
        self._move(task_id, "retired", reason)
        self._journal.event(epoch, task_id, "retired", reason)

    def _move(self, task_id: str, status: str, reason: str = "") -> None:
        """A variant stands elsewhere."""
        by_status, variants = self._by_status.get(), self._variants.get()
        ((before, why),) = self._db.rows(
            "SELECT status, reason FROM tasks WHERE id = ?", (task_id,)
        )
        sql = "UPDATE tasks SET status = ?, reason = ? WHERE id = ?"
        self._db.run(sql, (status, reason, task_id))
        by_status[True, str(before), str(why)] -= 1
        by_status[True, status, reason] += 1
        variants[task_id] = status

    def status(self, task_id: str) -> str | None:
        """Where a variant stands; None: it is an original task.

        Raises:
            TaskError: there is no such task.
        """
        status = self._variants.get().get(task_id)
        if status is None and task_id not in self._originals:
            raise TaskError(f"task {task_id} was judged but is not in the replay buffer.")
        return status


def _ids(rows: Sequence[Row], categories: Collection[Cell] = ()) -> list[str]:
    """The first cells; where categories are given, of rows whose second cell is one of them."""
    return [str(r[0]) for r in rows if not categories or r[1] in categories]

"""Draws: which tasks an epoch plays, which of them are out, which are done.

Owns the leases, in the buffer's own file and transactions. A lease belongs to the epoch that drew
it, so the next epoch may start while leases are out. It never decides what an epoch plays;
`replay.py` does.

    draws.lay_out(3, task_ids)
    for task_id, epoch in draws.lease(16): ...
    draws.close(task_id, epoch)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rods.errors import TaskError
from rods.infra.database import Database
from rods.task import Task


class Lease(NamedTuple):
    """A task that was drawn and is not observed yet."""

    task: Task
    epoch: int
    """The epoch that drew it, which may not be the current one any more."""


class Draws:
    """The draws of all epochs."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._oldest = 0
        """No epoch before it has an open draw."""

    def adopt(self) -> None:
        """Leases of a process that died are due again."""
        self._db.run("UPDATE draws SET status = 'due' WHERE status = 'leased'")
        self._look()

    def lay_out(self, epoch: int, task_ids: Iterable[str]) -> None:
        """All tasks of an epoch, in the order in which they will be drawn."""
        self._db.run_many(
            "INSERT INTO draws VALUES (?, ?, ?, 'due')",
            [(epoch, position, task_id) for position, task_id in enumerate(task_ids)],
        )
        self._look()

    def _look(self) -> None:
        sql = "SELECT MIN(epoch) FROM draws WHERE status IN ('due', 'leased')"
        self._oldest = self._db.number(sql)

    def order(self, epoch: int) -> list[str]:
        """Task ids of an epoch in the order of the draws."""
        rows = self._db.rows(
            "SELECT task_id FROM draws WHERE epoch = ? ORDER BY position", (epoch,)
        )
        return [str(r[0]) for r in rows]

    @property
    def due(self) -> int:
        """Draws of any epoch that are not out and not done."""
        return self._count("epoch >= ? AND status = 'due'", self._oldest)

    def open(self, epoch: int) -> int:
        """Draws of an epoch that are not done."""
        return self._count("epoch = ? AND status IN ('due', 'leased')", epoch)

    def done(self, epoch: int) -> int:
        """Draws of an epoch that are done."""
        return self._count("epoch = ? AND status = 'done'", epoch)

    def _count(self, condition: str, epoch: int) -> int:
        return self._db.number(f"SELECT COUNT(*) FROM draws WHERE {condition}", (epoch,))

    def lease(self, n: int) -> list[tuple[str, int]]:
        """The next draws, at most `n`, of the oldest epoch that has some due: tasks and epoch."""
        rows = self._db.rows(
            "SELECT task_id, epoch FROM draws WHERE epoch >= ? AND status = 'due' "
            "ORDER BY epoch, position LIMIT ?",
            (self._oldest, n),
        )
        drawn = [(str(task_id), int(epoch or 0)) for task_id, epoch in rows if epoch == rows[0][1]]
        self._db.run_many(
            "UPDATE draws SET status = 'leased' WHERE task_id = ? AND epoch = ?", drawn
        )
        return drawn

    def leased_in(self, task_id: str) -> int | None:
        """The oldest epoch whose lease of a task is out; None: there is none."""
        rows = self._db.rows(
            "SELECT MIN(epoch) FROM draws WHERE epoch >= ? AND task_id = ? AND status = 'leased'",
            (self._oldest, task_id),
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def close(self, task_ids: Sequence[str], epoch: int) -> None:
        """Leases of an epoch are done; raises `TaskError` where a task is not leased in it."""
        for task_id in task_ids:
            changed = self._db.run(
                "UPDATE draws SET status = 'done' "
                "WHERE epoch = ? AND task_id = ? AND status = 'leased'",
                (epoch, task_id),
            )
            if not changed:
                raise TaskError(
                    f"task {task_id} is not leased in epoch {epoch}: it was not drawn, or it was "
                    "completed already."
                )

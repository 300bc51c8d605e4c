"""Draws: which tasks an epoch plays, which of them are out, which are done.

Owns the leases, in the buffer's own file and transactions. A lease belongs to the epoch that drew
it, so the next epoch may start while leases are out. It never decides what an epoch plays;
`replay.py` does.

    draws.lay_out(3, task_ids)
    for task_id, epoch in draws.lease(16): ...
    draws.close([task_id], epoch)                   # or release: it is due again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rods.curriculum.journal import by_name
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
        self._undone = db.undone
        self._open = range(0)
        """Epochs that may have an open draw."""
        self._leased = (-1, -1)
        """Epoch and position of the draw that was leased last: none is due before it."""
        self._tallies: dict[int, Counter[str]] = {}
        """Draws of an epoch by status, counted once and kept up: a step asks a hundred times."""

    def adopt(self) -> None:
        """Leases of a process that died are due again."""
        self._db.run("UPDATE draws SET status = 'due' WHERE status = 'leased'")
        self._look()

    def lay_out(self, epoch: int, task_ids: Iterable[str]) -> None:
        """All tasks of an epoch, in the order in which they will be drawn."""
        first = next((e for e in self._epochs if self.open(e)), epoch)
        rows = [(epoch, position, task_id) for position, task_id in enumerate(task_ids)]
        self._db.run_many("INSERT INTO draws VALUES (?, ?, ?, 'due')", rows)
        self._open = range(first, epoch + 1)
        self._tallies[epoch] = Counter(due=len(rows))

    def _look(self) -> None:
        sql = "SELECT MIN(epoch), MAX(epoch) FROM draws WHERE status IN ('due', 'leased')"
        ((first, last),) = self._db.rows(sql)
        self._open = range(0) if first is None else range(int(first), int(last or 0) + 1)
        self._leased = (self._open.start, -1)
        self._tallies.clear()
        self._undone = self._db.undone

    def _counts(self, epoch: int) -> Counter[str]:
        """To be asked for before a draw moves, then kept up."""
        if self._undone != self._db.undone:
            self._look()
        if epoch not in self._tallies:
            sql = "SELECT status, COUNT(*) FROM draws WHERE epoch = ? GROUP BY status"
            self._tallies[epoch] = Counter(by_name(self._db.rows(sql, (epoch,))))
        return self._tallies[epoch]

    def order(self, epoch: int) -> list[str]:
        """Task ids of an epoch in the order of the draws."""
        rows = self._db.rows(
            "SELECT task_id FROM draws WHERE epoch = ? ORDER BY position", (epoch,)
        )
        return [str(r[0]) for r in rows]

    @property
    def _epochs(self) -> range:
        if self._undone != self._db.undone:
            self._look()
        return self._open

    @property
    def due(self) -> int:
        """Draws of any epoch that are not out and not done."""
        with self._db.lock:
            return sum(self._counts(epoch)["due"] for epoch in self._epochs)

    def open(self, epoch: int) -> int:
        """Draws of an epoch that are not done."""
        with self._db.lock:
            counts = self._counts(epoch)
            return counts["due"] + counts["leased"]

    def done(self, epoch: int) -> int:
        """Draws of an epoch that are done."""
        with self._db.lock:
            return self._counts(epoch)["done"]

    def lease(self, n: int) -> list[tuple[str, int]]:
        """The next draws, at most `n`, of the oldest epoch that has some due: tasks and epoch."""
        if not self._epochs:
            return []
        rows = self._db.rows(
            "SELECT epoch, position, task_id FROM draws WHERE (epoch, position) > (?, ?) "
            "AND status = 'due' ORDER BY epoch, position LIMIT ?",
            (*self._leased, n),
        )
        drawn = [(int(e or 0), int(position or 0), str(i)) for e, position, i in rows]
        drawn = [draw for draw in drawn if draw[0] == drawn[0][0]]
        if drawn:
            (epoch, first, _), (_, last, _) = drawn[0], drawn[-1]
            counts = self._counts(epoch)
            self._db.run(
                "UPDATE draws SET status = 'leased' "
                "WHERE epoch = ? AND position BETWEEN ? AND ? AND status = 'due'",
                (epoch, first, last),
            )
            counts.update(due=-len(drawn), leased=len(drawn))
            self._leased = (epoch, last)
        return [(task_id, epoch) for epoch, _, task_id in drawn]

    def leased_in(self, task_id: str) -> int | None:
        """The oldest epoch whose lease of a task is out; None: there is none."""
        sql = "SELECT 1 FROM draws WHERE epoch = ? AND task_id = ? AND status = 'leased'"
        with self._db.lock:
            return next((e for e in self._epochs if self._db.rows(sql, (e, task_id))), None)

    def out(self) -> list[tuple[str, int]]:
        """All leases that are out, in the order of the draws: tasks and epochs."""
        rows = self._db.rows(
            "SELECT task_id, epoch FROM draws WHERE status = 'leased' ORDER BY epoch, position"
        )
        return [(str(task_id), int(epoch or 0)) for task_id, epoch in rows]

    def close(self, task_ids: Sequence[str], epoch: int) -> None:
        """Leases of an epoch are done; raises `TaskError` where a task is not leased in it."""
        self._move(task_ids, epoch, "done")

    def release(self, task_ids: Sequence[str], epoch: int) -> None:
        """Leases of an epoch are due again, before all that comes later in the order of the draws.

        Raises:
            TaskError: a task is not leased in this epoch.
        """
        self._move(task_ids, epoch, "due")
        self._leased = min(self._leased, (epoch, -1))

    def _move(self, task_ids: Sequence[str], epoch: int, status: str) -> None:
        """Leases of an epoch stand elsewhere."""
        counts = self._counts(epoch)
        for task_id in task_ids:
            changed = self._db.run(
                "UPDATE draws SET status = ? WHERE epoch = ? AND task_id = ? AND status = 'leased'",
                (status, epoch, task_id),
            )
            if not changed:
                raise TaskError(
                    f"task {task_id} is not leased in epoch {epoch}: it was not drawn, it was "
                    "completed already, or its lease was released."
                )
            counts.update({"leased": -1, status: 1})

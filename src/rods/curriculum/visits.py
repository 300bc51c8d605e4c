"""Judgements of tasks, one a visit: an epoch in which a task was drawn and judged.

Owns their rows in the replay buffer's file. It never decides what follows from them.

    visits.add(judgement, epoch=3)
    visits.latest(since_step=40)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import cast

from rods.curriculum.boundary import Judgement, Region
from rods.curriculum.journal import by_name
from rods.infra.database import Cell, Database, Kept, Row

SUSPECT = 3
"""Visits without any reward after which an original task is a suspect."""
_COLUMNS = "task_id, step, version, rbar, variance, low, high, n_valid, k, region"
"""Columns of a judgement, in the order of `_row`."""


class Visits:
    """The table `visits`."""

    def __init__(self, db: Database) -> None:
        """`db`: has the tables of `journal.SCHEMA`."""
        self._db = db
        self._counts = Kept(db, self._read_counts)
        self._barren = Kept(db, self._read_barren)
        self._suspects = Kept(db, self._read_suspects)

    def add(self, judgement: Judgement, epoch: int, *, original: bool = False) -> bool:
        """Keep a judgement; False: the task was judged in this epoch already.

        Args:
            judgement: what a group showed.
            epoch: the one that drew the task.
            original: it is an original task.
        """
        counts, barren, suspects = self._counts.get(), self._barren.get(), self._suspects.get()
        sql = f"INSERT OR IGNORE INTO visits({_COLUMNS}, epoch) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
        if not self._db.run(sql, (*_row(judgement), epoch)):
            return False
        task_id, rbar = judgement.task_id, judgement.rbar
        counts[task_id] += 1
        if original and counts[task_id] == 1:
            barren[task_id] = (0, rbar)
        if task_id in barren:
            visits, best = barren[task_id]
            barren[task_id] = visits, best = visits + 1, max(best, rbar)
            if best > 0:
                del barren[task_id]
            if visits >= SUSPECT and best == 0:
                suspects.add(task_id)
            else:
                suspects.discard(task_id)
        return True

    def count(self, task_id: str) -> int:
        """How often a task was judged."""
        return self._counts.get()[task_id]

    def _read_counts(self) -> Counter[str]:
        sql = "SELECT task_id, COUNT(*) FROM visits GROUP BY task_id"
        return Counter(by_name(self._db.rows(sql)))

    def _read_barren(self) -> dict[str, tuple[int, float]]:
        """Visits of each original task that earned nothing yet, and the best mean of its rewards.

        A mean may be below 0, where a reward is; a later 0 is the better one then.
        """
        rows = self._db.rows(
            "SELECT task_id, COUNT(*), MAX(rbar) FROM visits JOIN tasks ON id = task_id "
            "WHERE generated = 0 GROUP BY task_id HAVING MAX(rbar) <= 0"
        )
        return {str(i): (int(n or 0), float(best or 0)) for i, n, best in rows}

    def _read_suspects(self) -> set[str]:
        barren = self._barren.get().items()
        return {i for i, (visits, best) in barren if visits >= SUSPECT and best == 0}

    def latest(self, since_step: int, categories: Collection[str] = ()) -> list[Judgement]:
        """The latest judgement of each active task, where it was made at `since_step` or later."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS}, category FROM visits JOIN tasks ON id = task_id "
            "WHERE status = 'active' AND step >= ? ORDER BY visits.epoch",
            (since_step,),
        )
        found = {str(r[0]): _judgement(r) for r in rows}
        return [j for j in found.values() if not categories or j.category in categories]

    def of(self, task_id: str) -> list[Judgement]:
        """All judgements of a task, oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS}, category FROM visits JOIN tasks ON id = task_id "
            "WHERE task_id = ? ORDER BY visits.epoch",
            (task_id,),
        )
        return [_judgement(r) for r in rows]

    @property
    def never_solved(self) -> Collection[str]:
        """Original tasks that earned nothing in `SUSPECT` visits or more: let `check` see them."""
        return self._suspects.get()


def _row(j: Judgement) -> tuple[Cell, ...]:
    """A judgement as the cells of `_COLUMNS`."""
    return (
        j.task_id, j.step, j.policy_version, j.rbar, j.variance, *j.interval, j.n_valid, j.k,
        j.region,
    )  # fmt: skip


def _judgement(row: Row) -> Judgement:
    """The inverse: the cells of `_COLUMNS`, then the category."""
    task_id, step, version, rbar, variance, low, high, n_valid, k, region, category = cast(
        "tuple[str, int, int, float, float, float, float, int, int, Region, str]", row
    )
    interval = (low, high)
    return Judgement(task_id, category, rbar, variance, interval, n_valid, k, region, version, step)

"""Judgements of tasks, one a visit: an epoch in which a task was drawn and judged.

Owns their rows in the replay buffer's file. It never decides what follows from them.

    visits.add(judgement, epoch=3)
    visits.latest(since_step=40)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from rods.curriculum.boundary import Judgement, Region
from rods.infra.database import Cell, Database, Row

_COLUMNS = "task_id, step, version, rbar, variance, low, high, n_valid, k, region"
"""Columns of a judgement, in the order of `_row`."""


class Visits:
    """The table `visits`."""

    def __init__(self, db: Database) -> None:
        """`db`: has the tables of `journal.SCHEMA`."""
        self._db = db

    def add(self, judgement: Judgement, epoch: int) -> bool:
        """Keep a judgement; False: the task was judged in this epoch already."""
        sql = f"INSERT OR IGNORE INTO visits({_COLUMNS}, epoch) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
        return bool(self._db.run(sql, (*_row(judgement), epoch)))

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

    def never_solved(self, visits: int = 3) -> list[str]:
        """Original tasks that earned nothing in at least so many visits: suspects for `check`."""
        rows = self._db.rows(
            "SELECT task_id FROM visits JOIN tasks ON id = task_id WHERE generated = 0 "
            "GROUP BY task_id HAVING COUNT(*) >= ? AND MAX(rbar) = 0 ORDER BY task_id",
            (visits,),
        )
        return [str(r[0]) for r in rows]


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

"""Draws are counted once and kept up; what is taken back is counted anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.curriculum.draws import Draws
from rods.curriculum.journal import SCHEMA
from rods.errors import TaskError
from rods.infra.database import Database


def counted(draws: Draws, db: Database, epoch: int) -> tuple[int, int, int]:
    """Due, open and done, which must be what the table says."""
    rows = {
        str(status): int(n or 0)
        for status, n in db.rows(
            "SELECT status, COUNT(*) FROM draws WHERE epoch = ? GROUP BY status", (epoch,)
        )
    }
    found = (draws.due, draws.open(epoch), draws.done(epoch))
    due, leased, done = (rows.get(status, 0) for status in ("due", "leased", "done"))
    assert found == (due, due + leased, done)
    return found


def test_counts_follow_every_move_and_what_is_taken_back(tmp_path: Path) -> None:
    db = Database(tmp_path / "draws.sqlite", SCHEMA, 1, "buffer")
    draws = Draws(db)
    draws.lay_out(0, ["a", "b", "c", "d"])
    assert counted(draws, db, 0) == (4, 4, 0)
    assert [task_id for task_id, _ in draws.lease(3)] == ["a", "b", "c"]
    assert counted(draws, db, 0) == (1, 4, 0)
    draws.close(["a"], 0)
    assert counted(draws, db, 0) == (1, 3, 1)
    with pytest.raises(TaskError, match="d is not leased in epoch 0"), db.atomic():
        draws.close(["b", "d"], 0)
    assert counted(draws, db, 0) == (1, 3, 1), "b is taken back with d"
    with pytest.raises(ZeroDivisionError), db.atomic():
        draws.lay_out(1, ["e"])
        draws.lease(2)
        raise ZeroDivisionError
    assert counted(draws, db, 0) == (1, 3, 1) and draws.open(1) == 0
    draws.adopt()
    assert counted(draws, db, 0) == (3, 3, 1)
    db.close()

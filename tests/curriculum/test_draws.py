"""Draws: counts follow every move, and leases keep their epoch and place."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from pool_cases import config, originals
from rods.curriculum.draws import Draws, Stages
from rods.errors import TaskError


def counted(draws: Draws, epoch: int) -> tuple[int, int, int]:
    """Due draws of all epochs; open and done ones of this epoch."""
    return draws.due, draws.open(epoch), draws.done(epoch)


def test_counts_follow_every_move() -> None:
    draws = Draws()
    draws.lay_out(0, ["a", "b", "c", "d"])
    assert counted(draws, 0) == (4, 4, 0)
    assert draws.lease(3) == [("a", 0), ("b", 0), ("c", 0)]
    assert counted(draws, 0) == (1, 4, 0)
    draws.close("a", 0)
    assert counted(draws, 0) == (1, 3, 1)
    draws.release("b", 0)
    assert counted(draws, 0) == (2, 3, 1)
    assert [draws.leased_in(task_id) for task_id in "abcd"] == [None, None, 0, None]
    draws.lay_out(1, ["c", "e"])
    oldest_first = [("b", 0), ("d", 0), ("c", 1)]
    assert draws.lease(3) == oldest_first, "the oldest epoch first, each in its order"
    assert draws.lease(9) == [("e", 1)] and draws.lease(9) == []
    assert draws.leased_in("c") == 0
    draws.close("c", 0)
    assert draws.leased_in("c") == 1 and draws.leased_in("a") is None
    assert counted(draws, 1) == (0, 2, 0)


@pytest.mark.parametrize(("task_id", "epoch"), [("b", 0), ("d", 0), ("a", 1), ("x", 0)])
def test_only_a_lease_that_is_out_moves(task_id: str, epoch: int) -> None:
    draws = Draws()
    draws.lay_out(0, ["a", "b", "c", "d"])
    draws.lease(3)
    draws.close("b", 0)
    for move in (draws.close, draws.release):
        with pytest.raises(TaskError, match=f"{task_id} was not drawn in epoch {epoch}"):
            move(task_id, epoch)
    with pytest.raises(TaskError, match="a was not drawn"):
        draws.require_out([("a", 0), ("c", 0), ("a", 0)])
    assert counted(draws, 0) == (1, 3, 1)


def test_a_saved_state_has_its_leases_due_again() -> None:
    rng, draws = random.Random(0), Draws()
    for epoch in range(3):
        draws.lay_out(epoch, [f"{epoch}-{i}" for i in range(20)])
    out = [lease for _ in range(8) for lease in draws.lease(5)]
    done = rng.sample(out, 17)
    for task_id, epoch in done:
        draws.close(task_id, epoch)
    again = Draws()
    again.load_state_dict(draws.state_dict())  # type: ignore[arg-type]
    for task_id, epoch in set(out).difference(done):
        draws.release(task_id, epoch)
    assert [counted(again, e) for e in range(3)] == [counted(draws, e) for e in range(3)]
    assert [again.lease(7) for _ in range(9)] == [draws.lease(7) for _ in range(9)]


def epochs_of(stages: Sequence[Mapping[str, object]], tasks: int = 8, **more: object) -> Stages:
    return Stages(config(stages=list(stages), curriculum="envtuning", **more), originals(tasks))


def test_the_slices_of_a_stage_begin_with_its_own_first_epoch() -> None:
    stages = epochs_of([{"name": "a", "epochs": 3}, {"name": "b", "epochs": 3, "slice": 3}])
    pool = stages.pool(3)
    assert stages.originals(2) == stages.pool(2) != pool, "another stage, another order"
    assert [stages.originals(epoch) for epoch in (3, 4, 5)] == [
        pool[:3], pool[3:6], [*pool[6:], pool[0]]
    ]  # fmt: skip


def test_an_epoch_that_was_not_laid_out_is_not_untouched() -> None:
    draws = Draws()
    assert not draws.untouched(0)
    draws.lay_out(0, ["a"])
    assert draws.untouched(0)
    draws.lease(1)
    assert not draws.untouched(0)

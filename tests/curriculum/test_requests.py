"""Synthesis requests: when a seed task may be chosen again, and what a resume takes up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pool_cases import FakeQueue, config, originals
from rods.curriculum import requests
from rods.curriculum.boundary import Judgement, Selection, select_seeds
from rods.curriculum.online import OnlineCurriculum


def curriculum_of(tasks: int = 30, **sections: object) -> OnlineCurriculum:
    sections.setdefault("stages", [{"name": "grow", "epochs": 3, "expand": True}])
    sections.setdefault("rollout", {"k": 4, "tasks_per_step": 1})
    return OnlineCurriculum(config(**sections), originals(tasks), FakeQueue())


def observe(curriculum: OnlineCurriculum, tasks: int) -> None:
    for task, epoch in curriculum.draw(tasks):
        curriculum.observe_values(task.id, [1.0, 0.0, 1.0, 0.0], epoch=epoch)


@pytest.mark.parametrize(("epochs", "steps"), [(0.0, 0), (0.28, 7), (0.29, 8), (0.56, 14), (1, 25)])
def test_a_seed_task_rests_for_a_share_of_an_epochs_steps(epochs: float, steps: int) -> None:
    """0.28 * 25 is 7.000000000000001, and that is not eight steps."""
    curriculum = curriculum_of(25, boundary={"cooldown_epochs": epochs})
    observe(curriculum, 24)  # the cycle of 25 steps is due one before the last
    rested = {request.rested for request in curriculum.requests.open.values()}
    assert rested == {23 + steps}, "from the step of the group that was judged last"


def test_an_epoch_has_as_many_steps_as_it_fills() -> None:
    curriculum = curriculum_of(15, rollout={"k": 4, "tasks_per_step": 4})
    observe(curriculum, 7)
    assert not curriculum.requests.open
    observe(curriculum, 1)  # two of three whole steps are done
    assert curriculum.requests.open


def test_seed_tasks_were_judged_within_an_epochs_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BACKLOG", 99.0)
    stages = [{"name": "grow", "epochs": 3, "slice": 4, "expand": True}]
    curriculum = curriculum_of(
        8, stages=stages, boundary={"seeds": 16, "cooldown_epochs": 0}, replay={"inject": 1.0}
    )
    first = [lease.task.id for lease in curriculum.draw(4)]
    for task_id in first:
        curriculum.observe_values(task_id, [1.0, 0.0, 1.0, 0.0])
    monkeypatch.setattr(curriculum.requests, "ingest", lambda finished, epoch: 0)
    second: list[str] = []
    for _ in range(3):  # the last judgement is made at step 6, an epoch has 4 steps
        [(task, epoch)] = curriculum.draw(1)
        curriculum.observe_values(task.id, [1.0, 0.0, 1.0, 0.0], epoch=epoch)
        second.append(task.id)
    chosen = {r.seed_id for r in curriculum.requests.open.values() if r.epoch == 1}
    assert chosen == {*first[2:], *second}


@pytest.mark.parametrize("late", [False, True])
def test_no_variant_is_requested_where_none_could_be_drawn(late: bool) -> None:
    """In the last epoch that expands, and where an older one is judged when it has begun."""
    stages = [{"name": "grow", "epochs": 3, "expand": True}, {"name": "end", "epochs": 2}]
    curriculum = curriculum_of(8, stages=stages)
    observe(curriculum, 8)
    out = [*curriculum.draw(99), *curriculum.draw(1)] if late else []
    assert {epoch for _, epoch in out} == ({1, 2} if late else set())
    for task, epoch in out:
        curriculum.observe_values(task.id, [1.0, 0.0, 1.0, 0.0], epoch=epoch)
    while not curriculum.done:
        observe(curriculum, 1)
    made = [*curriculum.requests.open.values(), *curriculum.requests.closed.values()]
    assert {request.epoch for request in made} == ({0} if late else {0, 1})


def test_seed_tasks_are_of_the_stages_categories() -> None:
    stages = [
        {"name": "all", "epochs": 2, "expand": True},
        {"name": "base", "epochs": 2, "categories": ["base"], "expand": True},
    ]
    more = {"replay": {"inject": 1.0}, "boundary": {"seeds": 16, "cooldown_epochs": 0}}
    curriculum = curriculum_of(8, stages=stages, **more)
    while not curriculum.done:
        observe(curriculum, 1)
    pool = curriculum.buffer.pool
    judged = {pool.task(i).category for i in pool.variants("active") if pool[i].visits}
    assert len(judged) > 1, "variants of others were judged in the stage before"
    seeds = [r.seed_id for r in curriculum.requests.closed.values() if r.epoch == 2]
    assert seeds and {pool.task(i).category for i in seeds} == {"base"}


def test_no_more_variants_wait_than_two_epochs_can_inject() -> None:
    more = {"replay": {"inject": 0.2}, "boundary": {"seeds": 16, "cooldown_epochs": 0}}
    curriculum = curriculum_of(20, synthesis={"variants_per_seed": 1}, **more)
    observe(curriculum, 20)
    assert len(curriculum.requests.open) == 8, "a fifth of 20, twice"
    assert curriculum.metrics()["backlog_filtered"] == 8


def test_variants_that_no_later_stage_takes_leave_room_for_its_own() -> None:
    """What the stage before left filled the backlog, and this one never had a variant."""
    stages = [
        {"name": "all", "epochs": 1, "expand": True},
        {"name": "base", "epochs": 2, "categories": ["base"], "expand": True},
    ]
    more = {"replay": {"inject": 0.2}, "boundary": {"seeds": 16, "cooldown_epochs": 0}}
    curriculum = curriculum_of(40, stages=stages, synthesis={"variants_per_seed": 1}, **more)
    while not curriculum.done:
        observe(curriculum, 1)
    pool = curriculum.buffer.pool
    assert len(pool.variants("pending", ["base"])) < pool.count("pending"), "some are left"
    assert curriculum.counts[1]["seed_emitted"] > 0


def test_a_cycle_that_was_due_at_a_checkpoint_is_made_after_a_resume() -> None:
    curriculum = curriculum_of(8)
    leases = curriculum.draw(8)
    for task, epoch in leases[:-1]:
        curriculum.observe_values(task.id, [0.0] * 4, epoch=epoch)
    again = curriculum_of(8)
    again.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    assert again.counts == curriculum.counts
    assert again.request_variants() == 0, "its epoch had one already"
    fresh = curriculum_of(8)
    [*most, last] = fresh.draw(8)
    values = [[[1.0, 0.0, 1.0, 0.0]] for _ in range(8)]
    fresh._judge(  # pyright: ignore[reportPrivateUsage]
        [(task.id, epoch) for task, epoch in [*most, last]], [row[0] for row in values], [0] * 8
    )
    resumed = curriculum_of(8)
    resumed.load_state_dict(json.loads(json.dumps(fresh.state_dict())))
    assert resumed.request_variants() == fresh.request_variants() > 0
    assert resumed.state_dict() == fresh.state_dict()


def test_a_state_replaces_what_was_there() -> None:
    saved = curriculum_of(8)
    observe(saved, 3)
    used = curriculum_of(8)
    observe(used, 8)
    observe(used, 5)
    used.load_state_dict(json.loads(json.dumps(saved.state_dict())))
    assert used.state_dict() == saved.state_dict()
    assert used.metrics() == saved.metrics()


def test_a_stage_of_some_tasks_has_seeds_among_these_alone() -> None:
    stages = [
        {"name": "all", "epochs": 1, "reward": "format"},
        {"name": "some", "epochs": 2, "tasks": 4, "expand": True},
    ]
    more = {"replay": {"inject": 1.0}, "boundary": {"seeds": 16}}
    curriculum = curriculum_of(8, stages=stages, synthesis={"variants_per_seed": 1}, **more)
    while not curriculum.done:
        observe(curriculum, 1)
    seeds = {r.seed_id for r in curriculum.requests.closed.values()}
    assert seeds and seeds < {*curriculum.buffer.draws.order(1)}


def test_a_seed_that_is_chosen_again_goes_on_where_its_last_request_ended() -> None:
    curriculum = curriculum_of(4, boundary={"cooldown_epochs": 0}, replay={"inject": 1.0})
    while not curriculum.done:
        observe(curriculum, 1)
    made: dict[str, list[int]] = {}
    for r in [*curriculum.requests.closed.values(), *curriculum.requests.open.values()]:
        made.setdefault(r.seed_id, []).extend(range(r.first, r.first + r.n))
    assert all(numbers == [*range(len(numbers))] for numbers in made.values())
    assert max(map(len, made.values())) > 2, "of one seed, in several epochs"


def test_thompson_sees_every_visit_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, int]] = []

    def noted(*args: Any, visits: Mapping[str, Sequence[Judgement]], **more: Any) -> Selection:
        seen.append({task_id: len(found) for task_id, found in visits.items()})
        return select_seeds(*args, visits=visits, **more)

    monkeypatch.setattr(requests, "select_seeds", noted)
    curriculum = curriculum_of(4, boundary={"priority": "thompson"}, replay={"inject": 0.0})
    observe(curriculum, 4)
    observe(curriculum, 4)
    assert [sorted(found.values()) for found in seen] == [[1, 1, 1], [2, 2, 2]]


def test_a_category_without_a_boundary_task_keeps_its_share_of_the_seeds() -> None:
    curriculum = curriculum_of(16, boundary={"seeds": 8}, replay={"inject": 1.0})
    for task, epoch in curriculum.draw(16):
        values = [1.0, 0.0] if task.category == "base" else [0.0, 0.0]
        curriculum.observe_values(task.id, values, epoch=epoch)
    of = [curriculum.buffer.pool.task(r.seed_id) for r in curriculum.requests.open.values()]
    assert [task.category for task in of] == ["base"] * 2, "8 seeds over four categories"


def test_the_last_of_several_rests_of_a_seed_task_counts() -> None:
    stages = [{"name": "grow", "epochs": 4, "expand": True}]
    more = {"boundary": {"cooldown_epochs": 1.5}, "replay": {"inject": 0.3, "retire": []}}
    curriculum = curriculum_of(4, stages=stages, synthesis={"variants_per_seed": 1}, **more)
    curriculum.buffer.pool.offer = lambda task, epoch_made: False  # no variant becomes a seed
    while not curriculum.done:
        observe(curriculum, 1)
    every = [*curriculum.requests.closed.values(), *curriculum.requests.open.values()]
    epochs: dict[str, list[int]] = {}
    for request in every:
        epochs.setdefault(request.seed_id, []).append(request.epoch)
    assert all(b - a >= 2 for found in epochs.values() for a, b in itertools.pairwise(found))
    assert any(len(found) > 1 for found in epochs.values())

"""The curriculum as a host drives it: numbers, prefetching, threads, deaths, one state."""

from __future__ import annotations

import io
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pool_cases import FakeQueue, config, group, originals, rewards
from rods.curriculum.draws import Lease
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.requests import first_variants
from rods.errors import RewardError, StoreError, TaskError

STAGES = [
    {"name": "format", "reward": "format", "epochs": 1, "tasks": 9},
    {"name": "grow", "epochs": 4, "expand": True},
]
Build = Callable[..., OnlineCurriculum]


@pytest.fixture
def build() -> Build:
    def make(tasks: int = 13, **sections: object) -> OnlineCurriculum:
        settings = config(**{"stages": STAGES, "replay": {"inject": 0.5, "cap": 8}, **sections})
        return OnlineCurriculum(settings, originals(tasks), FakeQueue())

    return make


def show(curriculum: OnlineCurriculum, lease: Lease) -> None:
    """Observe what a worker played: by its trajectories, or by their numbers alone."""
    values = rewards(lease.task, lease.epoch)
    if lease.epoch % 2:
        curriculum.observe_values(lease.task.id, values, epoch=lease.epoch)
    else:
        curriculum.observe(*group(lease.task, values), lease.epoch)


def observed(curriculum: OnlineCurriculum) -> list[tuple[int, int]]:
    """Of each epoch, the groups that were counted and the tasks that were drawn."""
    epochs = range(curriculum.epoch + 1)
    counts = [curriculum.counts[e] for e in epochs]
    drawn = [curriculum.buffer.draws.order(e) for e in epochs]
    assert all(len(ids) == len(set(ids)) for ids in drawn)
    return [(m.get("judged", 0), len(ids)) for m, ids in zip(counts, drawn, strict=True)]


def test_numbers_are_judged_as_their_trajectories_are(build: Build) -> None:
    told, seen = build(), build()
    while not seen.done:
        for (task, epoch), lease in zip(told.draw(5), seen.draw(5), strict=True):
            values, down = rewards(task, epoch), len(task.turns[0].user) % 3
            played = group(task, values[down:], down, version=7)
            # Stages that do not expand read turns: these tasks have one, solved by a reward of 1.
            judged = told.observe_values(
                task.id, [*values[down:], *[9.0] * down], [True] * (4 - down) + [False] * down, 7
            )
            assert judged == seen.observe(*played, lease.epoch)
    assert told.state_dict() == seen.state_dict()
    assert [told.metrics(e) for e in range(5)] == [seen.metrics(e) for e in range(5)]
    assert sum(m.injected for m in told.buffer.reports) > 0


def test_numbers_that_are_none_are_refused(build: Build) -> None:
    curriculum = build()
    [(task, _)] = curriculum.draw(1)
    with pytest.raises(RewardError, match=r"got 1\.5"):
        curriculum.observe_values(task.id, [0.0, 1.5])
    with pytest.raises(RewardError, match="nan"):
        curriculum.observe_values(task.id, [0.0, float("nan")])
    with pytest.raises(RewardError, match="2 values came with 1 entries"):
        curriculum.observe_values(task.id, [0.0, 1.0], [True])
    assert curriculum.buffer.draws.done(curriculum.buffer.epoch) == 0
    assert curriculum.observe_values(task.id, [1.0, 9, 9], [True, False, False]) is None
    assert curriculum.buffer.draws.done(curriculum.buffer.epoch) == 1, (
        "not judged, and not drawn again"
    )


def test_prefetching_neither_raises_nor_shrinks(build: Build) -> None:
    """Nothing is observed before the last task of all stages is drawn."""
    curriculum = build()
    drawn: list[Lease] = []
    while batch := curriculum.draw(4):
        assert len(batch) == 4 or curriculum.drawn_out
        drawn += batch
    assert Counter(epoch for _, epoch in drawn) == {0: 9, 1: 13, 2: 13, 3: 13, 4: 13}
    assert not curriculum.done
    for lease in random.Random(0).sample(drawn, len(drawn)):
        show(curriculum, lease)
    assert curriculum.done and observed(curriculum) == [(9, 9)] + [(13, 13)] * 4


def test_threads_draw_and_observe_at_once(build: Build) -> None:
    curriculum, drawn, lock = build(tasks=29), Counter[tuple[str, int]](), threading.Lock()

    def work(seed: int) -> None:
        rng, out = random.Random(seed), list[Lease]()
        while True:
            batch = curriculum.draw(rng.randint(1, 3))
            with lock:
                drawn.update((task.id, epoch) for task, epoch in batch)
            out += batch
            rng.shuffle(out)
            for _ in range(len(out) if not batch else min(len(out), 3)):
                show(curriculum, out.pop())
            if not batch:
                return

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert curriculum.done and set(drawn.values()) == {1}
    assert all(judged == draws for judged, draws in observed(curriculum))
    buffer = curriculum.buffer
    assert [buffer.draws.done(e) for e in range(5)] == [
        len(buffer.draws.order(e)) for e in range(5)
    ]


def test_what_dead_workers_held_comes_again_first(build: Build) -> None:
    curriculum = build()
    lost = curriculum.draw(7)
    kept = curriculum.draw(4)
    assert [epoch for _, epoch in kept] == [0, 0, 1, 1]
    for lease in lost[::2]:
        show(curriculum, lease)
    with pytest.raises(TaskError, match="was not drawn in epoch 0"):
        curriculum.release([lost[1].task.id, lost[0].task.id], epoch=0)
    curriculum.release([lease.task.id for lease in lost[1::2]])
    assert curriculum.draw(5)[:3] == lost[1::2], "then the rest of the epoch, in the order as laid"
    with pytest.raises(TaskError, match="was not drawn in epoch 1"):
        curriculum.release([lost[1].task.id], epoch=1)
    for task, epoch in [*lost[1::2], *kept]:
        if curriculum.buffer.draws.leased_in(task.id) == epoch:
            curriculum.release([task.id], epoch)
    again = curriculum.draw(9)
    assert again[:5] == sorted([*lost[1::2], *kept[:2]], key=lambda a: order(curriculum, a))
    assert again[5:7] == kept[2:] and len(again) == 9


def order(curriculum: OnlineCurriculum, lease: Lease) -> tuple[int, int]:
    return lease.epoch, curriculum.buffer.draws.order(lease.epoch).index(lease.task.id)


def test_the_state_is_one_value_that_torch_saves_too(build: Build) -> None:
    one, other = build(), build()
    drawn = one.draw(20)
    for lease in drawn[::2]:
        show(one, lease)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    for lease in other.draw(11):
        show(other, lease)
    other.load_state_dict(state)  # in the place of where it stood
    bare = build()
    bare.load_state_dict(state)
    for task, epoch in drawn[1::2]:
        one.release([task.id], epoch)  # was out when it was saved: due again where it is loaded
    for curriculum in (other, bare):
        assert curriculum.state_dict() == one.state_dict()
    while not one.done:
        drawn = one.draw(6)
        assert other.draw(6) == drawn == bare.draw(6)
        for curriculum in (one, other, bare):
            for lease in drawn:
                show(curriculum, lease)
    assert one.state_dict() == other.state_dict() == bare.state_dict()


def test_a_state_that_is_not_ours_is_refused(build: Build) -> None:
    one, fewer, other = build(), build(tasks=9), build(seed=3)
    for curriculum in (one, fewer):
        curriculum.draw(2)
    state = one.state_dict()
    with pytest.raises(StoreError, match=r"has no buffer, counts, requests \(keys: \['policy'\]"):
        one.load_state_dict({"policy": b""})
    assert one.state_dict() == state and len(one.draw(3)) == 3, "it continues where it stood"
    with pytest.raises(StoreError, match="original tasks differ"):
        fewer.load_state_dict(state)
    with pytest.raises(StoreError, match="made with seed 0, not 3"):
        other.load_state_dict(state)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["draw", "observe", "release", "save", "load"]), max_size=40),
       st.randoms(use_true_random=False))  # fmt: skip
def test_nothing_is_lost_or_doubled_whatever_happens(moves: list[str], rng: random.Random) -> None:
    """Draws, observations out of order, deaths, saves, and machines that are lost, at random."""

    def machine() -> OnlineCurriculum:
        return OnlineCurriculum(config(stages=STAGES), originals(10), FakeQueue())

    curriculum, out, done = machine(), list[Lease](), Counter[tuple[str, int]]()
    saved, then = curriculum.state_dict(), Counter[tuple[str, int]]()

    def see() -> None:
        lease = out.pop(rng.randrange(len(out)))
        show(curriculum, lease)
        done[lease.task.id, lease.epoch] += 1

    for move in moves:
        if move == "draw":
            out += curriculum.draw(rng.randint(1, 6))
        elif move == "observe" and out:
            see()
        elif move == "release" and out:
            dead = out.pop(rng.randrange(len(out)))
            curriculum.release([dead.task.id], dead.epoch)
        elif move == "save":
            saved, then = curriculum.state_dict(), done.copy()
        elif move == "load":
            curriculum, out, done = machine(), [], then.copy()
            curriculum.load_state_dict(saved)
    while (batch := curriculum.draw(5)) or out:
        out += batch
        see()
    assert curriculum.done and set(done.values()) == {1}
    laid = {(i, e) for e in range(curriculum.epochs) for i in curriculum.buffer.draws.order(e)}
    assert set(done) == laid and all(a == b for a, b in observed(curriculum))


def first_with_variants(curriculum: OnlineCurriculum, size: int, hosted: bool) -> int:
    """The first update that draws from an epoch with variants; 0: none. All tasks are boundary."""
    update = 0
    while not curriculum.done:
        update += 1
        drawn = curriculum.draw(size) if hosted else []
        while hosted and len(drawn) < size and (more := curriculum.draw(size - len(drawn))):
            drawn += more
        if not hosted:  # as the loop does
            if not curriculum.untouched and curriculum.short_of(size):
                curriculum.ingest_variants()
                curriculum.retire()
                curriculum.lay_out_epoch()
            drawn = curriculum.lease(size)
        if any(report.injected for report in curriculum.buffer.reports):
            return update
        for task, epoch in drawn:
            curriculum.observe_values(task.id, [0.0, 1.0], epoch=epoch)
    return 0


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize(
    ("size", "first", "slice_", "more"),
    [
        (4, 9, 0, {}),
        (5, 9, 6, {}),
        (5, 3, 7, {}),
        (13, 9, 0, {}),
        (16, 9, 0, {}),
        (16, 3, 4, {}),
        (4, 9, 0, {"replay": {"inject": 0.05}}),
        (4, 9, 0, {"synthesis": {"variants_per_seed": 99}}),
        (4, 9, 4, {"replay": {"inject": 0.25}}),
    ],
)
def test_the_first_update_with_variants_is_that_of_the_settings(
    size: int, first: int, slice_: int, more: dict[str, object], hosted: bool
) -> None:
    stages = [{**STAGES[0], "tasks": first}, {**STAGES[1], "slice": slice_}]
    rollout = {"k": 2, "tasks_per_step": size}
    asked = {"stages": stages, "rollout": rollout, "replay": {"inject": 0.5, "cap": 8}, **more}
    made, tasks = config(**asked), originals(13)
    found = first_with_variants(OnlineCurriculum(made, tasks, FakeQueue()), size, hosted)
    assert first_variants(made, tasks, hosted) == found
    assert found == 0 if more and not slice_ else found > 1 or hosted

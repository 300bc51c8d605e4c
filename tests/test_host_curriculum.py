"""The curriculum as a host drives it: numbers, prefetching, threads, deaths, one state."""

from __future__ import annotations

import io
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pool_cases import FakeQueue, config, group, originals, reports, rewards
from rods.curriculum.draws import Lease
from rods.curriculum.online import OnlineCurriculum
from rods.errors import RewardError, StoreError, TaskError

STAGES = [
    {"name": "format", "reward": "format", "epochs": 1, "tasks": 9},
    {"name": "grow", "epochs": 4, "expand": True},
]
Build = Callable[..., OnlineCurriculum]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    opened: list[OnlineCurriculum] = []

    def make(name: str = "pool", tasks: int = 13, **sections: object) -> OnlineCurriculum:
        settings = config(**{"stages": STAGES, "replay": {"inject": 0.5, "cap": 8}, **sections})
        opened.append(
            OnlineCurriculum(settings, originals(tasks), tmp_path / name, FakeQueue(), None)
        )
        return opened[-1]

    yield make
    for one in opened:
        one.close()


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
    meters = [curriculum.buffer.journal.meters(e) for e in epochs]
    drawn = [curriculum.buffer.drawn(e) for e in epochs]
    assert all(len(ids) == len(set(ids)) for ids in drawn)
    return [(m.get("judged", 0), len(ids)) for m, ids in zip(meters, drawn, strict=True)]


def test_numbers_are_judged_as_their_trajectories_are(build: Build) -> None:
    told, seen = build("told"), build("seen")
    while not seen.done:
        for (task, epoch), lease in zip(told.draw(5), seen.draw(5), strict=True):
            values, down = rewards(task, epoch), len(task.turns[0].user) % 3
            played = group(task, values[down:], down, version=7)
            # Stages that do not expand read turns: these tasks have one, solved by a reward of 1.
            judged = told.observe_values(
                task.id, [*values[down:], *[9.0] * down], [True] * (4 - down) + [False] * down, 7
            )
            assert judged == seen.observe(*played, lease.epoch)
    assert told.mark() == seen.mark() and reports(told.buffer) == reports(seen.buffer)
    assert [told.metrics(e) for e in range(5)] == [seen.metrics(e) for e in range(5)]
    assert sum(m.injected for m in reports(told.buffer)) > 0


def test_numbers_that_are_none_are_refused(build: Build) -> None:
    curriculum = build()
    [(task, _)] = curriculum.draw(1)
    with pytest.raises(RewardError, match=r"got 1\.5"):
        curriculum.observe_values(task.id, [0.0, 1.5])
    with pytest.raises(RewardError, match="nan"):
        curriculum.observe_values(task.id, [0.0, float("nan")])
    with pytest.raises(RewardError, match="2 values came with 1 entries"):
        curriculum.observe_values(task.id, [0.0, 1.0], [True])
    assert curriculum.buffer.completed == 0
    assert curriculum.observe_values(task.id, [1.0, 9, 9], [True, False, False]) is None
    assert curriculum.buffer.completed == 1, "not judged, and not drawn again"


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
    assert [buffer.draws.done(e) for e in range(5)] == [len(buffer.drawn(e)) for e in range(5)]


def test_what_dead_workers_held_comes_again_first(build: Build) -> None:
    curriculum = build()
    lost = curriculum.draw(7)
    kept = curriculum.draw(4)
    assert [epoch for _, epoch in kept] == [0, 0, 1, 1]
    for lease in lost[::2]:
        show(curriculum, lease)
    with pytest.raises(TaskError, match="is not leased in epoch 0"):
        curriculum.release([lost[1].task.id, lost[0].task.id], epoch=0)
    curriculum.release([lease.task.id for lease in lost[1::2]])
    assert curriculum.draw(5)[:3] == lost[1::2], "then the rest of the epoch, in the order as laid"
    with pytest.raises(TaskError, match="is not leased in epoch 1"):
        curriculum.release([lost[1].task.id], epoch=1)
    curriculum.release()
    again = curriculum.draw(9)
    assert again[:5] == sorted([*lost[1::2], *kept[:2]], key=lambda a: order(curriculum, a))
    assert again[5:7] == kept[2:] and len(again) == 9


def order(curriculum: OnlineCurriculum, lease: Lease) -> tuple[int, int]:
    return lease.epoch, curriculum.buffer.drawn(lease.epoch).index(lease.task.id)


def test_the_state_is_one_value_that_torch_saves_too(build: Build, tmp_path: Path) -> None:
    one, other = build("one"), build("other")
    for lease in one.draw(20)[::2]:
        show(one, lease)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    for lease in other.draw(11):
        show(other, lease)
    other.load_state_dict(state)  # in the place of where it stood
    bare = build("bare")
    bare.load_state_dict(state)
    one.release()  # what was out when it was saved is due again where it is loaded
    for curriculum in (other, bare):
        assert curriculum.mark() == one.mark() and curriculum.metrics() == one.metrics()
    while not one.done:
        drawn = one.draw(6)
        assert other.draw(6) == drawn == bare.draw(6)
        for curriculum in (one, other, bare):
            for lease in drawn:
                show(curriculum, lease)
    assert reports(one.buffer) == reports(other.buffer) == reports(bare.buffer)
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == []


def test_a_state_that_is_not_ours_is_refused(build: Build) -> None:
    one, fewer, other = build("one"), build("fewer", tasks=9), build("other", seed=3)
    for curriculum in (one, fewer):
        curriculum.draw(2)
    state, mark = one.state_dict(), one.mark()
    with pytest.raises(StoreError, match="holds no replay buffer"):
        one.load_state_dict(mark)
    with pytest.raises(StoreError, match="damaged"):
        one.load_state_dict({**state, "buffer": state["buffer"][:9000]})
    assert one.mark() == mark and len(one.draw(3)) == 3, "it goes on where it stood"
    with pytest.raises(StoreError, match="epoch: 0 != 3"):
        one.load_state_dict({**state, "epoch": 3})
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
    with TemporaryDirectory() as folder:

        def machine(number: int) -> OnlineCurriculum:
            path = Path(folder) / f"{number}.sqlite"
            return OnlineCurriculum(config(stages=STAGES), originals(10), path, FakeQueue())

        curriculum, out, done = machine(0), list[Lease](), Counter[tuple[str, int]]()
        saved, then = curriculum.state_dict(), Counter[tuple[str, int]]()

        def see() -> None:
            lease = out.pop(rng.randrange(len(out)))
            show(curriculum, lease)
            done[lease.task.id, lease.epoch] += 1

        for number, move in enumerate(moves, 1):
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
                curriculum.close()
                curriculum, out, done = machine(number), [], then.copy()
                curriculum.load_state_dict(saved)
        while (batch := curriculum.draw(5)) or out:
            out += batch
            see()
        assert curriculum.done and set(done.values()) == {1}
        laid = {(i, e) for e in range(curriculum.epochs) for i in curriculum.buffer.drawn(e)}
        assert set(done) == laid and all(a == b for a, b in observed(curriculum))
        curriculum.close()

"""The numbered semantics of the replay buffer and the online curriculum.

A test here locks a decision. Do not change one to make it pass: decide, and say so in CHANGELOG.md.

 1. Original tasks are never retired, whatever they score.
 2. A variant made in epoch n is drawn from epoch n + 1 on, not before (invariant 6).
 3. At an epoch's start at most floor(inject * active pool before injection) variants enter, first
    come first served; the others are deferred, not dropped.
 4. Above the cap the lowest phi leave first; a variant that was never judged leaves last.
 5. The first judged rbar below `burn_in` evicts; 0.20 exactly stays.
 6. rbar above 0.95 retires as mastered, below 0.20 as too hard; the edges stay.
 7. A variant that was not judged in 3 epochs retires as stale.
 8. Without retirement (ablation) only the cap removes variants.
 9. Every active task of the stage is drawn exactly once an epoch.
10. Open leases are due again after a kill, in their old order (invariant 8).
11. A run resumed from a saved state draws what the uninterrupted run drew (invariant 8).
12. Nothing waits for synthesis; where `drain_seconds` asks for runs that can be repeated, an
    epoch's start does, for so long at most, and says so (invariant 6).
13. A group with fewer than K/2 valid members moves nothing, and is counted.
14. The static curriculum orders, injects and retires nothing, and logs the same.
15. Every variant names its ancestors back to an original task (invariant 7).
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pool_player
from pool_cases import (
    FakeQueue,
    config,
    group,
    judgement,
    lease,
    original,
    originals,
    rewards,
    start,
    variant,
)
from rods.config import ReplaySettings
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.replay import ReplayBuffer
from rods.curriculum.saving import load, save
from rods.store import RunDirectory


@pytest.fixture
def buffer_of():
    def build(count=10, **settings):
        buffer = ReplayBuffer(ReplaySettings(**settings))
        buffer.pool.add_originals(originals(count))
        return buffer

    return build


@pytest.fixture
def curriculum_of():
    def build(queue=None, count=12, **sections):
        return OnlineCurriculum(config(**sections), originals(count), queue or FakeQueue())

    return build


def play(buffer, rbars=None, rbar=0.5, skip=()):
    """Play the epoch; `rbars` by task id, `skip` is completed but never judged."""
    while leases := lease(buffer, 3):
        for task, _ in leases:
            if task.id not in skip:
                mean = (rbars or {}).get(task.id, rbar)
                buffer.record(judgement(task, mean, buffer.epoch), buffer.epoch)
            buffer.draws.close(task.id, buffer.epoch)


def offer(buffer, count, epoch=0):
    made = [variant(original(0), i) for i in range(count)]
    for task in made:
        buffer.pool.offer(task, epoch)
    return [t.id for t in made]


def run_epoch(curriculum):
    report = curriculum.start_epoch()
    while tasks := [lease.task for lease in curriculum.lease(4)]:
        for task in tasks:
            curriculum.observe(*group(task, rewards(task, curriculum.epoch)))
    return report


@pytest.mark.parametrize("rbar", [0.0, 1.0])
def test_1_originals_stay(buffer_of, rbar):
    buffer = buffer_of()
    for epoch in range(6):
        start(buffer, epoch)
        play(buffer, rbar=rbar)
    assert buffer.pool.counts().originals == 10
    assert len(buffer.draws.order(5)) == 10


def test_2_invariant_6_a_variant_of_epoch_n_waits_for_n_plus_1(buffer_of):
    buffer = buffer_of(inject=1.0)
    [before] = offer(buffer, 1, epoch=0)
    start(buffer, 0)
    assert before not in buffer.draws.order(0)
    play(buffer)
    late = variant(original(1), 7)
    buffer.pool.offer(late, 1)  # made ahead of its time: it must wait for epoch 2
    start(buffer, 1)
    assert before in buffer.draws.order(1) and late.id not in buffer.draws.order(1)
    play(buffer)
    start(buffer, 2)
    assert late.id in buffer.draws.order(2)


@pytest.mark.parametrize(
    ("inject", "originals", "enter"), [(0.2, 10, 2), (0.2, 14, 2), (0.29, 100, 29), (0.0, 10, 0)]
)
def test_3_injection_is_limited_and_in_order(buffer_of, inject, originals, enter):
    buffer = buffer_of(originals, inject=inject)
    ids = offer(buffer, 40)
    start(buffer, 0)
    play(buffer)
    report = start(buffer, 1)
    assert (report.injected, report.deferred, report.pending) == (enter, 40 - enter, 40 - enter)
    assert sorted(set(buffer.draws.order(1)) & set(ids)) == sorted(ids[:enter])


def test_3_the_share_is_of_the_pool_before_injection(buffer_of):
    buffer = buffer_of(10, inject=0.5)
    offer(buffer, 40)
    sizes = []
    for epoch in range(4):
        sizes.append(start(buffer, epoch).injected)
        play(buffer)
    assert sizes == [0, 5, 7, 11]  # half of 10, 15, 22


def test_4_the_lowest_phi_leave_first(buffer_of):
    buffer = buffer_of(10, inject=0.4, cap=6)
    ids = offer(buffer, 8)
    start(buffer, 0)
    play(buffer)
    start(buffer, 1)  # four enter
    play(buffer, dict(zip(ids, [0.9, 0.5, 0.3, 0.6], strict=False)), skip=ids[2:3])
    report = start(buffer, 2)  # four more enter, two must leave
    assert (report.injected, report.retired["pruned"], report.active) == (4, 2, 6)
    assert set(ids) & set(buffer.draws.order(2)) == {ids[1], ids[2], *ids[4:8]}


@pytest.mark.parametrize(
    ("rbar", "reason"),
    [(0.0, "burn_in"), (0.1999, "burn_in"), (0.2, None), ((0.1 + 0.5) / 3, None), (0.5, None)],
)
def test_5_burn_in(buffer_of, rbar, reason):
    buffer = buffer_of(inject=1.0)
    [task_id] = offer(buffer, 1)
    start(buffer, 0)
    play(buffer)
    start(buffer, 1)
    play(buffer, {task_id: rbar})
    assert buffer.pool.counts().retired == ({reason: 1} if reason else {})


@pytest.mark.parametrize(
    ("rbar", "reason"),
    [
        (0.1999, "too_hard"),
        (0.20, None),
        ((0.1 + 0.5) / 3, None),  # 0.2 but for rounding
        (0.85, None),
        (0.95, None),
        (0.9501, "mastered"),
        (1.0, "mastered"),
    ],
)
def test_6_retirement_at_the_second_visit(buffer_of, rbar, reason):
    buffer = buffer_of(inject=1.0)
    [task_id] = offer(buffer, 1)
    for epoch, mean in enumerate([0.5, 0.5, rbar]):
        start(buffer, epoch)
        play(buffer, {task_id: mean})
    assert buffer.pool.counts().retired == ({reason: 1} if reason else {})
    start(buffer, 3)
    assert (task_id in buffer.draws.order(3)) == (reason is None)


def test_7_stale_after_three_epochs_without_a_judgement(buffer_of):
    buffer = buffer_of(inject=1.0)
    [task_id] = offer(buffer, 1)
    start(buffer, 0)
    play(buffer)
    start(buffer, 1)
    play(buffer)
    for epoch in (2, 3, 4):
        assert start(buffer, epoch).retired == {}
        play(buffer, skip=[task_id])
    assert start(buffer, 5).retired == {"stale": 1}
    play(buffer)
    assert start(buffer, 6).retired == {}, "each report counts what left since the one before"


def test_7_a_variant_that_was_never_judged_is_stale_after_three_epochs_too(curriculum_of):
    curriculum = curriculum_of(stages=[{"name": "grow", "epochs": 9, "expand": True}])
    [task_id] = offer(curriculum.buffer, 1)
    left = []
    while not curriculum.done:
        left.append(curriculum.start_epoch().retired.get("stale", 0))
        while leases := curriculum.lease(4):
            for task, epoch in leases:  # it enters at the start of epoch 1
                values = [1.0] * 4 if task.id != task_id else [None] * 4
                lost = [v is not None for v in values]
                curriculum.observe_values(task.id, [v or 0.0 for v in values], lost, epoch=epoch)
    assert left == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_8_without_retirement_only_the_cap_removes(buffer_of):
    buffer = buffer_of(inject=1.0, retire=(), cap=3)
    offer(buffer, 6)
    for epoch in range(6):
        start(buffer, epoch)
        play(buffer, rbar=0.0)
    assert set(buffer.pool.counts().retired) == {"pruned"}
    assert buffer.pool.counts().active == 3


def test_9_every_active_task_is_drawn_once(buffer_of):
    buffer = buffer_of(inject=0.3)
    ids = offer(buffer, 9)
    for epoch in range(4):
        report = start(buffer, epoch)
        drawn = buffer.draws.order(epoch)
        assert len(drawn) == len(set(drawn)) == 10 + report.active
        play(buffer)
    assert set(ids) <= set(buffer.draws.order(3))


def test_10_invariant_8_open_leases_are_due_again(buffer_of):
    buffer = buffer_of()
    start(buffer, 0)
    first = lease(buffer, 4)
    buffer.draws.close(first[1].task.id, 0)
    again = buffer_of()
    again.load_state_dict(json.loads(json.dumps(buffer.state_dict())))
    due = [i for i in buffer.draws.order(0) if i != first[1].task.id]
    assert [drawn.task.id for drawn in lease(again, 99)] == due


def uninterrupted(curriculum):
    while not curriculum.done:
        run_epoch(curriculum)
    return [curriculum.buffer.draws.order(e) for e in range(curriculum.epochs)]


@pytest.mark.parametrize("kill_after", [1, 12, 24, 55])
def test_11_invariant_8_a_resumed_run_draws_the_same(curriculum_of, tmp_path, kill_after):
    whole = curriculum_of()
    expected = uninterrupted(whole)
    queue = FakeQueue()
    run, seen = curriculum_of(queue), 0
    save(run, tmp_path)
    while not run.done and seen <= kill_after:
        if run.epoch_done:
            run.start_epoch()
        for task, _ in run.lease(4):
            run.observe(*group(task, rewards(task, run.epoch)))
            seen += 1
            if seen > kill_after:
                break
        else:  # a step is whole: checkpoint
            save(run, tmp_path)
    again = curriculum_of(queue)  # the process died; the worker's queue did not
    load(again, tmp_path)
    while not again.done:
        if again.epoch_done:
            again.start_epoch()
        for task, _ in again.lease(4):
            again.observe(*group(task, rewards(task, again.epoch)))
    assert [again.buffer.draws.order(e) for e in range(again.epochs)] == expected
    assert again.buffer.reports == whole.buffer.reports
    assert again.state_dict() == whole.state_dict()
    assert sum(e.injected for e in again.buffer.reports) > 0


KILLS = 2


@pytest.mark.slow
def test_11_invariant_8_real_kills(tmp_path):
    """Another process trains; SIGKILL at random moments; the logs and pools must be equal."""
    pool_player.play(tmp_path / "whole")
    rng, path = random.Random(3), tmp_path / "killed"
    command = [sys.executable, str(Path(pool_player.__file__)), str(path)]
    for _ in range(KILLS):
        player = subprocess.Popen(command)
        steps = len(list(path.glob("trajectories/*")))
        while player.poll() is None and len(list(path.glob("trajectories/*"))) <= steps:
            time.sleep(0.005)  # one step further at least
        time.sleep(rng.random() * 0.08)  # about a step
        assert player.poll() is None, "the run ended before its last kill"
        player.kill()
        player.wait()
    subprocess.run(command, check=True, timeout=120)
    whole, killed = (RunDirectory.open(tmp_path / name) for name in ("whole", "killed"))
    assert killed.metrics() == whole.metrics()
    assert killed.manifest["finished"]
    last = [run.latest_checkpoint().path for run in (whole, killed)]
    for name in ("curriculum.json", "variants.jsonl"):
        assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes()


class Slow(FakeQueue):
    """Never finishes anything; notes how long it was asked to wait, and takes a little."""

    def __init__(self):
        super().__init__()
        self.waits: list[float] = []

    def drain(self, request_ids, timeout):
        self.waits.append(timeout)
        time.sleep(min(timeout, 0.02))
        return False

    def results(self, request_ids):
        assert not request_ids, "nothing is finished"
        return []


def test_12_invariant_6_updates_never_wait_for_synthesis(curriculum_of):
    queue = Slow()
    curriculum = curriculum_of(queue, synthesis={"drain_seconds": 3.0})
    for _ in range(2):
        run_epoch(curriculum)
    assert queue.requests and not queue.waits  # ordered and trained on without a wait
    report = curriculum.start_epoch()
    assert max(queue.waits) == sum(queue.waits) == 3.0  # one wait, the others only ask
    assert report.injected == 0
    assert curriculum.metrics()["late_requests"] == curriculum.late == len(queue.requests)
    assert curriculum.waited >= 0.02


def test_12_invariant_6_an_epoch_does_not_wait_unless_it_is_asked_to(curriculum_of):
    queue = Slow()
    curriculum = curriculum_of(queue)
    for _ in range(2):
        run_epoch(curriculum)
    curriculum.start_epoch()
    assert queue.requests and queue.waits and max(queue.waits) == 0.0
    assert curriculum.waited == 0.0 and curriculum.late == len(queue.requests)


def test_13_an_unjudged_group_moves_nothing_and_is_counted(curriculum_of):
    curriculum = curriculum_of()
    curriculum.start_epoch()
    [(task, _)] = curriculum.lease(1)
    assert curriculum.observe(*group(task, [1.0], invalid=3)) is None
    assert curriculum.metrics()["unjudged"] == 1 and curriculum.metrics()["judged"] == 0
    assert curriculum.buffer.pool[task.id].judgements == []
    assert curriculum.buffer.draws.done(curriculum.buffer.epoch) == 1


def test_14_static_orders_and_moves_nothing(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue, curriculum="static")
    uninterrupted(curriculum)
    assert not queue.requests
    assert all(e.draws == 12 and not e.injected for e in curriculum.buffer.reports)
    assert curriculum.metrics().keys() == curriculum_of().metrics().keys() | {
        "ingested", "deferred", "priority_pruned", "retired_stale",
    }  # fmt: skip
    assert curriculum.metrics()["judged"] == 12


def test_15_invariant_7_ancestors_lead_back_to_an_original(curriculum_of):
    stages = [{"name": "grow", "epochs": 8, "expand": True}]
    curriculum = curriculum_of(replay={"inject": 1.0, "cap": 40}, stages=stages)
    uninterrupted(curriculum)
    known = {t.id for t in originals(12)}
    depths = set()
    for epoch in range(curriculum.epochs):
        for task_id in curriculum.buffer.draws.order(epoch):
            task = curriculum.buffer.pool.task(task_id)
            depths.add(len(task.provenance.ancestors))
            if not task.is_original:
                assert task.provenance.ancestors[0] in known
    assert max(depths) >= 2  # variants descend from variants too

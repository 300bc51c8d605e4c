"""Unit and property tests of the buffer; the numbered semantics are in test_semantics_replay.py."""

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pool_cases import crash, judgement, original, originals, reports, variant
from rods.config import ReplaySettings
from rods.curriculum.journal import LAYOUT
from rods.curriculum.replay import ReplayBuffer
from rods.errors import StoreError, TaskError
from rods.infra.database import put_snapshot


@pytest.fixture
def make(tmp_path):
    opened = []

    def build(count=10, name="buffer.sqlite", seed=0, **settings):
        buffer = ReplayBuffer(tmp_path / name, ReplaySettings(**settings), seed)
        buffer.pool.add_originals(originals(count))
        opened.append(buffer)
        return buffer

    yield build
    for buffer in opened:
        buffer.close()


def finish(buffer, rbar=0.5):
    """Play the epoch to its end with one mean reward for all."""
    while leases := buffer.lease(7):
        for task, _ in leases:
            buffer.record(judgement(task, rbar, buffer.epoch), buffer.epoch)
            buffer.complete([task.id])


def offer(buffer, count, epoch=0, seed=None, noise=0):
    seed = seed or originals(1)[0]
    made = [variant(seed, i, noise) for i in range(count)]
    assert all(buffer.pool.offer(t, epoch, "request") for t in made)
    return made


def test_an_empty_buffer(make):
    buffer = make()
    assert buffer.epoch == -1 and buffer.remaining == 0 and buffer.lease(4) == []
    assert buffer.pool.counts() == (10, 0, 0, {})


def test_offer_is_idempotent_and_needs_ancestors(make):
    buffer = make()
    [task] = offer(buffer, 1)
    assert not buffer.pool.offer(task, 5, "another request")
    with pytest.raises(TaskError, match="names no ancestors"):
        buffer.pool.offer(original(77), 0, "r")
    assert buffer.pool.count("pending") == 1


def test_a_variant_equal_to_an_original_is_known_already(make):
    buffer = make()
    task = original(0)
    same = task.__class__(
        task.env, task.category, task.turns, task.world,
        task.provenance.__class__("x", "y", ("ancestor",)),
    )  # fmt: skip
    assert not buffer.pool.offer(same, 0, "r")


def test_originals_must_match_on_reopening(make, tmp_path):
    make(10).close()
    buffer = ReplayBuffer(tmp_path / "buffer.sqlite", ReplaySettings())
    with pytest.raises(StoreError, match="8 match, 2 are missing, 0 are new"):
        buffer.pool.add_originals(originals(8))
    with pytest.raises(TaskError, match="stands twice"):
        buffer.pool.add_originals([original(1), original(1)])
    with pytest.raises(TaskError, match="is a variant"):
        buffer.pool.add_originals([variant(original(1), 0)])
    buffer.close()


def test_another_seed_or_layout_or_a_damaged_file_is_refused(make, tmp_path):
    make().close()
    path = tmp_path / "buffer.sqlite"
    with pytest.raises(StoreError, match="made with seed 0, not 1"):
        ReplayBuffer(path, ReplaySettings(), 1)
    for layout in (LAYOUT - 1, LAYOUT + 1):
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version={layout}")
        connection.close()
        said = rf"layout {layout}, expected {LAYOUT}\. .* use that version, or start a new run"
        with pytest.raises(StoreError, match=said):
            ReplayBuffer(path, ReplaySettings())
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        ReplayBuffer(path, ReplaySettings())


def test_draws_are_deterministic_and_differ_between_epochs(make):
    orders = []
    for name in ("a", "b"):
        buffer = make(name=name)
        for epoch in range(2):
            buffer.start_epoch(epoch)
            finish(buffer)
        orders.append([buffer.drawn(0), buffer.drawn(1)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    other = make(name="c", seed=3)
    other.start_epoch(0)
    assert other.drawn(0) != orders[0][0]


def test_stage_pools_and_categories(make):
    buffer = make()
    pool = [t.id for t in originals(10) if t.category == "base"]
    offer(buffer, 1, seed=original(1, "miss_func"))
    offer(buffer, 1)
    buffer.start_epoch(0, originals=pool, categories=("base",))
    assert sorted(buffer.drawn(0)) == sorted(pool)
    finish(buffer)
    report = buffer.start_epoch(1, originals=pool, categories=("base",))
    assert (report.injected, report.deferred, report.pending) == (0, 1, 2)  # 20 % of 3 is none
    with pytest.raises(StoreError, match="epoch 2 cannot start"):
        buffer.start_epoch(2)


def test_an_epoch_without_expansion_draws_no_variant(make):
    buffer = make(inject=1.0)
    offer(buffer, 3)
    buffer.start_epoch(0)
    finish(buffer)
    report = buffer.start_epoch(1, expand=False)
    assert (report.draws, report.injected, report.deferred, report.pending) == (10, 0, 0, 3)


def test_a_task_that_is_not_leased_cannot_be_completed(make):
    buffer = make()
    buffer.start_epoch(0)
    [(task, _)] = buffer.lease(1)
    buffer.complete([task.id])
    with pytest.raises(TaskError, match="is not leased in epoch 0"):
        buffer.complete([task.id])
    with pytest.raises(TaskError, match="not in the replay buffer"):
        buffer.record(judgement(original(99), 0.5), 0)


def test_a_lease_keeps_its_epoch_and_none_of_an_older_one_is_overtaken(make, tmp_path):
    buffer = make()
    buffer.start_epoch(0)
    first = buffer.lease(9)
    with pytest.raises(StoreError, match="has 1 draws left"):
        buffer.start_epoch(1)
    first += buffer.lease(99)
    buffer.start_epoch(1)
    second = buffer.lease(99)
    assert {e for _, e in first} == {0} and {e for _, e in second} == {1}
    task = second[0].task
    assert buffer.draws.leased_in(task.id) == 0
    buffer.complete([task.id], 0)
    assert buffer.draws.leased_in(task.id) == 1
    assert (buffer.draws.open(0), buffer.remaining, buffer.draws.due) == (9, 10, 0)
    buffer.snapshot(tmp_path / "saved.sqlite")
    buffer = make(name="saved.sqlite")
    again = buffer.lease(99)  # the older epoch's first, in their old places
    assert again == [lease for lease in first if lease.task != task]
    assert buffer.lease(99) == second


def test_revival_by_retest(make):
    buffer = make(inject=1.0, retest=1.0)
    [task] = offer(buffer, 1)
    for epoch, rbar in enumerate([0.5, 0.99, 0.5]):
        buffer.start_epoch(epoch)
        finish(buffer, rbar)
        status = {1: (0, {"mastered": 1}), 2: (1, {})}.get(epoch)
        if status:
            assert (buffer.pool.counts().active, buffer.pool.counts().retired) == status
    assert task.id in buffer.drawn(2)


def test_reports_tell_what_came_and_went(make):
    buffer = make(inject=1.0)
    offer(buffer, 1)
    [bad] = offer(buffer, 1, noise=1)
    buffer.start_epoch(0)
    finish(buffer)
    buffer.start_epoch(1)
    for task, _ in buffer.lease(99):
        buffer.record(judgement(task, 0.1 if task == bad else 0.6, 1), 1)
        buffer.complete([task.id])
    buffer.start_epoch(2)
    assert [e.retired for e in reports(buffer)] == [{}, {}, {"burn_in": 1}]
    assert [e.injected for e in reports(buffer)] == [0, 2, 0]


def test_never_solved_needs_three_visits_without_any_reward(make):
    buffer = make(2)
    for epoch in range(3):
        buffer.start_epoch(epoch)
        for task, _ in buffer.lease(9):
            rbar = 0.0 if task == original(0) or epoch else 0.1
            buffer.record(judgement(task, rbar, epoch), epoch)
            buffer.complete([task.id])
        assert set(buffer.visits.never_solved) == ({original(0).id} if epoch == 2 else set())


def test_a_full_disk_is_one_clear_message_and_loses_nothing(make):
    buffer = make()
    buffer.start_epoch(0)
    pages = buffer._db.number("PRAGMA page_count")
    buffer._db.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"disk is full.*Nothing that was stored"):
        offer(buffer, 3000)
    kept = buffer.pool.count("pending")
    buffer._db.rows("PRAGMA max_page_count = 1000000")
    offer(buffer, 10, noise=1)
    assert buffer.pool.count("pending") == kept + 10


def test_a_failure_within_a_transaction_takes_all_of_it_back(make):
    buffer = make()
    buffer.start_epoch(0)
    [(task, _)] = buffer.lease(1)
    with pytest.raises(KeyError), buffer.atomic():
        buffer.record(judgement(task, 0.5), 0)
        buffer.complete([task.id])
        raise KeyError
    assert buffer.visits.of(task.id) == [] and buffer.completed == 0


def test_snapshot_and_restore(make, tmp_path):
    buffer = make(inject=1.0)
    offer(buffer, 2)
    buffer.start_epoch(0)
    buffer.lease(4)
    buffer.snapshot(tmp_path / "copy.sqlite")
    finish(buffer)
    offer(buffer, 2, noise=1)
    live = tmp_path / "buffer.sqlite"
    buffer.close()
    put_snapshot(tmp_path / "copy.sqlite", live)
    buffer = make(inject=1.0)
    assert (buffer.pool.count("pending"), buffer.remaining) == (2, 10)
    assert [t.id for t, _ in buffer.lease(10)] == buffer.drawn(0)  # open leases are due again
    buffer.close()
    with pytest.raises(StoreError, match="no such snapshot"):
        put_snapshot(tmp_path / "none.sqlite", live)
    (tmp_path / "torn.sqlite").write_bytes((tmp_path / "copy.sqlite").read_bytes()[:5000])
    with pytest.raises(StoreError, match="damaged"):
        put_snapshot(tmp_path / "torn.sqlite", live)
    assert make(inject=1.0).pool.count("pending") == 2


MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A kill of the process needs no disk, and a loaded disk is slow."""


class Machine(RuleBasedStateMachine):
    """Random use with kills at any event and restores; a model in plain Python beside it."""

    @initialize(
        cap=st.integers(0, 6),
        inject=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
        retire=st.sampled_from([(), (0.2, 0.95)]),
    )
    def begin(self, cap, inject, retire):
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.root = Path(self.folder.name)
        self.settings = ReplaySettings(cap=cap, inject=inject, retire=retire, retest=0.3)
        self.originals = originals(6)
        self.lives = 0
        self.made = 0
        self.accepted: dict[str, int] = {}
        self.trained: list[tuple[int, str]] = []
        self.out: list = []
        self.saved = None
        self.buffer = self.open(self.root / "pool.sqlite")
        assert self.buffer.visits.never_solved == set()  # kept from the first judgement on

    def open(self, path):
        buffer = ReplayBuffer(path, self.settings, 5)
        buffer.pool.add_originals(self.originals)
        self.path = path
        return buffer

    @rule(again=st.booleans())
    def offer(self, again):
        index = self.made - 1 if again and self.made else self.made
        self.made = max(self.made, index + 1)
        task = variant(self.originals[index % 6], index)
        new = self.buffer.pool.offer(task, max(0, self.buffer.epoch), f"r{index}")
        assert new == (task.id not in self.accepted)
        self.accepted.setdefault(task.id, max(0, self.buffer.epoch))

    @precondition(lambda self: self.buffer.draws.due == 0)
    @rule()
    def start(self):
        """Groups of the epochs before may still be out."""
        before = self.buffer.pool.counts()
        epoch = self.buffer.epoch + 1
        report = self.buffer.start_epoch(epoch, first_step=3 * epoch + 1)
        assert report.injected <= self.settings.inject * (before.originals + before.active) + 1e-9
        drawn = self.buffer.drawn(report.epoch)
        assert len(set(drawn)) == len(drawn) == report.draws
        assert set(drawn) >= {t.id for t in self.originals}
        assert all(self.accepted[i] < report.epoch for i in drawn if i in self.accepted)

    @rule(n=st.integers(1, 5))
    def lease(self, n):
        self.out += self.buffer.lease(n)

    @precondition(lambda self: self.out)
    @rule(rbar=st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.85, 0.95, 1.0]), judged=st.booleans())
    def observe(self, rbar, judged):
        task, epoch = self.out.pop(0)
        with self.buffer.atomic():
            if judged:
                self.buffer.record(judgement(task, rbar, epoch), epoch)
            self.buffer.complete([task.id], epoch)
        self.trained.append((epoch, task.id))

    @precondition(lambda self: self.out)
    @rule()
    def killed_within_observe(self):
        """The record is written, the lease is not closed: neither must remain."""
        task, epoch = self.out[0]
        live = self.buffer
        with pytest.raises(KeyboardInterrupt), live.atomic():
            live.record(judgement(task, 0.5, epoch), epoch)
            raise KeyboardInterrupt
        assert all(j.step != epoch for j in live.visits.of(task.id))

    @rule()
    def kill(self):
        self.lives += 1
        copy = crash(self.path, self.root / f"life{self.lives}")
        self.buffer.close()
        self.out = []
        self.buffer = self.open(copy)

    @rule()
    def save(self):
        self.buffer.snapshot(self.root / "saved.sqlite")
        self.saved = (dict(self.accepted), list(self.trained))

    @precondition(lambda self: self.saved is not None)
    @rule()
    def resume(self):
        self.buffer.close()
        put_snapshot(self.root / "saved.sqlite", self.path)
        self.buffer = self.open(self.path)
        self.accepted, self.trained = dict(self.saved[0]), list(self.saved[1])
        self.out = []

    @invariant()
    def nothing_is_lost_or_doubled(self):
        counts = self.buffer.pool.counts()
        assert counts.originals == 6
        total = counts.pending + counts.active + sum(counts.retired.values())
        assert total == len(self.accepted)
        assert len(set(self.trained)) == len(self.trained)
        for epoch in range(self.buffer.epoch + 1):
            done = sum(e == epoch for e, _ in self.trained)
            assert self.buffer.draws.done(epoch) == done
            assert self.buffer.draws.open(epoch) == len(self.buffer.drawn(epoch)) - done

    @invariant()
    def what_is_counted_beside_the_tables_is_what_they_say(self):
        rows = self.buffer._db.rows
        sql = "SELECT COUNT(*) FROM tasks WHERE generated = 1 AND status = ?"
        pending, active = (rows(sql, (status,))[0][0] for status in ("pending", "active"))
        sql = "SELECT reason, COUNT(*) FROM tasks WHERE status = 'retired' GROUP BY reason"
        assert self.buffer.pool.counts() == (6, pending, active, dict(rows(sql)))
        barren = rows(
            "SELECT task_id FROM visits JOIN tasks ON id = task_id WHERE generated = 0 "
            "GROUP BY task_id HAVING COUNT(*) >= 3 AND MAX(rbar) = 0"
        )
        assert set(self.buffer.visits.never_solved) == {task_id for (task_id,) in barren}
        for task_id, generated, status, judged in rows(
            "SELECT id, generated, status, (SELECT COUNT(*) FROM visits WHERE task_id = id) "
            "FROM tasks"
        ):
            assert self.buffer.visits.count(task_id) == judged
            assert self.buffer.pool.status(task_id) == (status if generated else None)
        for epoch, first_step in rows("SELECT epoch, first_step FROM epochs"):
            assert self.buffer.first_step(epoch) == first_step

    @invariant()
    def the_cap_holds(self):
        assert self.buffer.pool.counts().active <= self.settings.cap

    @invariant()
    def retirement_is_a_switch(self):
        if not self.settings.retire:
            assert set(self.buffer.pool.counts().retired) <= {"pruned"}

    def teardown(self):
        if hasattr(self, "buffer"):
            self.buffer.close()
            self.folder.cleanup()


class Thorough(Machine):
    pass


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
Machine.TestCase.settings = settings(max_examples=8, stateful_step_count=25, **QUIET)
Thorough.TestCase.settings = settings(max_examples=80, stateful_step_count=50, **QUIET)
test_random_use_with_kills = Machine.TestCase
test_random_use_with_kills_thoroughly = pytest.mark.slow(Thorough.TestCase)

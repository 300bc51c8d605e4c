"""Unit and property tests of the buffer; the numbered semantics are in test_semantics_replay.py."""

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pool_cases import judgement, lease, original, originals, start, variant
from rods.config import ReplaySettings
from rods.curriculum.replay import ReplayBuffer
from rods.errors import StoreError, TaskError


def make(count=10, seed=0, **settings):
    buffer = ReplayBuffer(ReplaySettings(**settings), seed)
    buffer.pool.add_originals(originals(count))
    return buffer


def resumed(buffer, count=10, **settings):
    """The same buffer in another process."""
    again = make(count, **settings)
    again.load_state_dict(json.loads(json.dumps(buffer.state_dict())))
    return again


def finish(buffer, rbar=0.5):
    """Play the epoch to its end with one mean reward for all."""
    while leases := lease(buffer, 7):
        for task, _ in leases:
            buffer.record(judgement(task, rbar, buffer.epoch), buffer.epoch)
            buffer.draws.close(task.id, buffer.epoch)


def offer(buffer, count, epoch=0, seed=None, noise=0):
    seed = seed or originals(1)[0]
    made = [variant(seed, i, noise) for i in range(count)]
    assert all(buffer.pool.offer(t, epoch) for t in made)
    return made


def test_an_empty_buffer():
    buffer = make()
    assert buffer.epoch == -1 and buffer.draws.open(buffer.epoch) == 0 and lease(buffer, 4) == []
    assert buffer.pool.counts() == (10, 0, 0, {})


def test_offer_is_idempotent_and_needs_ancestors():
    buffer = make()
    [task] = offer(buffer, 1)
    assert not buffer.pool.offer(task, 5)
    with pytest.raises(TaskError, match="names no ancestors"):
        buffer.pool.offer(original(77), 0)
    assert buffer.pool.count("pending") == 1


def test_a_variant_equal_to_an_original_is_known_already():
    buffer = make()
    task = original(0)
    same = task.__class__(
        task.env, task.category, task.turns, task.world,
        task.provenance.__class__("x", "y", ("ancestor",)),
    )  # fmt: skip
    assert not buffer.pool.offer(same, 0)


def test_originals_must_match_on_resume():
    with pytest.raises(StoreError, match="8 match, 2 are missing, 0 are new"):
        resumed(make(10), count=8)
    with pytest.raises(TaskError, match="stands twice"):
        make().pool.add_originals(originals(2))
    with pytest.raises(TaskError, match="is a variant"):
        make().pool.add_originals([variant(original(1), 0)])


def test_another_seed_is_refused():
    with pytest.raises(StoreError, match="made with seed 0, not 1"):
        resumed(make(), seed=1)


def test_draws_are_deterministic_and_differ_between_epochs():
    orders = []
    for _ in range(2):
        buffer = make()
        for epoch in range(2):
            start(buffer, epoch)
            finish(buffer)
        orders.append([buffer.draws.order(0), buffer.draws.order(1)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    other = make(seed=3)
    other.start_epoch(0)
    assert other.draws.order(0) != orders[0][0]


def test_stage_pools_and_categories():
    buffer = make()
    pool = [t.id for t in originals(10) if t.category == "base"]
    offer(buffer, 1, seed=original(1, "miss_func"))
    offer(buffer, 1)
    start(buffer, 0, originals=pool, categories=("base",))
    assert sorted(buffer.draws.order(0)) == sorted(pool)
    finish(buffer)
    report = start(buffer, 1, originals=pool, categories=("base",))
    assert (report.injected, report.deferred, report.pending) == (0, 1, 2)  # 20 % of 3 is none
    with pytest.raises(StoreError, match="epoch 3 cannot start: epoch 1 is the last"):
        start(buffer, 3)


def test_the_share_is_of_the_tasks_that_the_stage_draws():
    """Active variants of other categories, which it does not draw, let none in."""
    buffer = make(inject=0.5)
    offer(buffer, 4, seed=original(1, "miss_func"))
    start(buffer, 0)
    assert start(buffer, 1).injected == 4
    pool = [t.id for t in originals(10) if t.category == "base"]
    offer(buffer, 4)
    assert start(buffer, 2, originals=pool, categories=("base",)).injected == 1, "a half of 3"


def test_an_epoch_without_expansion_draws_no_variant():
    buffer = make(inject=1.0)
    offer(buffer, 3)
    start(buffer, 0)
    finish(buffer)
    report = start(buffer, 1, expand=False)
    assert (report.draws, report.injected, report.deferred, report.pending) == (10, 0, 0, 3)


def test_a_task_that_is_not_leased_cannot_be_completed():
    buffer = make()
    start(buffer, 0)
    [(task, _)] = lease(buffer, 1)
    buffer.draws.close(task.id, 0)
    with pytest.raises(TaskError, match="was not drawn in epoch 0"):
        buffer.draws.close(task.id, 0)
    with pytest.raises(TaskError, match="the pool has no task"):
        buffer.record(judgement(original(99), 0.5), 0)


def test_a_lease_keeps_its_epoch_and_none_of_an_older_one_is_overtaken():
    buffer = make()
    start(buffer, 0)
    first = lease(buffer, 9)
    start(buffer, 1)
    last, *second = lease(buffer, 99)
    first.append(last)
    assert {e for _, e in first} == {0} and {e for _, e in second} == {1}
    task = second[0].task
    assert buffer.draws.leased_in(task.id) == 0
    buffer.draws.close(task.id, 0)
    assert buffer.draws.leased_in(task.id) == 1
    assert (buffer.draws.open(0), buffer.draws.open(buffer.epoch), buffer.draws.due) == (9, 10, 0)
    buffer = resumed(buffer)
    again = lease(buffer, 99)  # the older epoch's first, in their old places
    assert again == [*(drawn for drawn in first if drawn.task != task), *second]


def test_no_more_variants_enter_than_the_cap_allows():
    buffer = make(inject=1.0, cap=2)
    offer(buffer, 6)
    start(buffer, 0)
    report = start(buffer, 1)
    assert (report.injected, report.deferred, report.active, report.retired) == (2, 4, 2, {})


def test_a_second_judgement_in_an_epoch_changes_nothing():
    buffer = make(inject=1.0)
    [task] = offer(buffer, 1)
    start(buffer, 0)
    start(buffer, 1)
    assert buffer.record(judgement(task, 0.5, 1), 1) is None
    assert buffer.record(judgement(task, 0.0, 1), 1) is None
    assert buffer.pool.count("active") == 1 and buffer.pool[task.id].judgements[0].rbar == 0.5


def test_a_judgement_that_comes_late_is_not_the_latest():
    buffer = make(inject=1.0, cap=3)
    early, late, other = offer(buffer, 3)
    for epoch in range(3):
        start(buffer, epoch)
    for task, rbar, epoch in [
        (early, 0.5, 2), (early, 0.9, 1), (late, 0.5, 1), (late, 0.8, 2), (other, 0.7, 1)
    ]:  # fmt: skip
        buffer.record(judgement(task, rbar, epoch), epoch)
    entry = buffer.pool[early.id]
    assert (entry.last_visit, [j.rbar for j in entry.judgements]) == (2, [0.9, 0.5])
    assert buffer.pool.lowest(2) == [late.id, other.id], "by the latest visit: 0.8, 0.7, 0.5"


def test_the_latest_judgements_begin_with_the_step_that_is_asked_for():
    buffer = make()
    for step, task in enumerate(originals(3), 4):
        buffer.record(judgement(task, 0.5, step), 0)
    assert [j.step for j in buffer.pool.latest(5)] == [5, 6]


def test_a_full_pool_revives_nothing():
    buffer = make(inject=1.0, cap=1, retest=1.0)
    first, second = offer(buffer, 2)
    for epoch, rbar in enumerate([0.5, 0.99, 0.5]):  # the first enters, retires, and is tested
        start(buffer, epoch)
        if epoch == 2:
            assert {first.id, second.id} <= {*buffer.draws.order(2)}
            assert buffer.record(judgement(first, 0.5, 2), 2) is None
        else:
            finish(buffer, rbar)
    assert buffer.pool.counts().active == 1 and buffer.pool[first.id].status == "retired"


@pytest.mark.parametrize(("retest", "again"), [(0.0, 0), (0.25, 3), (0.5, 6), (1.0, 6)])
def test_the_share_of_retests_is_of_all_that_an_epoch_draws(retest, again):
    buffer = make(inject=1.0, retest=retest)
    gone, stay = offer(buffer, 6), offer(buffer, 4, noise=1)
    start(buffer, 0)
    start(buffer, 1)
    for task in gone:
        buffer.record(judgement(task, 1.0, 1), 1)
    assert len(buffer.draws.order(1)) == 10 + len(gone) + len(stay)
    start(buffer, 2)  # 10 originals and 4 variants are active: a quarter is 3
    assert len({t.id for t in gone} & {*buffer.draws.order(2)}) == again


def test_revival_by_retest():
    buffer = make(inject=1.0, retest=1.0)
    [task] = offer(buffer, 1)
    for epoch, rbar in enumerate([0.5, 0.99, 0.5]):
        start(buffer, epoch)
        finish(buffer, rbar)
        status = {1: (0, {"mastered": 1}), 2: (1, {})}.get(epoch)
        if status:
            assert (buffer.pool.counts().active, buffer.pool.counts().retired) == status
    assert task.id in buffer.draws.order(2)


def test_reports_tell_what_came_and_went():
    buffer = make(inject=1.0)
    offer(buffer, 1)
    [bad] = offer(buffer, 1, noise=1)
    start(buffer, 0)
    finish(buffer)
    start(buffer, 1)
    for task, _ in lease(buffer, 99):
        buffer.record(judgement(task, 0.1 if task == bad else 0.6, 1), 1)
        buffer.draws.close(task.id, buffer.epoch)
    start(buffer, 2)
    assert [e.retired for e in buffer.reports] == [{}, {}, {"burn_in": 1}]
    assert [e.injected for e in buffer.reports] == [0, 2, 0]


def test_never_solved_needs_three_visits_without_any_reward():
    buffer = make(2)
    for epoch in range(3):
        start(buffer, epoch)
        for task, _ in lease(buffer, 9):
            rbar = 0.0 if task == original(0) or epoch else 0.1
            buffer.record(judgement(task, rbar, epoch), epoch)
            buffer.draws.close(task.id, buffer.epoch)
        assert set(buffer.pool.never_solved) == ({original(0).id} if epoch == 2 else set())


class Machine(RuleBasedStateMachine):
    """Random use with saves, kills and resumes; a model in plain Python beside it."""

    @initialize(
        cap=st.integers(0, 6),
        inject=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
        retire=st.sampled_from([(), (0.2, 0.95)]),
    )
    def begin(self, cap, inject, retire):
        self.settings = {"cap": cap, "inject": inject, "retire": retire, "retest": 0.3}
        self.originals = originals(6)
        self.made = 0
        self.accepted: dict[str, int] = {}
        self.trained: list[tuple[int, str]] = []
        self.out: list = []
        self.buffer = make(6, 5, **self.settings)
        self.save()

    @rule(again=st.booleans())
    def offer(self, again):
        index = self.made - 1 if again and self.made else self.made
        self.made = max(self.made, index + 1)
        task = variant(self.originals[index % 6], index)
        new = self.buffer.pool.offer(task, max(0, self.buffer.epoch))
        assert new == (task.id not in self.accepted)
        self.accepted.setdefault(task.id, max(0, self.buffer.epoch))

    @rule()
    def start(self):
        """Groups of the epochs before may still be out, and some of their draws due."""
        before = self.buffer.pool.counts()
        epoch = self.buffer.epoch + 1
        report = start(self.buffer, epoch, first_step=3 * epoch + 1)
        assert report.injected <= self.settings["inject"] * (before.originals + before.active)
        drawn = self.buffer.draws.order(report.epoch)
        assert len(set(drawn)) == len(drawn) == report.draws
        assert set(drawn) >= {t.id for t in self.originals}
        assert all(self.accepted[i] < report.epoch for i in drawn if i in self.accepted)

    @rule(n=st.integers(1, 5))
    def lease(self, n):
        self.out += lease(self.buffer, n)

    @precondition(lambda self: self.out)
    @rule(rbar=st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.85, 0.95, 1.0]), judged=st.booleans())
    def observe(self, rbar, judged):
        task, epoch = self.out.pop(0)
        if judged:
            self.buffer.record(judgement(task, rbar, epoch), epoch)
        self.buffer.draws.close(task.id, epoch)
        self.trained.append((epoch, task.id))

    @rule()
    def save(self):
        self.saved = (self.buffer.state_dict(), dict(self.accepted), list(self.trained))

    @rule()
    def kill_and_resume(self):
        state, accepted, trained = self.saved
        self.buffer = make(6, 5, **self.settings)
        self.buffer.load_state_dict(json.loads(json.dumps(state)))
        assert self.buffer.state_dict() == state
        self.accepted, self.trained = dict(accepted), list(trained)
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
            assert self.buffer.draws.open(epoch) == len(self.buffer.draws.order(epoch)) - done

    @invariant()
    def never_solved_are_the_barren(self):
        pool = self.buffer.pool
        barren = {
            t.id
            for t in self.originals
            if len(js := pool[t.id].judgements) >= 3 and not any(j.rbar for j in js)
        }
        assert pool.never_solved == barren

    @invariant()
    def the_cap_holds(self):
        assert self.buffer.pool.counts().active <= self.settings["cap"]

    @invariant()
    def retirement_is_a_switch(self):
        if not self.settings["retire"]:
            assert set(self.buffer.pool.counts().retired) <= {"pruned"}


class Thorough(Machine):
    pass


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
Machine.TestCase.settings = settings(max_examples=8, stateful_step_count=25, **QUIET)
Thorough.TestCase.settings = settings(max_examples=80, stateful_step_count=50, **QUIET)
test_random_use_with_kills = Machine.TestCase
test_random_use_with_kills_thoroughly = pytest.mark.slow(Thorough.TestCase)

from collections import Counter

import pytest

from pool_cases import (
    CATEGORIES,
    FakeQueue,
    config,
    group,
    original,
    originals,
    rewards,
    variant,
)
from rods.config import RunConfig, StageSettings
from rods.curriculum import requests
from rods.curriculum.draws import stage_tasks
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.replay import METRICS
from rods.curriculum.saving import load, save
from rods.errors import ConfigError, RewardError, StoreError, TaskError, TrainError
from rods.reward import Score

GROW = [{"name": "grow", "epochs": 4, "expand": True}]


@pytest.fixture
def curriculum_of():
    def build(queue=None, tasks=None, **sections):
        sections.setdefault("stages", GROW)
        tasks = originals(16) if tasks is None else tasks
        return OnlineCurriculum(config(**sections), tasks, queue or FakeQueue())

    return build


def play(curriculum, values=None, epochs=1):
    for _ in range(epochs):
        curriculum.start_epoch()
        while tasks := [lease.task for lease in curriculum.lease(4)]:
            for task in tasks:
                chosen = values(task) if values else rewards(task, curriculum.epoch)
                curriculum.observe(*group(task, chosen))


def half(_):
    return [1.0, 1.0, 0.0, 0.0]


def test_stages_in_order_with_their_tasks(curriculum_of):
    stages = [
        {"name": "format", "reward": "format", "epochs": 1, "tasks": 4},
        {"name": "base", "epochs": 2, "categories": ["base"]},
        {"name": "all", "epochs": 1, "expand": True},
    ]
    curriculum = curriculum_of(stages=stages)
    assert curriculum.stage_of(curriculum.epoch).name == "format" and curriculum.epochs == 4
    seen = []
    while not curriculum.done:
        play(curriculum)
        drawn = curriculum.buffer.draws.order(curriculum.epoch)
        categories = {curriculum.buffer.pool.task(i).category for i in drawn}
        seen.append((curriculum.stage_of(curriculum.epoch).name, len(drawn), len(categories)))
    assert seen == [("format", 4, 4), ("base", 4, 1), ("base", 4, 1), ("all", 16, 4)]
    with pytest.raises(TrainError, match="all stages are over"):
        curriculum.start_epoch()


def test_a_slice_brings_every_original_into_play_in_turn(curriculum_of):
    stages = [{"name": "grow", "epochs": 5, "slice": 6, "expand": True}]
    curriculum = curriculum_of(stages=stages, replay={"inject": 0.34})
    seen = []
    while not curriculum.done:
        play(curriculum, half)
        drawn = curriculum.buffer.draws.order(curriculum.epoch)
        seen.append([i for i in drawn if curriculum.buffer.pool.task(i).is_original])
    assert [len(ids) for ids in seen] == [6] * 5
    counts = Counter(i for ids in seen for i in ids)
    assert len(counts) == 16 and set(counts.values()) <= {1, 2}
    assert not set(seen[0]) & set(seen[1])


def test_a_slice_larger_than_the_stage_is_the_whole_stage(curriculum_of):
    curriculum = curriculum_of(stages=[{"name": "grow", "slice": 99, "expand": True}])
    curriculum.start_epoch()
    assert curriculum.buffer.draws.open(curriculum.buffer.epoch) == 16


def test_stage_tasks_are_stratified_and_seeded():
    def of(seed=0, **stage):
        stages = (StageSettings(name="w"), StageSettings(name="x", **stage))
        return RunConfig.model_validate({"stages": stages, "seed": seed})

    tasks = originals(40)
    chosen = stage_tasks(of(tasks=6), 1, tasks)
    by_id = {t.id: t.category for t in tasks}
    counts = [sum(by_id[i] == c for i in chosen) for c in CATEGORIES]
    assert sorted(counts) == [1, 1, 2, 2]
    assert chosen == stage_tasks(of(tasks=6), 1, list(reversed(tasks)))
    assert chosen != stage_tasks(of(1, tasks=6), 1, tasks)
    assert len(stage_tasks(of(), 1, tasks)) == 40
    for asked in (("mis_func",), ("base", "mis_func")):  # not even beside a right one
        said = r"stages\.1\.categories: there is no category 'mis_func'\. Those of the stage 'x' .*"
        with pytest.raises(ConfigError, match=said + "Did you mean 'miss_func'"):
            stage_tasks(of(categories=asked), 1, tasks)
    base = [task for task in tasks if task.category == "base"]
    with pytest.raises(ConfigError, match=r"the stage has no tasks.*have \['base'\]"):
        stage_tasks(of(categories=("miss_func",)), 1, base)
    assert stage_tasks(of(categories=("base", "miss_func")), 1, base), "a known one may be missing"


def test_a_stage_on_another_scale_is_judged_by_turns(curriculum_of):
    curriculum = curriculum_of(stages=[{"name": "format", "reward": "format", "epochs": 1}])
    curriculum.start_epoch()
    one, two = (lease.task for lease in curriculum.lease(2))
    assert curriculum.observe(*group(one, [1.5, 2.0, 0.0, 0.0])).rbar == 0.5
    grow = curriculum_of()
    grow.start_epoch()
    [(task, _)] = grow.lease(1)
    with pytest.raises(RewardError, match="expand"):
        grow.observe(*group(task, [1.5, 2.0, 0.0, 0.0]))
    assert grow.buffer.draws.done(grow.buffer.epoch) == 0  # nothing was half done
    assert two.id != one.id


def test_only_what_is_out_is_observed(curriculum_of):
    curriculum = curriculum_of()
    assert curriculum.epoch_done and not curriculum.done
    curriculum.start_epoch()
    assert len(curriculum.lease(99)) == 16
    assert curriculum.lease(1) == [] and not curriculum.epoch_done
    task = originals(1)[0]
    curriculum.observe(*group(task, half(task)))
    with pytest.raises(TaskError, match="was not drawn"):
        curriculum.observe(*group(task, half(task)))
    with pytest.raises(TaskError, match="the pool has no task"):
        curriculum.observe(*group(original(99), half(None)))
    assert curriculum.buffer.draws.done(curriculum.buffer.epoch) == 1


def test_an_epoch_may_start_while_groups_of_the_one_before_are_played(curriculum_of):
    curriculum = curriculum_of()
    curriculum.start_epoch()
    first = curriculum.lease(12)
    assert not curriculum.drawn_out
    with pytest.raises(TrainError, match="epoch 0 has 4 draws left"):
        curriculum.start_epoch()
    first += curriculum.lease(99)
    assert curriculum.drawn_out and not curriculum.epoch_done
    curriculum.start_epoch()
    second = curriculum.lease(4)
    assert {lease.epoch for lease in first} == {0} and {lease.epoch for lease in second} == {1}
    late = {lease.task.id for lease in first}
    for task, epoch in [*first, *second]:
        judged = curriculum.observe(*group(task, half(task)), epoch)
        assert (
            judged is not None
            and judged.step
            == (curriculum.buffer.first_step(epoch))
            + (curriculum.buffer.draws.done(epoch) - 1) // 4
        )
    assert curriculum.buffer.draws.done(0) == 16 == len(late)
    assert curriculum.counts[0]["judged"] == 16
    assert curriculum.counts[1]["judged"] == 4
    assert curriculum.buffer.first_step(1) == 4


def test_a_draw_takes_from_the_next_epoch_what_this_one_lacks(curriculum_of):
    curriculum = curriculum_of(stages=[{"name": "grow", "epochs": 3, "expand": True}])
    sizes: list[dict[int, int]] = []
    while not curriculum.done:
        drawn = curriculum.draw(7)
        sizes.append(dict(Counter(epoch for _, epoch in drawn)))
        for task, epoch in drawn:
            assert curriculum.observe(*group(task, [1.0, 1.0, 1.0, 1.0]), epoch) is not None
    assert sizes == [{0: 7}, {0: 7}, {0: 2, 1: 5}, {1: 7}, {1: 4, 2: 3}, {2: 7}, {2: 6}]
    assert curriculum.draw(7) == []
    firsts = [curriculum.buffer.first_step(epoch) for epoch in range(3)]
    assert firsts == [0, 16 // 4, 32 // 4], "at four groups a step, as configured"


def test_a_draw_starts_one_epoch_at_most(curriculum_of):
    curriculum = curriculum_of(tasks=originals(4), stages=[{"name": "x", "epochs": 3}])
    assert [epoch for _, epoch in curriculum.draw(9)] == [0] * 4
    assert [epoch for _, epoch in curriculum.draw(9)] == [1] * 4, "while the first is played"


def test_an_epoch_smaller_than_an_update_is_one_update(curriculum_of):
    stages = [{"name": "x", "epochs": 3}]
    curriculum = curriculum_of(tasks=originals(4), stages=stages, rollout={"tasks_per_step": 8})
    steps = []
    while not curriculum.done:
        for task, epoch in curriculum.draw(8):
            steps.append(curriculum.observe(*group(task, half(task)), epoch).step)
    assert steps == [0] * 4 + [1] * 4 + [2] * 4


def test_expansion_needs_a_queue():
    with pytest.raises(ConfigError, match="no synthesis queue"):
        OnlineCurriculum(config(), originals(8))
    OnlineCurriculum(config(curriculum="static"), originals(8))


def test_one_cycle_an_epoch_one_step_before_its_end(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue)
    curriculum.start_epoch()
    emitted = []
    for _ in range(4):
        for task, _ in curriculum.lease(4):
            curriculum.observe(*group(task, half(task)))
        emitted.append(len(queue.requests))
    assert emitted == [0, 0, 4, 4]
    assert curriculum.metrics()["seed_emitted"] == 4


def test_several_cycles_are_spread_over_the_epoch(curriculum_of, monkeypatch):
    queue = FakeQueue()
    monkeypatch.setattr(requests, "CYCLES", 3)
    monkeypatch.setattr(requests, "BACKLOG", 9)
    more = {"variants_per_seed": 1}
    curriculum = curriculum_of(queue, tasks=originals(36), synthesis=more)
    curriculum.start_epoch()
    emitted = []
    while tasks := [lease.task for lease in curriculum.lease(4)]:
        for task in tasks:
            curriculum.observe(*group(task, half(task)))
        emitted.append(len(queue.requests))
    assert emitted == [0, 4, 4, 4, 8, 8, 8, 12, 12]
    names = list(queue.requests)
    assert len({queue.requests[n][0].id for n in names}) == 12  # cooldown: no seed twice
    assert curriculum.metrics()["cooldown_filtered"] > 0


def test_an_epoch_of_one_step_still_has_its_cycle(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue, tasks=originals(3), replay={"inject": 1.0})
    play(curriculum, half)
    assert curriculum.metrics()["cycles"] == 1 and len(queue.requests) == 3


def test_back_pressure_limits_the_orders(curriculum_of, monkeypatch):
    queue = FakeQueue()
    monkeypatch.setattr(requests, "CYCLES", 2)
    monkeypatch.setattr(requests, "BACKLOG", 1.5)
    curriculum = curriculum_of(
        queue,
        boundary={"seeds": 16, "cooldown_epochs": 0},
        replay={"inject": 0.25, "retire": []},
        synthesis={"variants_per_seed": 2},
    )
    for _ in range(3):
        play(curriculum, half)
        buffer = curriculum.buffer
        ordered = sum(r.n for r in curriculum.requests.open.values())
        assert buffer.pool.count("pending") + ordered <= 1.5 * buffer.injectable(16)
    assert curriculum.metrics()["backlog_filtered"] > 0
    assert queue.requests


def test_invariant_9_requests_are_deterministic_and_resubmitted_after_a_crash(curriculum_of):
    first, second = FakeQueue(), FakeQueue()
    run = curriculum_of(first)
    play(run, half)
    play(curriculum_of(second), half)
    assert first.requests == second.requests
    stretches = {(seed.id, start) for seed, _, start, _ in first.requests.values()}
    assert len(stretches) == len(first.requests)
    empty = FakeQueue()  # the requests were saved, and the worker's queue was lost
    curriculum_of(empty).load_state_dict(run.state_dict())
    assert empty.requests == first.requests


def test_late_requests_are_taken_in_later_and_once(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue, replay={"inject": 1.0, "cap": 99})
    play(curriculum, half)
    slow = next(iter(queue.requests))
    queue.slow = {slow}
    play(curriculum, half)
    assert curriculum.metrics()["late_requests"] == 1
    held = curriculum.buffer.pool.task(queue.requests[slow][0].id)
    first = queue.requests[slow][2]
    late = {variant(held, first + i).id for i in range(2)}
    assert not late & set(curriculum.buffer.draws.order(1))
    queue.slow = set()
    play(curriculum, half)
    assert late <= set(curriculum.buffer.draws.order(2))
    assert slow not in curriculum.requests.open


def test_variants_on_the_boundary_become_seeds(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue, replay={"inject": 1.0, "cap": 99})
    play(curriculum, half, epochs=3)
    depths = {len(seed.provenance.ancestors) for seed, _, _, _ in queue.requests.values()}
    assert {0, 1} <= depths


def test_a_never_solved_original_is_reported_and_is_no_seed(curriculum_of, monkeypatch):
    monkeypatch.setattr(requests, "BACKLOG", 9)
    queue = FakeQueue()
    bad = original(0).id
    every = {"priority": "random", "seeds": 99, "cooldown_epochs": 0}
    curriculum = curriculum_of(
        queue,
        boundary=every,
        replay={"inject": 1.0},
        synthesis={"variants_per_seed": 1},
    )
    play(curriculum, lambda t: [0.0] * 4 if t.id == bad else half(t), epochs=3)
    assert curriculum.metrics()["never_solved"] == 1
    third = [seed.id for seed, _, _, epoch in queue.requests.values() if epoch == 2]
    assert len(third) > 12 and bad not in third
    assert bad in [seed.id for seed, _, _, epoch in queue.requests.values() if epoch < 2]


def test_metrics_and_log_rows(curriculum_of):
    curriculum = curriculum_of()
    curriculum.start_epoch()
    tasks = [lease.task for lease in curriculum.lease(4)]
    values = [[1.0] * 4, [0.0] * 4, half(None), [0.5] * 4]
    judged = [curriculum.observe(*group(t, v)) for t, v in zip(tasks, values, strict=True)]
    metrics = curriculum.metrics()
    expected = {"judged": 4, "hard": 1, "boundary": 2, "mastered": 1, "zero_variance": 3}
    assert {k: metrics[k] for k in expected} == expected
    assert metrics["boundary_zero_variance"] == 1 and metrics["boundary_rate"] == 0.5
    assert set(METRICS) <= set(metrics)
    row = curriculum.log_row(judged[2])
    assert (row["origin"], row["region"], row["first_visit"]) == ("original", "boundary", True)
    assert (row["rbar"], row["phi"], row["variance"]) == (0.5, 1.0, 0.25)
    assert curriculum.step(curriculum.epoch) == 1


def test_the_first_of_two_visits_in_an_update_is_marked_as_such(curriculum_of):
    curriculum = curriculum_of()
    curriculum.start_epoch()
    tasks = [lease.task for lease in curriculum.lease(40)]
    first = [curriculum.observe(*group(t, half(None)), epoch=0) for t in tasks]
    again = {lease.task.id: lease.task for lease in curriculum.draw(1)}
    task = next(iter(again.values()))
    second = curriculum.observe(*group(task, half(None)), epoch=1)
    rows = [curriculum.log_row(j) for j in [*first, second] if j and j.task_id == task.id]
    assert [row["first_visit"] for row in rows] == [True, False]  # logged after both


def test_a_resume_needs_the_saved_files_alone(curriculum_of, tmp_path):
    curriculum = curriculum_of(replay={"inject": 1.0})
    play(curriculum, half, epochs=2)
    save(curriculum, tmp_path)
    saved = curriculum.state_dict()
    play(curriculum, half)
    again = curriculum_of(replay={"inject": 1.0})
    load(again, tmp_path)
    assert again.state_dict() == saved != curriculum.state_dict()
    assert again.epoch == 1 and again.epoch_done and again.buffer.pool.count("active") > 0


@pytest.mark.parametrize("name", ["curriculum.json", "variants.jsonl"])
def test_a_damaged_checkpoint_is_refused_with_its_file(curriculum_of, tmp_path, name):
    curriculum = curriculum_of(replay={"inject": 1.0})
    play(curriculum, half, epochs=2)
    save(curriculum, tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-20])
    before = curriculum.state_dict()
    with pytest.raises(StoreError, match=rf"{name}: this checkpoint cannot be read"):
        load(curriculum, tmp_path)
    assert curriculum.state_dict() == before
    path.unlink()
    with pytest.raises(StoreError, match=rf"{name}: this checkpoint cannot be read"):
        load(curriculum, tmp_path)


@pytest.mark.slow
def test_groups_judged_together_leave_what_they_leave_one_by_one(curriculum_of):
    queues = FakeQueue(), FakeQueue()
    kinds = {"replay": {"inject": 1.0, "retest": 0.5, "cap": 6}}
    one, together = (curriculum_of(q, **kinds) for q in queues)
    rows = {one: [], together: []}
    while not one.done:
        for curriculum in (one, together):
            groups, scores, epochs = [], [], []
            for task, epoch in curriculum.draw(5):
                values = rewards(task, epoch)
                unjudged = task.turns[0].user.endswith("3") and epoch == 1
                given = group(task, values[:1], 3) if unjudged else group(task, values)
                groups, scores = [*groups, given[0]], [*scores, given[1]]
                epochs.append(epoch)
            if curriculum is one:
                rows_of = zip(groups, scores, epochs, strict=True)
                judged = [one.judge([g], [s], [e])[0] for g, s, e in rows_of]
            else:
                judged = together.judge(groups, scores, epochs)
            curriculum.request_variants()
            rows[curriculum] += [j and curriculum.log_row(j) for j in judged]
        assert one.metrics() == together.metrics()
        assert one.state_dict() == together.state_dict()
    assert together.done and rows[one] == rows[together]
    assert queues[0].requests == queues[1].requests
    counts = [together.counts[e] for e in range(4)]
    assert any("unjudged" in m for m in counts) and any("zero_variance" in m for m in counts)
    assert any(name.startswith("retired") for m in counts for name in m)


def test_an_error_judges_no_group_of_the_batch(curriculum_of):
    queue = FakeQueue()
    curriculum = curriculum_of(queue)
    curriculum.start_epoch()
    leases = curriculum.lease(16)
    groups, scores = zip(*(group(task, half(task)) for task, _ in leases), strict=True)
    before = curriculum.state_dict()
    for wrong, error in (
        ([*scores[:-1], [Score(9.0)] * 4], RewardError),
        ([*scores[:-1], scores[-1][:2]], RewardError),
    ):
        with pytest.raises(error):
            curriculum.judge(groups, wrong, [0] * 16)
        assert curriculum.request_variants() == 0 and queue.requests == {}
        assert curriculum.state_dict() == before
    with pytest.raises(TaskError, match="was not drawn in epoch 0"):
        curriculum.judge([*groups, groups[0]], [*scores, scores[0]], [0] * 17)
    assert curriculum.state_dict() == before
    curriculum.judge(groups, scores, [0] * 16)
    assert curriculum.request_variants() == 4
    assert curriculum.buffer.draws.done(curriculum.buffer.epoch) == 16 and len(queue.requests) == 4

import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool_cases import CATEGORIES, group, judge, judgement, original, originals
from rods.config import BoundarySettings
from rods.curriculum.boundary import Judgement, quotas, region_of, select_seeds, wilson
from rods.errors import RewardError
from rods.reward import Score
from rods.trajectory import Group

S = BoundarySettings()


def judged(values, invalid=0, settings=S, **more):
    return judge(*group(original(0), values, invalid), settings, 3, **more)


@pytest.mark.parametrize(
    ("rbar", "region"),
    [
        (0.0, "hard"),
        (0.1999999, "hard"),
        (0.20, "boundary"),
        (0.5, "boundary"),
        (0.85, "boundary"),
        (0.8500001, "mastered"),
        (0.95, "mastered"),
        (1.0, "mastered"),
    ],
)
def test_region_edges(rbar, region):
    assert region_of(rbar, S) == region
    assert judged([rbar] * 16).region == region


def test_a_mean_that_meets_an_edge_in_fractions_is_on_it():
    values = [0.6, 0.0, 0.0]
    assert statistics.fmean(values) < 0.2  # rounding alone
    assert judged(values).region == "boundary"


@pytest.mark.parametrize("value", [1 + 5e-10, -5e-10])
def test_a_mean_beyond_the_range_by_rounding_is_held_within_it(value):
    j = judged([value] * 4)
    assert (j.rbar, j.phi, j.variance) == (float(value > 0), 0.0, 0.0)
    assert 0 <= j.interval[0] <= j.interval[1] <= 1


def test_numbers_of_a_judgement():
    j = judged([1.0, 1.0, 0.5, 0.0])
    assert (j.rbar, j.n_valid, j.k, j.step, j.policy_version) == (0.625, 4, 4, 3, 0)
    assert j.phi == 4 * 0.625 * 0.375
    assert j.variance == pytest.approx(0.171875)
    low, high = j.interval
    assert low < 0.625 < high


def test_wilson_against_published_values():
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(1.0, 16) == pytest.approx((0.8064, 1.0), abs=1e-4)


def test_invalid_members_do_not_count_as_zero():
    j = judged([1.0, 1.0], invalid=2)
    assert (j.rbar, j.n_valid, j.k) == (1.0, 2, 4)
    assert judged([1.0], invalid=3) is None
    assert judged([], invalid=4) is None


def test_a_score_may_be_invalid_where_the_trajectory_is_not():
    one, scores = group(original(0), [1.0, 1.0, 0.0, 0.0])
    scores[2] = scores[2].__class__(0.0, valid=False, reason="judge was down")
    assert judge(one, scores, S, 0).rbar == pytest.approx(2 / 3)
    one, scores = group(original(0), [1.0, 0.0], invalid=1)
    assert judge(one, [*scores[:2], Score(0.0)], S, 0).n_valid == 2, "nor the other way round"


def test_binary_signal_reads_solved():
    binary = BoundarySettings(signal="binary")
    assert judged([1.0, 0.9, 0.9, 0.9]).rbar == pytest.approx(0.925)
    assert judged([1.0, 0.9, 0.9, 0.9], settings=binary).rbar == 0.25


def test_a_reward_of_another_scale_is_refused_or_read_by_turns():
    with pytest.raises(RewardError, match=r"rewards in \[0, 1\], got 1.5"):
        judged([1.5, 0.0])
    assert judged([1.5, 0.5, 2.0, 0.0], by_turns=True).rbar == 0.5


def test_a_reward_that_says_correct_is_read_by_it_and_of_a_conversation_by_its_turns():
    one, _ = group(original(0), [1.0, 0.0])
    half = [replace(t, n_turns=2) for t in one.trajectories]
    assert [sum(v.solved for v in t.verdicts) for t in half] == [1, 0]
    scores = [Score(1.4, {"correct": 0.0}), Score(0.3, {"correct": 0.0})]
    made = Group(one.task, half, 0)
    assert judge(made, scores, S, 3).rbar == 0.25
    binary = BoundarySettings(signal="binary")
    assert judge(made, scores, binary, 3).rbar == 0.0
    scores = [Score(-1.0, {"correct": 0.0}), Score(1.0, {"correct": 1.0})]
    assert judge(one, scores, S, 3).rbar == judge(one, scores, binary, 3).rbar == 0.5


def test_scores_and_trajectories_must_match():
    one, scores = group(original(0), [1.0, 0.0])
    with pytest.raises(RewardError, match="1 scores for 2 trajectories"):
        judge(one, scores[:1], S, 0)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=16))
def test_popoviciu_and_interval(values):
    j = judged(values)
    assert -1e-9 <= j.variance <= j.rbar * (1 - j.rbar) + 1e-9
    assert 0 <= j.interval[0] <= j.rbar <= j.interval[1] <= 1
    assert 0 <= j.phi <= 1


def pool(count=40, seed=0, categories=CATEGORIES) -> list[Judgement]:
    rng = random.Random(seed)
    return [
        judgement(t, rng.random(), variance=rng.random() / 4) for t in originals(count, categories)
    ]


def choose(judgements, cooldown=None, step=10, seed=0, more=None, **settings):
    s = BoundarySettings(**settings)
    return select_seeds(judgements, s, cooldown or {}, step, random.Random(seed), **(more or {}))


def test_highest_phi_first_within_a_type():
    judgements = [
        judgement(t, r) for t, r in zip(originals(4, ["base"]), [0.3, 0.5, 0.8, 0.1], strict=True)
    ]
    chosen = choose(judgements, seeds=2)
    assert [s.judgement.rbar for s in chosen.seeds] == [0.5, 0.3]
    assert chosen.quota_filtered == 1  # 0.8; the hard task was never a candidate


def test_priority_variance_and_thompson():
    tasks = originals(2, ["base"])
    flat, lively = judgement(tasks[0], 0.5, variance=0.0), judgement(tasks[1], 0.3, variance=0.2)
    assert choose([flat, lively], seeds=1).seeds[0].judgement == flat
    assert choose([flat, lively], seeds=1, priority="variance").seeds[0].judgement == lively
    picked = {
        choose([flat, lively], seeds=1, seed=i, priority="thompson").seeds[0].judgement.rbar
        for i in range(30)
    }
    assert picked == {0.5, 0.3}  # it explores


def test_thompson_reads_the_last_visits_only():
    task = original(0)
    old = [judgement(task, 0.0, step=i) for i in range(50)]
    new = [judgement(task, 0.5, step=50 + i) for i in range(3)]
    more = {"visits": {task.id: old + new}}
    draws = [
        choose([new[-1]], priority="thompson", seed=i, more=more).seeds[0].priority
        for i in range(50)
    ]
    assert statistics.fmean(draws) > 0.9  # 24 trials at one half; the old zeros would give 0.2


def test_thompson_draws_from_the_posterior_of_valid_rewards():
    # Two of 16 members are valid and earned 0.5: a uniform prior with one win and one loss.
    few = replace(judgement(original(0), 0.5), n_valid=2, k=16)
    share = random.Random(5).betavariate(2.0, 2.0)
    [seed] = choose([few], priority="thompson", seed=5).seeds
    assert seed.priority == pytest.approx(4 * share * (1 - share))


def test_quotas_are_equal_and_not_lent():
    one_type = [judgement(t, 0.5) for t in originals(10, ["base"])]
    other = [judgement(original(99, "miss_func"), 0.5)]
    strict = choose(one_type + other, seeds=8)
    assert sum(s.judgement.category == "base" for s in strict.seeds) == 4
    assert len(strict.seeds) == 5 and strict.quota_filtered == 6
    four = choose(one_type, seeds=8, more={"types": CATEGORIES})
    assert len(four.seeds) == 2


@pytest.mark.parametrize(("limit", "waiting"), [(0, 2), (1, 1), (2, 0), (8, 0)])
def test_a_full_backlog_keeps_out_the_seed_tasks_that_it_alone_stops(limit, waiting):
    """A pool with two tasks on the boundary, as with few tasks of one's own, and eight places."""
    two = [judgement(t, 0.5) for t in originals(2, ["base"])]
    chosen = choose(two, seeds=8, more={"limit": limit})
    assert (len(chosen.seeds), chosen.backlog_filtered) == (2 - waiting, waiting)
    assert chosen.quota_filtered == 0


def test_quota_remainder_goes_to_the_largest_types():
    assert quotas(5, {"a": 1, "b": 9, "c": 3}) == {"b": 2, "c": 2, "a": 1}
    assert quotas(1, {}) == {}


def test_cooldown_ends_at_its_step():
    one = [judgement(original(0), 0.5)]
    task_id = one[0].task_id
    assert choose(one, {task_id: 11}).cooldown_filtered == 1
    assert not choose(one, {task_id: 11}).seeds
    assert len(choose(one, {task_id: 10}).seeds) == 1


def test_random_ablation_takes_any_region_but_keeps_cooldown():
    judgements = pool(40)
    cooldown = {judgements[0].task_id: 99}
    chosen = choose(judgements, cooldown, priority="random", seeds=40)
    assert {s.judgement.region for s in chosen.seeds} == {"hard", "boundary", "mastered"}
    assert judgements[0].task_id not in {s.judgement.task_id for s in chosen.seeds}


def test_excluded_tasks_are_never_seeds():
    one = [judgement(original(0), 0.5)]
    assert not choose(one, more={"excluded": {one[0].task_id}}).seeds


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.integers(0, 60),
    st.integers(1, 20),
    st.integers(0, 30),
    st.sampled_from(["phi", "variance", "thompson", "random"]),
    st.randoms(use_true_random=False),
)
def test_invariant_10_cooldown_and_quotas_hold_and_all_is_counted(
    count, seeds, limit, priority, rng
):
    judgements = pool(count, rng.randrange(1000))
    cooldown = {j.task_id: rng.randrange(20) for j in judgements if rng.random() < 0.5}
    chosen_by = BoundarySettings(seeds=seeds, priority=priority)
    chosen = select_seeds(judgements, chosen_by, cooldown, 10, rng, limit=limit)
    ids = [s.judgement.task_id for s in chosen.seeds]
    assert len(ids) == len(set(ids)) <= min(seeds, limit)
    assert all(cooldown.get(i, 0) <= 10 for i in ids)
    if priority != "random":
        assert all(s.judgement.region == "boundary" for s in chosen.seeds)
    counts: dict[str, int] = {}
    for j in judgements:
        if cooldown.get(j.task_id, 0) <= 10 and (priority == "random" or j.region == "boundary"):
            counts[j.category] = counts.get(j.category, 0) + 1
    for category, most in quotas(min(seeds, limit), counts).items():
        taken = sum(s.judgement.category == category for s in chosen.seeds)
        assert taken == min(most, counts[category])
    pooled = sum(j.region == "boundary" for j in judgements) if priority != "random" else count
    filtered = chosen.cooldown_filtered + chosen.quota_filtered + chosen.backlog_filtered
    assert len(ids) + filtered == pooled  # nothing is dropped without being counted


def test_the_order_of_judgements_does_not_matter():
    judgements = pool(30)
    mixed = random.Random(1).sample(judgements, 30)
    assert choose(judgements, priority="thompson") == choose(mixed, priority="thompson")

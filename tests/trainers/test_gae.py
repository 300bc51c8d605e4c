"""Generalised advantage estimation against tables made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.errors import TrainError
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.advantages import whiten
from rods.trainers.batches.micro import pack
from rods.trainers.critic import explained_variance, token_advantages, with_estimates
from rods.trainers.samples import to_sample
from rods.trajectory import Trajectory
from rods.types import StopReason

VALUES = [0.5, 0.2, 0.8]
TASK = Task("none", "base", (Turn("hello"),), {})


def close(got, want):
    assert list(got) == pytest.approx(want, abs=1e-12)


def sample(*spans, reward=1.0, member=0):
    trajectory = Trajectory(TASK.id, member, 0, 0, (), (), (), 1, spans, StopReason.DONE)
    return replace(to_sample(trajectory, 0.0), reward=reward)


def wrote(*ids):
    return Span(ids, (-1.0,) * len(ids))


def single(*values):
    return np.array(values, dtype=np.float32)


# -- the table -----------------------------------------------------------------------------------


def test_without_discounts_it_is_return_minus_value():
    close(token_advantages(VALUES, 1.0, 1.0, 1.0), [0.5, 0.8, 0.2])


def test_lambda_0_gives_the_errors_of_one_step():
    # 0.9 * 0.2 - 0.5; 0.9 * 0.8 - 0.2; 2 - 0.8
    close(token_advantages(VALUES, 2.0, 0.9, 0.0), [-0.32, 0.52, 1.2])


def test_both_discounts():
    # Errors -0.32, 0.52, 1.2 as above; gamma * lambda = 0.45:
    # 1.2;  0.52 + 0.45 * 1.2 = 1.06;  -0.32 + 0.45 * 1.06 = 0.157
    close(token_advantages(VALUES, 2.0, 0.9, 0.5), [0.157, 1.06, 1.2])


def test_gamma_discounts_the_reward_by_its_distance():
    close(token_advantages([0.0, 0.0, 0.0], 8.0, 0.5, 1.0), [2.0, 4.0, 8.0])


def test_one_token():
    close(token_advantages([0.25], -1.0, 0.5, 0.5), [-1.25])


unit = st.floats(0, 1)


@pytest.mark.slow
@given(st.lists(st.floats(-2, 2), min_size=1, max_size=12), st.floats(-2, 2), unit, unit)
def test_it_is_the_weighted_sum_of_its_definition(values, reward, gamma, lam):
    n = len(values)
    after = [*values[1:], 0.0]
    errors = [(reward if t == n - 1 else 0.0) + gamma * after[t] - values[t] for t in range(n)]
    want = [sum((gamma * lam) ** (k - t) * errors[k] for k in range(t, n)) for t in range(n)]
    assert token_advantages(values, reward, gamma, lam) == pytest.approx(want, abs=1e-9)


# -- insertions ----------------------------------------------------------------------------------


def test_an_insertion_is_no_time_step():
    """The value after an insertion follows the one before it; nothing is discounted for it."""
    plain = sample(Span((1,), None), wrote(2, 3, 4))
    cut = sample(
        Span((1,), None), wrote(2), Span((9,) * 5, None), wrote(3), Span((), None), wrote(4)
    )
    late = sample(Span((1,), None), wrote(2, 3, 4), Span((9, 9), None))
    for other in (cut, late):
        a, b = (
            with_estimates([s, sample(Span((1,), None), wrote(2))], [single(*VALUES), single(0.0)],
                           0.9, 0.5)[0].estimates
            for s in (plain, other)
        )  # fmt: skip
        assert a.advantages.tolist() == b.advantages.tolist()
        assert a.returns.tolist() == b.returns.tolist()
        # Errors -0.32, 0.52, 0.2 with the reward 1: advantages -0.0455, 0.61, 0.2.
        assert b.returns.tolist() == pytest.approx([0.4545, 0.81, 1.0], abs=1e-6)


def test_estimates_stand_at_the_sampled_tokens():
    first = sample(Span((1, 1), None), wrote(5), Span((9, 9), None), wrote(6, 7), reward=1.0)
    second = sample(Span((1,), None), wrote(8), Span((9,), None), reward=0.0, member=1)
    got = with_estimates([first, second], [single(*VALUES), single(0.6)], 1.0, 1.0)
    raw = [0.5, 0.8, 0.2, -0.6]
    mean = sum(raw) / 4
    deviation = math.sqrt(sum((x - mean) ** 2 for x in raw) / 3) + 1e-6
    micro = pack(got, 100)[0]
    assert micro.targets.tolist() == [5, 6, 7, 8]
    assert micro.advantages.tolist() == pytest.approx(
        [(x - mean) / deviation for x in raw], abs=1e-6
    )
    assert micro.estimates.returns.tolist() == pytest.approx([1.0, 1.0, 1.0, 0.0], abs=1e-6)
    assert micro.estimates.values.tolist() == pytest.approx([*VALUES, 0.6], abs=1e-6)


def test_samples_without_estimates_spread_their_advantage():
    bare = sample(Span((1,), None), wrote(2, 3))
    micro = pack([bare], 100)[0]
    assert micro.estimates is None and micro.advantages.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("values", [(0.0,), (0.0, math.nan), (0.0, math.inf)])
def test_values_of_another_shape_or_not_finite_are_refused(values):
    with pytest.raises(TrainError, match=r"member 3.*critic_lr"):
        with_estimates([sample(Span((1,), None), wrote(2, 3), member=3)], [single(*values)], 1, 1)


# -- whitening and explained variance ------------------------------------------------------------


def test_whitening_is_over_all_tokens_of_the_batch():
    # 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14, sample variance 7.
    s = math.sqrt(7) + 1e-6
    got = whiten([np.array([1.0, 2.0]), np.array([6.0])])
    close(got[0], [-2 / s, -1 / s])
    close(got[1], [3 / s])


@pytest.mark.parametrize("parts", [[], [np.array([3.0])], [np.array([2.0]), np.array([2.0, 2.0])]])
def test_equal_numbers_become_nothing(parts):
    got = whiten(parts)
    assert [g.tolist() for g in got] == [[0.0] * len(p) for p in parts]


def test_explained_variance():
    returns = np.array([0.0, 1.0, 1.0, 2.0])
    assert explained_variance(returns, returns + 5) == pytest.approx(1.0)
    assert explained_variance(returns, np.full(4, 0.3)) == pytest.approx(0.0)
    # Residuals 0, 1, 0, 1: variance 1/4 of the returns' 1/2.
    assert explained_variance(returns, np.array([0.0, 0.0, 1.0, 1.0])) == pytest.approx(0.5)
    assert explained_variance(returns, -returns) == pytest.approx(-3.0)
    assert explained_variance(np.ones(3), np.zeros(3)) is None
    assert explained_variance(np.ones(1), np.zeros(1)) is None

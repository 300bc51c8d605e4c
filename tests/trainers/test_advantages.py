"""Advantages against hand-computed tables."""

import math

import pytest
import torch

from rods.errors import TrainError
from rods.trainers.advantages import advantages, zero_variance

HALF = math.sqrt(0.5)  # sample deviation of (0, 1)
THIRD = math.sqrt(1 / 3)  # sample deviation of (0, 0, 1, 1)


def close(got, want):
    assert [len(r) for r in got] == [len(r) for r in want]
    for a, b in zip((x for r in got for x in r), (x for r in want for x in r), strict=True):
        assert (a is None) == (b is None)
        assert a is None or a == pytest.approx(b, rel=1e-12, abs=1e-15)


def test_grpo_divides_by_the_sample_deviation():
    a = 0.5 / (THIRD + 1e-6)
    close(advantages("grpo", [[0.0, 0.0, 1.0, 1.0]]), [[-a, -a, a, a]])


def test_dr_grpo_subtracts_the_mean_only():
    close(advantages("dr_grpo", [[0.0, 0.25, 1.0, 0.75]]), [[-0.5, -0.25, 0.5, 0.25]])


def test_rloo_subtracts_the_mean_of_the_others():
    # 3 - (1 + 2) / 2, 1 - (3 + 2) / 2, 2 - (3 + 1) / 2
    close(advantages("rloo", [[3.0, 1.0, 2.0]]), [[1.5, -1.5, 0.0]])


def whitened_as_verl(values, tokens):
    """verl's `masked_whiten` on a padded matrix, whose rows hold a value at each response token."""
    mask = (torch.arange(max(tokens))[None, :] < torch.tensor(tokens)[:, None]).double()
    matrix = torch.tensor(values, dtype=torch.float64)[:, None] * mask

    def mean(x):
        return (x * mask).sum() / (mask.sum() + 1e-8)

    variance = mean((matrix - mean(matrix)) ** 2) * mask.sum() / (mask.sum() - 1)
    return ((matrix - mean(matrix)) * torch.rsqrt(variance + 1e-8))[:, 0].tolist()


def test_reinforce_plus_plus_whitens_over_tokens_as_verl():
    rewards, tokens = [[0.0, 1.0, 1.0], [0.5, 0.25]], [[100, 3, 17], [41, 9]]
    want = whitened_as_verl([0.0, 1.0, 1.0, 0.5, 0.25], [100, 3, 17, 41, 9])
    close(advantages("reinforce++", rewards, tokens), [want[:3], want[3:]])
    assert sum(n * a for n, a in zip([100, 3, 17, 41, 9], want, strict=True)) == pytest.approx(
        0, abs=1e-6
    )


def test_reinforce_plus_plus_baseline_centres_by_group_then_whitens_over_tokens_as_verl():
    rewards, tokens = [[0.0, 1.0], [5.0, 7.0], [3.0, 3.0]], [[10, 90], [4, 5], [20, 1]]
    want = whitened_as_verl([-0.5, 0.5, -1.0, 1.0, 0.0, 0.0], [10, 90, 4, 5, 20, 1])
    close(advantages("reinforce++_baseline", rewards, tokens), [want[:2], want[2:4], want[4:]])


@pytest.mark.parametrize("kind", ["reinforce++", "reinforce++_baseline"])
def test_a_batch_of_equal_rewards_has_no_advantage_over_tokens(kind):
    assert advantages(kind, [[1.0, 1.0], [1.0, None]], [[3, 4], [5, 6]]) == [[0.0] * 2, [0.0, None]]
    assert advantages(kind, [[1.0, 0.0]], [[3, 0]])[0][0] == 0.0


def test_invariant_5_invalid_members_weigh_nothing_over_tokens():
    with_hole = advantages("reinforce++", [[0.0, None, 1.0]], [[3, 1000, 5]])
    close(
        [[a for a in with_hole[0] if a is not None]],
        advantages("reinforce++", [[0.0, 1.0]], [[3, 5]]),
    )


def test_token_counts_of_another_shape_are_refused():
    with pytest.raises(TrainError, match="one count for each"):
        advantages("reinforce++", [[0.0, 1.0]], [[3]])
    with pytest.raises(TrainError, match="one count for each"):
        advantages("reinforce++_baseline", [[0.0, 1.0]])


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_invariant_5_invalid_members_enter_no_baseline(kind):
    with_hole = advantages(kind, [[0.0, None, 1.0], [0.5, 0.25, None]])
    without = advantages(kind, [[0.0, 1.0], [0.5, 0.25]])
    assert with_hole[0][1] is None and with_hole[1][2] is None
    close([[a for a in row if a is not None] for row in with_hole], without)


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_equal_rewards_give_exactly_zero(kind):
    third = 1 / 3
    rewards = [[third, 1 - 2 * third, third], [0.1 + 0.2, 0.3], [1.0, None], [None, None], []]
    assert advantages(kind, rewards) == [[0.0] * 3, [0.0] * 2, [0.0, None], [None, None], []]


def test_zero_variance_looks_at_valid_members_only():
    assert zero_variance([1.0, None, 1.0])
    assert zero_variance([1.0]) and zero_variance([])
    assert not zero_variance([1.0, None, 0.5])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(value):
    with pytest.raises(TrainError, match="group 1"):
        advantages("grpo", [[0.0], [0.0, value]])


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(TrainError, match="dr_grpo"):
        advantages("ppo", [[0.0]])

"""Losses and their gradients against hand-computed values in float64."""

import math

import pytest
import torch

from rods.config import TrainSettings
from rods.trainers.losses import LossInputs, clipped, gspo, k3, objective


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def run(function, x):
    """Loss by token, and the gradient of its sum."""
    part = function(x)
    (grad,) = torch.autograd.grad(part.loss.sum(), x)
    return part, part.loss.tolist(), grad.tolist()


# ratio, A, loss, d loss / d log pi, (high, low, dual); clip 0.2 / 0.28, dual clip 3
TABLE = [
    (1.0, 2.0, -2.0, -2.0, (0, 0, 0)),
    (1.2, 2.0, -2.4, -2.4, (0, 0, 0)),
    (1.5, 2.0, -2.56, 0.0, (1, 0, 0)),  # above 1.28: capped, no gradient
    (0.5, 2.0, -1.0, -1.0, (0, 0, 0)),  # below, A > 0: the pessimistic branch keeps the gradient
    (1.0, -2.0, 2.0, 2.0, (0, 0, 0)),
    (0.9, -2.0, 1.8, 1.8, (0, 0, 0)),
    (0.5, -2.0, 1.6, 0.0, (0, 1, 0)),  # below 0.8: capped
    (1.5, -2.0, 3.0, 3.0, (0, 0, 0)),  # above, A < 0: keeps the gradient
    (4.0, -2.0, 6.0, 0.0, (0, 0, 1)),  # dual clip: at most 3 * 2
    (4.0, 2.0, -2.56, 0.0, (1, 0, 0)),  # the dual clip is for negative advantages only
    (1.5, 0.0, 0.0, 0.0, (0, 0, 0)),
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "gradient", "marks"), TABLE)
def test_clipped_surrogate_by_branch(ratio, advantage, loss, gradient, marks):
    a = torch.tensor([advantage], dtype=torch.float64)
    part, got, grad = run(lambda x: clipped(x, a, 0.2, 0.28, 3.0), leaf(math.log(ratio)))
    assert got == pytest.approx([loss], rel=1e-12, abs=1e-15)
    assert grad == pytest.approx([gradient], rel=1e-12, abs=1e-15)
    assert part.ratio.tolist() == pytest.approx([ratio])
    assert (int(part.clipped_high), int(part.clipped_low), int(part.clipped_dual)) == marks


def test_dual_clip_zero_is_off():
    a = torch.tensor([-2.0], dtype=torch.float64)
    _, got, grad = run(lambda x: clipped(x, a, 0.2, 0.28, 0.0), leaf(math.log(40.0)))
    assert got == pytest.approx([80.0]) and grad == pytest.approx([80.0])


def test_ratios_are_exact_up_to_e20_and_stay_finite_beyond():
    a = torch.tensor([-1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    _, got, grad = run(lambda x: clipped(x, a, 0.2, 0.28, 0.0), leaf(19.0, -19.0, 900.0, -900.0))
    assert got == pytest.approx([math.exp(19), -math.exp(-19), math.exp(20), -math.exp(-20)])
    assert grad == pytest.approx([math.exp(19), -math.exp(-19), 0.0, 0.0])


def test_divergences_are_exact_up_to_e20_and_stay_finite_beyond():
    new = leaf(-20.0, -1.0, -901.0, -1.0)
    got = k3(new, torch.tensor([-1.0, -20.0, -1.0, -901.0], dtype=torch.float64))
    want = [math.exp(d) - d - 1 for d in (19, -19, 20, -20)]
    assert got.tolist() == pytest.approx(want)
    given = LossInputs(
        rollout_logprobs=torch.full((4,), -1.0, dtype=torch.float64),
        advantages=torch.zeros(4, dtype=torch.float64),
        weights=torch.full((4,), 0.25, dtype=torch.float64),
        rows=torch.arange(4),
    )
    terms = objective(new, torch.zeros(4, dtype=torch.float64), given, TrainSettings(kl=0))
    # Log-ratios -19, 0, -900 and 0: r - 1 - log r, the third held at -20.
    want = math.exp(-19) + 18 + math.exp(-20) + 19
    assert terms.sums["approx_kl"].item() == pytest.approx(want)


def test_gspo_uses_the_geometric_mean_ratio_of_the_sequence():
    # Sequence 0: log-ratios 0.3 and -0.1, mean 0.1; sequence 1: one token, 0.5, above 1.28.
    x, rows = leaf(0.3, -0.1, 0.5), torch.tensor([0, 0, 1])
    a = torch.tensor([2.0, 2.0, 1.0], dtype=torch.float64)
    every = torch.ones(3, dtype=torch.bool)
    part, got, grad = run(lambda x: gspo(x, a, rows, every, 0.2, 0.28, 0.0), x)
    s = math.exp(0.1)
    assert got == pytest.approx([-2 * s, -2 * s, -1.28])
    # Two tokens carry the loss -2 s; in the form by token each moves its own.
    assert grad == pytest.approx([-2 * s, -2 * s, 0.0])
    assert part.clipped_high.tolist() == [False, False, True]


def test_gspo_keeps_credit_by_token():
    # One trajectory of two tokens, log-ratios 0.05 and -0.01: s = exp(0.02). Advantages 1 and -1
    # cancel where both tokens move by the sequence's mean; by token the gradient is -A_t s.
    x, a = leaf(0.05, -0.01), torch.tensor([1.0, -1.0], dtype=torch.float64)
    rows, every = torch.tensor([0, 0]), torch.ones(2, dtype=torch.bool)
    _, got, grad = run(lambda x: gspo(x, a, rows, every, 0.2, 0.28, 0.0), x)
    s = math.exp(0.02)
    assert got == pytest.approx([-s, s]) and grad == pytest.approx([-s, s])


def test_gspo_takes_its_ratio_from_sampled_tokens_alone():
    # The second token is the environment's: its ratio is 1 and does not dilute exp(0.4) > 1.28.
    x, a = leaf(0.4, 0.0), torch.tensor([1.0, 1.0], dtype=torch.float64)
    rows, sampled = torch.tensor([0, 0]), torch.tensor([True, False])
    part, got, grad = run(lambda x: gspo(x, a, rows, sampled, 0.2, 0.28, 0.0), x)
    assert got == pytest.approx([-1.28, -1.0]) and grad == pytest.approx([0.0, -1.0])
    assert part.clipped_high.tolist() == [True, False]


@pytest.mark.parametrize("loss", ["clipped", "gspo"])
def test_credit_and_importance_weights_by_token_reach_their_own_tokens(loss):
    # Two tokens with advantages 1 and -1, sampled by an engine that is off by ln 1.5 and 0. The
    # ratio is 1, so the gradient of token t is -A_t w_t I_t with I = (1.5, 1): nothing cancels.
    new = leaf(-1.0, -2.0)
    given = LossInputs(
        rollout_logprobs=torch.tensor([-1.0 - math.log(1.5), -2.0], dtype=torch.float64),
        advantages=torch.tensor([1.0, -1.0], dtype=torch.float64),
        weights=torch.tensor([0.5, 0.5], dtype=torch.float64),
        rows=torch.tensor([0, 0]),
        first_step=True,
    )
    settings = TrainSettings(loss=loss, kl=0, entropy=0, correction={"method": "truncated"})
    objective(new, torch.zeros(2, dtype=torch.float64), given, settings).loss.backward()
    assert new.grad.tolist() == pytest.approx([-0.75, 0.5])


@pytest.mark.parametrize("loss", ["clipped", "gspo"])
@pytest.mark.parametrize("method", ["none", "recompute", "truncated"])
def test_a_token_of_the_environment_has_the_ratio_1_and_weighs_by_its_advantage(loss, method):
    # The first was sampled at -1 and stands there, the second was not: its log-probability is NaN.
    new = leaf(-1.0, -4.0)
    given = LossInputs(
        rollout_logprobs=torch.tensor([-1.0, math.nan], dtype=torch.float64),
        advantages=torch.tensor([2.0, 2.0], dtype=torch.float64),
        weights=torch.tensor([0.5, 0.5], dtype=torch.float64),
        rows=torch.tensor([0, 0]),
        old_logprobs=torch.tensor([-1.0, -4.5], dtype=torch.float64),
    )
    settings = TrainSettings(loss=loss, kl=0, entropy=0, correction={"method": method})
    terms = objective(new, torch.zeros(2, dtype=torch.float64), given, settings)
    assert terms.loss.item() == pytest.approx(-2.0)
    terms.loss.backward()
    assert new.grad.tolist() == pytest.approx([-1.0, -1.0])
    assert terms.sums["approx_kl"].item() == 0 and terms.ratio_max.item() == pytest.approx(1.0)
    assert terms.mismatch.isnan().tolist() == [False, True]


@pytest.mark.parametrize(
    ("new", "reference", "value", "gradient"),
    [
        (-1.0, -1.0, 0.0, 0.0),
        (-1.0, -1.0 + math.log(2), 2 - math.log(2) - 1, 1 - 2),  # new too unlikely: push it up
        (-1.0, -1.0 - math.log(2), 0.5 + math.log(2) - 1, 1 - 0.5),  # too likely: push it down
    ],
)
def test_k3(new, reference, value, gradient):
    x = leaf(new)
    got = k3(x, torch.tensor([reference], dtype=torch.float64))
    (grad,) = torch.autograd.grad(got.sum(), x)
    assert got.item() == pytest.approx(value, abs=1e-15)
    assert grad.item() == pytest.approx(gradient, abs=1e-15)


def inputs(new, reference=None, weights=(0.25, 0.75)):
    return LossInputs(
        rollout_logprobs=new.detach().clone(),
        advantages=torch.tensor([1.0, -2.0], dtype=torch.float64),
        weights=torch.tensor(weights, dtype=torch.float64),
        rows=torch.tensor([0, 1]),
        reference=reference,
    )


def test_objective_adds_kl_and_takes_entropy_away():
    new, entropy = leaf(-1.0, -2.0), leaf(0.5, 1.5)
    reference = new.detach() + math.log(2)
    settings = TrainSettings(kl=0.1, entropy=0.01, dual_clip=0)
    terms = objective(new, entropy, inputs(new, reference), settings)
    policy = 0.25 * -1.0 + 0.75 * 2.0
    kl = 1 - math.log(2)
    mean_entropy = 0.25 * 0.5 + 0.75 * 1.5
    assert terms.loss.item() == pytest.approx(policy + 0.1 * kl - 0.01 * mean_entropy)
    assert terms.sums["policy"].item() == pytest.approx(policy)
    assert terms.sums["kl"].item() == pytest.approx(kl)
    assert terms.sums["entropy_mean"].item() == pytest.approx(mean_entropy)
    terms.loss.backward()
    # -A w from the surrogate, 0.1 w (1 - 2) from k3: descent raises what A > 0 favors.
    assert new.grad.tolist() == pytest.approx([0.25 * (-1 - 0.1), 0.75 * (2 - 0.1)])
    # Descent raises the entropy.
    assert entropy.grad.tolist() == pytest.approx([-0.01 * 0.25, -0.01 * 0.75])


@pytest.mark.parametrize("loss", ["clipped", "gspo"])
def test_on_policy_every_loss_has_the_policy_gradient(loss):
    new = leaf(-1.0, -2.0)
    settings = TrainSettings(loss=loss, kl=0, entropy=0)
    terms = objective(new, torch.zeros(2, dtype=torch.float64), inputs(new), settings)
    terms.loss.backward()
    assert new.grad.tolist() == pytest.approx([-0.25, 1.5])
    assert "kl" not in terms.sums
    assert terms.ratio_max.item() == pytest.approx(1.0)


def test_approx_kl_is_zero_on_policy_and_positive_off_policy():
    new = leaf(-1.0, -2.0)
    here = inputs(new)
    assert objective(new, new, here, TrainSettings()).sums["approx_kl"].item() == 0
    moved = leaf(-1.5, -1.75)
    terms = objective(moved, moved, here, TrainSettings())
    want = (math.exp(-0.5) - 1 + 0.5) + (math.exp(0.25) - 1 - 0.25)
    assert terms.sums["approx_kl"].item() == pytest.approx(want)

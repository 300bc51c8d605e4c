"""Engine and trainer differ: how far, and what the update makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rods.config import TrainSettings
from rods.reward import Score
from rods.trainers import losses, reports
from rods.trainers.losses import LossInputs, importance, objective
from trainer_cases import make_groups, make_model, make_scores, make_trainer, same, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def noisy(groups, by=0.3, seed=1):
    """The same groups by an engine whose log-probabilities are off; and by how much."""
    rng, offs = np.random.default_rng(seed), []
    made = []
    for group in groups:
        members = []
        for trajectory in group.trajectories:
            spans = []
            for span in trajectory.spans:
                if span.sampled:
                    off = rng.normal(0.0, by, len(span.ids))
                    told = [min(-1e-3, p + o) for p, o in zip(span.logprobs, off, strict=True)]
                    offs += [p - t for p, t in zip(span.logprobs, told, strict=True)]
                    span = replace(span, logprobs=tuple(told))
                spans.append(span)
            members.append(replace(trajectory, spans=tuple(spans)))
        made.append(replace(group, trajectories=members))
    return made, np.array(offs)


def updated(groups, **changes):
    """Weights after an update by these groups, and its report."""
    model = make_model()
    trainer = make_trainer(model, **changes)
    report = trainer.update(groups, make_scores(groups))
    return weights(model), report


def close(a, b):
    return all(torch.allclose(a[k], b[k], atol=2e-5) for k in a)


@pytest.mark.slow
def test_the_gap_is_shown_whatever_is_done_about_it(monkeypatch):
    monkeypatch.setattr(reports, "CAP", 1.2)
    monkeypatch.setattr(losses, "CAP", 1.2)
    exact = make_groups(make_model())
    groups, offs = noisy(exact)
    for method in ("none", "recompute", "truncated"):
        _, report = updated(groups, method=method)
        row = report.metrics()
        assert row["gap_mean"] == pytest.approx(np.abs(offs).mean(), rel=1e-3)
        assert row["gap_p99"] == pytest.approx(np.quantile(np.abs(offs), 0.99), rel=1e-3)
        assert row["gap_clipped"] == pytest.approx((offs > math.log(1.2)).mean(), abs=0.02)
    _, report = updated(exact)
    assert report.gap_p99 < 1e-5 and report.gap_clipped == 0.0
    _, skipped = updated([replace(g, trajectories=g.trajectories[:1]) for g in exact])
    assert skipped.skipped and skipped.gap_mean is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epochs": 3},
        {"minibatch": 4, "epochs": 2},
        {"kl": 0.5, "kl_in": "reward"},
        {"kl": 0.5, "kl_in": "reward", "epochs": 3},
        {"kl": 0.5, "kl_in": "reward", "advantage": "gae"},
    ],
)
def test_recomputed_the_engines_words_do_not_matter(changes):
    exact = make_groups(make_model(), groups=3)
    groups, _ = noisy(exact)
    right, _ = updated(exact, **changes)
    recomputed, _ = updated(groups, method="recompute", **changes)
    misled, _ = updated(groups, **changes)
    assert close(recomputed, right) and not close(misled, right)


@pytest.mark.parametrize("method", ["none", "truncated"])
def test_an_engines_errors_are_no_kl_in_the_reward(method):
    exact = make_groups(make_model())
    groups, _ = noisy(exact)
    trainer = make_trainer(make_model(), method=method, kl=0.5, kl_in="reward")
    report = trainer.update(groups, [[Score(1.0) for _ in g.trajectories] for g in groups])
    # The policy is still the reference: nothing is paid.
    costs = [signal.reward_parts["kl_cost"] for row in report.signals for signal in row]
    assert len(costs) == 8 and max(map(abs, costs)) < 1e-4


def test_an_exact_engine_needs_no_correction():
    exact = make_groups(make_model())
    plain, _ = updated(exact)
    truncated, report = updated(exact, method="truncated")
    assert close(plain, truncated) and report.ratio_max == pytest.approx(1.0)


def test_tokens_weigh_as_the_trainer_would_have_sampled_them():
    mismatch = torch.tensor([0.0, math.log(1.5), math.log(9.0), -2.0, math.nan])
    found = importance(mismatch, 2.0)
    torch.testing.assert_close(found, torch.tensor([1.0, 1.5, 2.0, math.exp(-2.0), 1.0]))
    assert importance(torch.tensor([1e9]), 1e30).isfinite().all()


def test_what_an_engine_samples_gives_the_trainers_gradient_on_average(monkeypatch):
    """Sum over all tokens by the engine's probabilities: that of the trainer's policy."""
    logits = torch.tensor([0.3, -0.8, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    engine = torch.tensor([0.9, -0.2, 0.1, 0.4], dtype=torch.float64).log_softmax(-1)
    rewards = torch.tensor([1.0, -0.5, 0.25, 2.0], dtype=torch.float64)
    (wanted,) = torch.autograd.grad(-(logits.softmax(-1) * rewards).sum(), logits)

    monkeypatch.setattr(losses, "CAP", 100.0)

    def gradient(method):
        settings = TrainSettings.model_validate(
            {"kl": 0, "entropy": 0, "dual_clip": 0, "correction": {"method": method}}
        )
        new = logits.log_softmax(-1)
        here = LossInputs(engine, rewards, engine.exp(), torch.arange(4), first_step=True)
        return torch.autograd.grad(objective(new, new, here, settings).loss, logits)[0]

    torch.testing.assert_close(gradient("truncated"), wanted)
    assert not torch.allclose(gradient("recompute"), wanted, atol=1e-2)


def test_the_same_pass_costs_nothing_more(monkeypatch):
    groups, _ = noisy(make_groups(make_model()))
    trainer = make_trainer(make_model(), method="truncated")
    monkeypatch.setattr(trainer, "_logprobs", None)  # not asked for
    before = weights(trainer.model)
    trainer.update(groups, make_scores(groups))
    assert not same(before, weights(trainer.model))

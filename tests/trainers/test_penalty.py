"""KL in the reward, the perplexity mask, and groups that are drawn again."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rods.config import load_config, parse_config
from rods.errors import ConfigError, TrainError
from rods.reward import Score
from rods.rewards import rewards_of
from rods.trainers.collect import penalized, perplexity
from rods.trainers.critic import token_advantages
from rods.trainers.samples import to_sample
from trainer_cases import make_groups, make_model, make_scores, make_trainer, same, weights

K1 = {"kl": 0.5, "kl_in": "reward"}


def moved(model, by=0.05):
    """The same model after a step away from it."""
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(by * torch.randn_like(weight))
    return other


def gradient(trainer, groups, scores):
    seen = {}
    trainer._optimizer.step = lambda: seen.update(
        {k: p.grad.clone() for k, p in trainer.model.named_parameters()}
    )
    report = trainer.update(groups, scores)
    return seen, report


def away(**changes):
    """A trainer whose policy has left its reference, and trajectories of that policy."""
    trainer = make_trainer(make_model(), grad_clip=1e9, **changes)
    with torch.no_grad():
        for mine, new in zip(
            trainer.model.parameters(), moved(trainer.model).parameters(), strict=True
        ):
            mine.copy_(new)
    return trainer, make_groups(trainer.model)


def by_hand(trainer, group):
    """k1 of each trajectory from the reference's own softmax."""
    costs = []
    for trajectory in group.trajectories:
        sample = to_sample(trajectory, 0.0)
        with torch.no_grad():
            logits = trainer._reference(input_ids=torch.tensor(sample.ids[None])).logits[0]
        logs = torch.log_softmax(logits.double(), -1)
        at = sample.mask.nonzero()[0]
        known = [logs[i - 1, sample.ids[i]].item() for i in at]
        costs.append(float(sample.rollout_logprobs[sample.mask].sum() - sum(known)))
    return costs


@pytest.mark.slow
def test_kl_in_the_reward_is_the_sum_of_log_ratios():
    trainer, groups = away(**K1)
    scores = make_scores(groups)
    costs = [by_hand(trainer, g) for g in groups]
    assert max(abs(c) for row in costs for c in row) > 0.1
    less = [
        [Score(s.value - 0.5 * c) for s, c in zip(row, some, strict=True)]
        for row, some in zip(scores, costs, strict=True)
    ]
    found, report = gradient(trainer, groups, scores)
    plain, _ = away(kl=0.0)
    wanted, _ = gradient(plain, groups, less)
    free, _ = gradient(away(kl=0.0)[0], groups, scores)
    assert all(torch.allclose(found[k], wanted[k], atol=1e-5) for k in wanted)
    assert not all(torch.allclose(found[k], free[k], atol=1e-5) for k in free)
    assert report.metrics()["kl"] > 0  # it is still measured


@pytest.mark.slow
def test_under_gae_each_token_pays_for_itself():
    assert token_advantages([0.0, 0.0], 1.0, 1.0, 1.0, [0.25, 0.5]) == [0.25, 0.5]
    assert token_advantages([0.0, 0.0], 1.0, 1.0, 0.0, [0.25, 0.5]) == [-0.25, 0.5]
    trainer, groups = away(advantage="gae", **K1)
    samples = trainer._with_references([to_sample(t, 0.0) for t in groups[0].trajectories], {})
    for sample in trainer.critic.judge([replace(s, reward=1.0) for s in samples]):
        left = 0.5 * np.cumsum(sample.log_ratio[::-1])[::-1]
        assert sample.estimates.returns.tolist() == pytest.approx((1.0 - left).tolist(), abs=1e-5)
    found, _ = gradient(trainer, groups, make_scores(groups))
    free, _ = gradient(away(advantage="gae", kl=0.0)[0], groups, make_scores(groups))
    assert not all(torch.allclose(found[k], free[k], atol=1e-6) for k in free)


def test_a_reward_without_its_reference_is_refused():
    (group,) = make_groups(make_model(), groups=1)
    bare = [to_sample(t, 0.0) for t in group.trajectories]
    with pytest.raises(TrainError, match="needs the reference's"):
        penalized([[Score(1.0)] * len(bare)], [bare], 0.1)


def test_perplexity_is_that_of_the_reference():
    (group,) = make_groups(make_model(), groups=1)
    sample = to_sample(group.trajectories[0], 0.0)
    even = replace(sample, reference=np.full(sample.sampled, -math.log(7), dtype=np.float32))
    assert perplexity(even) == pytest.approx(7, rel=1e-6)
    assert perplexity(sample) == perplexity(None) == 0.0
    lost = replace(sample, reference=np.full(sample.sampled, -1e6, dtype=np.float32))
    assert perplexity(lost) > 1e300


def test_filters_read_rewards_before_kl_is_paid():
    """Costs of KL make no two rewards of a group equal; DAPO still drops it."""
    trainer, groups = away(filter="dapo", **K1)
    before = weights(trainer.model)
    report = trainer.update(groups, [[Score(1.0)] * len(g.trajectories) for g in groups])
    assert report.skipped == f"the filter dropped every group: {len(groups)} equal"
    assert report.zero_variance == 0.0 and same(before, weights(trainer.model))


def test_constants_of_otc_are_settings():
    config = load_config("otc_grpo", "", ["rewards.otc.alpha=0.5", "rewards.otc.c=3"])
    rewards = rewards_of(config.rewards)
    for name in ("otc_grpo", "otc_grpo_additive", "otc_ppo", "otc_ppo_additive"):
        made = rewards._get(name)
        assert (made.alpha, made.c) == (0.5, 3.0)
        assert made.additive is name.endswith("additive")


def test_of_two_tables_for_a_reward_neither_is_lost():
    own = ["rewards.otc_grpo.c=3", "rewards.otc.alpha=0.5", "rewards.otc.c=2"]
    rewards = rewards_of(load_config("otc_grpo", "", own).rewards)
    made = {name: rewards._get(name) for name in ("otc_grpo", "otc_ppo")}
    assert {n: (m.alpha, m.c) for n, m in made.items()} == {
        "otc_grpo": (0.5, 3.0),
        "otc_ppo": (0.5, 2.0),
    }


def test_turn_credit_and_a_kl_reward_contradict_each_other():
    with pytest.raises(ConfigError, match=r'Set train\.kl_in = "loss"'):
        parse_config({"train": {"credit": "turn", "kl": 0.1, "kl_in": "reward"}}, "here")

"""PPO: the critic, its losses, and the local trainer with it."""

import copy
import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from rods.config import ModelSettings, parse_config
from rods.errors import ConfigError, StoreError, TrainError
from rods.reward import Score
from rods.trainers.batches.micro import grow, pack
from rods.trainers.collect import collect
from rods.trainers.critic import Critic, value_loss
from sweeps import slow
from trainer_cases import (
    CPU,
    VOCABULARY,
    make_groups,
    make_model,
    make_scores,
    make_trainer,
    play_bandit,
    same,
    weights,
)

LORA = CPU.model_copy(update={"lora_rank": 2})


pytestmark = pytest.mark.usefixtures("one_thread")


def ppo(model, **changes):
    return make_trainer(model, **{"advantage": "gae", "critic_lr": 1e-2, **changes})


def critic_weights(trainer):
    return {k: v.clone() for k, v in trainer.critic.state_dict()["weights"].items()}


def samples_of(groups):
    return collect(groups, make_scores(groups), "gae").samples


def shake_head(critic, seed=5):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        critic._head.weight.copy_(torch.randn(critic._head.weight.shape, generator=generator))
        critic._head.bias.fill_(0.25)


# -- the value loss ------------------------------------------------------------------------------

# V, V before, return, clip -> loss, held
BRANCHES = {
    "no clip": (2.0, 0.0, 0.5, 0.0, 1.125, False),
    "within the clip": (0.2, 0.0, 1.0, 0.5, 0.32, False),
    "moved too far towards the return": (0.9, 0.0, 1.0, 0.5, 0.125, True),
    "moved down too far towards the return": (-0.9, 0.0, -1.0, 0.5, 0.125, True),
    "moved too far away from the return": (-0.9, 0.0, 1.0, 0.5, 1.805, False),
    "beyond the return": (3.0, 0.0, 1.0, 0.5, 2.0, False),
    "on the edge": (0.5, 0.0, 1.0, 0.5, 0.125, False),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_value_clipping(name):
    new, old, target, clip, loss, held = BRANCHES[name]
    value = torch.tensor([new], dtype=torch.float64, requires_grad=True)
    args = (torch.tensor([x], dtype=torch.float64) for x in (old, target))
    got, mark = value_loss(value, *args, clip)
    assert got.item() == pytest.approx(loss) and mark.item() is held
    got.sum().backward()
    assert value.grad.item() == pytest.approx(0.0 if held else new - target)


# -- the model -----------------------------------------------------------------------------------


def test_it_begins_at_zero_everywhere():
    model = make_model()
    critic = ppo(model).critic
    judged = critic.judge(samples_of(make_groups(model)))
    assert all(not s.estimates.values.any() for s in judged)
    assert {float(r) for s in judged for r in s.estimates.returns} == {0.0, 1.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rank"), [("padded", 0), ("shared", 0), ("shared", 2), ("gpt2", 0)]
)
def test_values_stand_before_the_sampled_tokens(kind, rank, monkeypatch):
    monkeypatch.setattr(grow, "__defaults__", (2,))  # short parts are shared, too
    if kind == "gpt2":
        torch.manual_seed(0)
        sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
        model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes)).eval()
    else:
        model = make_model()
    groups = make_groups(model)
    settings = CPU.model_copy(update={"lora_rank": rank})
    critic = Critic(copy.deepcopy(model), ppo(make_model()).settings, settings, seed=0)
    critic._trees = kind == "shared"
    shake_head(critic)
    weight, bias = critic._head.weight[0].detach().double(), 0.25
    for sample in critic.judge(samples_of(groups)):
        with torch.no_grad():
            states = model.base_model(torch.tensor(sample.ids[None])).last_hidden_state[0].double()
        before = states[torch.from_numpy(sample.mask).nonzero()[:, 0] - 1]
        want = (before @ weight + bias).tolist()
        assert sample.estimates.values.tolist() == pytest.approx(want, abs=1e-4)


def test_it_is_a_copy_that_the_policy_does_not_move():
    model = make_model()
    trainer = ppo(model)
    groups = make_groups(model)
    shake_head(trainer.critic)
    before = [s.estimates.values.tolist() for s in trainer.critic.judge(samples_of(groups))]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    after = [s.estimates.values.tolist() for s in trainer.critic.judge(samples_of(groups))]
    assert before == after


@pytest.mark.slow
def test_under_lora_frozen_weights_are_shared_and_adapters_are_not():
    model = make_model()
    trainer = ppo(model, model_settings=LORA)
    ours = dict(model.named_parameters())
    theirs = dict(trainer.critic._trunk.named_parameters())
    shared = [k for k, p in theirs.items() if any(p is q for q in ours.values())]
    assert shared and not any("lora" in k for k in shared)
    assert len(shared) == sum("lora" not in k for k in theirs)
    trained = critic_weights(trainer)
    assert {k.split(".")[-1] for k in trained if "lora" not in k} == {"weight", "bias"}
    assert any("lora_B" in k for k in trained)

    frozen = {k: v.clone() for k, v in ours.items() if "lora" not in k}
    for groups in (make_groups(model, seed=s) for s in range(2)):
        trainer.update(groups, make_scores(groups))
    after = critic_weights(trainer)
    assert all(not torch.equal(trained[k], after[k]) for k in trained if "lora_B" in k)
    assert same(frozen, {k: v for k, v in ours.items() if "lora" not in k})


# -- updates -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_first_update_by_hand():
    """A critic of zeros: every token's advantage is its trajectory's reward, whitened."""
    model = make_model()
    trainer = ppo(model, grad_clip=1e9)
    groups = make_groups(model)
    samples = samples_of(groups)
    tokens = [s.reward for s in samples for _ in range(s.sampled)]
    mean = sum(tokens) / len(tokens)
    deviation = math.sqrt(sum((t - mean) ** 2 for t in tokens) / (len(tokens) - 1)) + 1e-6

    reference = copy.deepcopy(model).double()
    loss = torch.zeros((), dtype=torch.float64)
    for sample in samples:
        logits = reference(torch.tensor(sample.ids[None])).logits[0]
        at = torch.from_numpy(sample.mask).nonzero()[:, 0]
        logs = torch.log_softmax(logits, -1)[at - 1, torch.from_numpy(sample.ids)[at]]
        loss = loss - (sample.reward - mean) / deviation * logs.sum() / len(tokens)
    loss.backward()

    seen = {}
    trainer._optimizer.step = lambda: seen.update(
        {k: p.grad.clone() for k, p in model.named_parameters()}
    )
    report = trainer.update(groups, make_scores(groups))
    for name, parameter in reference.named_parameters():
        assert torch.allclose(seen[name].double(), parameter.grad, atol=1e-5), name
    assert report.critic["value_loss"] == pytest.approx(
        sum(t * t for t in tokens) / 2 / len(tokens)
    )
    assert report.critic["explained_variance"] == pytest.approx(0.0, abs=1e-12)
    assert report.critic["return_mean"] == pytest.approx(mean)
    assert report.critic["value_mean"] == 0.0 and report.critic["critic_optimizer_steps"] == 1
    assert (report.version, report.skipped) == (1, None)


@pytest.mark.parametrize("aggregation", ["token", "constant"])
def test_the_value_loss_of_the_log_is_a_mean(aggregation):
    model = make_model()
    groups = make_groups(model)
    trainer = ppo(model, aggregation=aggregation, longest=50, minibatch=4)
    trainer.critic._optimizer.step = lambda: None
    report = trainer.update(groups, [[Score(1.0)] * 4, [Score(1.0)] * 4])
    assert report.critic["critic_optimizer_steps"] == 2
    assert report.critic["value_loss"] == pytest.approx(0.5)


@pytest.mark.slow
def test_it_learns_what_to_expect():
    model = make_model()
    trainer = ppo(model, critic_warmup=100)
    groups = make_groups(model)
    reports = [trainer.update(groups, make_scores(groups)).critic for _ in range(12)]
    assert reports[-1]["value_loss"] < 0.5 * reports[0]["value_loss"]
    assert reports[-1]["explained_variance"] > 0.5
    assert reports[-1]["value_mean"] == pytest.approx(reports[-1]["return_mean"], abs=0.2)


def test_equal_rewards_teach_too():
    model = make_model()
    before = weights(model)
    trainer = ppo(model)
    groups = make_groups(model)
    shake_head(trainer.critic)
    report = trainer.update(groups, [[Score(1.0)] * 4, [Score(1.0)] * 4])
    assert (report.informative, report.zero_variance, report.trained) == (2, 1.0, 8)
    assert report.skipped is None and not same(before, weights(model))


@pytest.mark.slow
def test_warm_up_trains_the_critic_alone_and_says_so():
    model = make_model()
    trainer = ppo(model, critic_warmup=2, kl=0.5)
    policy, critic = weights(model), critic_weights(trainer)
    groups = make_groups(model)
    trainer.update([], [])  # no update of the critic: it does not count
    for number in (1, 2):
        report = trainer.update(groups, make_scores(groups))
        assert report.skipped == f"the critic warms up, update {number} of 2; the policy waits"
        assert (report.version, report.optimizer_steps, report.trained) == (0, 0, 8)
        assert report.critic["critic_optimizer_steps"] == 1 and report.critic["value_loss"] > 0
        assert same(policy, weights(model)) and not same(critic, critic_weights(trainer))
    report = trainer.update(groups, make_scores(groups))
    assert report.skipped is None and report.version == 1
    assert not same(policy, weights(model))


@pytest.mark.slow
def test_the_schedule_of_the_rate_waits_for_the_critic():
    settings = {"lr": 0.03, "warmup": 3, "schedule": "cosine"}
    groups = make_groups(make_model())
    late, soon = (ppo(make_model(), critic_warmup=n, **settings) for n in (2, 0))
    late.total_steps, soon.total_steps = 8, 6
    rates = [late.update(groups, make_scores(groups)).lr for _ in range(8)][2:]
    assert rates == [soon.update(groups, make_scores(groups)).lr for _ in range(6)]
    assert rates[:3] == [pytest.approx(r) for r in (0.01, 0.02, 0.03)] and rates[-1] < 0.01


@pytest.mark.slow
def test_minibatches_and_clipping():
    model = make_model()
    trainer = ppo(model, minibatch=4, epochs=3, value_clip=0.01, critic_lr=5e-2)
    report = trainer.update(groups := make_groups(model, groups=2), make_scores(groups))
    assert report.optimizer_steps == report.critic["critic_optimizer_steps"] == 3 * 2
    assert 0.2 < report.critic["value_clipped"] < 1
    free = ppo(make_model(), minibatch=3, epochs=2, critic_lr=5e-2)
    assert free.update(groups, make_scores(groups)).critic["value_clipped"] == 0


@pytest.mark.slow
def test_microbatches_give_the_critic_of_the_whole():
    groups = make_groups(make_model(seed=1), groups=3)
    whole, parts = ppo(make_model()), ppo(make_model(), microbatch_tokens=128)
    for trainer in (whole, parts):
        shake_head(trainer.critic)
        trainer._optimizer.step = lambda: None
    one, many = (t.update(groups, make_scores(groups)) for t in (whole, parts))
    assert one.microbatches == 1 and many.microbatches > 1
    assert many.critic["value_loss"] == pytest.approx(one.critic["value_loss"], rel=1e-5)
    assert many.critic["critic_grad_norm"] == pytest.approx(
        one.critic["critic_grad_norm"], rel=1e-4
    )


@pytest.mark.slow
def test_its_rate_is_its_own_and_follows_the_schedule():
    model = make_model()
    trainer = ppo(model, schedule="cosine", warmup=4, lr=1.0, critic_lr=1e-3)
    reports = []
    for _ in range(3):
        trainer.version, trainer._optimizer.step = 0, lambda: None
        reports.append(trainer.update(groups := make_groups(model), make_scores(groups)))
    assert [r.lr for r in reports] == [0.25, 0.5, 0.75]
    want = [1e-3 * 0.5 * (1 + math.cos(math.pi * i / 10)) for i in range(3)]
    assert [r.critic["critic_lr"] for r in reports] == pytest.approx(want)


def test_the_log_has_its_figures_in_one_flat_row():
    model = make_model()
    row = ppo(model).update(groups := make_groups(model), make_scores(groups)).metrics()
    names = {
        "value_loss", "explained_variance", "value_clipped", "critic_grad_norm", "critic_lr",
        "critic_optimizer_steps", "value_mean", "return_mean",
    }  # fmt: skip
    assert names <= row.keys() and not {"critic", "dropped", "masked"} & row.keys()
    assert all(isinstance(v, int | float | str | None) for v in row.values())
    plain = make_trainer(make_model()).update(groups, make_scores(groups)).metrics()
    assert not names & plain.keys()


@pytest.mark.slow
def test_gradient_checkpointing_changes_nothing():
    groups = make_groups(make_model())
    saving, plain = ppo(make_model(), gradient_checkpointing=True), ppo(make_model())
    first, second = (t.update(groups, make_scores(groups)) for t in (saving, plain))
    assert first.critic["critic_grad_norm"] == pytest.approx(
        second.critic["critic_grad_norm"], rel=1e-5
    )
    assert not saving.critic._trunk.training


def test_not_a_number_stops_with_weights_untouched(monkeypatch):
    model = make_model()
    trainer = ppo(model)
    groups = make_groups(model)
    policy, critic = weights(model), critic_weights(trainer)
    monkeypatch.setattr("torch.nn.utils.clip_grad_norm_", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(TrainError, match=r"critic's update 0: .*critic_lr"):
        trainer.update(groups, make_scores(groups))
    assert same(policy, weights(model)) and same(critic, critic_weights(trainer))
    assert trainer.critic.updates == trainer.step == 0


def test_a_reward_that_is_not_finite_is_refused():
    model = make_model()
    groups = make_groups(model, groups=1)
    with pytest.raises(TrainError, match="finite"):
        ppo(model).update(groups, [[Score(math.nan), *[Score(1.0)] * 3]])


# -- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rank", [*slow(0), 2])
def test_resumed_training_is_bit_equal(tmp_path, rank):
    options = {
        "model_settings": CPU.model_copy(update={"lora_rank": rank}), "critic_warmup": 2,
        "minibatch": 3, "epochs": 2, "kl": 0.1, "value_clip": 0.2, "schedule": "cosine",
        "lam": 0.9,
    }  # fmt: skip
    batches = [make_groups(make_model(), groups=1, seed=s) for s in range(3)]
    straight = ppo(make_model(), **options)
    straight.update(batches[0], make_scores(batches[0]))
    straight.save(tmp_path / "c")
    first = [straight.update(g, make_scores(g)) for g in batches[1:]]

    resumed = ppo(make_model(), **options)
    resumed.load(tmp_path / "c")
    assert resumed.critic.updates == 1 and resumed.critic.warming
    second = [resumed.update(g, make_scores(g)) for g in batches[1:]]
    assert [r.critic for r in first] == [r.critic for r in second]
    assert [(r.loss, r.skipped) for r in first] == [(r.loss, r.skipped) for r in second]
    assert first[0].skipped and not first[1].skipped
    assert same(weights(straight.model), weights(resumed.model))
    assert same(critic_weights(straight), critic_weights(resumed))


def test_a_checkpoint_without_a_critic_is_refused(tmp_path):
    make_trainer(make_model()).save(tmp_path / "c")
    with pytest.raises(StoreError, match=r"critic\.pt: missing"):
        ppo(make_model()).load(tmp_path / "c")


def test_a_critic_of_another_kind_is_refused(tmp_path):
    trainer = ppo(make_model())
    trainer.save(tmp_path / "c")
    state = trainer.critic.state_dict()
    state["weights"]["head.weight"] = torch.zeros(1, 3)
    torch.save(state, tmp_path / "c" / "critic.pt")
    with pytest.raises(StoreError, match=r"critic's weights differ: \['head\.weight'\]"):
        ppo(make_model()).load(tmp_path / "c")


# -- settings, and the whole ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"advantage": "gae", "mask_env_tokens": False}, "mask_env_tokens"),
        ({"filtering": {"window": [0.8, 0.8]}}, "filtering.window"),
    ],
)
def test_settings_that_exclude_each_other(changes, words):
    with pytest.raises(ConfigError, match=words):
        parse_config({"train": changes}, "here")


def test_settings_that_go_together():
    parse_config(
        {"train": {"advantage": "gae", "loss": "gspo", "filtering": {"window": [0, 1.1]}}}, "here"
    )
    parse_config({"train": {"loss": "gspo", "mask_env_tokens": False}}, "here")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_bfloat16_keeps_float32_weights_and_values(rank):
    groups = make_groups(make_model())
    half = ModelSettings(device="cpu", dtype="bfloat16", lora_rank=rank)
    trainer, exact = ppo(make_model(), model_settings=half), ppo(make_model())
    for each in (trainer, exact):
        shake_head(each.critic)
    one, two = (t.update(groups, make_scores(groups)).critic for t in (trainer, exact))
    assert one["value_loss"] != two["value_loss"]
    assert one["value_loss"] == pytest.approx(two["value_loss"], rel=0.05)
    assert {v.dtype for v in critic_weights(trainer).values()} == {torch.float32}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, *slow(4)])
def test_ppo_learns_a_bandit(rank):
    settings = CPU.model_copy(update={"lora_rank": rank})
    trainer = ppo(make_model(seed=3), lr=2e-2, model_settings=settings, critic_warmup=1)
    means, reports = play_bandit(trainer, 9, k=16, groups=2)
    assert means[-1] > means[0] + 0.2 and means[-1] > 0.8
    assert [r.skipped is None for r in reports] == [False, *[True] * 8]
    # One prompt, one token: the value of the state is the mean reward.
    assert reports[-1].critic["value_mean"] == pytest.approx(means[-1], abs=0.3)


def test_estimates_reach_only_the_policys_own_tokens():
    """Invariant 1 under PPO: as many estimates as sampled tokens, at their places."""
    model = make_model()
    trainer = ppo(model)
    shake_head(trainer.critic)
    judged = trainer.critic.judge(samples_of(make_groups(model)))
    for micro in pack(judged, 60):
        assert len(micro.advantages) == len(micro.targets) == len(micro.estimates.values)
        at = 0
        for sample in micro.samples:
            part = slice(at, at + sample.sampled)
            assert micro.advantages[part].tolist() == sample.estimates.advantages.tolist()
            at += sample.sampled

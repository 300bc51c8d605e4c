"""The local trainer on tiny random models."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    OPTConfig,
    Qwen2Config,
    SeedOssConfig,
)

from rods.config import ModelSettings, TrainSettings
from rods.errors import ConfigError, StoreError, TrainError
from rods.infra.checkpoints import Checkpoints
from rods.reward import Score
from rods.trainers.adamw import rate
from rods.trainers.batches.micro import grow, minibatches, pack
from rods.trainers.batches.tree_attention import supports_trees
from rods.trainers.collect import collect
from rods.trainers.forward import LOGITS, token_scores
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

pytestmark = pytest.mark.usefixtures("one_thread")


def gradients(trainer, groups):
    """What the optimizer would have seen, before clipping."""
    seen = {}

    def spy(*_):
        for name, p in trainer.model.named_parameters():
            if p.grad is not None:
                seen[name] = p.grad.clone()

    trainer._optimizer.step = spy
    report = trainer.update(groups, make_scores(groups))
    return seen, report


@pytest.mark.parametrize("shared", [False, True])
def test_scores_equal_a_plain_forward_pass(shared, monkeypatch):
    temperature = 0.7
    monkeypatch.setattr(grow, "__defaults__", (2,))  # short parts are shared, too
    model = make_model()
    groups = make_groups(model, temperature=temperature)
    samples = collect(groups, make_scores(groups), "grpo").samples
    for micro in pack(samples, 60, shared=shared):
        got, entropy = token_scores(model, micro, False)
        assert got.tolist() == pytest.approx(micro.rollout_logprobs.tolist(), abs=1e-5)
        at = 0
        for s in micro.samples:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor(s.ids[None])).logits[0].double()
            logs = torch.log_softmax(logits / temperature, -1)
            want = -(logs.exp() * logs).sum(-1)[np.flatnonzero(s.mask) - 1]
            assert entropy[at : at + s.sampled].tolist() == pytest.approx(want.tolist(), abs=1e-4)
            at += s.sampled


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_shared_prefixes_give_the_gradients_of_padded_rows(checkpointing):
    groups = make_groups(make_model(), groups=3, prompt=20)
    trainer = make_trainer(make_model(), gradient_checkpointing=checkpointing)
    assert trainer._trees
    shared, ours = gradients(trainer, groups)
    padded = make_trainer(make_model(), gradient_checkpointing=checkpointing)
    padded._trees = False
    plain, theirs = gradients(padded, groups)
    assert all(torch.allclose(shared[k], plain[k], atol=1e-5) for k in plain)
    assert ours.positions < 0.7 * ours.tokens < theirs.positions
    assert trainer.model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(("family", "flash"), [(LlamaConfig, True), (Qwen2Config, False)])
def test_shared_prefixes_in_other_families(family, flash, monkeypatch):
    monkeypatch.setattr("rods.trainers.batches.tree_attention.flashes", lambda _: flash)
    torch.manual_seed(0)
    config = family(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    assert supports_trees(model)
    groups = make_groups(model, prompt=20)
    samples = collect(groups, make_scores(groups), "grpo").samples
    micro = pack(samples, 1000, shared=True)[0]
    got, _ = token_scores(model, micro, False)
    assert len(micro.tree.nodes) > 8
    assert got.tolist() == pytest.approx(micro.rollout_logprobs.tolist(), abs=1e-5)


def test_sliding_windows_are_padded():
    assert not supports_trees(
        make_model(use_sliding_window=True, sliding_window=8, max_window_layers=1)
    )


def test_an_unknown_architecture_goes_through_full_logits():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=0,
        eos_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    groups = make_groups(model)
    samples = collect(groups, make_scores(groups), "grpo").samples
    micro = pack(samples, 1000)[0]
    got, _ = token_scores(model, micro, False)
    assert got.tolist() == pytest.approx(micro.rollout_logprobs.tolist(), abs=1e-5)


def test_logits_in_pieces_are_the_same(monkeypatch):
    model = make_model()
    groups = make_groups(model)
    whole, _ = gradients(make_trainer(model, entropy=0.1), groups)
    monkeypatch.setitem(LOGITS, "cpu", VOCABULARY * 7)
    pieces, _ = gradients(make_trainer(model, entropy=0.1), groups)
    for name in whole:
        assert torch.allclose(whole[name], pieces[name], atol=1e-6), name


@pytest.mark.parametrize(("aggregation", "loss"), [("token", "clipped"), ("sequence", "gspo")])
def test_microbatches_give_the_gradient_of_the_whole(aggregation, loss):
    changes = {"aggregation": aggregation, "loss": loss, "kl": 0.1, "entropy": 0.01}
    groups = make_groups(make_model(seed=1), groups=3)
    whole, one = gradients(make_trainer(make_model(), **changes), groups)
    parts, many = gradients(make_trainer(make_model(), microbatch_tokens=128, **changes), groups)
    assert one.microbatches == 1 and many.microbatches > 1
    assert whole.keys() == parts.keys()
    for name in whole:
        assert torch.allclose(whole[name], parts[name], atol=1e-5), name
    assert many.loss == pytest.approx(one.loss, abs=1e-5)
    assert many.approx_kl == pytest.approx(one.approx_kl, abs=1e-5)


def test_the_first_pass_is_exactly_on_policy():
    model = make_model()
    report = make_trainer(model).update(groups := make_groups(model), make_scores(groups))
    assert report.ratio_max == pytest.approx(1.0, abs=1e-4)
    assert report.approx_kl == pytest.approx(0.0, abs=1e-7)
    assert report.clip_high == report.clip_low == 0
    assert (report.optimizer_steps, report.version, report.skipped) == (1, 1, None)
    ledgers = [t.ledger for g in groups for t in g.trajectories]
    assert report.tokens == sum(map(len, ledgers))
    assert report.sampled_tokens == sum(x.generated for x in ledgers)


def test_zero_variance_groups_cost_no_backward_pass(monkeypatch):
    model = make_model()
    trainer = make_trainer(model, kl=0.5)
    before = weights(model)
    monkeypatch.setattr("rods.trainers.local.token_scores", lambda *_: pytest.fail("forward pass"))
    groups = make_groups(model)
    report = trainer.update(groups, [[Score(0.5)] * 4, [Score(1.0)] * 4])
    assert same(before, weights(model))
    assert report.skipped and "equal" in report.skipped
    assert (report.zero_variance, report.informative, report.version) == (1.0, 0, 0)
    assert trainer.step == 1 and trainer.version == 0


def test_nothing_to_learn_is_said():
    report = make_trainer(make_model()).update([], [])
    assert report.skipped == "there was no group"


def test_an_update_that_ran_no_policy_has_no_entropy_of_0():
    """A report would draw it as a collapse of the policy."""
    trainer, groups = make_trainer(make_model(), kl=0.1), make_groups(make_model())
    equal = [[Score(1.0)] * 4] * 2
    skipped, made = (trainer.update(groups, s).metrics() for s in (equal, make_scores(groups)))
    names = ("loss", "policy_loss", "kl", "entropy", "approx_kl", "ratio_max", "grad_norm",
             "clip_high", "clip_low", "clip_dual")  # fmt: skip
    assert skipped["skipped"] and [skipped[name] for name in names] == [None] * 10
    assert all(isinstance(made[name], float) for name in names) and made["entropy"] > 1
    assert skipped.keys() == made.keys()


@pytest.mark.slow
def test_a_zero_variance_group_changes_nothing_beside_others():
    groups = make_groups(make_model(), groups=3)
    scores = make_scores(groups)
    scores[1] = [Score(1.0)] * 4
    ours, theirs = make_model(), make_model()
    report = make_trainer(ours, kl=0.1).update(groups, scores)
    make_trainer(theirs, kl=0.1).update([groups[0], groups[2]], [scores[0], scores[2]])
    assert same(weights(ours), weights(theirs))
    assert report.zero_variance == pytest.approx(1 / 3) and report.trained == 8


@pytest.mark.slow
def test_minibatches_and_epochs():
    model = make_model()
    trainer = make_trainer(model, minibatch=4, epochs=2)
    report = trainer.update(groups := make_groups(model, groups=3), make_scores(groups))
    assert report.optimizer_steps == 2 * 3 and report.version == 1
    assert report.ratio_max > 1.001
    again = make_model()
    make_trainer(again, minibatch=4, epochs=2).update(groups, make_scores(groups))
    assert same(weights(model), weights(again))
    other = make_model()
    make_trainer(other, seed=1, minibatch=4, epochs=2).update(groups, make_scores(groups))
    assert not same(weights(model), weights(other))


def test_minibatches_are_whole_groups_and_near_equal():
    groups = make_groups(make_model(), groups=5)
    scores = make_scores(groups)
    for group, member in ((1, 0), (3, 2), (3, 3)):
        scores[group][member] = Score(0.0, valid=False)
    samples = collect(groups, scores, "reinforce++").samples
    assert len(samples) == 17
    for seed in range(20):
        parts = minibatches(samples, 8, np.random.default_rng(seed))
        assert sorted(map(len, parts)) in ([8, 9], [7, 10])
        owners = [{s.task_id for s in part} for part in parts]
        assert not owners[0] & owners[1]
        assert sorted(id(s) for part in parts for s in part) == sorted(map(id, samples))
    orders = {parts[0][0].task_id for seed in range(20)
              for parts in [minibatches(samples, 4, np.random.default_rng(seed))]}  # fmt: skip
    assert len(orders) > 1


def test_two_groups_of_one_task_are_two_groups_of_a_minibatch():
    first, second = make_groups(make_model(), groups=2)
    groups = [first, replace(second, task=first.task)]
    groups[1].trajectories[:] = [replace(t, task_id=first.task.id) for t in second.trajectories]
    samples = collect(groups, make_scores(groups), "reinforce++").samples
    parts = minibatches(samples, 4, np.random.default_rng(0))
    assert sorted({s.group for s in part} for part in parts) == [{0}, {1}]


@pytest.mark.slow
def test_a_group_larger_than_the_minibatch_is_not_split():
    groups = make_groups(make_model(), groups=3, prompt=80)

    def update(minibatch):
        trainer = make_trainer(make_model(), minibatch=minibatch)
        return trainer.update(groups, make_scores(groups))

    reports = {n: update(n) for n in (0, 1, 3, 4, 8, 12)}
    assert [report.optimizer_steps for report in reports.values()] == [1, 3, 3, 3, 2, 1]
    assert len({report.positions for report in reports.values()}) == 1


@pytest.mark.slow
def test_the_constant_aggregation_is_that_of_dr_grpo():
    groups = make_groups(make_model(), groups=3)
    options = {"advantage": "dr_grpo", "loss": "clipped", "aggregation": "constant"}
    got, report = gradients(make_trainer(make_model(), longest=50, **options), groups)
    # The paper's objective: sums over tokens, divided by trajectories and one constant.
    samples = collect(groups, make_scores(groups), "dr_grpo").samples
    model = make_model()
    loss = torch.zeros(())
    for s in samples:
        logits = model(input_ids=torch.tensor(s.ids[None])).logits[0]
        logs = torch.log_softmax(logits, -1)[:-1].gather(1, torch.tensor(s.ids[1:, None]))[:, 0]
        ratio = (logs - torch.tensor(s.rollout_logprobs[1:])).exp()
        loss = loss - (ratio * s.advantage * torch.tensor(s.mask[1:])).sum()
    (loss / (len(samples) * 50)).backward()
    for name, p in model.named_parameters():
        assert torch.allclose(got[name], p.grad, atol=1e-6), name
    by_token = make_trainer(make_model()).update(groups, make_scores(groups))
    assert report.entropy == pytest.approx(by_token.entropy, rel=1e-5)


def test_the_constant_aggregation_needs_its_constant():
    with pytest.raises(ConfigError, match=r"rollout\.generated_tokens"):
        make_trainer(make_model(), aggregation="constant")


def test_a_cosine_without_an_end_is_refused():
    with pytest.raises(ConfigError, match="Set updates"):
        make_trainer(make_model(), total_steps=0, schedule="cosine")


@pytest.mark.slow
def test_kl_pulls_towards_the_start():
    def drift(kl):
        model = make_model()
        start = weights(model)
        trainer = make_trainer(model, kl=kl, lr=3e-3)
        groups = make_groups(model)
        reports = [trainer.update(groups, make_scores(groups)) for _ in range(8)]
        assert reports[0].kl == pytest.approx(0, abs=1e-6)
        moved = sum((model.state_dict()[k] - start[k]).square().sum().item() for k in start)
        return moved, reports[-1].kl

    free, _ = drift(0.0)
    held, kl = drift(5.0)
    assert held < 0.8 * free and kl > 0


@pytest.mark.slow
def test_entropy_bonus_raises_entropy():
    def entropy(coefficient):
        model = make_model()
        trainer = make_trainer(model, entropy=coefficient)
        groups = make_groups(model)
        return [trainer.update(groups, make_scores(groups)).entropy for _ in range(5)][-1]

    assert entropy(1.0) > entropy(0.0)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_not_a_number_stops_with_weights_untouched(where, monkeypatch):
    model = make_model()
    trainer = make_trainer(model)
    groups = make_groups(model)
    trainer.update(groups, make_scores(groups))
    before = weights(model)
    if where == "loss":
        groups[1] = replace(
            groups[1],
            trajectories=[replace(t, temperature=1e-42) for t in groups[1].trajectories],
        )
    else:
        monkeypatch.setattr("torch.nn.utils.clip_grad_norm_", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(TrainError, match=r"step 1: .*tasks ") as caught:
        trainer.update(groups, make_scores(groups))
    assert groups[1].task.id in str(caught.value)
    assert same(before, weights(model))
    assert all(p.grad is None for p in model.parameters())
    assert trainer.step == 1 and trainer.version == 1


@pytest.mark.parametrize(
    ("changes", "rank"), [({}, 2), ({"minibatch": 3, "epochs": 2, "kl": 0.1}, 0)]
)
@pytest.mark.slow
def test_resumed_training_is_bit_equal(tmp_path, changes, rank):
    settings = CPU.model_copy(update={"lora_rank": rank})
    options = {"schedule": "cosine", "warmup": 1, "model_settings": settings, **changes}
    batches = [make_groups(make_model(), seed=s) for s in range(3)]
    straight = make_trainer(make_model(), **options)
    for groups in batches[:2]:
        straight.update(groups, make_scores(groups))
    straight.save(tmp_path / "c")
    first = [straight.update(g, make_scores(g)).loss for g in batches[2:]]

    resumed = make_trainer(make_model(), **options)
    resumed.load(tmp_path / "c")
    assert (resumed.step, resumed.version) == (2, 2)
    second = [resumed.update(g, make_scores(g)).loss for g in batches[2:]]
    assert first == second
    assert same(weights(straight.model), weights(resumed.model))


def test_checkpoints_load_with_transformers(tmp_path):
    model = make_model()
    trainer = make_trainer(model)
    trainer.update(groups := make_groups(model), make_scores(groups))
    trainer.save(tmp_path / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c"]
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "c")
    assert same(weights(loaded), weights(model))
    assert (tmp_path / "c" / "model.safetensors").is_file()
    assert AutoTokenizer.from_pretrained(tmp_path / "c").chat_template == "{{ messages }}"


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_weights_are_handed_over_as_transformers_names_them(tmp_path, rank):
    trainer = make_trainer(
        make_model(), model_settings=CPU.model_copy(update={"lora_rank": rank}), lr=0.1
    )
    trainer.update(groups := make_groups(make_model()), make_scores(groups))
    handed, fresh = trainer.weights(), make_model(seed=9)
    assert handed.adapters == bool(rank)
    missing, unknown = fresh.load_state_dict(dict(handed.tensors()), strict=False)
    assert (missing, unknown) == (["lm_head.weight"], [])  # tied to the embedding
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        torch.testing.assert_close(fresh(ids).logits, trainer.model(ids).logits)
        assert not torch.allclose(fresh(ids).logits, make_model()(ids).logits)
    handed.save(tmp_path / "w")
    assert (tmp_path / "w" / "adapter_model.safetensors").is_file() == bool(rank)


@pytest.mark.slow
def test_adapters_load_with_transformers_and_start_as_nothing(tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    groups = make_groups(model)
    before = weights(model)
    settings = CPU.model_copy(update={"lora_rank": 2})
    trainer = make_trainer(model, model_settings=settings, kl=0.1)
    report = trainer.update(groups, make_scores(groups))
    assert report.ratio_max == pytest.approx(1.0, abs=1e-4)
    assert report.kl == pytest.approx(0.0, abs=1e-6)
    after = weights(model)
    names = [k for k in after if "lora" not in k]
    assert all(torch.equal(after[k], before[k.replace(".base_layer", "")]) for k in names)
    trainer.save(tmp_path / "c")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "c")
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, model(ids).logits, atol=1e-6)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    trainer = make_trainer(make_model())
    with pytest.raises(StoreError, match="missing"):
        trainer.load(tmp_path)
    trainer.save(tmp_path / "c")
    path = tmp_path / "c" / "optimizer.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match="damaged"):
        trainer.load(tmp_path / "c")


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    trainer = make_trainer(make_model())
    trainer.save(tmp_path / "c")
    other = make_trainer(make_model(attention_bias=True))
    with pytest.raises(StoreError, match="another model"):
        other.load(tmp_path / "c")


def test_a_full_disk_keeps_the_former_checkpoint(tmp_path, monkeypatch):
    trainer, checkpoints = make_trainer(make_model()), Checkpoints(tmp_path)
    with checkpoints.write(1, dict) as folder:
        trainer.save(folder / "policy")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.save", full)
    trainer.step = 7
    for step in (1, 2):
        refused = pytest.raises(StoreError, match="No space left")
        with refused, checkpoints.write(step, dict) as folder:
            trainer.save(folder / "policy")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "step-000001"]
    resumed = make_trainer(make_model())
    resumed.load(checkpoints.latest().path / "policy")
    assert resumed.step == 0


def dropping(family):
    """A model whose layers drop activations by rates of their own, not by modules."""
    if family == "qwen3":
        return make_model(attention_dropout=0.5)
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "max_position_embeddings": 256, "attention_dropout": 0.5}
    if family == "opt":
        config = OPTConfig(**sizes, ffn_dim=32, init_std=0.3, dropout=0.5, layerdrop=0.5)
    else:
        sizes |= {"intermediate_size": 32, "num_key_value_heads": 1, "head_dim": 8}
        config = SeedOssConfig(**sizes, initializer_range=0.3, residual_dropout=0.5)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3", "seed_oss", "opt"])
def test_gradient_checkpointing_gives_the_same_gradients(family):
    groups = make_groups(dropping(family))
    plain, _ = gradients(make_trainer(dropping(family)), groups)
    trainer = make_trainer(dropping(family), gradient_checkpointing=True)
    saved, report = gradients(trainer, groups)
    assert report.ratio_max == pytest.approx(1.0, abs=1e-4)
    assert plain.keys() == saved.keys()
    assert all(torch.allclose(plain[k], saved[k], atol=1e-6) for k in plain)
    assert not trainer.model.training


def test_bfloat16_autocast_stays_close_and_keeps_float32_weights():
    groups = make_groups(make_model())
    half = ModelSettings(device="cpu", dtype="bfloat16")
    model = make_model()
    got, report = gradients(make_trainer(model, model_settings=half), groups)
    assert {v.dtype for v in got.values()} == {torch.float32}
    assert report.ratio_max != 1.0 and report.ratio_max == pytest.approx(1.0, abs=0.3)


def test_schedules():
    constant = TrainSettings(lr=1.0, warmup=4)
    assert [rate(constant, s, 10) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    cosine = TrainSettings(lr=1.0, warmup=2, schedule="cosine")
    assert rate(cosine, 1, 10) == rate(cosine, 2, 10) == 1.0
    assert rate(cosine, 6, 10) == pytest.approx(0.5)
    assert rate(cosine, 9, 10) == pytest.approx(0.5 * (1 + math.cos(math.pi * 7 / 8)))
    assert rate(cosine, 99, 10) == rate(cosine, 9, 10)


@pytest.mark.parametrize("advantage", ["grpo", "reinforce++"])
def test_a_bandit_is_learned(advantage):
    trainer = make_trainer(make_model(seed=3), lr=2e-2, advantage=advantage)
    means, _ = play_bandit(trainer, 8)
    assert means[-1] > means[0] + 0.2 and means[-1] > 0.8


def test_an_update_says_what_it_made_of_each_trajectory():
    """The reward and the advantages by which it moved the weights, costs of KL taken off."""
    groups = make_groups(make_model(), groups=2)
    scores = [[Score(1.0)] * 4, make_scores(groups)[1]]
    plain = make_trainer(make_model(), advantage="dr_grpo").update(groups, scores)
    rewards = [[s.reward for s in row] for row in plain.signals]
    assert rewards == [[1.0] * 4, [0.0, 1.0, 0.0, 1.0]] and "signals" not in plain.metrics()
    found = [[set(s.span_advantages) for s in row] for row in plain.signals]
    assert found == [[{None}] * 4, [{None, -0.5}, {None, 0.5}] * 2]
    trainer = make_trainer(make_model(), advantage="dr_grpo", kl=0.5, kl_in="reward")
    for _ in range(2):  # the second one starts away from the reference
        paid = trainer.update(groups, scores).signals[1]
    for less, score in zip(paid, scores[1], strict=True):
        assert less.reward == pytest.approx(score.value - less.reward_parts["kl_cost"])
    judged = make_trainer(make_model(), advantage="gae").update(groups, scores).signals
    counts = [sum(a is not None for a in s.span_advantages) for row in judged for s in row]
    assert counts == [2] * 8, "under a critic equal rewards teach, too"


def test_the_model_given_is_the_model_trained():
    model = make_model()
    before = copy.deepcopy(model.state_dict())
    trainer = make_trainer(model)
    trainer.update(groups := make_groups(model), make_scores(groups))
    assert trainer.model is model and not same(before, model.state_dict())

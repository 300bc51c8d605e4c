"""bfloat16: the reference of the KL loss, and LoRA adapters in the engine and in a checkpoint."""

import copy
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from rods.assemble import evaluated
from rods.config import ModelSettings, RolloutSettings, RunConfig
from rods.engines.kv import RowCache
from rods.engines.weights import DecoderWeights
from rods.errors import ConfigError, PrerequisiteError, StoreError
from rods.store import RunDirectory
from rods.trainers.adapters import load_adapters, with_lora
from sweeps import slow
from tiny_models import build
from trainer_cases import CPU, make_groups, make_model, make_scores, make_tokenizer, make_trainer

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]

FAMILIES = ["llama", *slow("qwen2", "mistral"), "qwen3"]
HALF = ModelSettings(device="cpu", dtype="bfloat16")


def halved(model):
    """In bfloat16 as `from_pretrained` makes it: rotary frequencies stay float32."""
    rotary = copy.deepcopy(model.model.rotary_emb)
    model.to(torch.bfloat16).model.rotary_emb = rotary
    return model


@pytest.mark.slow
def test_the_reference_says_what_the_start_says():
    model = halved(build("qwen3"))
    with torch.no_grad():  # sharp attention, so that a turned position shows
        for name, p in model.named_parameters():
            if "q_proj.weight" in name or "k_proj.weight" in name:
                p *= 4
    groups = make_groups(build("qwen3"), k=2, prompt=800)
    trainer = make_trainer(model, model_settings=HALF, kl=0.1)
    report = trainer.update(groups, make_scores(groups))
    assert report.trained == 4 and 0 <= report.kl < 1e-6


def adapted(kind, scale):
    """A frozen bfloat16 model with adapters whose second matrices are about `scale`."""
    model = build(kind).to(torch.bfloat16)
    peft = with_lora(model, 4, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.copy_(scale * torch.randn(p.shape, generator=generator))
    return model, peft


@torch.no_grad()
def share_of_drift(kind, scale, dtype):
    """How much of what the adapters add to a layer's outputs shows in the engine's outputs.

    Rounding blurs single outputs by far more, so it is looked for in very many.
    """
    model, _ = adapted(kind, scale)
    weights = DecoderWeights(model, torch.device("cpu"), dtype)
    layer = model.model.layers[0].mlp.down_proj
    states = torch.randn(8192, 48, generator=torch.Generator().manual_seed(2)).to(dtype)
    drift = (states.float() @ layer.lora_A["default"].weight.T) @ layer.lora_B["default"].weight.T
    nothing = adapted(kind, 0.0)[0]  # the same roundings, of adapters that add nothing
    before = DecoderWeights(nothing, torch.device("cpu"), dtype).layers[0].down(states)
    after = weights.layers[0].down(states)
    got = after.float() - before.float()
    return float((got * drift).sum() / (layer.scaling["default"] * drift.square().sum()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_small_adapters_reach_the_engine(kind, dtype):
    assert share_of_drift(kind, 1e-4, dtype) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("scale", [1e-5, 1e-6])
def test_tiny_adapters_reach_the_engine(scale):
    assert share_of_drift("llama", scale, torch.bfloat16) == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_engine_with_adapters_apart_says_what_the_model_says(kind):
    model, peft = adapted(kind, 0.1)
    engine = RowCache(model, 2, 64, torch.device("cpu"), torch.bfloat16)
    ids = torch.randint(0, 97, (1, 40), generator=torch.Generator().manual_seed(3))

    def difference():
        engine.sync()
        with torch.no_grad():
            want = model(ids).logits[0, -1].float()
        return float((engine.prefill([0], [ids[0].tolist()])[0] - want).norm() / want.norm())

    with peft.disable_adapter(), torch.no_grad():
        plain = model(ids).logits[0, -1].float()
        assert difference() < 0.05
    with torch.no_grad():
        assert float((model(ids).logits[0, -1].float() - plain).norm() / plain.norm()) > 0.1
    assert difference() < 0.05


def saved_run(tmp_path, rank):
    """A run's folder whose checkpoint holds adapters, and the trainer that wrote it."""
    base = make_model()
    base.save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    settings = CPU.model_copy(update={"name": str(tmp_path / "base"), "lora_rank": rank})
    model = make_model()
    trainer = make_trainer(model, model_settings=settings)
    trainer.update(groups := make_groups(model), make_scores(groups))
    (tmp_path / "run").mkdir()
    config = RunConfig(model=settings, rollout=RolloutSettings(context_tokens=256))
    run = RunDirectory.create(tmp_path / "run", config, template_hash="", split_hash="")
    with run.checkpoint(1) as folder:
        trainer.save(folder / "policy")
    return config, run, trainer


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai", "vllm"])
def test_a_run_is_not_evaluated_without_what_it_learned(tmp_path, name):
    config, run, _ = saved_run(tmp_path, 2)
    engine = {"name": name, "weights": "fixed", "url": "http://x/v1" if name == "openai" else ""}
    config = config.model_copy(update={"engine": config.engine.model_copy(update=engine)})
    with pytest.raises(ConfigError, match=r"cannot use those of|would use the model without"):
        evaluated._evaluated(config, run.path)


@pytest.mark.slow
def test_vllm_serves_a_checkpoint_of_all_weights_as_it_is(tmp_path):
    config, run, _ = saved_run(tmp_path, 0)
    engine = {"name": "vllm", "weights": "fixed"}
    config = config.model_copy(update={"engine": config.engine.model_copy(update=engine)})
    model, _ = evaluated._evaluated(config, run.path)
    assert Path(model.name_or_path) == run.latest_checkpoint().path / "policy"


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_is_evaluated_with_what_it_learned(tmp_path, monkeypatch, rank):
    config, run, trainer = saved_run(tmp_path, rank)
    seen = []

    async def tasks_evaluated(tasks, settings, context, *_):
        seen.append(await context.policy.open(1).generate([1, 2, 3], 6, 0.0))

    environment = Mock()
    monkeypatch.setattr(evaluated, "environment_of", lambda _: environment)
    monkeypatch.setattr(evaluated, "splits_of", lambda *_: SimpleNamespace(held_out=[]))
    monkeypatch.setattr(evaluated, "held_out_tasks", lambda *_: [])
    monkeypatch.setattr(evaluated, "evaluate_tasks", tasks_evaluated)
    monkeypatch.setattr(
        "rods.assemble.engines.template_of",
        lambda *_: SimpleNamespace(stop_ids=(), raw_decode=None),
    )  # fmt: skip
    with evaluated.evaluation_of(config, run.path) as evaluate:
        evaluate(lambda *_: None)
        environment.close.assert_not_called()
    environment.close.assert_called_once()
    ids = [1, 2, 3]
    for token, logprob in zip(seen[0].ids, seen[0].logprobs, strict=True):
        with torch.no_grad():
            logs = torch.log_softmax(trainer.model(torch.tensor([ids])).logits[0, -1], -1)
        assert int(logs.argmax()) == token and float(logs[token]) == pytest.approx(
            logprob, abs=1e-4
        )
        ids.append(token)


def test_adapters_without_peft_name_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(
        PrerequisiteError, match=r"LoRA adapters.*need peft: pip install .*\[train\]"
    ):
        load_adapters(build("qwen3"), tmp_path)


@pytest.mark.slow
def test_adapters_of_another_model_are_refused(tmp_path):
    _, run, _ = saved_run(tmp_path, 2)
    checkpoint = run.latest_checkpoint()
    assert checkpoint is not None
    with pytest.raises(StoreError, match=r"model\.name"):
        load_adapters(build("qwen3"), checkpoint.path / "policy")
    for file in (checkpoint.path / "policy").glob("*.safetensors"):
        file.write_bytes(b"torn")
    with pytest.raises(StoreError, match="They are damaged or belong to another one"):
        load_adapters(build("qwen2"), checkpoint.path / "policy")

"""Folders of LoRA adapters wherever a model is named: loaded with their base, or refused."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from policy_server import Scripted, remote, serving
from rods.assemble import evaluated
from rods.assemble.refusals import require_named
from rods.cli.evaluate import located
from rods.config import RunConfig, load_config, parse_config
from rods.errors import ConfigError, PolicyError
from rods.integrations.verl.checks import require_known
from rods.store import MANIFEST, RunDirectory, new_run_dir
from rods.trainers.adapters import load_adapters, with_lora
from rods.trainers.loading import load_architecture, load_model, load_stops, load_tokenizer
from trainer_cases import CPU, make_groups, make_model, make_scores, make_tokenizer, make_trainer
from verbs import rods

IDS = torch.tensor([[1, 2, 3, 4]])


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def adapt(model: Any, folder: Path, seed: int) -> torch.Tensor:
    """Adapters that change what the model says, saved as peft does for TRL and for us."""
    peft: Any = with_lora(model, 2, seed=0)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    peft.save_pretrained(str(folder))
    return logits(peft)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path / "base")
    make_tokenizer().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    """TRL's folder: one checkpoint of adapters, with its tokenizer."""
    folder = tmp_path / "out" / "checkpoint-10"
    model, tokenizer = load_model(settings(base))
    torch.save(adapt(model, folder, 1), tmp_path / "said.pt")
    tokenizer.save_pretrained(str(folder))
    return folder


def settings(name: Path | str) -> Any:
    return CPU.model_copy(update={"name": str(name)})


def said(folder: Path) -> torch.Tensor:
    return torch.load(folder / "said.pt", weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("merge", "own_tokenizer", "relative"), [(True, True, False), (False, False, True)]
)
def test_adapters_load_with_their_base(
    adapter: Path, tmp_path: Path, merge: bool, own_tokenizer: bool, relative: bool
) -> None:
    if not own_tokenizer:
        for file in adapter.glob("token*"):
            file.unlink()
    if relative:
        named(adapter, lambda found: {**found, "base_model_name_or_path": "../../base"})
    model, tokenizer = load_model(settings(adapter), merge)
    assert torch.allclose(logits(model), said(tmp_path), atol=1e-5)
    assert not torch.allclose(logits(load_model(settings(tmp_path / "base"))[0]), said(tmp_path))
    assert len(tokenizer) == len(load_tokenizer(settings(adapter))) == len(make_tokenizer())
    assert load_architecture(settings(adapter)).vocab_size == model.config.vocab_size
    assert load_stops(settings(adapter)) == load_stops(settings(tmp_path / "base"))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_training_begins_with_what_adapters_learned(
    adapter: Path, tmp_path: Path, rank: int
) -> None:
    model, _ = load_model(settings(adapter))
    chosen = settings(adapter).model_copy(update={"lora_rank": rank})
    trainer = make_trainer(model, model_settings=chosen)
    assert torch.allclose(logits(trainer.model), said(tmp_path), atol=1e-5)
    groups = make_groups(model)
    assert trainer.update(groups, make_scores(groups))
    trainer.save(tmp_path / "next")
    again, _ = load_model(settings(tmp_path / "next"))  # adapters on adapters name these
    assert torch.allclose(logits(again), logits(trainer.model), atol=1e-5)


def named(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "moved": (
        lambda found: {**found, "base_model_name_or_path": "/gone/base"},
        r"holds LoRA adapters, whose base cannot be loaded: .*/gone/base.* Put the base there, or "
        r"name it under base_model_name_or_path in .*adapter_config\.json",
    ),
    "none": (lambda found: {**found, "base_model_name_or_path": None}, "names no base model"),
    "empty": (lambda found: {**found, "base_model_name_or_path": ""}, "names no base model"),
    "prompts": (lambda found: {**found, "peft_type": "PROMPT_TUNING"}, 'expected "LORA"'),
    "list": (lambda found: [], "not an object of JSON"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_adapters_without_a_base_say_what_to_do(adapter: Path, fault: str) -> None:
    change, message = FAULTS[fault]
    named(adapter, change)
    with pytest.raises(PolicyError, match=message):
        load_model(settings(adapter))


def test_adapters_that_name_themselves_are_refused(adapter: Path) -> None:
    named(adapter, lambda found: {**found, "base_model_name_or_path": str(adapter)})
    with pytest.raises(PolicyError, match="name themselves as their base"):
        load_model(settings(adapter))


# -- rods eval -----------------------------------------------------------------------------------

WAYS = {
    "trl's folder": lambda a: [str(a.parent)],
    "trl's folder, --model": lambda a: ["--model", str(a.parent)],
    "model": lambda a: ["--model", str(a)],
    "path": lambda a: [str(a)],
    "model.name": lambda a: ["--model.name", str(a)],
    "beside settings": lambda a: [str(a), "--recipe", "rods", "--rollout.k", "4"],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_eval_takes_adapters_by_each_documented_way(
    adapter: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(adapter, adapter.with_name("checkpoint-9"))  # 10 is the last one
    asked: list[tuple[RunConfig, Path | None]] = []

    def noted(config: RunConfig, run: Path | None) -> Any:
        asked.append((config, run))
        return nullcontext(lambda progress: [])

    monkeypatch.setattr(evaluated, "evaluation_of", noted)
    assert rods("eval", *WAYS[way](adapter), "--json", monkeypatch=monkeypatch) == 0
    [(config, run)] = asked
    assert config.model.name == str(adapter) and run is None
    short = config.rollout.model_copy(update={"context_tokens": 256})  # its positions
    found = config.model_copy(update={"model": settings(config.model.name), "rollout": short})
    model, _ = evaluated._evaluated(found, run)
    assert torch.allclose(logits(model), said(tmp_path), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("whose", "way"), [("trl", "trl's folder"), ("ours", "model.name")])
def test_a_checkpoint_is_evaluated_with_the_settings_it_was_trained_with(
    adapter: Path, tmp_path: Path, whose: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another dialect or context would measure something else, and nobody would notice."""
    trained = load_config("torl", "full", ["model.lora_rank=2", f"model.name={adapter}"])
    if whose == "trl":
        torch.save({"config": trained.model_dump_json()}, adapter / "rods.pt")
    else:
        run = RunDirectory.create(new_run_dir(tmp_path, "run"), trained)
        adapter = shutil.copytree(adapter, run.path / "checkpoint" / "step-000002" / "policy")
    asked: list[RunConfig] = []

    def noted(config: RunConfig, run: Path | None) -> Any:
        asked.append(config)
        return nullcontext(lambda progress: [])

    monkeypatch.setattr(evaluated, "evaluation_of", noted)
    for more in ([], ["--recipe", "toolrl"], ["--profile", "small"], ["--rollout.k", "3"]):
        words = [*WAYS[way](adapter), *more, "--json"]
        assert rods("eval", *words, monkeypatch=monkeypatch) == 0, more
    own, recipe, profile, other = asked
    assert own.rollout == trained.rollout and own.stages == trained.stages
    assert own.model.dialect == trained.model.dialect and own.model.lora_rank == 0
    assert recipe.stages == load_config("toolrl", "small", []).stages
    assert profile.stages == load_config("rods", "small", []).stages
    assert other.rollout.k == 3 and other.stages == trained.stages
    assert {config.model.name for config in asked} == {str(adapter)}


@pytest.mark.slow
def test_eval_refuses_two_answers_to_what_is_evaluated(
    adapter: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", str(adapter), "--model", "tiny"]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "RUN_OR_MODEL and --model" in capsys.readouterr().err


def test_paths_of_ours_are_told_apart(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoint" / "step-000002" / "policy").mkdir(parents=True)
    (run / MANIFEST).write_text("{}")
    assert located(str(run)) == (run, "")
    step = run / "checkpoint" / "step-000002"
    assert located(str(step)) == (None, str(step / "policy"))
    assert (located("tiny"), located("")) == ((None, "tiny"), (None, ""))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_a_server_does_not_begin_with_the_base_alone(adapter: Path, engine: str) -> None:
    own: dict[str, Any] = {"name": engine}
    if engine == "openai":
        own |= {"url": "http://x/v1", "weights": "lora", "folder": str(adapter)}
    config = parse_config({"model": {"name": str(adapter)}, "engine": own}, "t")
    with pytest.raises(ConfigError, match=r"start with only their base\. Set engine\.name"):
        require_named(config)
    if engine == "vllm":  # else a server plays what it has
        with pytest.raises(ConfigError, match="start with only their base"):
            evaluated._evaluated(config, None)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [True, False])
def test_a_server_gets_the_adapters_of_the_run_that_is_evaluated(
    lora: bool, base: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = load_model(settings(base))
    adapted = load_adapters(model, adapter)
    monkeypatch.setattr(evaluated, "_evaluated", lambda *_: (adapted, None))
    script, way = Scripted(), "lora" if lora else "folder"
    with serving(script.app()) as url:
        engine = remote(url, weights=way, folder=str(tmp_path / "w"))

        monkeypatch.setattr("rods.assemble.engines.engine_of", lambda *_, engine=engine: engine)

        async def start() -> str:
            async with evaluated.ready_policy(RunConfig(), None):
                return engine.model

        name = asyncio.run(start())
    asked = [route for route, _ in script.asked]
    assert ("v1/load_lora_adapter" in asked, "update_weights_from_disk" in asked) == (
        lora,
        not lora,
    )
    assert name.endswith("-0") == lora


def test_verl_loads_by_itself_and_is_refused_adapters(adapter: Path) -> None:
    config = load_config("rods", "small", [f"model.name={json.dumps(str(adapter))}"])
    with pytest.raises(ConfigError, match=r"LoRA adapters; merge them first"):
        require_known(config)

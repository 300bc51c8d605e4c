"""Models from packages and GGUF files: fetched and converted once, and what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from safetensors.torch import load_file

from rods.config import ModelSettings
from rods.engines import threads
from rods.errors import PolicyError, PrerequisiteError
from rods.store import RunDirectory
from rods.trainers import packaged
from rods.trainers.loading import load_architecture, load_model, load_tokenizer, path_or_name
from verbs import rods


def gguf_file(path: Path, architecture: str = "nonesuch") -> Path:
    """A complete file with one tensor."""
    writer = GGUFWriter(str(path), architecture)
    writer.add_tensor("token_embd.weight", np.zeros((64, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no file .*none\.gguf"):
        load_tokenizer(ModelSettings(name=str(tmp_path / "none.gguf")))


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.6])
def test_a_truncated_file_is_refused(
    kept: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    path = gguf_file(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(PolicyError, match=r"no complete GGUF file.*Fetch it again"):
        path_or_name(str(path))
    assert not (tmp_path / "cache").exists()


def test_an_architecture_that_transformers_does_not_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(PolicyError, match=r"transformers cannot read it.*nonesuch"):
        path_or_name(str(gguf_file(tmp_path / "model.gguf")))
    assert not (tmp_path / "cache").exists()


def test_a_model_that_memory_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "host_memory", lambda: 10_000)
    with pytest.raises(PolicyError, match=r"GiB of memory, and 0\.0 GiB are free"):
        path_or_name(str(gguf_file(tmp_path / "model.gguf")))


def test_a_package_that_cannot_be_fetched_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    packaged._packaged.cache_clear()  # pyright: ignore[reportPrivateUsage]
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no such distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(PrerequisiteError, match=r"SmolLM2.*no such distribution.*--model FOLDER"):
        path_or_name("smollm2")


@pytest.mark.slow
def test_the_packaged_model_can_be_saved(tmp_path: Path) -> None:
    """At the end of a training; what came from a GGUF file counts as quantized there."""
    model, _ = load_model(ModelSettings(name="smollm2", dtype="bfloat16"))
    model.save_pretrained(tmp_path)
    saved = load_architecture(ModelSettings(name=str(tmp_path)))
    assert not hasattr(saved, "quantization_config")


@pytest.mark.slow
def test_the_packaged_model_answers_and_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(path_or_name("smollm2"))
    monkeypatch.setattr(subprocess, "run", None)  # from here on the cache is enough
    packaged._packaged.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert Path(path_or_name("smollm2")) == folder
    found = load_model(ModelSettings(name="smollm2", dtype="float32"))
    model, tokenizer = cast("tuple[Any, Any]", found)
    assert 134e6 < model.num_parameters() < 135e6
    text = "Grüße\n  def f(x):\treturn '日本'"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    asked = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    ids = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        made = model.generate(**ids, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(made[0][ids["input_ids"].shape[1] :])
    assert "Paris" in answer and answer.endswith("<|im_end|>")


@pytest.mark.slow
def test_the_packaged_model_starts_on_demonstrations_and_learns_by_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short cold start, an update in the loop, and another one after a resume."""
    data = tmp_path / "data.jsonl"
    started, run = tmp_path / "started", tmp_path / "run"
    asked = ("--families", "expression", "--difficulties", "2", "--n", "12")
    demonstrate = ("demonstrate", "--dialect", "torl", *asked, "--out", str(data))
    assert not rods(*demonstrate, monkeypatch=monkeypatch)
    sft = ("sft", str(data), "--model", "smollm2", "--model.lora_rank", "16", "--adapter")
    # Without the hardware, bfloat16 takes over ten minutes here.
    half = threads.bfloat16_pays(576)
    quick = (
        "--model.dtype",
        "bfloat16" if half else "float32",
        "--epochs",
        "1",
        "--batch-tokens",
        "384",
        "--model.threads",
        "1",
    )
    assert not rods(*sft, *quick, "--out", str(started), monkeypatch=monkeypatch)
    card = json.loads((started / "card.json").read_text())
    assert card["loss"] < 0.85 * card["loss_first"]
    adapters = load_file(started / "adapter_model.safetensors")
    assert not half or {tensor.dtype for tensor in adapters.values()} == {torch.bfloat16}
    overrides = {
        "rollout": {
            "tasks_per_step": 2, "k": 4, "step_tokens": 48, "generated_tokens": 64,
            "context_tokens": 256,
        },
        "env.questions": {"families": '["expression"]', "difficulty": "[2]"},
        "evaluation": {"tasks": 1, "samples": 1},
        "train.local": {"microbatch_tokens": 1280},
        "model": {"threads": 1},
    }  # fmt: skip
    words = [
        word
        for section, values in overrides.items()
        for key, value in values.items()
        for word in (f"--{section}.{key}", str(value))
    ]
    recipe = ("--recipe", "torl", "--profile", "smollm2", "--model", str(started))
    assert not rods(
        "train", *recipe, "--updates", "1", *words, "--out", str(run), monkeypatch=monkeypatch
    )
    assert not rods("train", "--resume", str(run), "--updates", "2", monkeypatch=monkeypatch)
    steps = [row for row in RunDirectory.open(run).metrics() if row["kind"] == "step"]
    assert [row["step"] for row in steps] == [1, 2]
    assert all(row["trajectories"] == 8 for row in steps)
    learned = cast("list[dict[str, Any]]", [row for row in steps if row["trained"]])
    assert learned and all(0 < row["gap_mean"] < 0.1 for row in learned)

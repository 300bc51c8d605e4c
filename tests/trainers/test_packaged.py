"""Models from packages and GGUF files: fetched and converted once, and what is refused."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from gguf import GGUFWriter

from rods.config import ModelSettings
from rods.engines.hf import HFPolicy
from rods.errors import PolicyError, PrerequisiteError
from rods.trainers import packaged
from rods.trainers.loading import load_architecture, load_model, load_tokenizer, path_or_name
from trainer_cases import CPU, make_groups, make_scores, make_trainer


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
    with pytest.raises(PolicyError, match=r"not a complete GGUF file.*Fetch it again"):
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
def test_the_packaged_model_answers_ends_its_turn_and_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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

    engine = HFPolicy(model, [tokenizer.eos_token_id], rows=1, max_context=128)
    done = asyncio.run(engine.open(0).generate(ids["input_ids"][0].tolist(), 12, 0.0))
    assert list(done.ids) == made[0][ids["input_ids"].shape[1] :].tolist()
    adapted = CPU.model_copy(update={"lora_rank": 16})
    groups = make_groups(model, groups=1, k=2)
    trainer = make_trainer(model, model_settings=adapted, total_steps=1)
    report = trainer.update(groups, make_scores(groups))
    assert report.trained == 2 and report.gap_mean < 1e-4 and report.grad_norm > 0

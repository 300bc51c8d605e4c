"""`rods export`: what other programs load says the same as the run's last checkpoint."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from page_blocks import blocks_of
from places import ROOT
from rods.assemble import train
from rods.assemble.exported import export_model
from rods.config import ModelSettings, load_config
from rods.config.bundled import BUNDLED
from rods.errors import StoreError
from rods.store import RunDirectory
from rods.trainers.loading import load_model
from rods.trajectory_codec import read_parquet
from verbs import rods

SMALL = (
    "updates=2", "model.threads=1", "model.device=cpu", "rollout.k=4",
    "rollout.tasks_per_step=2", "evaluation.tasks=12", "evaluation.samples=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, RunDirectory]:
    """A run of adapters, whose rate is high enough to change answers, and one of all weights."""
    folder = tmp_path_factory.mktemp("runs")
    words = {4: "train.lr=5e-2", 0: "train.lr=1e-3"}
    return {
        rank: train(
            load_config("torl", "small", [*SMALL, f"model.lora_rank={rank}", lr]),
            str(folder / f"rank-{rank}"),
        )
        for rank, lr in words.items()
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # peft's
@pytest.mark.parametrize("rank", [4, 0])
def test_transformers_gives_the_same_greedy_answers(
    runs: dict[int, RunDirectory], rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, folder = runs[rank], tmp_path / "agent"
    assert rods("export", str(run.path), "--out", str(folder), monkeypatch=monkeypatch) == 0
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1, "safetensors: one reader"
    found: Any = AutoModelForCausalLM.from_pretrained(str(folder))
    base, tokenizer = load_model(ModelSettings(name="tiny-math", device="cpu"))
    latest = run.latest_checkpoint()
    assert latest is not None
    policy = latest.path / "policy"
    if rank:  # as any program that knows PEFT
        ours: Any = peft.PeftModel.from_pretrained(base, str(policy))
    else:
        ours, _ = load_model(ModelSettings(name=str(policy), device="cpu"))
    assert found.dtype is torch.float32, "the run computed in float32"
    prompts = [t.spans[0].ids for t in read_parquet(run.path / "trajectories/step-000001.parquet")]
    for prompt in prompts:
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        answers = [
            model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=24, do_sample=False)
            for model in (found, ours)
        ]
        assert answers[0].tolist() == answers[1].tolist()
    again = AutoTokenizer.from_pretrained(str(folder))
    assert again.chat_template == tokenizer.chat_template
    assert again.decode(prompts[0]) == tokenizer.decode(prompts[0])


@pytest.mark.slow
def test_its_held_out_results_are_those_of_the_run(
    runs: dict[int, RunDirectory],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, folder = runs[4], tmp_path / "agent"
    export_model("", folder, run.path)
    more = ("--recipe", "torl", *(f"--{word}" for word in SMALL), "--json")
    capsys.readouterr()
    assert rods("eval", str(folder), *more, monkeypatch=monkeypatch) == 0
    rows = json.loads(capsys.readouterr().out)
    before, after = (row["rows"] for row in run.metrics() if row["kind"] == "eval")
    greedy = [[row["greedy_progress"] for row in some] for some in (before, after, rows)]
    assert greedy[1] == greedy[2] != greedy[0]


@pytest.mark.slow
def test_the_card_has_the_results_and_no_path_of_this_machine(
    runs: dict[int, RunDirectory], tmp_path: Path
) -> None:
    export_model("", tmp_path / "agent", runs[4].path)
    card = (tmp_path / "agent" / "README.md").read_text()
    assert "| original | 12 |" in card and "`torl`" in card and "2 updates" in card
    assert "`tiny-math`, LoRA adapters of rank 4, merged" in card
    epoch = next(row for row in reversed(runs[4].metrics()) if row["kind"] == "epoch")
    assert f"* Data: {epoch['originals']} original tasks in the last epoch" in card
    first = next(read_parquet(sorted(runs[4].trajectories.iterdir())[-1]))
    assert "\n    " + first.messages[0].content.splitlines()[0] in card, "a prompt as it was read"
    policy = runs[4].path / "checkpoint" / "step-000002" / "policy"
    assert not (policy / "README.md").exists(), "peft's card with nothing filled in"


@pytest.mark.slow
def test_transformers_serves_an_exported_model(tmp_path: Path) -> None:
    """The commands of the guide use-the-model, with another port and a small Llama like SmolLM2."""
    mark = "test test_transformers_serves_an_exported_model"
    [block] = [b.text for b in blocks_of(ROOT / "docs/guides/use-the-model.md") if b.mark == mark]
    install, serve, ask = map(shlex.split, block.splitlines())
    assert install[:2] == ["pip", "install"] and ask[0] == "curl"
    sizes = {"vocab_size": 3_072, "hidden_size": 32, "intermediate_size": 48}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**sizes, **heads)).save_pretrained(tmp_path / "base")
    AutoTokenizer.from_pretrained(str(BUNDLED["tiny"])).save_pretrained(tmp_path / "base")
    export_model(str(tmp_path / "base"), tmp_path / "agent", dtype="float32")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [str(Path(sys.executable).with_name(serve[0])), *serve[1:], "--port", str(port)]
    url, asked = ask[1].replace(":8000/", f":{port}/"), json.loads(ask[-1]) | {"max_tokens": 16}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            program,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        ) as server,
    ):
        try:
            answer = answered(url, asked, server)
        finally:
            server.terminate()
    [choice] = answer["choices"]
    model: Any = AutoModelForCausalLM.from_pretrained(str(tmp_path / "agent"))
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "agent"))
    prompt: Any = tokenizer.apply_chat_template(
        asked["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = model.generate(**prompt, do_sample=False, max_new_tokens=16)[
        0, prompt["input_ids"].shape[1] :
    ]
    assert choice["message"]["content"] == tokenizer.decode(said, skip_special_tokens=True) != ""


def answered(url: str, asked: dict[str, Any], server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Ask a server that is starting, until it answers."""
    end = time.monotonic() + 240
    while True:
        try:
            return httpx.post(url, json=asked, timeout=120).raise_for_status().json()
        except httpx.ConnectError:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.5)


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
def test_a_bundled_model_is_written_in_the_precision_that_was_asked_for(
    tmp_path: Path, dtype: Any
) -> None:
    export_model("tiny-math", tmp_path / "agent", dtype=dtype)
    found: Any = AutoModelForCausalLM.from_pretrained(str(tmp_path / "agent"))
    assert found.dtype is (torch.float32 if dtype == "float32" else torch.bfloat16)


def test_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mine").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        export_model("tiny-math", tmp_path / "agent")
    assert (tmp_path / "agent" / "mine").read_text() == "mine"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rods.assemble.exported.ModelWeights.save", full)
    (tmp_path / "agent.part").mkdir()
    (tmp_path / "agent.part" / "mine").write_text("mine")
    with pytest.raises(StoreError, match="No space left"):
        export_model("tiny-math", tmp_path / "agent")
    assert [p.name for p in tmp_path.iterdir()] == ["agent.part"], "which is somebody else's"
    assert (tmp_path / "agent.part" / "mine").read_text() == "mine"

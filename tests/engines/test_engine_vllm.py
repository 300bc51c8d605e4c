"""vLLM as a process: its command line, its routes and its end, against a program that has them."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch

import fake_vllm
from policy_server import TEMPLATE, SomeAdapters
from rods.assemble import train
from rods.config import parse_config
from rods.config.checks import require
from rods.config.engine import KEY_VARIABLE
from rods.engines.options import EngineOptions
from rods.engines.vllm import HOST, LORA, ROUTES, VllmEngine
from rods.errors import ConfigError, PolicyError, PrerequisiteError


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "vllm"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_vllm.__file__} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("FAKE_VLLM_NOTES", str(tmp_path / "notes.json"))
    return str(path)


def engine(
    command: str, rank: int = 4, device: str = "cuda:0", way: str = "", **settings: Any
) -> VllmEngine:
    vllm = {"command": command, **settings}
    config = parse_config(
        {
            "engine": {"name": "vllm", "weights": way, "vllm": vllm},
            "model": {"lora_rank": rank},
            "rollout": {"context_tokens": 512, "concurrency": 9},
        },
        "test",
    )
    model = SimpleNamespace(name_or_path="/models/small")
    return VllmEngine(
        EngineOptions(config, TEMPLATE, model, device, half=True, cache=0, share=True)
    )


@pytest.mark.slow
def test_a_run_starts_its_server_uses_its_routes_and_ends_it(command: str, tmp_path: Path) -> None:
    made = engine(command, sleep=True, options={"tensor-parallel-size": "2"})

    async def go() -> None:
        await made.start()
        process = made._process
        await made.sync(SomeAdapters(), 3)  # type: ignore[arg-type]
        done = await made.open(1).generate([1, 2], 4, 1.0)
        assert (done.ids, done.version) == ((7,), 3)
        await made.sleep()
        await made.wake()
        await made.close()
        assert process is not None and process.returncode is not None
        await made.close()

    asyncio.run(go())
    words, development, _, *asked = json.loads((tmp_path / "notes.json").read_text())
    assert words[:2] == ["serve", "/models/small"] and development == "1"
    given = dict(zip(words[2:-3:2], words[3:-3:2], strict=True))
    assert given["--logprobs-mode"] == "processed_logprobs"
    assert given["--generation-config"] == "vllm" and given["--dtype"] == "bfloat16"
    assert (given["--max-model-len"], given["--max-num-seqs"]) == ("512", "9")
    assert (given["--max-lora-rank"], given["--tensor-parallel-size"]) == ("8", "2")
    assert words[-3:] == ["--enable-prefix-caching", "--enable-lora", "--enable-sleep-mode"]
    assert [route for route, _, _ in asked] == [
        "v1/completions",  # the look at what it can do
        "v1/load_lora_adapter",
        "v1/completions",
        "sleep",
        "wake_up",
        "v1/unload_lora_adapter",
    ]
    assert asked[2][2] == asked[1][2] and asked[2][2].endswith("-3")
    assert not made._folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "options", "key"),
    [("", {}, None), ("theirs", {}, "theirs"), ("theirs", {"api-key": "own"}, "own")],
)
def test_a_server_answers_its_run_alone(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    options: dict[str, str],
    key: str | None,
) -> None:
    """A web page that is open on this machine could send requests to loopback, too."""
    monkeypatch.setenv(KEY_VARIABLE, variable)
    made = engine(command, options=options)
    assert key in (None, made._key) and len(made._key) > 2

    async def go() -> None:
        await made.start()
        async with httpx.AsyncClient(trust_env=False) as stranger:
            for shown in ({}, {"Authorization": "Bearer none"}):
                answer = await stranger.get(f"{made.settings.url}/models", headers=shown)
                assert answer.status_code == 401
                asked = stranger.post(f"{made.settings.url}/load_lora_adapter", headers=shown)
                assert (await asked).status_code == 401
        await made.open(1).generate([1, 2], 4, 1.0)
        await made.close()

    asyncio.run(go())
    given = dict(zip(made._command[3::2], made._command[4::2], strict=False))
    assert given["--allowed-origins"] == "[]"
    assert options or made._key not in " ".join(made._command)  # others can read it


def test_an_engine_that_is_never_closed_leaves_no_folder(command: str) -> None:
    made = engine(command)
    folder = made._folder
    assert folder.is_dir()
    del made
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("sleep", [False, True])
def test_the_device_is_free_before_a_server_wakes(
    command: str, monkeypatch: pytest.MonkeyPatch, sleep: bool
) -> None:
    made, did = engine(command, sleep=sleep), list[str]()

    async def control(route: str) -> None:
        did.append(route)

    made._connection = SimpleNamespace(control=control)  # type: ignore[assignment]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: did.append("freed"))
    asyncio.run(made.wake())
    assert did == (["freed", "wake_up"] if sleep else [])


@pytest.mark.slow
def test_a_server_ends_with_its_run_however_that_ends(command: str) -> None:
    """The kernel closes the pipe of a run that was killed; test_leash.py kills one."""
    made = engine(command)

    async def go() -> None:
        await made.start()
        process = made._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 20)
        with pytest.raises(OSError, match=str(made._port)):
            await asyncio.open_connection(HOST, made._port)
        await made.close()

    asyncio.run(go())


@pytest.mark.slow
def test_a_server_that_does_not_start_says_its_last_words(command: str, tmp_path: Path) -> None:
    made = engine(command, options={"die": ""})

    async def go() -> None:
        try:
            await made.start()
        finally:
            await made.close()

    with pytest.raises(PolicyError, match=r"vLLM ended \(1\)(.|\n)*no such GPU"):
        asyncio.run(go())
    made = engine(str(tmp_path / "none"))
    with pytest.raises(PrerequisiteError, match=r"engine\.vllm\.command.*Install vLLM"):
        asyncio.run(go())


@pytest.mark.parametrize(("way", "allowed"), [("lora", LORA), ("fixed", {})])
def test_a_server_is_allowed_what_its_way_needs(
    command: str, way: str, allowed: dict[str, str]
) -> None:
    assert engine(command, way=way)._allowed == allowed
    assert engine(command, way=way, sleep=True)._allowed == allowed | ROUTES


def test_without_adapters_its_weights_are_fixed(command: str) -> None:
    made = engine(command, rank=0, device="cpu")
    assert made.capabilities.weights == "fixed" and "--enable-lora" not in made._command
    assert engine(command).capabilities.weights == "handed"


def test_adapters_that_are_too_large_are_refused_before_anything_starts(command: str) -> None:
    with pytest.raises(ConfigError, match="adapters of rank 1 to 512"):
        engine(command, rank=600)


@pytest.mark.parametrize(
    ("settings", "rank"),
    [
        ({"name": "vllm"}, 0),
        ({"name": "vllm", "weights": "lora"}, 0),
        ({"name": "openai", "url": "http://x/v1", "weights": "lora", "folder": "w"}, 0),
        ({"name": "openai", "url": "http://x/v1", "weights": "folder", "folder": "w"}, 0),
        ({"name": "openai", "url": "http://x/v1", "weights": "folder", "folder": "w"}, 4),
    ],
)
def test_the_local_trainer_gives_a_server_adapters_alone(
    settings: dict[str, str], rank: int, tmp_path: Path
) -> None:
    values = {"engine": settings, "model": {"lora_rank": rank}}
    with pytest.raises(ConfigError, match=r"only give LoRA adapters.*`rods trl` or `rods verl`"):
        train(parse_config(values, "test"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    if settings.get("weights") != "folder":
        require(parse_config({**values, "model": {"lora_rank": 4}}, "test"), "training")


@pytest.mark.parametrize("way", ["transfer", "nccl"])
def test_all_weights_by_a_way_of_vllm_s_own_are_refused(way: str) -> None:
    with pytest.raises(ConfigError, match=r"engine\.weights"):
        parse_config({"engine": {"name": "vllm", "weights": way}}, "test")

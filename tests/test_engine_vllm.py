"""vLLM as a process: its command line, its routes and its end, against a program that has them."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import fake_vllm
from policy_server import TEMPLATE, Scripted, remote, serving
from rods.config import parse_config
from rods.engines import handover as ways
from rods.engines.connection import Connection
from rods.engines.handover import Transfer
from rods.engines.openai import make_openai
from rods.engines.options import EngineOptions
from rods.engines.vllm import HOST, LORA, ROUTES, TRANSFER, VllmEngine, make_vllm
from rods.errors import ConfigError, PolicyError, PrerequisiteError
from rods.trainers.checkpoint import ModelWeights
from test_engine_openai import SomeAdapters
from tiny_models import build


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
    return make_vllm(EngineOptions(config, TEMPLATE, model, device, half=True, cache=0, share=True))


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


@pytest.mark.parametrize(
    ("way", "allowed"), [("lora", LORA), ("transfer", TRANSFER), ("fixed", {})]
)
def test_a_server_is_allowed_what_its_way_needs(
    command: str, way: str, allowed: dict[str, str]
) -> None:
    assert engine(command, way=way)._allowed == allowed
    assert engine(command, way=way, sleep=True)._allowed == allowed | ROUTES


def test_what_cannot_be_handed_over_is_said_before_anything_starts(command: str) -> None:
    with pytest.raises(ConfigError, match=r"the trainer has none\. Set model\.lora_rank"):
        engine(command, rank=0, device="cpu")
    with pytest.raises(ConfigError, match="adapters of rank 1 to 512"):
        engine(command, rank=600)


@pytest.mark.parametrize("apart", [False, True])
def test_whole_weights_go_by_vllms_own_interface(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    sent, made = list[dict[str, torch.Tensor]](), list[Any]()
    script = Scripted()

    class Sender:
        def __init__(self, source: Any) -> None:
            self.source = source

        def send_weights(self) -> None:
            assert [route for route, _ in script.asked][-1] == "pause"
            named = dict(self.source)
            described = [(p.name, p.dtype, p.shape) for p in self.source.metadata()]
            assert described == [(n, t.dtype, tuple(t.shape)) for n, t in named.items()]
            sent.append(named)

    def trainer_init(init_info: Any, client: str, source: Any) -> Sender:
        assert init_info.rank == 0 and client == "http://somewhere:1"
        made.append(init_info)
        return Sender(source)

    name = "vllm.distributed.weight_transfer"
    way = f"{name}.{'nccl' if apart else 'ipc'}_engine"
    package, base, engine = ModuleType(name), ModuleType(f"{name}.base"), ModuleType(way)
    package.WeightTransferTrainerFactory = SimpleNamespace(trainer_init=trainer_init)  # type: ignore[attr-defined]
    package.HTTPVLLMWeightSyncClient = str  # type: ignore[attr-defined]
    base.WeightSource = object  # type: ignore[attr-defined]
    base.ParamMeta = lambda name, dtype, shape: SimpleNamespace(  # type: ignore[attr-defined]
        name=name, dtype=dtype, shape=shape
    )
    setattr(engine, f"{'NCCL' if apart else 'IPC'}TrainerInitInfo", SimpleNamespace)
    monkeypatch.setattr(ways, "_address_towards", lambda url: HOST)
    model = build("qwen3")

    async def go(url: str) -> None:
        connection = Connection(url, 30)
        handover = Transfer(connection, "http://somewhere:1/v1", half=True, apart=apart)
        with pytest.raises(PrerequisiteError, match="needs vLLM 0"):
            await handover.send(ModelWeights(model), 1)
        assert [route for route, _ in script.asked] == ["pause", "resume"]
        script.asked.clear()
        for path, module in ((name, package), (f"{name}.base", base), (way, engine)):
            monkeypatch.setitem(sys.modules, path, module)
        for version in (1, 2):
            await handover.send(ModelWeights(model), version)
        await connection.close()

    with serving(script.app()) as url:
        asyncio.run(go(url))
    assert script.asked == 2 * [
        ("pause", {"mode": "keep"}),
        ("reset_prefix_cache", {"reset_running_requests": "true"}),
        ("resume", {}),
    ]
    assert sent[0].keys() == dict(ModelWeights(model).tensors()).keys()
    assert {t.dtype for t in sent[0].values()} == {torch.bfloat16}
    (info,) = made
    if apart:  # the trainer and two workers meet where the trainer is
        assert (info.world_size, info.master_address) == (3, HOST) and info.master_port > 0


def test_a_server_on_other_gpus_is_asked_for_its_workers() -> None:
    script = Scripted()

    async def go(url: str) -> str:
        engine = remote(url, weights="nccl")
        await engine.start()
        assert script.asked[0][0] == "resume", "a run that was killed may have left a pause"
        found = await engine.connection.workers()
        script.workers = None
        with pytest.raises(PolicyError, match="/get_world_size names no number"):
            await engine.sync(ModelWeights(build("qwen3")), 0)
        await engine.close()
        assert found == 2 and engine.capabilities.weights == "handed"
        return ways._address_towards(url)

    with serving(script.app()) as url:
        assert asyncio.run(go(url)) == HOST
    settings = {"engine": {"name": "openai", "url": "http://x/v1", "weights": "nccl"}}
    options = EngineOptions(parse_config(settings, "test"), TEMPLATE, None, "cpu", True, None, True)
    with pytest.raises(ConfigError, match="the trainer has none"):
        make_openai(options)

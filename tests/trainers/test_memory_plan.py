"""Memory estimated before a run: exact where it can be, measured where it follows from layers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from memory_cases import QWEN3_4B, paper
from rods.assemble import engines
from rods.assemble.engines import with_engine
from rods.config import ModelSettings, RunConfig, load_config, with_overrides
from rods.errors import ConfigError, PolicyError
from rods.infra.host import host_memory
from rods.store import RunDirectory
from rods.trainers.adapters import with_lora
from rods.trainers.forward import prepare_checkpointing
from rods.trainers.loading import load_architecture
from rods.trainers.memory import (
    GIB,
    RESERVE,
    Device,
    MemoryPlan,
    Shape,
    device_of,
    keep_within,
    layer_bytes,
    plan_of,
    require_fit,
    shape_of,
    table,
    ways,
)
from tiny_models import build
from verbs import rods

FAMILIES = ["qwen3", "qwen2", "llama", "mistral"]


@functools.cache
def large() -> Shape:
    return shape_of(QWEN3_4B)


def planned(*overrides: str, gpu: bool = True) -> MemoryPlan:
    return plan_of(large(), paper(*overrides), on_gpu=gpu)


def device(memory: int, host: int = 1 << 20, disk: int = 1 << 20) -> Device:
    """A GPU with so many GiB."""
    return Device(True, memory * GIB, True, host * GIB, disk * GIB)


def advice(memory: int, *overrides: str) -> list[str]:
    return ways(paper(*overrides), device(memory), lambda c: plan_of(large(), c, on_gpu=True))


def gib(plan: MemoryPlan) -> dict[str, float]:
    return {item.name: item.bytes / GIB for item in plan.items}


@pytest.mark.parametrize("kind", FAMILIES)
def test_parameters_are_counted(kind: str) -> None:
    model = build(kind)
    shape = shape_of(model.config)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    adapted = with_lora(model, 4, seed=0)
    assert 4 * shape.sides == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_the_papers_model_on_80_gib_is_refused_before_it_starts() -> None:
    plan = planned()
    assert large().parameters == 4_022_468_096
    assert plan.rows * plan.row / GIB == pytest.approx(640, abs=1)
    held = gib(plan)
    assert held["weights"] == pytest.approx(2 * 7.49, abs=0.01), "policy and reference"
    assert held["gradients"] == pytest.approx(14.98, abs=0.01)
    assert held["optimizer"] == pytest.approx(29.97 + 7.49, abs=0.01), "moments and masters"
    assert held["checkpoints"] == pytest.approx(3 * 45, abs=0.5)
    with pytest.raises(
        ConfigError, match=r"needs at least 82\.\d GiB and there are 80\.0"
    ) as refused:
        require_fit(large(), paper(), device(80))
    assert "--train.local.optimizer_memory" in str(refused.value)
    assert "--model.lora_rank 32" in str(refused.value)
    hint = "; all of it: rods train --dry-run"
    with pytest.raises(ConfigError) as planned_there:
        require_fit(large(), paper(), device(80), where="")
    assert str(planned_there.value) == str(refused.value).replace(hint, "") != str(refused.value)


def test_weights_in_float32_need_what_the_issue_said() -> None:
    """16 bytes a weight for training, 4 for the frozen start."""
    plan = planned("model.dtype=float32")
    states = sum(gib(plan)[name] for name in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(20 * 4_022_468_096 / GIB)


@pytest.mark.parametrize(
    "overrides",
    [
        ['train.local.optimizer_memory="8bit"'],
        ['train.local.optimizer_memory="offload"'],
        ["model.lora_rank=32"],
    ],
)
def test_what_the_advice_names_fits(overrides: list[str]) -> None:
    memory = 80 * GIB
    plan = require_fit(large(), paper(*overrides), device(80))
    assert plan.needed <= memory
    assert plan.total("always") + plan.cache(memory) <= memory
    assert any(f"--{overrides[0].partition('=')[0]} " in line for line in advice(80))


def test_several_changes_are_named_where_one_is_not_enough() -> None:
    lines = advice(20)
    assert len(lines) == 1 and "(together)" in lines[0] and "model.lora_rank 32" in lines[0]
    assert advice(2) == []
    with pytest.raises(
        ConfigError, match="take a smaller model, or several GPUs inside TRL or verl"
    ):
        require_fit(large(), paper(), device(2))


def test_offloaded_states_are_counted_with_the_host() -> None:
    here, away = planned(), planned('train.local.optimizer_memory="offload"')
    assert away.total("host") == here.total("always") - away.total("always")
    assert any("(host)" in line for line in table(away, device(80)))


def test_weights_of_a_server_that_sleeps_are_counted_with_the_host() -> None:
    vllm = ("model.lora_rank=32", "engine.name=vllm")
    awake, asleep = planned(*vllm), planned(*vllm, "engine.vllm.sleep=true")
    assert (awake.total("host"), asleep.total("host")) == (0, 2 * large().parameters)
    assert any("sleeping server (host)" in line for line in table(asleep, device(80)))
    assert planned(*vllm, "engine.vllm.sleep=true", gpu=False).total("host") == 0
    both = ('train.local.optimizer_memory="offload"', "engine.name=vllm")
    with pytest.raises(ConfigError, match=r"optimizer 37\.\d, sleeping server 7\.\d"):
        require_fit(large(), paper(*both, "engine.vllm.sleep=true"), device(80, 40, 200))


def test_on_a_cpu_the_hosts_memory_is_the_devices() -> None:
    plan = planned('train.local.optimizer_memory="offload"', gpu=False)
    assert plan.total("host") == 0 and plan.items[2].place == "always"


def test_checkpoints_and_offloaded_states_need_room_too() -> None:
    config = paper('train.local.optimizer_memory="offload"')

    def require(host: int, disk: int, memory: int = 80) -> None:
        require_fit(large(), config, device(memory, host, disk))

    require(38, 135)
    with pytest.raises(ConfigError, match=r"needs at least 37\.\d GiB and there are 30\.0") as host:
        require(30, 135)
    assert "optimizer 37" in str(host.value) and "host's memory" in str(host.value)
    assert '--train.local.optimizer_memory "8bit" (moments rounded)' in str(host.value)
    with pytest.raises(ConfigError, match=r"needs at least 134\.\d GiB and there are 100") as disk:
        require(38, 100)
    assert "checkpoints 134" in str(disk.value) and "the disk" in str(disk.value)
    assert "--out FOLDER" in str(disk.value) and "--model.lora_rank 32" in str(disk.value)
    assert "microbatch" not in str(disk.value), "it takes nothing off the disk"
    with pytest.raises(ConfigError, match="take a smaller model"):
        require(0, 135, 1)


@pytest.mark.slow
def test_a_dry_run_refuses_what_disk_or_host_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    QWEN3_4B.save_pretrained(tmp_path / "model")
    asked = ("train", "--dry-run", "--model", str(tmp_path / "model"), "--memory", "80")
    asked = (*asked, "--train.local.optimizer_memory", "8bit", "--out", str(tmp_path / "a" / "b"))
    monkeypatch.setattr("rods.trainers.memory.is_here", lambda _: True)
    monkeypatch.setattr(engines, "free_disk", lambda folder: 50 * GIB)
    assert rods(*asked, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "there are 50.0 (checkpoints 67" in said and "--out FOLDER" in said
    monkeypatch.setattr(engines, "free_disk", lambda folder: 200 * GIB)
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    assert "200.00 GiB  free on disk" in capsys.readouterr().out
    monkeypatch.setattr("rods.trainers.memory.is_here", lambda _: False)
    monkeypatch.setattr(engines, "free_disk", lambda folder: 0)
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    assert "host's memory and disk were not checked" in capsys.readouterr().out


def test_room_on_disk_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    free = engines.free_disk(tmp_path / "not" / "yet")
    assert abs(free - engines.free_disk(tmp_path)) < GIB and free > 0


def test_what_a_run_holds_on_disk_counts_as_free_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "free_disk", lambda _: 10 * GIB)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "weights").write_bytes(b"0" * 5000)
    held = engines.with_room(device(80), tmp_path).disk
    new = engines.with_room(device(80), tmp_path / "new").disk
    assert (held, new) == (10 * GIB + 5000, 10 * GIB)


def test_equal_copies_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.trainers.memory.processes_of", lambda _: 2)
    config = load_config("torl", "small", ["engine.name=processes"])
    shape = shape_of(load_architecture(config.model))
    why = plan_of(shape, config, False).items[0].why
    assert why.endswith("policy, 2 engine processes, 2 packed for the CPU's kernels")


@pytest.mark.parametrize(
    ("name", "copies"),
    [("none", "policy"), ("dapo", "policy"), ("zerotir", "policy, reference (train.filtering)")],
)
def test_a_reference_is_counted_where_the_filter_reads_it(name: str, copies: str) -> None:
    overrides = [f"train.filter={name}", "rollout.schedule=asynchronous"]  # one copy of the weights
    config = load_config("zerotir", "full", overrides)
    assert plan_of(large(), config, True).items[0].why.endswith(f": {copies}")


def test_updates_beside_rollouts_need_both_at_once() -> None:
    eight = 'train.local.optimizer_memory="8bit"'
    alone, beside = planned(eight), planned(eight, "rollout.schedule=pipelined")
    assert "engine" in beside.items[0].why and "engine" not in alone.items[0].why
    assert beside.needed == alone.needed + 2 * large().parameters + alone.row
    exact = planned(eight, "rollout.schedule=pipelined", "rollout.pipeline.staleness=0")
    assert exact == alone


def test_large_models_get_vllm_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, lora = 4_022_468_096, paper("model.lora_rank=32")
    assert RunConfig().engine.name == "auto"

    def chosen(config: RunConfig, parameters: int = large, gpu: bool = True) -> tuple[str, str]:
        found, said = with_engine(config, parameters, gpu)
        return found.engine.name, said

    monkeypatch.setenv("PATH", str(tmp_path))
    name, said = chosen(lora)
    assert name == "hf" and "4.0 billion parameters" in said
    assert "there is no command 'vllm' here" in said and "adapters" not in said
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    name, said = chosen(lora)
    assert name == "vllm" and "vLLM samples" in said
    name, said = chosen(paper("model.lora_rank=0"))
    assert name == "hf" and "LoRA adapters alone" in said and "no command" not in said
    assert chosen(lora, 900_000_000) == chosen(lora, gpu=False) == ("hf", "")
    assert chosen(paper("engine.name=hf", "model.lora_rank=32")) == ("hf", "")


def test_small_models_on_a_cpu_get_a_process_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(cores: int, *overrides: str, parameters: int = 4_000_000, gpu: bool = False) -> str:
        monkeypatch.setattr("rods.engines.processes.most_threads", lambda: cores)
        config = load_config("rods", "small", [*overrides])
        return with_engine(config, parameters, gpu)[0].engine.name

    assert chosen(2) == chosen(8) == "processes"
    assert chosen(1) == chosen(2, "model.threads=2") == chosen(2, "engine.name=hf") == "hf"
    assert chosen(2, "model.dtype=bfloat16") == chosen(2, "rollout.concurrency=1") == "hf"
    assert chosen(2, parameters=60_000_000) == chosen(2, gpu=True) == "hf"


def test_each_process_of_the_engine_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.engines.processes.most_threads", lambda: 3)
    shape = shape_of(load_architecture(load_config("rods", "small").model))

    def needed(name: str) -> int:
        config = load_config("rods", "small", [f"engine.name={name}", "model.lora_rank=0"])
        return plan_of(shape, config, on_gpu=False).needed

    weights = 4 * shape.parameters
    each = 2 * weights + RESERVE[False]  # a copy, and one that is packed for the CPU's kernels
    assert needed("processes") - needed("hf") == 3 * each - weights


@pytest.mark.slow
def test_what_a_run_settled_at_its_start_holds_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = paper("model.lora_rank=32")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "load_architecture", lambda _: QWEN3_4B)
    held: list[Device] = []
    monkeypatch.setattr(engines.memory, "keep_within", held.append)

    def settle(name: str, free: int, *overrides: str) -> tuple[str, int | None]:
        path, wanted = tmp_path / name, with_overrides(config, overrides)
        memory, stated = wanted.train.local.memory_gib, bool(wanted.train.local.memory_gib)
        found_here = Device(True, int(memory or free) * GIB, stated)
        monkeypatch.setattr(engines.memory, "device_of", lambda _: found_here)
        if not path.exists():
            path.mkdir()
            RunDirectory.create(path, wanted)
        found, cache = engines.settle(wanted, RunDirectory.open(path))
        return found.engine.name, cache

    name, cache = settle("first", 80)
    assert name == "hf" and cache is not None and 20 * GIB < cache < 80 * GIB
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    caplog.clear()
    assert settle("first", 40) == (name, cache)
    assert "cache may grow to" in caplog.text and "--memory N" in caplog.text
    caplog.clear()
    assert settle("first", 90) == (name, cache) and not caplog.records
    assert settle("other", 80) == ("vllm", None)
    asked = settle("first", 40, "train.local.memory_gib=60")
    assert asked[0] == "hf" and asked[1] is not None and asked[1] < cache
    assert settle("first", 80, "train.local.memory_gib=60") == asked
    assert held[-1] == Device(True, 60 * GIB, True)


def test_a_run_keeps_the_precision_that_its_start_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config("rods", "small", ["model.device=cpu"])
    run = RunDirectory.create(tmp_path, config)
    for faster in (True, False):
        monkeypatch.setattr(engines, "cpu_halves", lambda width, faster=faster: faster)
        assert engines.settle(config, run)[0].model.dtype == "bfloat16"
        assert run.manifest["settled"]["dtype"] == "bfloat16"
    asked = with_overrides(config, ["model.dtype=float32"])
    assert engines.settle(asked, run)[0].model.dtype == "float32"


def fits(plan: MemoryPlan, memory: int) -> bool:
    return not plan.lacks(device(memory))


def test_a_server_has_its_own_share_of_the_device() -> None:
    alone = planned("model.lora_rank=32")
    beside = planned("model.lora_rank=32", "engine.name=vllm", "engine.vllm.memory=0.6")
    assert beside.needed == alone.needed, "updates decide, in both"
    assert beside.room(80 * GIB) == 32 * GIB and beside.cache(80 * GIB) == 0
    assert fits(alone, 30) and not fits(beside, 50) and fits(beside, 60)
    asleep = planned(
        "model.lora_rank=32", "engine.name=vllm", "engine.vllm.memory=0.6", "engine.vllm.sleep=true"
    )
    assert fits(asleep, 50)
    assert any(
        "needed at least: it fits into the 50 GiB that you named" in line
        for line in table(asleep, device(50))
    )
    lines = table(beside, device(80))
    assert any("engine.vllm.memory" in line for line in lines)
    assert any("it is the server's" in line for line in lines)
    tight = ("model.lora_rank=32", "engine.name=vllm", "engine.vllm.memory=0.6")
    assert any("--engine.vllm.sleep true" in line for line in advice(50, *tight))


def test_every_line_says_what_it_follows_from() -> None:
    lines = table(planned(), device(80))
    for word in ("model.dtype", "model.lora_rank", "train.kl", "rollout.context_tokens",
                 "train.local.gradient_checkpointing", "needed at least", "(disk)"):  # fmt: skip
        assert any(word in line for line in lines), word


# -- beside what is really allocated ---------------------------------------------------------------


def saved_bytes(model: Any, tokens: int, half: bool) -> int:
    """Bytes of all tensors that a forward pass keeps for its backward pass, weights apart."""
    own = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(1, 90, (1, tokens))
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        states = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
    assert states.grad_fn is not None
    return sum(kept.values())


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize(("half", "rank"), [(False, 0), (True, 4)])
def test_a_layer_saves_what_is_said(kind: str, half: bool, rank: int) -> None:
    """Within a quarter; the difference of one and three layers, so that nothing else counts."""

    def saved(layers: int) -> int:
        config = build(kind).config
        config.num_hidden_layers = layers
        config.layer_types = None
        config.hidden_size, config.intermediate_size = 64, 160
        model = type(build(kind))(type(config)(**config.to_dict()))
        model = model.to(torch.bfloat16) if half else model
        if rank:
            with_lora(model, rank, seed=0)
        return saved_bytes(model, 200, half)

    config = build(kind).config
    config.hidden_size, config.intermediate_size = 64, 160
    said = 200 * layer_bytes(shape_of(config), 2 if half else 4)
    measured = (saved(3) - saved(1)) / 2
    assert measured / said == pytest.approx(1.0, abs=0.25)


def test_checkpointing_saves_the_inputs_of_layers_alone() -> None:
    model = build("qwen3")
    prepare_checkpointing(model)
    model.train()
    held = saved_bytes(model, 200, False)
    shape = shape_of(model.config)
    inputs = 200 * shape.layers * 4 * shape.hidden
    assert inputs <= held <= inputs + 200 * 60 * shape.hidden


# -- what the machine has --------------------------------------------------------------------------


def test_memory_of_the_host_is_within_its_group(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       100 kB\nMemAvailable:    64 kB\n")
    assert host_memory(meminfo, tmp_path) == 64 * 1024
    (tmp_path / "memory.max").write_text("40000\n")
    (tmp_path / "memory.current").write_text("10000\n")
    assert host_memory(meminfo, tmp_path) == 30000
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 8000\nslab_reclaimable 500\n")
    assert host_memory(meminfo, tmp_path) == 38500, "file cache is given back when it is wanted"
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory(meminfo, tmp_path) == 64 * 1024


def test_a_shared_gpu_is_used_as_far_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10 * GIB, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    keep_within(Device(True, 20 * GIB, stated=True))
    keep_within(Device(True, 100 * GIB, stated=True))
    keep_within(Device(True, 60 * GIB, stated=False))
    keep_within(Device(False, 20 * GIB, stated=True))
    assert shares == [0.25, 1.0]


def test_a_plan_may_be_for_a_gpu_that_is_elsewhere() -> None:
    config = paper("train.local.memory_gib=80")
    assert device_of(config, here=False) == Device(True, 80 * GIB, True)
    if not torch.cuda.is_available():
        assert device_of(config) == Device(False, 80 * GIB, True)
        with pytest.raises(PolicyError, match="no CUDA device"):
            device_of(paper("model.device=cuda"), here=False)
    free = device_of(
        with_overrides(config, ["model.device=cpu", "train.local.memory_gib=0"]), here=False
    )
    assert not free.on_gpu and free.memory > GIB // 4 and not free.stated


def test_a_plan_needs_a_config_alone(tmp_path: Path) -> None:
    QWEN3_4B.save_pretrained(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["config.json"]
    config = load_architecture(ModelSettings(name=str(tmp_path)))
    assert shape_of(config).parameters == 4_022_468_096
    with pytest.raises(PolicyError, match="there is no folder"):
        load_architecture(ModelSettings(name=str(tmp_path / "none")))

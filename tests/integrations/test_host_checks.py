"""What is looked at before a training starts: positions, TRL's memory, Ray's GPUs, the end."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import GPT2Config, LlamaConfig, MambaConfig, PretrainedConfig, Qwen2Config

from rods.cli.hosts import _changes  # pyright: ignore[reportPrivateUsage]
from rods.cli.hosts.trl import TASKS
from rods.config import RunConfig, load_config
from rods.errors import ConfigError, StoreError
from rods.infra.checkpoints import require_unfinished
from rods.integrations.trl import args as args_of_trl
from rods.integrations.trl.args import (
    _refuse,  # pyright: ignore[reportPrivateUsage]
    start_of,
)
from rods.integrations.trl.memory import trl_memory
from rods.integrations.verl import start as start_of_verl
from rods.integrations.verl.start import (
    Pool,
    _require_more,  # pyright: ignore[reportPrivateUsage]
    pools_of,
    require_gpus,
)
from rods.trainers.adapters import with_lora
from rods.trainers.loading import load_architecture, load_model, path_or_name, positions_of
from rods.trainers.memory import GIB, Device, plan_of, require_fit, shape_of
from verbs import held, rods

SMOL = LlamaConfig(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
    tie_word_embeddings=True,
)  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> str:
    SMOL.save_pretrained(tmp_path / "small")  # the config alone
    return str(tmp_path / "small")


# -- positions -----------------------------------------------------------------------------------

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LINEAR = {"rope_type": "linear", "factor": 2.0}
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
    **{"low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        (SMOL, 8192),
        (GPT2Config(), 1024),
        (MambaConfig(), 0),
        (Qwen2Config(max_position_embeddings=32768, rope_scaling=YARN), 131072),
        (Qwen2Config(max_position_embeddings=131072, rope_scaling=YARN), 131072),
        (LlamaConfig(max_position_embeddings=131072, rope_scaling=LLAMA3), 131072),
        (LlamaConfig(max_position_embeddings=4096, rope_scaling=LINEAR), 8192),
    ],
    ids=["llama", "gpt2", "mamba", "yarn", "yarn_stretched", "llama3", "linear"],
)  # fmt: skip
def test_positions_are_those_of_the_config(config: PretrainedConfig, positions: int) -> None:
    assert positions_of(config) == positions


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", [["train", "--dry-run"], ["train"], ["trl"], ["verl"]], ids=" ".join
)
def test_a_context_beyond_the_positions_is_refused_with_both_numbers(
    verb: list[str], small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*verb, "--recipe", "rods", "--profile", "small", "--model.name", small]
    words += ["--rollout.context_tokens", "18192", "--out", str(Path(small).parent / "out")]
    monkeypatch.setattr("rods.assemble.start_run", begun)
    assert rods(*words, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "positions for 8,192 tokens" in said and "rollout.context_tokens is 18,192" in said
    assert "--rollout.context_tokens 8192" in said


def begun(config: RunConfig, folder: str, start: Any = None) -> Any:
    from rods.store import RunDirectory, new_run_dir

    path = Path(folder)
    return RunDirectory.create(new_run_dir(path.parent, path.name), config, start=start)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--updates", "0", "--train.schedule", "cosine"],
            "(updates = 0), and WHO needs one. Set up",
        ),
        (["--updates", "-1"], "updates must be greater than or equal to 0; got -1"),
    ],
)
@pytest.mark.parametrize(
    ("verb", "who"),
    [
        ("train --profile small", 'train.schedule = "cosine"'),
        ("train --dry-run --profile small", 'train.schedule = "cosine"'),
        ("trl --profile small", "TRL's GRPOTrainer"),
        ("trl --dry-run --profile small", "TRL's GRPOTrainer"),
        ("verl --profile small", 'train.schedule = "cosine"'),
        ("verl --dry-run --profile small", 'train.schedule = "cosine"'),
    ],
)
def test_a_number_of_updates_that_cannot_be_is_refused_at_once_in_the_same_words(
    verb: str,
    who: str,
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def late(*_: Any, **__: Any) -> Any:
        pytest.fail("tasks, a model or memory came first")

    for place in ("rods.integrations.trl.memory", "rods.trainers.loading"):
        monkeypatch.setattr(f"{place}.load_architecture", late)
    for place in ("", ".refusals"):
        monkeypatch.setattr(f"rods.assemble{place}.splits_of", late)
    at = ["--out", str(tmp_path / "out")]
    assert rods(*verb.split(), *at, *words, monkeypatch=monkeypatch) == 2
    assert message.replace("WHO", who) in capsys.readouterr().err


def test_trl_s_own_number_of_steps_is_checked_at_once_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trl", "--profile", "small", "--trl.max_steps", "0"]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "max_steps: 0, expected a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_and_an_sft_are_refused_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--evaluation.tasks", "1", "--evaluation.variants", "0"]
    words = ["eval", "--rollout.context_tokens", "20000", *small]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "positions for 4,096 tokens" in capsys.readouterr().err
    data = tmp_path / "d.jsonl"
    row = {"task_id": "a", "pieces": [["What?", False], ["It.", True]]}
    data.write_text(json.dumps(row) + "\n")
    learn = ["sft", str(data), "--model", "tiny", "--out", str(tmp_path / "out")]
    assert rods(*learn, "--max-tokens", "5000", monkeypatch=monkeypatch) == 2
    assert "--max-tokens 5000: model 'tiny' has positions for 4,096" in capsys.readouterr().err


def test_the_memory_plan_refuses_it_too(small: str) -> None:
    config = load_config("rods", "full", [f"model.name={small}"])
    with pytest.raises(ConfigError, match=r"8,192 tokens, and rollout\.context_tokens is 18,192"):
        require_fit(shape_of(load_architecture(config.model)), config, Device(False, 1 << 50, True))


# -- TRL -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--trl.num_generations", "4"], "num_generations (rollout.k): 4, expected 8"),
        (["--trl.temperature", "0.3"], "temperature (rollout.temperature): 0.3, expected 1.0"),
        (
            ["--trl.scale_rewards", "none"],
            "scale_rewards (advantages are those of train.advantage)",
        ),
        (["--trl.use_vllm", "true"], "use_vllm"),
        (["--trl.learning_rate", "abc"], "learning_rate: 'abc', expected a value such as 0.002."),
        (["--trl.bf16", "1"], "bf16: 1, expected a value such as"),
        (["--trl.per_device_train_batch_size", "x"], "batch_size: 'x', expected a whole number of"),
        (["--trl.per_device_train_batch_size", "0"], "batch_size: 0, expected a whole number of"),
        (["--trl.gradient_accumulation_steps", "1.5"], "accumulation_steps: 1.5, expected a whole"),
        (["--trl.num_iterations", "0"], "num_iterations: 0, expected a whole number of at least 1"),
        (
            ["--trl.steps_per_generation", "4"],
            "steps_per_generation (use --rollout.tasks_per_step)",
        ),
        (["--trl.save_steps", "2"], "save_steps: 2. An update has 4 steps of the optimizer"),
        (["--trl.num_iterations", "2", "--trl.save_steps", "4"], "Set a multiple of 8."),
        (
            ["--trl.loss_type", "cisp"],
            "loss_type 'cisp': expected one of dapo, grpo, dr_grpo, bnpo",
        ),
        (["--trl.loss_type", "cispo"], "train.clip_high, 0.28, would cut nearly all."),
        (["--trl.per_device_train_batch_size", "7"], "= 7, times 1 (processes), does not evenly"),
        (["--trl.vllm_mode", "server"], "vllm_mode (sampling and rewards are the run's)"),
        (["--trl.top_k", "5"], "top_k (sampling and rewards are the run's)"),
        (["--trl.reward_funcs", "f"], "reward_funcs (use --stages.0.reward)"),
        (["--trl.tools", "f", "--trl.output_dir", "x"], "(use --env.name), output_dir (use --out)"),
        (["--logging_steps", "5"], "--logging_steps. Did you mean '--trl.logging_steps'?"),
        (["--train_dataset", "f"], "Did you mean '--env.tasks'?"),
        (["--output_dir", "x"], "Did you mean '--out'?"),
        (["--trl.eval_strategy", "steps"], "eval_strategy (rods eval evaluates a checkpoint)"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_arguments_of_trl_that_contradict_are_refused_without_trl(
    words: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("rods.integrations.trl.memory.trl_memory", lambda *_: [])
    words = ["trl", "--profile", "small", *words, "--out", str(tmp_path / "out")]
    assert rods(*words, "--dry-run", monkeypatch=monkeypatch) == 2
    out, err = capsys.readouterr()
    assert "grpo_args" not in err, "advice for a command line names no function"
    assert named in " ".join(err.split()) and not out, "nothing looks as if it were accepted"


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, 4),
        ({"gradient_accumulation_steps": 1}, 12),
        ({"gradient_accumulation_steps": 5}, 3),
        ({"gradient_accumulation_steps": 30}, 1),
        ({"num_iterations": 2}, 8),
        ({"num_iterations": 3, "gradient_accumulation_steps": 12}, 3),
        ({"per_device_train_batch_size": 2, "num_iterations": 2}, 8),
    ],
    ids=str,
)
def test_arguments_that_change_the_steps_of_an_update_change_the_length_with_them(
    given: dict[str, int], steps: int
) -> None:
    """40 updates of 96 rows, 8 in a pass: TRL steps behind the last pass of an update, too."""
    config = load_config("rods", "small", ["train.local.checkpoint_steps=5", "train.warmup=3"])
    made = args_of_trl.given_to(config, "out", **given)
    assert made["max_steps"] == 40 * steps
    assert (made["save_steps"], made["warmup_steps"]) == (5 * steps, 3 * steps)


@pytest.mark.parametrize(
    ("accumulated", "iterations", "taken", "version"),
    [(12, 1, 3, 3), (3, 1, 12, 3), (5, 1, 9, 3), (12, 4, 12, 3), (30, 2, 1, 1), (3, 1, 0, 0)],
)
def test_a_policy_version_is_an_update_inside_trl(
    accumulated: int, iterations: int, taken: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it rewards have a schedule: `rewards.toolrl.scale` changes after so many updates."""
    theirs = SimpleNamespace(GRPOTrainer=object)
    for name, module in (("trl", theirs), ("trl.models", theirs), ("datasets", theirs)):
        monkeypatch.setitem(sys.modules, name, module)
    # Made beside the imported modules, because it is made with what stands for TRL.
    spec = importlib.util.find_spec("rods.integrations.trl.trainer")
    assert spec and spec.loader
    trainers: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(trainers)
    asked: list[int] = []

    class Drawn(Exception):
        """Nothing is rolled out."""

    def draw(n: int, version: int) -> None:
        asked.append(version)
        raise Drawn

    trainer = object.__new__(trainers.CurriculumGRPOTrainer)
    trainer.num_generations, trainer._run = 8, SimpleNamespace(draw=draw)
    trainer.accelerator = SimpleNamespace(num_processes=1, process_index=0, is_main_process=True)
    trainer.args = SimpleNamespace(
        steps_per_generation=12, num_iterations=iterations, gradient_accumulation_steps=accumulated
    )
    trainer.state = SimpleNamespace(global_step=taken)
    with pytest.raises(Drawn):
        trainer._generate_and_score_completions([{}] * 96)
    assert asked == [version]


@pytest.mark.parametrize(
    ("advantage", "given", "free", "fits"),
    [
        ("grpo", "none", {}, False),
        ("grpo", "batch", {}, False),
        ("grpo", True, {}, True),
        ("dr_grpo", "none", {}, True),
        ("dr_grpo", False, {}, True),
        ("dr_grpo", "group", {}, False),
        ("dr_grpo", "group", {"scale_rewards": "group"}, True),
        ("dr_grpo", "batch", {"scale_rewards": "group"}, False),
    ],
)
def test_a_scale_of_rewards_must_be_that_of_the_advantages(
    advantage: str, given: object, free: dict[str, object], fits: bool
) -> None:
    config = load_config("rods", "small", [f"train.advantage={advantage}"])
    if fits:
        _refuse(config, {"scale_rewards": given}, free)
        return
    scale = "none" if advantage == "dr_grpo" else "group"
    with pytest.raises(ConfigError, match=f"scale_rewards .*: {given!r}, expected '{scale}'"):
        _refuse(config, {"scale_rewards": given}, free)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["model.lora_rank=0", "train.kl=0.01"], True),
        (["model.lora_rank=0", "train.kl=0"], False),
        (["model.lora_rank=8", "train.kl=0.01"], False),
    ],
)
def test_adapters_as_the_start_of_all_weights_give_trl_no_reference(
    words: list[str], refused: bool, tmp_path: Path
) -> None:
    """It would load one from their folder, which holds no model."""
    base = {"base_model_name_or_path": "tiny", "peft_type": "LORA"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(base))
    (tmp_path / "adapter_model.safetensors").touch()
    config = load_config("rods", "small", [f"model.name={tmp_path}", *words])
    if not refused:
        return args_of_trl.require_known(config, {})
    with pytest.raises(ConfigError, match=r"train\.kl with the LoRA adapters .* of all weights"):
        args_of_trl.require_known(config, {})
    args_of_trl.require_known(config, {"beta": 0.0})


@pytest.mark.slow
def test_a_model_without_its_tokenizer_is_refused_if_the_settings_name_another_one() -> None:
    """Their tokens would mean something else, and with enough of them nobody would notice."""
    settings = load_config("rods", "small").model
    other = path_or_name("tiny-math")
    for model in (other, load_model(settings.model_copy(update={"name": "tiny-math"}))[0]):
        with pytest.raises(ConfigError, match=r"the model is .*tiny_math, .* of model.name = 'ti"):
            start_of(settings, model, None, None)
        assert start_of(settings, model, "mine", None)["processing_class"] == "mine"
    same = load_model(settings)[0]
    assert start_of(settings, same, None, None)["model"] is same
    assert start_of(settings, path_or_name("tiny"), None, None)["peft_config"].r == 8
    trained = with_lora(same, rank=4, seed=0)
    assert start_of(settings, trained, None, None)["peft_config"] is None, "it has adapters"


@pytest.mark.slow
def test_trl_s_passes_are_planned_as_trl_makes_them(small: str) -> None:
    config = load_config("rods", "small", [f"model.name={small}", "model.dtype=float32"])
    shape = shape_of(load_architecture(config.model))
    one, eight = (plan_of(shape, config, False, n) for n in (1, 8))
    assert eight.total("update") - one.total("update") == pytest.approx(
        7 / 8 * eight.total("update"), rel=0.01
    ), "a micro-batch is computed at once"
    held = {item.name: item.bytes for item in eight.items}
    assert held["logits"] == 8 * config.rollout.context_tokens * 49152 * 20
    assert held["weights"] == 3 * 4 * shape.parameters + 4 * 8 * shape.sides
    assert "policy, engine" in eight.items[0].why


@pytest.mark.parametrize(
    ("gib", "ranks", "verdict"),
    [(64, 1, "fits"), (64, 2, "warned"), (8, 1, "warned"), (4, 1, "refused")],
)
def test_trl_is_warned_of_or_refused_by_what_is_free(
    gib: int, ranks: int, verdict: str, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(False, gib * GIB, False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    config = load_config("rods", "small", [f"model.name={small}", "model.dtype=float32"])
    if verdict == "refused":
        with pytest.raises(ConfigError, match=r"Not even one such row fits.*context_tokens"):
            trl_memory(config, 8, device)
        return
    said = trl_memory(config, 8, device)
    assert said
    for line in said:
        assert "8 rows of 2,048 tokens needs 38.8 GiB" in line
        assert f"{gib / ranks:.1f} GiB are free" in line
        assert line.endswith("It fits.") is (verdict == "fits") is ("--trl.per_device" not in line)
        assert "microbatch_tokens" not in line, "TRL does not read it"


@pytest.mark.slow
def test_a_dry_run_of_what_cannot_fit_shows_its_settings_and_ends_with_2(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `rods train --dry-run` does; `--memory` plans for another machine."""
    words = ["trl", "--profile", "small", "--model.name", small, "--dry-run"]
    for gib, status in (("1", 2), ("64", 0)):
        assert rods(*words, "--memory", gib, monkeypatch=monkeypatch) == status
        out, err = capsys.readouterr()
        assert "num_generations 8" in " ".join(out.split())
        assert ("Not even one such row fits" in err) is (status == 2) and "Not even" not in out
        assert ("64.0 GiB are free for each process. It fits." in out) is (status == 0)


# -- verl ----------------------------------------------------------------------------------------

ONE = {"a": {"CPU": 64.0, "GPU": 8.0}}
UNLIKE = {"a": {"GPU": 8.0, "CPU": 24.0}, "b": {"GPU": 4.0, "CPU": 12.0}}


@pytest.mark.parametrize(
    ("nodes", "pools", "fits"),
    [
        (ONE, [Pool(1, 8)], True),
        (ONE, [Pool(1, 4), Pool(1, 4, 2)], True),
        (UNLIKE, [Pool(1, 4), Pool(1, 8)], True),
        (UNLIKE, [Pool(2, 8)], False),
        ({"a": {"GPU": 2.0, "CPU": 3.0}, "b": {"GPU": 1.0, "CPU": 9.0}}, [Pool(1, 1)] * 2, True),
        ({"a": {"CPU": 4.0}}, [Pool(1, 8)], False),
        ({}, [Pool(1, 1)], False),
        ({"a": {"GPU": 4.0, "CPU": 24.0}, "b": {"GPU": 4.0, "CPU": 24.0}}, [Pool(1, 8)], False),
        (ONE, [Pool(2, 4), Pool(1, 1)], False),
        (ONE, [Pool(2, 8)], False),
        ({"a": {"GPU": 1.0, "CPU": 2.0}}, [Pool(1, 1)], False),
        ({"a": {"GPU": 8.0, "CPU": 23.0}}, [Pool(1, 8)], False),
        ({"a": {"GPU": 8.0}}, [Pool(1, 1, 2)], False),
    ],
)
def test_gpus_and_cpus_that_ray_does_not_have_are_missed_at_once(
    nodes: dict[str, dict[str, float]], pools: list[Pool], fits: bool
) -> None:
    if fits:
        require_gpus(nodes, pools)
        return
    with pytest.raises(ConfigError, match=r"would wait for ever\. Set --nodes and --gpus"):
        require_gpus(nodes, pools)


def test_other_devices_have_other_names() -> None:
    require_gpus({"a": {"NPU": 8.0, "CPU": 24.0}}, [Pool(1, 8)], "NPU")
    with pytest.raises(ConfigError, match="GPU"):
        require_gpus({"a": {"NPU": 8.0, "CPU": 24.0}}, [Pool(1, 8)])


@pytest.mark.parametrize(
    ("mode", "pools"), [("sync", [(2, 8, 3)]), ("separate_async", [(2, 8, 3), (1, 4, 2)])]
)
def test_servers_apart_from_the_trainer_are_counted_too(
    mode: str, pools: list[tuple[int, int, int]]
) -> None:
    trainer = SimpleNamespace(nnodes=2, n_gpus_per_node=8, v1=SimpleNamespace(trainer_mode=mode))
    rollout = SimpleNamespace(nnodes=1, n_gpus_per_node=4)
    actor = SimpleNamespace(rollout=rollout)
    assert pools_of(SimpleNamespace(trainer=trainer, actor_rollout_ref=actor)) == pools


@pytest.mark.parametrize(
    ("gpus", "cpus", "there"),
    [(4.0, 65.0, "4 GPUs and 64 CPUs"), (8.0, 24.0, "8 GPUs and 23 CPUs")],
)
def test_verl_s_runner_asks_ray_before_it_makes_anything(
    gpus: float, cpus: float, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray and verl are stand-ins: a machine that is gone counts for nothing, the runner for one."""
    nodes = [
        {"Alive": True, "NodeID": "a", "Resources": {"GPU": gpus, "CPU": cpus}},
        {"Alive": False, "NodeID": "b", "Resources": {"GPU": 8.0}},
    ]
    ray = SimpleNamespace(
        remote=lambda **_: lambda kind: kind,
        get_runtime_context=lambda: SimpleNamespace(gcs_address="here:1", get_node_id=lambda: "a"),
        nodes=lambda: nodes,
    )
    base = SimpleNamespace(__ray_actor_class__=object)
    for name, module in {
        "ray": ray,
        "verl.trainer.main_ppo": SimpleNamespace(TaskRunnerV1=base),
        "verl.trainer.ppo.v1.trainer_base": SimpleNamespace(),
        "rods.integrations.verl.trainer": SimpleNamespace(),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("RAY_ADDRESS", "")
    mode = SimpleNamespace(trainer_mode="sync")
    trainer = SimpleNamespace(nnodes=1, n_gpus_per_node=8, v1=mode, device="cuda")
    asked = SimpleNamespace(
        trainer=trainer,
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace()),
        rods=SimpleNamespace(settings="{}", drift=False),
    )
    runner = start_of_verl._runner(lambda *_: pytest.fail("something was made"))  # pyright: ignore
    with pytest.raises(ConfigError, match=f"1 machines with {there}: it would wait for ever"):
        runner().run(asked)


# -- finished ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("done", "total"), [(99, 100), (0, 100), (100, 0)])
def test_a_training_with_steps_left_goes_on(done: int, total: int, tmp_path: Path) -> None:
    require_unfinished(tmp_path, done, total, 50)


@pytest.mark.parametrize("done", [100, 101])
def test_a_host_s_finished_training_says_so(done: int, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is finished, after 50 updates; nothing.*--updates 100"):
        require_unfinished(tmp_path, done, 100, 50)


@pytest.mark.parametrize(
    ("mode", "latest", "refused"),
    [("auto", "9", True), ("auto", "8", False), ("auto", "", False), ("disable", "9", False)],
)
def test_verl_s_finished_training_says_so(
    mode: str, latest: str, refused: bool, tmp_path: Path
) -> None:
    if latest:
        (tmp_path / "latest_checkpointed_iteration.txt").write_text(latest)
    trainer = SimpleNamespace(
        default_local_dir=str(tmp_path), resume_mode=mode, total_training_steps=9
    )
    if not refused:
        _require_more(trainer)
        return
    with pytest.raises(StoreError, match="this training is finished, after 9 updates"):
        _require_more(trainer)


def test_verl_is_not_started_where_its_training_is_finished(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("9")
    trainer = SimpleNamespace(
        default_local_dir=str(tmp_path), resume_mode="auto", total_training_steps=9
    )
    with pytest.raises(StoreError, match="is finished, after 9 updates; nothing was changed"):
        start_of_verl.start(SimpleNamespace(trainer=trainer), lambda *_: pytest.fail("it began"))


# -- resumed -------------------------------------------------------------------------------------


class Host:
    """Stands where TRL or verl would start: keeps what each would get, and saves a checkpoint."""

    def __init__(self, verb: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verb, self.folder, self.patch = verb, folder, monkeypatch
        self.got: list[tuple[RunConfig, dict[str, str]]] = []
        """Settings of each start, and the host's own words with nodes and GPUs."""
        monkeypatch.setattr("rods.assemble.library.hosted", self._hosted)
        monkeypatch.setattr("rods.assemble.library.driven", lambda config, *_: self._hosted(config))
        if verb == "trl":
            made = SimpleNamespace(CurriculumGRPOTrainer=self._trainer, grpo_args=self._args)
            monkeypatch.setattr(args_of_trl, "require_same", lambda *_: None)
            monkeypatch.setitem(sys.modules, "rods.integrations.trl", made)
            monkeypatch.setattr("rods.integrations.trl.memory.trl_memory", lambda *_: [])
        else:
            monkeypatch.setattr("rods.integrations.verl.config.compose", self._compose)
            monkeypatch.setattr("rods.integrations.verl.start.start", lambda *_: self._save())

    @contextmanager
    def _hosted(self, config: RunConfig, drift: bool = False) -> Generator[None]:
        yield

    def _args(self, config: RunConfig, folder: str, **theirs: Any) -> Any:
        self.got.append((config, {key: str(value) for key, value in theirs.items()}))
        return SimpleNamespace(max_steps=config.updates)

    def _trainer(self, run: object, args: object) -> Any:
        return SimpleNamespace(train=lambda resume_from_checkpoint: self._save())

    def _compose(
        self, config: RunConfig, folder: str, words: list[str], nodes: int, gpus: int, drift: bool
    ) -> None:
        theirs = dict(word.split("=") for word in words)
        self.got.append((config, {**theirs, "nodes": str(nodes), "gpus": str(gpus)}))

    def _save(self) -> None:
        if self.verb == "trl":
            (self.folder / "checkpoint-1").mkdir(exist_ok=True)
        else:
            (self.folder / "latest_checkpointed_iteration.txt").write_text("1")

    def run(self, *words: str) -> int:
        return rods(self.verb, *words, monkeypatch=self.patch)


OWN = {
    "trl": (["--trl.logging_steps", "5"], ["--trl.logging_steps", "7"]),
    "verl": (
        ["+trainer.y=5", "--gpus", "4", "trainer.resume_mode=disable"],
        ["trainer.y=7", "--nodes", "2"],
    ),
}
HAD = {
    "trl": ({"logging_steps": "5"}, {"logging_steps": "7"}),
    "verl": (
        {"+trainer.y": "5", "nodes": "1", "gpus": "4"},
        {"trainer.y": "7", "nodes": "2", "gpus": "4"},
    ),
}


@pytest.mark.parametrize("verb", ["trl", "verl"])
def test_a_host_resumes_with_the_settings_that_it_was_started_with(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host, folder = Host(verb, tmp_path / "out", monkeypatch), str(tmp_path / "out")
    first, second = OWN[verb]
    asked = ["--profile", "small", "--updates", "9", "--rollout.k", "4", "--seed", "3"]
    asked += ["--train.schedule", "cosine"]
    assert host.run("--recipe", "envtuning", *asked, *first, "--out", folder) == 0
    assert host.run("--resume", folder) == 0
    began, resumed = host.got
    assert (resumed[0].updates, resumed[0].rollout.k, resumed[0].seed) == (9, 4, 3)
    assert resumed[0] == began[0], "the recipe, too"
    assert resumed[1] == HAD[verb][0], "what holds for one start is not kept"
    assert "as if updates" not in caplog.text
    assert host.run("--resume", folder, "--updates", "12", *second) == 0
    assert host.run("--resume", folder) == 0
    assert caplog.text.count("as if updates = 12 had been set at first, not 9") == 1
    assert {config.updates for config, _ in host.got[2:]} == {12}, "a change is kept"
    assert host.got[2][1] == host.got[3][1] == HAD[verb][1]


@pytest.mark.parametrize("verb", ["trl", "verl"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--train.lr", "0.5"], "train.lr: "),
        (["--recipe", "torl"], "resumes with its own recipe"),
        (["--allow-drift", "--seed", "8"], "which no resume can change: seed"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_resumed_host_refuses_what_affects_results_and_forgets_it(
    verb: str, words: list[str], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    host, folder = Host(verb, tmp_path / "out", monkeypatch), str(tmp_path / "out")
    assert host.run("--profile", "small", "--updates", "9", "--out", folder) == 0
    assert host.run("--resume", folder, *words) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert host.run("--resume", folder) == 0
    assert host.got[0] == host.got[1]


@pytest.mark.parametrize("verb", ["trl", "verl"])
def test_one_training_at_a_time_writes_a_host_s_folder(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the seam where the host would start, so that it needs neither TRL nor verl."""
    out, lock = tmp_path / "out", tmp_path / ".out.lock"
    host, seen = Host(verb, out, monkeypatch), list[bool]()
    save = host._save
    monkeypatch.setattr(host, "_save", lambda: (seen.append(lock.exists()), save()))
    words = ("--profile", "small", "--updates", "9", "--out", str(out))
    with held(out):
        assert host.run(*words) == 2
        assert f"{out}: another process writes it. Wait for it" in capsys.readouterr().err
        assert not seen and not out.exists(), "neither trained nor wrote its settings"
    assert host.run(*words) == 0
    assert seen == [True] and not lock.exists(), "held for as long as it trains"
    with held(out):
        assert host.run("--resume", str(out)) == 2
    assert host.run("--resume", str(out)) == 0


def test_other_processes_of_one_training_inside_trl_claim_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`torchrun` starts the same command several times: the first process holds the folder."""
    for name in TASKS:  # they are as before when the test ends
        caplog.set_level(logging.WARNING, name)
    out = tmp_path / "out"
    host = Host("trl", out, monkeypatch)
    monkeypatch.setenv("RANK", "1")
    out.mkdir()
    with held(out):
        assert host.run("--profile", "small", "--updates", "9", "--out", str(out)) == 0
    assert not (out / "rods.json").exists()


@pytest.mark.parametrize("verb", ["trl", "verl"])
def test_a_host_s_damaged_start_is_named(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, folder = Host(verb, tmp_path / "out", monkeypatch), str(tmp_path / "out")
    assert host.run("--profile", "small", "--updates", "9", "--out", folder) == 0
    (tmp_path / "out" / "rods.json").write_text('{"start": 1}')
    assert host.run("--resume", folder) == 2
    assert "rods.json: damaged" in (said := " ".join(capsys.readouterr().err.split()))
    assert f"repeat your options with --resume {folder}" in said


def test_trl_is_not_started_where_its_training_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, folder = Host("trl", tmp_path / "out", monkeypatch), str(tmp_path / "out")
    assert host.run("--profile", "small", "--updates", "1", "--out", folder) == 0
    kept = (tmp_path / "out" / "rods.json").read_text()
    assert host.run("--resume", folder, "--train.local.checkpoint_steps", "2") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "this training is finished, after 1 updates; nothing was changed" in said
    assert "--updates 2" in said and (tmp_path / "out" / "rods.json").read_text() == kept
    assert host.run("--resume", folder, "--updates", "2") == 0


@pytest.mark.parametrize(
    ("verb", "rate", "free"),
    [("trl", "--trl.learning_rate={}", "--trl.logging_steps=5"),
     ("verl", "actor_rollout_ref.actor.optim.lr={}", "trainer.save_freq=5")],
)  # fmt: skip
def test_a_resume_keeps_the_host_s_own_arguments(
    verb: str,
    rate: str,
    free: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    host, folder = Host(verb, tmp_path / "out", monkeypatch), str(tmp_path / "out")
    few = ("--profile", "small", "--updates", "9", "--out", folder)
    assert host.run(*few, rate.format("1e-4")) == 0
    kept = (tmp_path / "out" / "rods.json").read_text()
    assert host.run("--resume", folder, rate.format("1e-3")) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "differ from those of the run" in said and "1e-4 -> 1e-3" in said
    assert (tmp_path / "out" / "rods.json").read_text() == kept
    assert host.run("--resume", folder, rate.format("1e-4"), free) == 0
    assert free.lstrip("-").removeprefix("trl.") in (tmp_path / "out" / "rods.json").read_text()
    assert host.run("--resume", folder, rate.format("1e-3"), "--allow-drift") == 0


def test_a_resume_names_an_argument_that_its_start_did_not_give() -> None:
    assert _changes(["+a.b=1", "c=2"], ["a.b=1", "c=3", "d=x=y"]) == [
        "c: 2 -> 3", "d: not given -> x=y",
    ]  # fmt: skip

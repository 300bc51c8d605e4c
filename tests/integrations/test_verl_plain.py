"""What of the verl adapter needs no verl: what is in flight, its modes, what is refused at once."""

from __future__ import annotations

import sys

import pytest

import rods
from rods.errors import ConfigError, TrainError
from rods.integrations.verl.checks import MODE, of_schedule, require_known
from rods.integrations.verl.config import for_engine, given_to
from rods.integrations.verl.rows import ATTEMPTS, Flight
from verbs import rods as verb


def test_what_verl_threw_away_is_told_once() -> None:
    flight = Flight()
    flight.took_off(["a", "b", "c"], ["0:x", "0:y", "1:x"])
    assert flight.lost({"a", "b", "c", "somebody's"}) == []
    assert flight.lost({"a", "c"}) == ["0:y"]
    assert flight.lost({"a", "c"}) == []


def test_what_was_sampled_is_not_lost() -> None:
    flight = Flight()
    flight.took_off(["a", "b"], ["0:x", "0:y"])
    flight.landed(["a_0_0", "a_1_0", "padding"])
    assert flight.lost(set()) == ["0:y"]


def test_a_draw_that_fails_again_and_again_stops_the_training_by_name() -> None:
    flight = Flight()
    for attempt in range(ATTEMPTS - 1):
        flight.took_off([f"u{attempt}"], ["2:base_7"])
        assert flight.lost(()) == ["2:base_7"]
    flight.took_off(["last"], ["2:base_7"])
    with pytest.raises(TrainError, match=r"failed 3 times in verl's agent workers: 2:base_7\."):
        flight.lost(())


@pytest.mark.parametrize(
    ("schedule", "staleness", "mode", "versions"),
    [
        ("asynchronous", 1, "sync", None),
        ("pipelined", 0, "sync", None),  # exactly on-policy
        ("pipelined", 1, "colocate_async", 2),
        ("pipelined", 3, "colocate_async", 4),
    ],
)
def test_a_schedule_is_one_of_verl_s_modes(
    schedule: str, staleness: int, mode: str, versions: int | None
) -> None:
    asked = [f"rollout.schedule={schedule}", f"rollout.pipeline.staleness={staleness}"]
    config = rods.load_config("rods", "small", asked)
    require_known(config)
    names = of_schedule(config)
    assert names[MODE] == mode
    assert names.get("trainer.v1.sampler.max_off_policy_threshold") == versions


def test_what_verl_has_too_is_taken_over() -> None:
    asked = ["train.advantage=gae", "train.credit=trajectory", "train.gae.critic_warmup=3"]
    asked += ["seed=7", "track.names=wandb", "track.project=mine", "model.dtype=float32"]
    asked += ["train.local.grad_clip=0.5"]
    names = given_to(rods.load_config("rods", "small", asked), "runs/x", 1, 8)
    # verl's step n updates the actor where critic_warmup <= n: three steps are the critic's alone.
    assert names["trainer.critic_warmup"] == 4
    assert names["critic.optim.clip_grad"] == names["actor_rollout_ref.actor.grad_clip"] == 0.5
    assert names["trainer.logger"] == ["console", "wandb"]
    assert names["trainer.project_name"] == "mine"
    assert names["actor_rollout_ref.rollout.seed"] == 7
    assert names["actor_rollout_ref.rollout.dtype"] == "float32"


def test_the_synchronous_schedule_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'rollout\.schedule = "synchronous"'):
        require_known(rods.load_config("rods", "small", ["rollout.schedule=synchronous"]))


def test_settings_are_refused_before_verl_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb("verl", "--synthesis.writer=grap", monkeypatch=monkeypatch) == 2
    assert "graph" in capsys.readouterr().err


MEGATRON = ["trainer.logger=[console]", "model_engine=megatron"]


def test_megatron_calls_things_otherwise() -> None:
    config = rods.load_config("rods", "full", ["model.lora_rank=8", "model.dtype=bfloat16"])
    given = given_to(config, "out", 4, 8)
    assert for_engine(given, ["trainer.logger=[console]"]) == given
    named = for_engine(given, MEGATRON)
    actor = "actor_rollout_ref.actor"
    assert named[f"{actor}.optim.lr_decay_style"] == "constant"
    assert named["actor_rollout_ref.model.lora.rank"] == 8
    assert named["actor_rollout_ref.model.lora.alpha"] == 16
    gone = given.keys() - named.keys()
    assert {f"{actor}.strategy", f"{actor}.grad_clip", f"{actor}.optim.lr_scheduler_type"} <= gone
    assert not any("fsdp" in key for key in named)


@pytest.mark.parametrize(
    ("asked", "dtype", "said"),
    [
        (["model_engine=veomni"], "auto", "model_engine=veomni: the adapter knows dp"),
        (MEGATRON, "float32", "it has no float32"),
    ],
)
def test_what_the_adapter_knows_no_names_for_is_refused(
    asked: list[str], dtype: str, said: str
) -> None:
    config = rods.load_config("rods", "full", [f"model.dtype={dtype}"])
    with pytest.raises(ConfigError, match=said):
        for_engine(given_to(config, "out", 1, 8), asked)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--trainer.logger=[console]"], "no dashes: trainer.logger=VALUE."),
        (["--logger", "x"], "Did you mean '--track.names'?"),
        (["data.train_files=x.parquet"], "data.train_files=x.parquet, expected rods"),
        (["trainer.default_local_dir=x"], "trainer.default_local_dir=x, expected /"),
        (["reward.custom_reward_function.path=r.py"], "path=r.py, expected None"),
        (["actor_rollout_ref.rollout.n=3"], "rollout.n=3, expected 8"),
        (["+data.shuffle=True"], "data.shuffle=True, expected False"),
        (["algorithm.adv_estimator=grpo"], 'knows no train.credit = "turn"'),
    ],
)
def test_what_is_the_run_s_is_refused_without_verl(
    words: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    asked = ["verl", "--profile", "small", *words, "--dry-run"]
    assert verb(*asked, monkeypatch=monkeypatch) == 2
    out, err = capsys.readouterr()
    assert named in " ".join(err.split()) and not out


def test_what_says_the_same_is_no_contradiction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    same = ["data.shuffle=False", "actor_rollout_ref.rollout.temperature=1", "trainer.save_freq=9"]
    asked = ["verl", "--profile", "small", *same, "trainer.logger=[console,wandb]", "--dry-run"]
    assert verb(*asked, monkeypatch=monkeypatch) == 0
    assert "its own checks and defaults are missing" in capsys.readouterr().err

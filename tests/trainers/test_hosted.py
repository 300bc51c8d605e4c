"""A run whose loop belongs to a host, without any host: it plays what `rods train` plays."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from imports import imported_anew
from loop_cases import (
    TEMPLATE,
    Learner,
    Mute,
    NotesEnvironment,
    Queue,
    Screen,
    Total,
    parts,
    start,
    task_of,
)
from notebook_cell import in_cell
from pool_cases import config as small_config
from rods.config import RunConfig, load_config
from rods.config.checks import require_host
from rods.envs.hints import hinted
from rods.envs.remote.processes import environment_of
from rods.errors import ConfigError, PolicyError, StoreError, TrainError
from rods.integrations.trl.args import HOST as TRL
from rods.integrations.verl.config import require_known
from rods.integrations.verl.rows import drawn_of, row_of
from rods.loop import train
from rods.trainers.hosted import STATE, Drawn, HostedRun, read_state
from rods.trajectory import Group
from verbs import rods


@contextmanager
def worker(folder: Path) -> Iterator[Queue]:
    yield Queue()


def hosted(config: RunConfig, engine: Learner | None = None, drift: bool = False) -> HostedRun:
    tasks = [task_of(n) for n in range(1, 9)]
    run = HostedRun(config, lambda _: NotesEnvironment(), tasks, worker, hinted, drift)
    run.begin(engine or Learner(), TEMPLATE)
    return run


def step(run: HostedRun, version: int, n: int = 4) -> list[dict[str, Any]]:
    """One update of a host; the judgements, as they are logged."""
    drawn = run.draw(n, version)
    groups = run.roll_out(drawn, Total(0.0), version)
    run.judge(drawn, groups)
    return [run.curriculum.log_row(judged) for judged in run.judged if judged]


@pytest.mark.slow
@pytest.mark.parametrize("place", [lambda work: work(), in_cell], ids=["script", "notebook"])
def test_the_host_s_run_is_the_local_one(place: Callable[..., Any], tmp_path: Path) -> None:
    """Same seed, same weights: the same draws, trajectories and judgements, to the last stage."""
    config = small_config(curriculum="rods")
    local = start(tmp_path / "local", config)
    train(parts("rods"), local, Screen())
    expected = [row["judgements"] for row in local.metrics() if row["kind"] == "step"]

    def whole() -> list[list[dict[str, Any]]]:
        rows: list[list[dict[str, Any]]] = []
        with hosted(config) as run:
            run.open(tmp_path / "hosted")
            while not run.over:
                rows.append(step(run, len(rows)))
        return rows

    rows = place(whole)
    assert rows == expected
    assert {row["origin"] for judged in rows for row in judged} == {"original", "variant"}


@pytest.mark.slow
def test_a_state_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    config = small_config()
    with hosted(config) as run:
        run.open(tmp_path / "one")
        for version in range(5):
            step(run, version)
        state = run.state_dict()
        rows = [step(run, 5), step(run, 6)]
    with hosted(config) as lost:
        lost.open(tmp_path / "two", state)
        lost.draw(3, 5)  # played by nobody: drawn again after the resume
        state = lost.state_dict()
    with hosted(config) as again:
        again.open(tmp_path / "two", state)
        assert [step(again, 5), step(again, 6)] == rows
    with hosted(small_config(seed=4)) as other, pytest.raises(StoreError, match="seed: 0 -> 4"):
        other.open(tmp_path / "three", state)
    patient = small_config(rollout={"k": 4, "tasks_per_step": 4, "concurrency": 2})
    with hosted(patient) as other:
        other.open(tmp_path / "three", state)
        assert [step(other, 5), step(other, 6)] == rows, "settings of patience may change"


@pytest.mark.slow
def test_a_task_that_comes_twice_under_the_same_weights_gets_other_noise(tmp_path: Path) -> None:
    with hosted(small_config()) as run:
        run.open(tmp_path)
        drawn = run.draw(20, 0)  # of three epochs with eight tasks each
        assert Counter(d.visit for d in drawn) == {0: 8, 1: 8, 2: 4}
        assert len({(d.task.id, d.epoch) for d in drawn}) == 20
        played = run.roll_out(drawn, Total(0.0), 0)
        assert len({t.seed for g in played for t in g.trajectories}) == 20 * 4
        assert {d.visit for d in run.draw(3, 1)} == {0}


@pytest.mark.slow
def test_an_update_of_two_epochs_logs_the_regions_of_both(tmp_path: Path) -> None:
    """Counts of an epoch lack what the update that starts the next one judged in it."""
    with hosted(small_config()) as run:
        run.open(tmp_path)
        for version in range(2):
            drawn = run.draw(6, version)  # of a pool of eight
            groups = run.roll_out(drawn, Total(0.0), version)
            figures = run.figures(run.collect(groups, run.judge(drawn, groups)))
            shown = {name: figures[f"regions/{name}"] for name in ("hard", "boundary", "mastered")}
            found = Counter(judged.region for judged in run.judged if judged)
            assert shown == {name: found[name] for name in shown} and sum(shown.values()) == 6
        assert figures["judged"] == 4, "the counts of the second epoch alone"


def test_what_cannot_go_on_says_so(tmp_path: Path) -> None:
    with hosted(small_config(stages=[{"name": "x", "epochs": 1}]), Mute()) as run:
        with pytest.raises(TrainError, match="no curriculum: call open"):
            run.draw(1, 0)
        run.open(tmp_path)
        with pytest.raises(PolicyError, match="not one tool call was parsed"):
            step(run, 0)
        assert len(run.draw(99, 0)) == 4, "what is left of the only epoch"
        with pytest.raises(TrainError, match="all stages are done"):
            run.draw(1, 0)


def test_a_checkpoint_without_our_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"rods\.pt: missing, so .* no state of a curriculum"):
        read_state(tmp_path)
    state = {"config": "{}", "curriculum": {"counts": list(range(1_000))}, "rewards": "{}"}
    torch.save(state, tmp_path / STATE)
    assert read_state(tmp_path) == state
    whole = (tmp_path / STATE).read_bytes()
    for size in (0, 100, len(whole) - 500):
        (tmp_path / STATE).write_bytes(whole[:size])
        with pytest.raises(StoreError, match=r"rods\.pt: damaged: .*Use an older checkpoint"):
            read_state(tmp_path)


@pytest.fixture
def adapter() -> Iterator[None]:
    """TRL's adapter is imported again."""
    with imported_anew("rods.integrations.trl"):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("adapter")
def test_trl_that_is_missing_is_named_with_the_line_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    words = ["--profile", "small", "--train.lr", "3e-4", "--trl.save_steps", "8"]
    words += ["--trl.lern_rate", "4", "--trl.run_name", "x"]
    asked = ("trl", "--dry-run", "--memory", "8", *words)
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "8.0 GiB are free" in said, "a plan for that machine, beside the configuration"
    assert (
        "bf16 True, use_cpu False" in said
        and "machine a GPU elsewhere, which bf16 and use_cpu follow" in said
    )
    assert rods("trl", "--dry-run", *words, monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "use_cpu True" in said and "machine this one, which bf16 and use_cpu follow" in said
    own = ("--trl.bf16", "false")
    assert rods(*asked, *own, monkeypatch=monkeypatch) == 0
    assert "use_cpu False" in (said := capsys.readouterr().out) and "bf16 False" in said
    assert rods(*asked, "--json", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert "TRL is not installed, so only arguments that RODS sets" in printed.err
    assert "--trl.lern_rate is not checked. Did you mean 'learning_rate'?" in printed.err
    assert "--trl.run_name is not checked.\n" in printed.err and "save_steps" not in printed.err
    shown = json.loads(printed.out)["TRL"]
    assert (shown["learning_rate"], shown["save_steps"]) == (3e-4, 8), "what TRL would be given"
    assert rods("trl", *words, "--out", str(tmp_path / "x"), monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert (
        "`rods trl` needs TRL: pip install" in printed.err
        and "[train,trl]" in printed.err
        and not printed.out
    )


@pytest.mark.slow
def test_verl_that_is_missing_is_named_with_the_line_that_gets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    words = ["--profile", "small", "--train.lr", "3e-4", "--gpus", "3"]
    assert rods("verl", "--dry-run", *words, monkeypatch=monkeypatch) == 0
    assert "actor_rollout_ref.rollout.n 8" in capsys.readouterr().out, "keys to paste"
    assert rods("verl", "--dry-run", "--json", *words, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert "verl is not installed" in printed.err
    shown = json.loads(printed.out)["verl"]
    given = shown["actor_rollout_ref.actor.optim.lr"], shown["trainer.n_gpus_per_node"]
    assert given == (3e-4, 3), "what verl would be given"
    assert rods("verl", *words, monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert (
        "verl is needed: pip install" in printed.err
        and "[train,verl]" in printed.err
        and not printed.out
    )


@pytest.mark.slow
@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("host", ["trl", "verl"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trajectories", "64"], "trajectories"),
        (["--train.lr", "fast"], "train.lr"),
        (["--rollout.context_tokens", "18192"], "positions for 4,096 tokens"),
        (["--model.name", "./cold"], "there is no folder ./cold"),
    ],
    ids=["not known to it", "wrong type", "positions", "no model"],
)
def test_a_dry_run_refuses_settings_where_the_host_is_missing(
    host: str,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, host, None)
    asked = [host, "--dry-run", "--profile", "small", *words]
    assert rods(*asked, monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert said in printed.err and "pip install" not in printed.err
    assert not printed.out


def test_a_changed_recipe_goes_on_where_drift_is_allowed(tmp_path: Path) -> None:
    with hosted(small_config()) as run:
        run.open(tmp_path / "one")
        step(run, 0)
        state = run.state_dict()
    steeper = small_config(replay={"cap": 10, "inject": 0.4})
    with hosted(steeper) as run, pytest.raises(StoreError, match=r"replay\.inject: .* -> 0\.4"):
        run.open(tmp_path / "two", state)
    with hosted(steeper, drift=True) as run:
        run.open(tmp_path / "two", state)
        assert step(run, 1)
        assert run.state_dict()["config"] == steeper.model_dump_json()
    other = small_config(seed=4)
    with hosted(other, drift=True) as run, pytest.raises(StoreError, match="no resume can change"):
        run.open(tmp_path / "three", state)


@pytest.mark.slow
def test_worlds_begin_where_they_are_played_and_are_shared_out() -> None:
    config, begun = small_config(), list[int]()

    def worlds(ranks: int) -> NotesEnvironment:
        begun.append(ranks)
        return NotesEnvironment()

    with HostedRun(config, worlds, [task_of(1)], worker, hinted) as run:
        assert begun == [], "a driver that only judges has none"
        run.begin(Learner(), TEMPLATE, ranks=3)
        assert begun == [3]
    small = load_config("rods", "small", ["rollout.worlds.processes=4"])
    for ranks, each in ((1, 4), (3, 2), (9, 1)):
        environment = environment_of(small, ranks)
        assert environment.capacity == each
        environment.close()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train": {"kl": 0.1, "kl_in": "reward"}}, "train.kl_in"),
        (
            {"rollout": {"top_p": 0.9}, "train": {"correction": {"method": "truncated"}}},
            "rollout.top_p below 1",
        ),
        ({"train": {"local": {"optimizer_memory": "8bit"}}}, "train.local.optimizer_memory"),
        ({"engine": {"name": "vllm", "vllm": {"options": {"a": "1"}}}}, "engine.vllm.options"),
        ({"trajectories": 64}, "trajectories"),
        ({"train": {"mask_env_tokens": False}}, "mask_env_tokens"),
        ({"train": {"loss": "gspo"}}, 'train.aggregation = "token" with train.loss = "gspo"'),
        ({"rollout": {"schedule": "synchronous"}}, "rollout.schedule"),
        ({"engine": {"name": "hf"}}, "engine.name"),
        ({"evaluation": {"every": 2}}, "evaluation.every"),
    ],
)
def test_what_the_verl_adapter_has_not_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        require_known(small_config(**changes))


@pytest.mark.parametrize("credit", ["turn", "call"])
def test_trl_s_gspo_takes_no_credit_by_turn_or_call(credit: str) -> None:
    """Known without TRL, whose ratio by sequence would cancel it."""
    config = small_config(train={"loss": "gspo", "credit": credit, "aggregation": "sequence"})
    with pytest.raises(ConfigError, match=f'train.credit = "{credit}" with train.loss = "gspo"'):
        require_host(config, TRL)


def test_a_draw_goes_through_verl_s_rows_and_back() -> None:
    drawn = Drawn(task_of(3), 2, 1, True)
    row = row_of(drawn, 7, 4)
    back = drawn_of(row["rods"])
    assert back == drawn and back.task.to_json() == drawn.task.to_json()
    assert (row["ticket"], row["__rollout_n__"]) == (f"2:{drawn.task.id}", 4)
    assert row_of(None, 0, 4)["ticket"] == "" and row_of(None, 0, 4)["__rollout_n__"] == 1


def test_words_of_ours_and_of_verl_s_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def compose(config: RunConfig, folder: str, theirs: list[str], *_: object) -> None:
        seen.append((config.train.lr, config.rollout.k, folder, theirs))
        raise ConfigError("seen")

    monkeypatch.setattr("rods.integrations.verl.config.compose", compose)
    words = ["--train.lr", "1e-4", "trainer.nnodes=2", "--rollout.k=4", "+ray_kwargs.a=1"]
    assert rods("verl", *words, "--out", "here", monkeypatch=monkeypatch) == 2
    assert seen == [(1e-4, 4, "here", ["trainer.nnodes=2", "+ray_kwargs.a=1"])]


def test_samples_are_those_of_the_local_trainer(tmp_path: Path) -> None:
    with hosted(small_config()) as run:
        run.open(tmp_path)
        drawn = run.draw(4, 0)
        groups = run.roll_out(drawn, Total(0.0), 0)
        scores = run.judge(drawn, groups)
        batch = run.collect(groups, scores)
        assert batch.samples and batch.groups == 4
        for sample in batch.samples:
            group: Group = groups[sample.group]
            trajectory = group.trajectories[sample.member]
            assert group.task.id == sample.task_id
            assert sample.ids.tolist() == trajectory.ledger.ids

"""The loop under its schedules: the same result where it is promised, nothing lost or doubled."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter as Tally
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loop_cases import Counter as Trainer
from loop_cases import (
    Killed,
    Learner,
    LearnerSession,
    Report,
    Screen,
    kill,
    parts,
    played,
    settings,
    start,
)
from rods.components import Components
from rods.config import RunConfig
from rods.errors import ConfigError
from rods.loop import train
from rods.policy import Capabilities, Completion
from rods.reward import Score
from rods.store import RunDirectory
from rods.trajectory import Group
from rods.trajectory_codec import read_parquet
from sweeps import slow

MODES: dict[str, dict[str, Any]] = {
    "synchronous": {"schedule": "synchronous"},
    "asynchronous": {"schedule": "asynchronous"},
    "on-policy": {"schedule": "pipelined", "pipeline": {"staleness": 0}},
    "pipelined": {"schedule": "pipelined", "pipeline": {"staleness": 1}},
    "stale": {"schedule": "pipelined", "pipeline": {"staleness": 3}},
}


def config_of(mode: str, **changes: Any) -> RunConfig:
    return settings(rollout={"k": 4, "tasks_per_step": 4, **MODES[mode]}, **changes)


def go(path: Path, config: RunConfig, made: Components, screen: Screen | None = None) -> None:
    run = start(path, config) if not path.exists() else RunDirectory.resume(path, config)
    train(made, run, screen or Screen())


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [r for r in RunDirectory.open(path).metrics() if r["kind"] == "step"]


@pytest.mark.slow
def test_invariant_9_schedules_that_are_on_policy_make_the_same_run(tmp_path: Path) -> None:
    for mode in ("asynchronous", "synchronous", "on-policy"):
        go(tmp_path / mode, config_of(mode, updates=8), parts("rods"))
        assert played(tmp_path / mode) == played(tmp_path / "asynchronous")
    drawn = [j["origin"] for row in steps_of(tmp_path / "on-policy") for j in row["judgements"]]
    assert "variant" in drawn


class Lasting(Trainer):
    """Its updates take a while, in which groups may be played."""

    def update(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> Report:
        time.sleep(0.02)
        return super().update(groups, scores)


class Lingering(Learner):
    """Generates in a hundredth of a second, whatever else it generates."""

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Any:
        return _Lingering(super().open(seed, shared_prompt))


class Steady(Learner):
    """Always right, whatever its version: greedy samples of weights that stand still."""

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Any:
        session = LearnerSession(random.Random(0), self.version)
        session._skill = 1.0
        return _Lingering(session)


class _Lingering:
    def __init__(self, session: LearnerSession) -> None:
        self._session = session

    async def generate(self, *args: Any, **options: Any) -> Completion:
        await asyncio.sleep(0.01)
        return await self._session.generate(*args, **options)

    def close(self) -> None:
        self._session.close()


def lasting(curriculum: str) -> Components:
    made = parts(curriculum)
    made.trainer, made.policy = Lasting(), Lingering()
    return made


@pytest.mark.parametrize("mode", ["pipelined", "stale"])
@pytest.mark.slow
def test_a_pipelined_run_plays_every_task_of_every_epoch_once(mode: str, tmp_path: Path) -> None:
    config = config_of(mode)
    go(tmp_path / "run", config, lasting("rods"))
    rows = steps_of(tmp_path / "run")
    bound = config.rollout.pipeline.staleness
    ages = [r["schedule"]["staleness_max"] for r in rows]
    assert max(ages) == bound and min(ages) == 0
    for row in rows:  # the curriculum is told by which version a group was begun
        version = row["step"] - 1
        assert {version - j["policy_version"] for j in row["judgements"]} <= set(range(bound + 1))
    epochs = Tally(epoch for epoch, _ in done(tmp_path / "run"))
    logged = [r for r in RunDirectory.open(tmp_path / "run").metrics() if r["kind"] == "epoch"]
    assert {r["epoch"]: r["draws"] for r in logged} == epochs
    assert len(set(done(tmp_path / "run"))) == sum(epochs.values())
    assert sum(r["injected"] for r in logged) > 0
    assert [len(r["judgements"]) for r in rows[:-1]] == [4] * (len(rows) - 1)


@pytest.mark.slow
def test_groups_that_no_update_took_are_counted_in_the_log(tmp_path: Path) -> None:
    screen = Screen()
    config = config_of("pipelined", curriculum="static", trajectories=48)
    go(tmp_path / "run", config, lasting("static"), screen)
    rows = RunDirectory.open(tmp_path / "run").metrics()
    (unused,) = [row for row in rows if row["kind"] == "unused"]
    assert unused["step"] == 3 and unused["finished"] + unused["in_flight"] == leased(
        tmp_path / "run"
    )
    assert any(f"{leased(tmp_path / 'run')} groups were begun" in text for text in screen.said)
    assert rows[-1]["kind"] == "eval", "the last evaluation comes after them"


def saved(path: Path) -> dict[str, Any]:
    """State of the curriculum in the last checkpoint."""
    checkpoint = RunDirectory.open(path).latest_checkpoint()
    assert checkpoint is not None
    return json.loads((checkpoint.path / "curriculum.json").read_text())


def leased(path: Path) -> int:
    """Draws that were out when the run ended: they are saved as due."""
    state = saved(path)
    return sum(order[-1].count("d") for order in state["buffer"]["draws"].values())


def done(path: Path) -> list[tuple[int, str]]:
    """Epoch and task of each draw that is done, from the last checkpoint."""
    draws = saved(path)["buffer"]["draws"]
    return [
        (int(epoch), task_id)
        for epoch, (*order, status) in draws.items()
        for task_id, letter in zip(order, status, strict=True)
        if letter == "o"
    ]


@pytest.mark.parametrize("mode", [*slow("pipelined"), "stale"])
@pytest.mark.slow
def test_invariant_8_what_was_in_flight_at_a_kill_is_drawn_again(mode: str, tmp_path: Path) -> None:
    """All tasks of an epoch, none twice; which policy version plays them may differ."""
    config = config_of(mode, curriculum="static", updates=6)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for path, kills in ((whole, ()), (cut, (2, 4))):
        for step in kills:
            with pytest.raises(Killed):
                go(path, config, lasting("static"), Screen(step, kill))
        go(path, config, lasting("static"))
    assert [r["step"] for r in steps_of(cut)] == [r["step"] for r in steps_of(whole)]
    order = [[j["task_id"] for j in r["judgements"]] for r in steps_of(whole)]
    assert [[j["task_id"] for j in r["judgements"]] for r in steps_of(cut)] == order
    assert sorted(done(cut)) == sorted(done(whole))


def results(path: Path) -> list[tuple[Any, ...]]:
    files = sorted((path / "trajectories").glob("*.parquet"))
    return [
        (t.task_id, t.member, t.messages, t.steps, t.verdicts, t.stop, t.ledger.ids)
        for file in files
        for t in read_parquet(file)
    ]


@pytest.mark.slow
def test_greedy_results_are_those_of_the_synchronous_schedule(tmp_path: Path) -> None:
    for mode in MODES:
        made = parts("static")
        made.policy = Steady()
        go(tmp_path / mode, config_of(mode, curriculum="static", updates=3), made)
    expected = results(tmp_path / "synchronous")
    assert len(expected) == 3 * 16
    for mode in MODES:
        assert results(tmp_path / mode) == expected


@pytest.mark.slow
def test_an_engine_that_shares_its_weights_is_not_pipelined_beside_updates(tmp_path: Path) -> None:
    made = parts("static")
    made.policy.capabilities = Capabilities("shared")
    with pytest.raises(ConfigError, match=r"rollout\.pipeline\.staleness = 0"):
        go(tmp_path / "run", config_of("pipelined", curriculum="static"), made)
    go(tmp_path / "other", config_of("on-policy", curriculum="static", updates=2), made)


@pytest.mark.slow
def test_evaluations_on_the_way_are_in_no_steps_seconds(tmp_path: Path) -> None:
    made = lasting("rods")

    async def evaluate(policy: Any, progress: Any) -> list[dict[str, Any]]:
        await asyncio.sleep(1.0)
        return []

    made.evaluate = evaluate
    go(tmp_path / "run", config_of("pipelined", evaluation={"every": 1}, updates=3), made)
    rows = steps_of(tmp_path / "run")
    assert len(rows) == 3 and all(row["seconds_rollout"] < 0.9 for row in rows)

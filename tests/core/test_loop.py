"""The closed loop with a policy that gets better, a trainer that counts, and kills in between."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loop_cases import (
    Killed,
    Mute,
    Queue,
    Screen,
    kill,
    parts,
    played,
    run,
    settings,
    start,
    task_of,
)
from rods.assemble import stage_updates, total_steps
from rods.components import Components
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.requests import first_variants
from rods.env import World
from rods.errors import Interrupted, PolicyError, StoreError, TaskError
from rods.infra.interrupt import AFTER_UPDATE
from rods.loop import train
from rods.store import RunDirectory
from rods.task import Task
from rods.trajectory_codec import read_parquet, read_row
from rods.types import Json
from verbs import rods
from waits import until

STAGES = [{"name": "plain", "epochs": 1}, {"name": "grow", "epochs": 4}]


class Whole(NamedTuple):
    path: Path
    parts: Components


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run from beginning to end; nothing of it is changed by those who read it."""
    path, made = tmp_path_factory.mktemp("whole") / "run", parts("rods")
    train(made, start(path, settings()), Screen())
    return Whole(path, made)


@pytest.mark.slow
def test_the_loop_closes(whole: Whole) -> None:
    rows = RunDirectory.open(whole.path).metrics()
    epochs = [r for r in rows if r["kind"] == "epoch"]
    steps = [r for r in rows if r["kind"] == "step"]
    shown = [(r["when"], r["rows"][0]["version"]) for r in rows if r["kind"] == "eval"]
    ways = [(f"update {n}", n) for n in range(3, len(steps), 3)]
    assert shown == [("before", 0), *ways, ("after", len(steps))]
    assert [e["stage"] for e in epochs] == ["plain", *["grow"] * 4]
    entered = next(e["step"] for e in epochs if e["injected"])
    assert entered == first_variants(settings(), whole.parts.originals)
    assert sum(sum(e["retired"].values()) for e in epochs) > 0
    assert [s["step"] for s in steps] == list(range(1, len(steps) + 1))
    drawn = {j["task_id"] for s in steps for j in s["judgements"] if j["origin"] == "variant"}
    assert drawn, "variants are trained on"
    assert RunDirectory.open(whole.path).manifest["finished"]


@pytest.mark.parametrize(
    ("size", "slices", "lengths", "schedule"),
    [
        (
            3,
            [0, 0],
            [3, 11],
            "asynchronous",
        ),  # 8 tasks: the last update of an epoch takes tasks of the next one
        (5, [0, 3], [2, 3], "asynchronous"),
        (5, [6, 7], [2, 5], "asynchronous"),
        (8, [3, 2], [1, 4], "asynchronous"),  # an update takes one small epoch
        (8, [3, 2], [1, 1], "pipelined"),  # as many as it needs
        (4, [6, 1], [2, 3], "synchronous"),
        (4, [6, 1], [2, 1], "pipelined"),
    ],
)
def test_a_fixed_pool_makes_as_many_updates_as_the_dry_run_states(
    size: int, slices: list[int], lengths: list[int], schedule: str, tmp_path: Path
) -> None:
    plain, grow = ({**s, "slice": n} for s, n in zip(STAGES, slices, strict=True))
    config = settings(
        curriculum="static",
        stages=[plain, grow],
        rollout={"k": 2, "tasks_per_step": size, "schedule": schedule},
        evaluation={"every": 0},
    )
    made = parts("static")
    train(made, start(tmp_path / "run", config), Screen())
    assert stage_updates(config, made.originals) == lengths
    assert made.trainer.step == sum(lengths) == total_steps(config, made.originals)


def test_the_policy_follows_the_trainer(whole: Whole) -> None:
    made = whole.parts
    assert made.policy.version == made.trainer.version > 5
    step = ["sleep", "wake", "sync"]
    assert [what.split()[0] for what in made.policy.did] == [
        "start", "sync", *step * made.trainer.step, "close"
    ]  # fmt: skip
    assert made.policy.did[-2] == f"sync {made.trainer.total:.2f}"
    assert len(made.policy.loops) == 1, "one event loop for the whole run"
    rows = RunDirectory.open(whole.path).metrics()
    means = [r["progress_mean"] for r in rows if r["kind"] == "step"]
    assert sum(means[-3:]) > sum(means[:3])
    after = next(r for r in rows if r["kind"] == "eval" and r["when"] == "after")
    assert after["rows"] == [{"version": made.trainer.version}]


@pytest.mark.slow
def test_spans_know_the_version_that_sampled_them(whole: Whole) -> None:
    for step, path in enumerate(sorted((whole.path / "trajectories").iterdir())):
        trajectories = list(read_parquet(path))
        spans = [span for t in trajectories for span in t.spans]
        assert {span.version for span in spans if span.sampled} == {step}
        signals = [read_row(path, number)[1] for number in range(len(trajectories))]
        assert [s and s.reward for s in signals] == [t.progress for t in trajectories]
        assert {len(s.span_advantages) for s in signals if s} == {
            len(t.spans) for t in trajectories
        }


@pytest.mark.parametrize("patience", [0.0, 0.2])
@pytest.mark.slow
def test_waiting_for_synthesis_is_asked_for_and_told(tmp_path: Path, patience: float) -> None:
    class Late(Queue):
        """Nothing is ever ready."""

        def drain(self, request_ids: Sequence[str], timeout: float) -> bool:
            time.sleep(min(timeout, 0.01))
            return False

        def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
            return []

    config, made, screen = settings(synthesis={"drain_seconds": patience}), parts("rods"), Screen()
    made.synthesis = Late()
    train(made, start(tmp_path / "run", config), screen)
    rows = RunDirectory.open(tmp_path / "run").metrics()
    epochs = [r for r in rows if r["kind"] == "epoch"]
    told = [text for text in screen.said if "cannot be repeated exactly" in text]
    assert sum(e["late_requests"] for e in epochs) > 0
    assert bool(told) == any(e["seconds_waited"] > 0 for e in epochs) == bool(patience)
    assert all("synthesis.drain_seconds (0.2)" in text for text in told)


@pytest.mark.slow
def test_a_fixed_pool_gets_the_same_budget_and_no_variants(tmp_path: Path) -> None:
    for curriculum in ("rods", "static"):
        run(tmp_path / curriculum, settings(curriculum=curriculum, updates=8))
    rows = {c: RunDirectory.open(tmp_path / c).metrics() for c in ("rods", "static")}
    sizes = {c: [int(r["trajectories"]) for r in rows[c] if r["kind"] == "step"] for c in rows}
    assert sizes["rods"] == sizes["static"] == [sizes["rods"][0]] * 8, "whole across epochs' ends"
    assert sum(r["kind"] == "epoch" and r["draws"] % 4 > 0 for r in rows["rods"]) > 0
    judged = [j for r in rows["static"] if r["kind"] == "step" for j in r["judgements"]]
    assert judged and all(j["origin"] == "original" for j in judged)


@pytest.mark.slow
def test_a_budget_of_trajectories_ends_a_run_resumed_or_not(tmp_path: Path) -> None:
    config = settings(trajectories=50)
    with pytest.raises(Killed):
        run(tmp_path / "run", config, Screen(2, kill))
    run(tmp_path / "run", config)
    steps = [r for r in RunDirectory.open(tmp_path / "run").metrics() if r["kind"] == "step"]
    spent = [sum(int(r["trajectories"]) for r in steps[: i + 1]) for i in range(len(steps))]
    assert spent[-1] >= 50 > spent[-2]


def test_variants_made_before_stand_in_a_fixed_pool_alone() -> None:
    fixed = parts("static")
    made = [
        replace(v, provenance=replace(v.provenance, ancestors=(t.id,)))
        for v, t in zip(map(task_of, (100, 101)), fixed.originals, strict=False)
    ]
    pool = [*fixed.originals, *made]
    config = settings(curriculum="static")
    curriculum = OnlineCurriculum(config, pool)
    curriculum.start_epoch()
    drawn = {lease.task.id for lease in curriculum.lease(100)}
    assert drawn == {t.id for t in pool}
    with pytest.raises(TaskError, match="is a variant"):
        OnlineCurriculum(settings(), pool, Queue())


def test_a_policy_that_calls_nothing_is_refused_before_the_first_update(tmp_path: Path) -> None:
    config, made = settings(), parts("rods")
    made.policy = Mute()  # type: ignore[assignment]
    with pytest.raises(PolicyError, match=r"'hello' was read as answer.*model\.dialect"):
        train(made, start(tmp_path / "run", config), Screen())
    assert made.trainer.step == 0


@pytest.mark.slow
def test_invariant_8_a_kill_and_a_resume_change_nothing(whole: Whole, tmp_path: Path) -> None:
    config = settings()
    with pytest.raises(Killed):
        run(tmp_path / "killed", config, Screen(7, kill))
    run(tmp_path / "killed", config)
    assert played(tmp_path / "killed") == played(whole.path)


@pytest.mark.slow
def test_invariant_8_many_kills(whole: Whole, tmp_path: Path) -> None:
    config = settings()
    for step in (2, 2, 6, 11):
        with pytest.raises(Killed):
            run(tmp_path / "killed", config, Screen(step, kill))
    run(tmp_path / "killed", config)
    assert played(tmp_path / "killed") == played(whole.path)


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, 3])
def test_invariant_8_holds_where_an_epoch_has_fewer_tasks_than_a_step_draws(
    tmp_path: Path, at: int
) -> None:
    """The next epoch has begun at the checkpoint, and is short itself: a resume begins no other."""
    few = [{"name": "few", "tasks": 1, "epochs": 6}, {"name": "all", "epochs": 1}]
    config = settings(stages=few, train={"local": {"checkpoint_steps": 1}})
    assert config.rollout.tasks_per_step > 1
    run(tmp_path / "whole", config)
    with pytest.raises(Killed):
        run(tmp_path / "killed", config, Screen(at, kill))
    run(tmp_path / "killed", config)
    assert played(tmp_path / "killed") == played(tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_stops_at_a_step_and_the_run_goes_on(whole: Whole, tmp_path: Path) -> None:
    config, before = settings(), signal.getsignal(signal.SIGINT)
    press = Screen(4, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match="stopped after update 4"):
        run(tmp_path / "stopped", config, press)
    stopped = RunDirectory.open(tmp_path / "stopped")
    checkpoint = stopped.latest_checkpoint()
    assert checkpoint is not None and checkpoint.step == 4
    assert not stopped.manifest["finished"]
    run(tmp_path / "stopped", config)
    assert played(tmp_path / "stopped") == played(whole.path)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_ctrl_c_while_an_epoch_begins_saves_the_last_update(tmp_path: Path) -> None:
    """An epoch may wait for synthesis, so that is where Ctrl-C often comes."""

    class Pressed(Screen):
        def record(self, record: Mapping[str, Any]) -> None:
            super().record(record)
            if len(self.epochs) == 2 and record["kind"] == "epoch":
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match=r"stopped after update \d+") as stopped:
        run(tmp_path / "stopped", settings(), Pressed())
    step = int(str(stopped.value).removesuffix(".").split()[-1])
    assert step % 3, "no checkpoint is due then"
    checkpoint = RunDirectory.open(tmp_path / "stopped").latest_checkpoint()
    assert checkpoint is not None and checkpoint.step == step


def files(path: Path) -> dict[str, tuple[bytes, int]]:
    held = [p for p in path.rglob("*") if p.is_file()]
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in held}


@pytest.mark.parametrize(
    ("limits", "ways"),
    [
        ({}, r"All its stages are done.*Start a new run"),
        ({"updates": 2}, r"rods train --resume \S+ --updates 4\), or start a new run"),
        ({"trajectories": 20}, r"--trajectories \d+\), or start a new run"),
    ],
    ids=["stages", "updates", "trajectories"],
)
@pytest.mark.slow
def test_a_finished_run_says_so_and_stays_as_it_is(
    tmp_path: Path,
    limits: dict[str, int],
    ways: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, path = settings(**limits), tmp_path / "run"
    run(path, config)
    before = files(path)
    same_limits = [config, settings(**limits, evaluation={"every": 5}), None]
    for asked in same_limits:
        with pytest.raises(StoreError, match=f"is finished.*nothing was changed.*{ways}"):
            RunDirectory.resume(path, asked)
    words = ("train", "--resume", str(path), "--dry-run")
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "this run is finished" in capsys.readouterr().err
    assert rods(*words, "--updates", "9", "--train.lr", "9e-9", monkeypatch=monkeypatch) == 2
    assert "train.lr" in capsys.readouterr().err
    if "updates" in limits:
        assert rods(*words, "--updates", "9", "--json", monkeypatch=monkeypatch) == 0
        assert json.loads(capsys.readouterr().out)["changed"] == ["updates: 2 -> 9"]
    assert files(path) == before


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ({"updates": 2}, {"updates": 4}),
        ({"trajectories": 20}, {"trajectories": 50}),
    ],
)
@pytest.mark.slow
def test_a_finished_run_goes_on_to_a_higher_limit_as_if_it_had_been_given_at_once(
    tmp_path: Path, first: dict[str, int], more: dict[str, int]
) -> None:
    run(tmp_path / "longer", settings(**first))
    longer = RunDirectory.resume(tmp_path / "longer", settings(**more))
    assert not longer.manifest["finished"]
    train(parts("rods"), longer, Screen())
    run(tmp_path / "whole", settings(**more))
    whole, shown = played(tmp_path / "whole"), played(tmp_path / "longer")
    first_result = [row for row in longer.metrics() if row.get("when") == "update 2"][-1:]
    assert len(first_result) == 1 and longer.manifest["finished"]
    assert [row for row in shown if row not in first_result] == whole
    changed = next(iter(more))
    assert [str(c["setting"]).split(":")[0] for c in longer.manifest["changes"]] == [changed]  # type: ignore[index, union-attr]


@pytest.mark.slow
def test_a_run_that_is_lengthened_and_stopped_has_the_result_it_had(tmp_path: Path) -> None:
    path, more = tmp_path / "run", settings(updates=6, evaluation={"every": 0})
    run(path, settings(updates=2, evaluation={"every": 0}))

    def evaluations() -> list[tuple[Json, Json]]:
        return [(r["when"], r["rows"]) for r in RunDirectory.open(path).metrics() if "when" in r]

    (_, before), (_, result) = evaluations()
    for update in (3, 5):  # the second resume cuts the log again
        with pytest.raises(Interrupted):
            run(path, more, Screen(update, lambda: os.kill(os.getpid(), signal.SIGINT)))
        assert evaluations() == [("before", before), ("update 2", result)]
    run(path, more)
    assert [when for when, _ in evaluations()] == ["before", "update 2", "after"]


def test_a_run_that_is_lengthened_is_not_evaluated_again_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run(path, settings(updates=2, evaluation={"every": 2}))
    run(path, settings(updates=4, evaluation={"every": 2}))
    moments = [row["when"] for row in RunDirectory.open(path).metrics() if "when" in row]
    assert moments == ["before", "update 2", "after"]


class Counting(Screen):
    """Notes how far each evaluation was shown to be."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, list[tuple[int, int]]] = {}
        self.samples = set[int | None]()

    def rollout(self, done: int, total: int, samples: int | None = None) -> None:
        if self.said and self.said[-1].startswith("held-out evaluation"):
            self.samples.add(samples)
            self.counts.setdefault(self.said[-1], []).append((done, total))


def test_every_evaluation_shows_how_far_it_is(tmp_path: Path) -> None:
    async def evaluate(policy: Any, progress: Any) -> list[dict[str, Json]]:
        progress(1, 7)
        progress(7, 7)
        return [{"version": policy.version}]

    screen = Counting()
    made = start(tmp_path / "run", settings(updates=1))
    train(replace(parts("rods"), evaluate=evaluate), made, screen)
    assert screen.samples == {1, None}, "None: the rollouts of updates"
    for when in ("before", "after"):
        assert screen.counts[f"held-out evaluation {when} training"][:2] == [(1, 7), (7, 7)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_during_an_evaluation_stops_there(tmp_path: Path, when: str) -> None:
    path, config, answered = tmp_path / "run", settings(updates=1), list[int]()

    async def evaluate(policy: Any, progress: Any) -> list[dict[str, Json]]:
        updates = sum(record["kind"] == "step" for record in RunDirectory.open(path).metrics())
        if updates == (when == "after"):
            os.kill(os.getpid(), signal.SIGINT)
        for done in range(3):
            progress(done + 1, 3)
            answered.append(done)
        return [{"version": policy.version}]

    screen = Screen()
    with pytest.raises(Interrupted, match=f"during the evaluation {when}"):
        train(replace(parts("rods"), evaluate=evaluate), start(path, config), screen)
    assert answered == [0, 1, 2] * (when == "after"), "no trajectory is waited for"
    until(lambda: AFTER_UPDATE in screen.said)  # a thread shows it
    run(path, config)
    assert RunDirectory.open(path).manifest["finished"]


@pytest.mark.slow
def test_groups_of_stages_with_hints_are_played_under_the_layer(tmp_path: Path) -> None:
    under: list[World] = []

    def layer(world: World) -> World:
        under.append(world)
        return world

    stages = [{"name": "first", "epochs": 1}, {"name": "last", "epochs": 2}]
    config = settings(curriculum="envtuning", stages=stages)
    made = start(tmp_path / "run", config)
    train(replace(parts("envtuning"), hints=layer), made, Screen())
    rows = [row for row in made.metrics() if row["kind"] == "step"]
    shares = {(row["stage"], row["epoch"]): row["hints"] for row in rows}
    assert shares == {("first", 0): 0.0, ("last", 1): 1.0, ("last", 2): 0.0}
    played = sum(int(row["trajectories"]) for row in rows if row["hints"])
    assert len(under) == played > 0

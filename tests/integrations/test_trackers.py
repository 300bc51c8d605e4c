"""Trackers: which figures go out, resumed runs, failures that stop nothing, missing packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.config import RunConfig, load_config
from rods.errors import ConfigError, PrerequisiteError
from rods.integrations import trackers
from rods.integrations.trackers import TRACKERS, figures_of, packages_of, shown, tracking
from rods.store import RunDirectory

STEP: dict[str, Any] = {
    "kind": "step", "step": 3, "reward_mean": 0.5, "stage": "all", "regions": {"hard": 2},
    "ok": True, "none": None,
}  # fmt: skip
EVAL: dict[str, Any] = {
    "kind": "eval", "step": 4, "when": "after",
    "rows": [
        {"set": "original", "greedy_progress": [0.25], "progress": [0.0, 1.0], "invalid": 1},
        {"set": "original", "greedy_progress": [0.75], "progress": [], "invalid": 0},
        {"set": "variant", "greedy_progress": [1.0], "solved": [True, False], "task_id": "a"},
    ],
}  # fmt: skip


def run_in(folder: Path, *names: str) -> RunDirectory:
    folder.mkdir()
    config = load_config("rods", "small", [f"track.names={list(names)}"])
    return RunDirectory.create(folder, config)


def test_all_numbers_of_a_record_go_out() -> None:
    """Rows of an evaluation hold a list of samples for each number."""
    assert figures_of(STEP) == {"step/reward_mean": 0.5, "step/regions/hard": 2.0, "step/ok": 1.0}
    assert figures_of(EVAL) == {
        "eval/original/greedy_progress": 0.5,
        "eval/original/progress": 0.5,
        "eval/original/invalid": 0.5,
        "eval/variant/greedy_progress": 1.0,
        "eval/variant/solved": 0.5,
    }


class Calls:
    """Stands for a package: notes what is called, with which words."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []
        self.id = "x7"
        self.info = SimpleNamespace(run_id="x7")

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **words: Any) -> Calls:
            self.made.append((name, words or args))
            return self

        return call

    def named(self, name: str) -> list[Any]:
        return [what for called, what in self.made if called == name]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Calls:
    fake = Calls()
    for module, _ in TRACKERS.values():
        monkeypatch.setitem(sys.modules, module, fake)
    return fake


def test_none_by_default(tmp_path: Path, package: Calls) -> None:
    assert RunConfig().track.names == ()
    run = run_in(tmp_path / "run")
    with tracking(run, print):
        run.log(STEP)
    assert package.made == [] and "trackers" not in run.manifest


def test_weights_and_biases_goes_on_under_its_own_run(tmp_path: Path, package: Calls) -> None:
    run = run_in(tmp_path / "run", "wandb")
    with tracking(run, print):
        run.log(STEP)
    (first,) = package.named("init")
    assert (first["project"], first["name"], first["id"]) == ("rods", "run", None)
    assert first["config"]["track"]["names"] == ["wandb"]
    assert package.named("log") == [({**figures_of(STEP), "update": 3},)]
    assert package.named("finish") == [()]
    assert run.manifest["trackers"] == {"wandb": {"id": "x7", "failures": 0}}
    with tracking(RunDirectory.open(tmp_path / "run"), print):
        pass
    assert (package.named("init")[1]["id"], package.named("init")[1]["resume"]) == ("x7", "allow")


def test_mlflow_and_trackio(tmp_path: Path, package: Calls) -> None:
    run = run_in(tmp_path / "run", "mlflow", "trackio")
    with tracking(run, print):
        run.log(EVAL)
    with tracking(RunDirectory.open(tmp_path / "run"), print):
        pass
    starts = package.named("start_run")
    assert [s["run_id"] for s in starts] == [None, "x7"]
    assert package.named("log_metrics") == [{"step": 4}]
    assert [(s["name"], s["resume"]) for s in package.named("init")] == [("run", "allow")] * 2
    assert package.named("log") == [{"step": 4}] and len(package.named("end_run")) == 2


def test_a_tracker_that_fails_stops_nothing(
    tmp_path: Path, package: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        id = "b"

        def __init__(self, *_: Any) -> None:
            pass

        def log(self, figures: Any, step: int) -> None:
            raise OSError("no route")

        close = __init__

    monkeypatch.setitem(trackers.TRACKERS, "mlflow", ("mlflow", Broken))
    run = run_in(tmp_path / "run", "mlflow", "wandb")
    said: list[str] = []
    with tracking(run, said.append):
        run.log(STEP)
        run.log(EVAL)
    assert len(said) == 1 and "tracker mlflow failed (OSError: no route)" in said[0]
    assert len(package.named("log")) == 2, "the other one has everything"
    assert RunDirectory.open(tmp_path / "run").manifest["trackers"] == {
        "mlflow": {"id": "b", "failures": 2},
        "wandb": {"id": "x7", "failures": 0},
    }


def test_a_tracker_that_does_not_start_stops_nothing(
    tmp_path: Path, package: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("no account")

    monkeypatch.setattr(package, "init", fail, raising=False)
    run = run_in(tmp_path / "run", "wandb")
    said: list[str] = []
    with tracking(run, said.append):
        run.log(STEP)
    assert len(said) == 1 and len(run.metrics()) == 1
    assert run.manifest["trackers"] == {"wandb": {"id": "", "failures": 2}}


def test_an_error_of_training_is_not_swallowed(tmp_path: Path, package: Calls) -> None:
    run = run_in(tmp_path / "run", "wandb")
    with pytest.raises(RuntimeError, match="mine"), tracking(run, print):
        raise RuntimeError("mine")
    assert package.named("finish") == [()] and run.watchers == []


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_names_the_line_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, TRACKERS[name][0], None)
    with pytest.raises(PrerequisiteError, match=rf"pip install .*\[{name}\]"):
        packages_of([name])


def test_a_wrong_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tensorboard'"):
        packages_of(["tensorbord"])


@pytest.mark.slow
def test_tensorboard_itself(tmp_path: Path) -> None:
    """Two parts of a resumed run in one folder; what is made again replaces what was cut."""
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = run_in(tmp_path / "run", "tensorboard")
    with tracking(run, print):
        for step in (1, 2, 3):
            run.log({"kind": "step", "step": step, "reward_mean": step / 10})
            if step == 2:
                with run.checkpoint(2):
                    pass
    again = RunDirectory.open(tmp_path / "run")
    with tracking(again, print):
        again.log({"kind": "step", "step": 3, "reward_mean": 0.9})
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [(e.step, round(e.value, 3)) for e in events.Scalars("step/reward_mean")]
    assert found == [(1, 0.1), (2, 0.2), (3, 0.9)]


def test_logins_and_secrets_are_masked() -> None:
    changes = [
        'engine.vllm.options={"api-key" = "s3cret", "dtype" = "auto"}',
        'synthesis.llm.url="https://me:s3cret@chat.example/v1"',
        "env.name=mcp",
        """env.mcp.command="API_KEY='s3cret' server --token s3cret --db-password=s3cret -v" """,
    ]
    config = load_config("rods", "small", changes)
    public = shown(config)
    assert "s3cret" not in str(public)
    assert public["engine"]["vllm"]["options"] == {"api-key": "***", "dtype": "auto"}
    assert public["synthesis"]["llm"]["url"] == "https://***@chat.example/v1"
    assert public["env"]["mcp"]["command"] == (
        "API_KEY=*** server --token *** --db-password=*** -v"
    )
    plain = load_config("rods", "small", [])
    kept = {**plain.model_dump(mode="json"), "env": None}
    assert {**shown(plain), "env": None} == kept, "nothing else is changed"

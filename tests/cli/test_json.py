"""`--json`: every verb that prints results prints one JSON document and nothing else."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from report_runs import write_run
from rods.cli import main as program
from rods.envs.bfcl.tasks import load_tasks
from rods.task import write_tasks
from sweeps import slow
from verbs import rods

GRID = """
profile = "small"
seeds = [0]
baseline = "fixed"
[arms.fixed]
curriculum = "static"
[arms.rods]
"""
TINY = (
    "--updates 1 --env.train_tasks 4 --rollout.k 2 --rollout.tasks_per_step 2 "
    "--rollout.generated_tokens 96 --rollout.step_tokens 48 --evaluation.tasks 2 "
    "--evaluation.variants 0 --evaluation.samples 0 --model.threads 1 --curriculum static"
)
CASES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "settings": ("train.lr", lambda found: found[0]["key"] == "train.lr"),
    "recipes": ("torl", lambda found: found["name"] == "torl"),
    "doctor": ("", lambda found: found["packages"]["core"]["numpy"]),
    "init": ("agent", lambda found: "recipe.toml" in found["files"]),
    "check": ("--tasks tasks.jsonl", lambda found: found["tasks"] == 6),
    "convert": (
        "--tasks tasks.jsonl --out rows.parquet --format verl",
        lambda found: found["tasks"] == 6 and Path(found["out"]).is_file(),
    ),
    "inspect": ("--structure tasks.jsonl", lambda found: len(found) == 5 and found[0]["calls"]),
    "observe": ("log.jsonl", lambda found: found["counts"] == {"boundary": 1, "hard": 1}),
    "report": ("runs/rods-0", lambda found: found["results"][0]["difference"]["mean"] > 0),
    "compare": (
        "runs/fixed-0 runs/rods-0 --page page.html",
        lambda found: found["arms"][1]["results"][0]["against"]["mean"] > 0,
    ),
    "experiment": (
        "grid.toml --show --out runs",
        lambda found: [arm["seeds"] for arm in found["arms"]] == [[0], [0]],
    ),
    "demonstrate": (
        "--dialect torl --families add --difficulties 1 --n 2 --out two.jsonl",
        lambda found: found["demonstrations"] == 2,
    ),
}
SLOW: dict[str, tuple[str, Callable[[Any], object]]] = {
    "sft": (
        "two.jsonl --model tiny-math --out cold --updates 1 --model.threads 1",
        lambda found: found["updates"] == 1 and found["loss"] > 0,
    ),
    "synth": (
        "--tasks tasks.jsonl --n 1 --out made.jsonl --profile small --writer resample",
        lambda found: found["variants"] == 1 <= found["candidates"],
    ),
    "train": (
        f"--out run {TINY}",
        lambda found: found["run"] == "run" and found["updates"] == 1 and found["results"],
    ),
    "eval": (
        "--evaluation.tasks 2 --evaluation.variants 0 --evaluation.samples 0 --model.threads 1",
        lambda found: len(found) == 2,
    ),
    "trl": ("--dry-run --profile small", lambda found: found["TRL"]["num_generations"] == 8),
    "verl": (
        "--dry-run --profile small",
        lambda found: "actor_rollout_ref.rollout.n" in found["verl"] or found["verl"]["trainer"],
    ),
    "export": ("tiny --out folder", lambda found: "config.json" in found["files"]),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with what the verbs read."""
    monkeypatch.chdir(tmp_path)
    tasks = [task for task in load_tasks() if task.category == "base"]
    write_tasks(tmp_path / "tasks.jsonl", random.Random(1).sample(tasks, 6))
    rewards = [("a", 0.0), ("a", 1.0), ("b", 0.0), ("b", 0.0)]
    rows = [json.dumps({"task_id": task, "reward": reward}) for task, reward in rewards]
    (tmp_path / "log.jsonl").write_text("\n".join(rows))
    (tmp_path / "grid.toml").write_text(GRID)
    for name, curriculum in (("fixed-0", "static"), ("rods-0", "rods")):
        write_run(tmp_path / "runs" / name, 0, 12, curriculum=curriculum)
    return tmp_path


@pytest.mark.usefixtures("place", "worker_thread")
@pytest.mark.parametrize("verb", [*CASES, *slow(*SLOW)])
def test_a_verb_prints_one_document(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, holds = (CASES | SLOW)[verb]
    if verb == "sft":
        first = shlex.split(CASES["demonstrate"][0])
        assert rods("demonstrate", *first, monkeypatch=monkeypatch) == 0
        assert not capsys.readouterr().out
    status = rods(verb, *shlex.split(words), "--json", monkeypatch=monkeypatch)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert holds(json.loads(printed.out)), printed.out
    if verb == "train":  # what comes next
        for step in ("open the report", "rods view run", "rods eval run", "rods export run --out"):
            assert step in printed.err, step


@pytest.mark.usefixtures("place")
def test_a_dry_run_of_an_experiment_lists_arms_and_checks_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "grid.toml", "--dry-run", "--out", "other"]
    assert rods(*words, "--json", monkeypatch=monkeypatch) == 0
    arms = json.loads(capsys.readouterr().out)
    assert [(arm["arm"], arm["runs"], arm["finished"]) for arm in arms] == [
        ("fixed", 1, 0),
        ("rods", 1, 0),
    ]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert "2 of 2 runs are missing" in capsys.readouterr().out
    assert rods(*words, "--updates", "-1", monkeypatch=monkeypatch) == 2
    assert not Path("other").exists()


def test_every_verb_with_results_is_tried() -> None:
    served = {"chat", "view", "serve-env"}
    assert CASES.keys() | SLOW.keys() | served == program._VERBS.keys()
    named = {n for n, verb in program._VERBS.items() if "as_json" in signature(verb).parameters}
    assert named == CASES.keys() | SLOW.keys()


@pytest.mark.slow
def test_what_an_environment_prints_is_no_result(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("init", "agent", monkeypatch=monkeypatch) == 0
    tools = place / "agent" / "tools.py"
    with tools.open("a", encoding="utf-8") as file:
        file.write("\nprint(1 + 1)\n")
    monkeypatch.chdir(place / "agent")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert rods("check", "--recipe", "recipe.toml", "--json", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["tasks"] == 8 and "2\n" in printed.err


@pytest.mark.slow
def test_a_number_that_is_none_is_null(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run without evaluations has no results, and JSON knows no NaN."""
    shutil.rmtree(place / "runs" / "rods-0")
    write_run(place / "runs" / "rods-0", after=False)
    assert rods("report", "runs/rods-0", "--json", monkeypatch=monkeypatch) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["seconds"] is None and found["finished"] is False

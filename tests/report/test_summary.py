"""Summaries: read back they give what their runs give; a damaged one is refused by its line."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from places import ROOT
from report_runs import write_run
from rods.errors import StoreError
from rods.evaluation.grid import Grid, load_grid
from rods.report.compare import compare_runs
from rods.report.experiment import Experiment
from rods.report.run_data import RunData, load_run
from rods.report.summary import runs_at

GRID = """
profile = "quick"
seeds = [0, 1, 2]
baseline = "fixed"

[arms.fixed]
curriculum = "static"

[arms.rods]
curriculum = "rods"
"""


@pytest.fixture
def summarize(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    yield importlib.import_module("summarize")
    del sys.modules["summarize"]


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    (tmp_path / "small.toml").write_text(GRID)
    return load_grid(str(tmp_path / "small.toml"))


@pytest.fixture
def runs(tmp_path: Path, grid: Grid) -> Path:
    """All runs but one are finished."""
    for cell in grid.cells:
        kind = "static" if cell.arm.name == "fixed" else "rods"
        done = cell.name != "rods-2"
        write_run(tmp_path / "runs" / cell.name, cell.seed, 6, done, kind)
    return tmp_path / "runs"


@pytest.fixture
def summaries(runs: Path, tmp_path: Path, summarize: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "summaries"
    monkeypatch.setattr(sys, "argv", ["summarize.py", str(runs), str(folder)])
    summarize.main()
    return folder


def shown(found: Experiment) -> str:
    out = io.StringIO()
    Console(width=100, file=out).print(found.table(), *found.notes)
    return out.getvalue()


def facts(run: RunData) -> tuple[Any, ...]:
    """What tables are made of."""
    judgements = [
        (step, j.task_id, j.origin, j.rbar, j.region, j.first_visit) for step, j in run.judgements
    ]
    epochs = [(e.epoch, e.stage, e.step, e.originals, e.generated, e.retired) for e in run.epochs]
    counts = (run.made, run.injected, run.retired, run.seconds)
    return (run.name, run.manifest, run.evaluations, judgements, run.notes, epochs, counts)


@pytest.mark.slow
def test_summaries_give_the_table_of_their_runs(grid: Grid, runs: Path, summaries: Path) -> None:
    assert sorted(p.name for p in summaries.iterdir()) == ["fixed.jsonl", "rods.jsonl"]
    assert shown(Experiment.of(grid, summaries)) == shown(Experiment.of(grid, runs))
    assert "rods-2" in shown(Experiment.of(grid, summaries)), "not finished, so left out"
    size = sum(path.stat().st_size for path in summaries.iterdir())
    assert size < sum(path.stat().st_size for path in runs.rglob("*.*")) / 4


@pytest.mark.slow
def test_summaries_and_run_folders_may_stand_beside_each_other(
    grid: Grid, runs: Path, summaries: Path
) -> None:
    whole = shown(Experiment.of(grid, runs))
    (runs / "fixed-1").rename(runs.parent / "gone")
    (summaries / "fixed.jsonl").rename(runs / "fixed.jsonl")
    assert shown(Experiment.of(grid, runs)) == whole


@pytest.mark.parametrize("arm", ["fixed", "rods"])
def test_a_run_read_back_is_the_run(arm: str, runs: Path, summaries: Path) -> None:
    for back in runs_at(summaries / f"{arm}.jsonl"):
        run = load_run(runs / back.name)
        assert facts(back) == facts(run)
        assert [s.regions for s in back.steps] == [
            {name: n for name, n in s.regions.items() if n} for s in run.steps
        ]
        assert [j.variance for _, j in back.judgements] == [j.variance for _, j in run.judgements]
        assert all(
            value == full.numbers[name]
            for step, full in zip(back.steps, run.steps, strict=True)
            for name, value in step.numbers.items()
        )


def test_rewards_of_0_and_1_need_no_variance(runs: Path, tmp_path: Path, summarize: Any) -> None:
    path = runs / "rods-0" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for judged in (j for line in lines for j in line.get("judgements", ())):
        judged["variance"] = judged["rbar"] * (1 - judged["rbar"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run, out = load_run(runs / "rods-0"), tmp_path / "one.jsonl"
    summarize.write_summary(out, [run])
    assert '"variance"' not in out.read_text()
    (back,) = runs_at(out)
    assert [j.variance for _, j in back.judgements] == [j.variance for _, j in run.judgements]


@pytest.mark.slow
def test_a_comparison_takes_summaries(runs: Path, summaries: Path) -> None:
    compared = compare_runs([summaries / "fixed.jsonl", summaries / "rods.jsonl"])
    names = [run.name for arm in compared.arms for run in arm.runs.values()]
    folders = compare_runs([runs / name for name in names])
    assert names == [
        "fixed-0",
        "fixed-1",
        "fixed-2",
        "rods-0",
        "rods-1",
    ]
    assert compared.notes == folders.notes
    for mine, theirs in zip(compared.arms, folders.arms, strict=True):
        assert (mine.cells, mine.overrides, mine.budget) == (
            theirs.cells, theirs.overrides, theirs.budget,
        )  # fmt: skip


def test_a_summary_names_no_folder_of_the_machine(
    runs: Path, tmp_path: Path, summarize: Any
) -> None:
    path = runs / "rods-0" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["command"] = f"rods train --out {tmp_path}/deep/rods-0 --model.name={tmp_path}/mine"
    manifest["config"]["static"] = {"variants": [f"{tmp_path}/v.jsonl"], "url": "http://a.b/c/d"}
    path.write_text(json.dumps(manifest))
    summarize.write_summary(tmp_path / "one.jsonl", [load_run(runs / "rods-0")])
    (back,) = runs_at(tmp_path / "one.jsonl")
    assert back.manifest["command"] == "rods train --out rods-0 --model.name=mine"
    assert back.setting("static") == {"variants": ["v.jsonl"], "url": "http://a.b/c/d"}


def cut_mid_line(text: str) -> str:
    return text[:-200]


def cut_after_a_line(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


def lose_a_column(text: str) -> str:
    return text.replace('"variance":', '"other":', 1).replace('"rbar":', '"mean":', 1)


def shorten_a_column(text: str) -> str:
    return text.replace('"rbar":[', '"rbar":[0.5,', 1)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (cut_mid_line, 4),
        (cut_after_a_line, 3),
        (lose_a_column, 2),
        (shorten_a_column, 2),
        (lambda text: "", 1),
        (lambda text: "[]\n", 1),
        (lambda text: text.replace('"format":1', '"format":9'), 1),
    ],
)
def test_a_damaged_summary_is_refused(
    damage: Callable[[str], str], line: int, summaries: Path, grid: Grid
) -> None:
    path = summaries / "fixed.jsonl"
    path.write_text(damage(path.read_text()))
    for read in (lambda: runs_at(path), lambda: Experiment.of(grid, summaries)):
        with pytest.raises(StoreError, match=rf"fixed\.jsonl, line {line}: .*cut short or damaged"):
            read()


def test_a_missing_summary_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.jsonl: there is no such file"):
        runs_at(tmp_path / "none.jsonl")


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*/*.jsonl")), ids=str)
def test_the_kept_summaries_can_be_read(path: Path) -> None:
    runs = runs_at(path)
    assert runs and all(run.steps and run.evaluation("after") and not run.notes for run in runs)


def test_the_kept_summaries_stay_small() -> None:
    kept = [path for path in (ROOT / "experiments").rglob("*") if path.is_file()]
    data = [path for path in kept if path.suffix in (".json", ".jsonl")]
    assert len(data) > 20 and sum(path.stat().st_size for path in data) < 5_000_000


def test_a_checkout_stays_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    files = [path for name in listed.stdout.split("\0")[:-1] if (path := ROOT / name).is_file()]
    sizes = {str(path): path.stat().st_size for path in files}
    assert len(sizes) > 500 and sum(sizes.values()) <= 35_000_000
    assert {name: size for name, size in sizes.items() if size > 10_000_000} == {}

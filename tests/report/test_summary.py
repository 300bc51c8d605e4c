"""Summaries: read back they give what their runs give; a damaged one is refused."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from rods.report.heldout import missed
from rods.report.panels import facts as tiles
from rods.report.run_data import EpochRow, JudgedGroup, Made, RunData, StepRow, load_run
from rods.report.summary import runs_at

GRID = """
profile = "small"
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
    counts = (run.made, run.injected, run.retired, run.seconds)
    return (run.name, run.manifest, run.evaluations, run.judgements, run.notes, run.epochs, counts)


@pytest.mark.slow
def test_summaries_give_the_table_of_their_runs(grid: Grid, runs: Path, summaries: Path) -> None:
    assert sorted(p.name for p in summaries.iterdir()) == ["fixed.jsonl.gz", "rods.jsonl.gz"]
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
    (summaries / "fixed.jsonl.gz").rename(runs / "fixed.jsonl.gz")
    assert shown(Experiment.of(grid, runs)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["fixed", "rods"])
def test_a_run_read_back_is_the_run(arm: str, runs: Path, summaries: Path) -> None:
    for back in runs_at(summaries / f"{arm}.jsonl.gz"):
        run = load_run(runs / back.name)
        assert facts(back) == facts(run)
        assert [s.regions for s in back.steps] == [s.regions for s in run.steps]
        assert all(
            value == full.numbers[name]
            for step, full in zip(back.steps, run.steps, strict=True)
            for name, value in step.numbers.items()
        )


@pytest.mark.slow
def test_a_comparison_takes_summaries(runs: Path, summaries: Path) -> None:
    compared = compare_runs([summaries / "fixed.jsonl.gz", summaries / "rods.jsonl.gz"])
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
        assert (mine.rows, mine.overrides, mine.budget) == (
            theirs.rows, theirs.overrides, theirs.budget,
        )  # fmt: skip


def test_a_summary_names_no_folder_of_the_machine(
    runs: Path, tmp_path: Path, summarize: Any
) -> None:
    path = runs / "rods-0" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["command"] = f"rods train --out {tmp_path}/deep/rods-0 --model.name={tmp_path}/mine"
    manifest["config"]["static"] = {"variants": [f"{tmp_path}/v.jsonl"], "url": "http://a.b/c/d"}
    path.write_text(json.dumps(manifest))
    summarize.write_summary(tmp_path / "one.jsonl.gz", [load_run(runs / "rods-0")])
    (back,) = runs_at(tmp_path / "one.jsonl.gz")
    assert back.manifest["command"] == "rods train --out rods-0 --model.name=mine"
    assert back.setting("static") == {"variants": ["v.jsonl"], "url": "http://a.b/c/d"}


def changed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Damage that the checksum of gzip does not show."""
    return lambda data: gzip.compress(gzip.decompress(data).replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-4],
        lambda data: data[:100] + b"x" + data[101:],
        lambda data: gzip.decompress(data),
        lambda data: gzip.compress(b""),
        lambda data: gzip.compress(b"[]\n"),
        changed(b'"rbar":', b'"mean":'),
        changed(b'"step":', b'"step":"x'),
    ],
    ids=["cut", "byte", "plain", "none", "list", "field", "json"],
)
def test_a_damaged_summary_is_refused(
    damage: Callable[[bytes], bytes], summaries: Path, grid: Grid
) -> None:
    path = summaries / "fixed.jsonl.gz"
    path.write_bytes(damage(path.read_bytes()))
    for read in (lambda: runs_at(path), lambda: Experiment.of(grid, summaries)):
        with pytest.raises(StoreError, match=r"fixed\.jsonl\.gz: .*cut short or damaged"):
            read()


def test_a_missing_summary_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.jsonl\.gz: reading it failed: No such file"):
        runs_at(tmp_path / "none.jsonl.gz")


@pytest.mark.slow
def test_the_kept_summaries_can_be_read() -> None:
    """One of each folder: an experiment's were written by one version."""
    kept = {path.parent: path for path in sorted((ROOT / "experiments").rglob("*.jsonl.gz"))}
    assert len(kept) > 5
    for path in kept.values():
        runs = runs_at(path)
        whole = [run.steps and run.evaluation("after") and not run.notes for run in runs]
        assert whole and all(whole), path


def test_the_kept_summaries_stay_small() -> None:
    kept = [path for path in (ROOT / "experiments").rglob("*") if path.is_file()]
    data = [path for path in kept if path.suffix in (".json", ".gz")]
    assert len(data) > 20 and sum(path.stat().st_size for path in data) < 5_000_000


@pytest.mark.parametrize(
    ("stage", "region", "curriculum", "said"),
    [
        ("all", "hard", "rods", "(0.2 to 0.85), mean progress 0.05. A weak model"),
        ("all", "boundary", "rods", "training ended in the first epoch of the stage all (rods"),
        ("format", "hard", "rods", "training ended before the stage all (rods train --dry-run"),
        ("all", "hard", "static", ""),
    ],
)
def test_a_run_without_variants_states_why(
    stage: str, region: str, curriculum: str, said: str
) -> None:
    config = {
        "curriculum": curriculum,
        "boundary": {"low": 0.2, "high": 0.85},
        "stages": [{"name": "format", "expand": False}, {"name": "all", "expand": True}],
    }
    judged = JudgedGroup(task_id="a", rbar=0.05, variance=0.01, region=region)
    step = StepRow(step=0, numbers={}, stage=stage, judgements=(judged,))
    found = tiles(RunData(Path("run"), {"config": config}, (step,)))
    details = [tile.detail for tile in found if tile.label == "variants"]
    assert len(details) == bool(said)
    assert all(said in text for text in details)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"made": Made(tried=9, accepted=2)}, "accepted candidates: 2; none entered"),
        ({"epoch": 3}, "the synthesis worker tried no candidate"),
    ],
)
def test_a_run_whose_variants_did_not_enter_states_it(more: dict[str, Any], said: str) -> None:
    config: Any = {"curriculum": "rods", "stages": [{"name": "all", "expand": True}]}
    judged = JudgedGroup(task_id="a", rbar=0.5, variance=0.1, region="boundary")
    first = StepRow(step=0, numbers={}, stage="all", judgements=(judged,))
    run = RunData(Path("run"), {"config": config}, (first, replace(first, step=1, **more)))
    assert said in missed(run)
    entered = EpochRow(epoch=1, injected=1)
    assert not missed(replace(run, epochs=(entered,)))

"""Arms of `rods compare`: several runs of each, with intervals over scenarios and over seeds."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from report_runs import write_run
from rods.errors import StoreError
from rods.report.compare import compare_runs
from rods.report.heldout import TaskSubset
from verbs import rods


def evaluation(path: Path, values: list[float]) -> str:
    """A file of evaluations with a task in each scenario."""
    rows = [
        {"set": "original", "task_id": f"t{i}", "scenario": f"s{i}", "category": "base"}
        | {key: [value] for key in ("greedy_progress", "progress", "greedy_solved", "solved")}
        for i, value in enumerate(values)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def test_an_arm_has_an_interval_over_scenarios_and_one_over_seeds(tmp_path: Path) -> None:
    evaluation(tmp_path / "a0.json", [0.0, 0.5])
    evaluation(tmp_path / "a1.json", [0.0, 0.5])
    plus = [
        evaluation(tmp_path / "b0.json", [0.2, 0.7]),
        evaluation(tmp_path / "b1.json", [0.4, 0.9]),
    ]
    found = compare_runs([f"base={tmp_path}/a?.json", f"plus={','.join(plus)}"])
    assert [arm.name for arm in found.arms] == ["base", "plus"] and found.baseline == "base"
    against = found.arms[1].cell(TaskSubset("original"), "progress").against
    assert against is not None and (against.n, against.clusters) == (2, 2)
    assert (against.mean, against.half_width) == pytest.approx((0.3, 0.0))
    over = found.arms[1].over_seeds("progress")
    assert over is not None and over.n == 2
    assert (over.mean, over.half_width) == pytest.approx((0.3, 12.7062 * 0.1), abs=1e-5)
    assert found.arms[1].by_seed["progress"] == pytest.approx((0.2, 0.4))
    assert any("paired by order: a0.json with b0.json, a1" in note for note in found.notes)


def test_one_run_stands_against_each_of_an_arm(tmp_path: Path) -> None:
    start = evaluation(tmp_path / "start.json", [0.0, 0.5, 1.0])
    runs = [
        evaluation(tmp_path / "r0.json", [0.2, 0.7]),
        evaluation(tmp_path / "r1.json", [0.0, 0.5]),
    ]
    found = compare_runs([f"start={start}", f"rods={','.join(runs)}"])
    assert found.arms[1].by_seed["progress"] == pytest.approx((0.2, 0.0))
    assert any("start and rods have 2 of 3 evaluated tasks" in note for note in found.notes)


def test_runs_are_paired_by_seed_and_not_by_order(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / f"a-{seed}", seed=seed, after=True)
        write_run(tmp_path / f"b-{1 - seed}", seed=seed, steps=20 + seed)
    found = compare_runs([f"a={tmp_path}/a-*", f"b={tmp_path}/b-*"])
    for arm in found.arms:
        assert [run.manifest["seed"] for run in arm.runs.values()] == [*arm.runs]
    assert {len(arm.runs) for arm in found.arms} == {2}
    assert not any("seed differs" in note or "by order" in note for note in found.notes)


def test_arms_that_cannot_be_paired_and_runs_that_differ_are_named(tmp_path: Path) -> None:
    files = [evaluation(tmp_path / f"{i}.json", [0.0, 1.0]) for i in range(5)]
    with pytest.raises(StoreError, match=r"expected as many runs of each, got .'a': 3, 'b': 2"):
        compare_runs([f"a={','.join(files[:3])}", f"b={','.join(files[3:])}"])
    with pytest.raises(StoreError, match="expected as many runs of each"):
        compare_runs([f"a={','.join(files[:3])}", f"b={files[3]}"])  # one that is no baseline
    with pytest.raises(StoreError, match="two arms are named 'a'"):
        compare_runs([f"a={files[0]}", f"a={files[1]}", f"b={files[2]}"])
    with pytest.raises(StoreError, match="two runs or more"):
        compare_runs([f"a={','.join(files)}"])
    for seed, curriculum in enumerate(("static", "rods")):
        write_run(tmp_path / f"m-{seed}", seed=seed, curriculum=curriculum)
    found = compare_runs([f"mixed={tmp_path}/m-*", f"same={tmp_path}/m-0,{tmp_path}/m-1"])
    assert "mixed: its runs differ in curriculum." in found.notes
    manifest = tmp_path / "m-1" / "manifest.json"
    other = json.loads(manifest.read_text(encoding="utf-8"))
    other["config"]["env"]["later"] = 1  # of another version
    manifest.write_text(json.dumps(other), encoding="utf-8")
    found = compare_runs([f"mixed={tmp_path}/m-*", f"same={tmp_path}/m-0,{tmp_path}/m-1"])
    assert "mixed: its runs differ in curriculum." in found.notes


@pytest.mark.parametrize("ids", ["ab", "bc", "cd"])
def test_a_comparison_without_a_common_task_ends_with_status_1(
    ids: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, tasks in (("one", "ab"), ("other", ids)):
        rows = [{"task_id": i, "progress": [0.5]} for i in tasks]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    words = [str(tmp_path / f"{name}.json") for name in ("one", "other")]
    assert rods("compare", *words, monkeypatch=monkeypatch) == (ids == "cd")
    said = " ".join(capsys.readouterr().err.split())
    assert ("have no evaluated task in common, so there is no difference" in said) == (ids == "cd")


def test_counts_of_tasks_that_differ_are_a_range(tmp_path: Path) -> None:
    paths: list[str | Path] = []
    for name, count in (("one", 8), ("other", 32)):
        rows = [{"task_id": f"t{i}", "progress": [i % 2]} for i in range(count)]
        paths.append(tmp_path / f"{name}.json")
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    shown = Console(width=80, record=True, file=io.StringIO())
    shown.print(compare_runs(paths).table())
    assert "Held-out original tasks (8 to 32 tasks)" in " ".join(shown.export_text().split())

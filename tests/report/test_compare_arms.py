"""Arms of `rods compare`: several runs of each, with intervals over scenarios and over seeds."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from report_runs import write_run
from rods.errors import StoreError
from rods.evaluation.stats import Interval
from rods.report.compare import compare_runs
from rods.report.heldout import TaskSubset
from rods.report.results import change
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
    over = found.arms[1].over_seeds(TaskSubset("original"), "progress")
    assert over is not None and over.n == 2
    assert (over.mean, over.half_width) == pytest.approx((0.3, 12.7062 * 0.1), abs=1e-5)
    assert found.arms[1].by_seed["original"]["progress"] == pytest.approx((0.2, 0.4))
    assert any("paired by order: a0.json with b0.json, a1" in note for note in found.notes)


def test_one_run_stands_against_each_of_an_arm(tmp_path: Path) -> None:
    start = evaluation(tmp_path / "start.json", [0.0, 0.5, 1.0])
    runs = [
        evaluation(tmp_path / "r0.json", [0.2, 0.7]),
        evaluation(tmp_path / "r1.json", [0.0, 0.5]),
    ]
    found = compare_runs([f"start={start}", f"rods={','.join(runs)}"])
    assert found.arms[1].by_seed["original"]["progress"] == pytest.approx((0.2, 0.0))
    assert any("start and rods have 2 of 3 evaluated tasks" in note for note in found.notes)
    one = "start is one run, so intervals over seeds cover no other seed of it."
    assert one in found.notes and len(found.arms[0].seeds) == 1


def without(path: Path, task: str, *metrics: str) -> None:
    """Take the values of a task from a file of evaluations: its trajectories are invalid."""
    rows = json.loads(path.read_text())
    for row in rows:
        if row["task_id"] == task:
            row |= {metric: [] for metric in metrics} | {"invalid": len(metrics)}
    path.write_text(json.dumps(rows))


def test_a_difference_by_seed_is_of_the_tasks_that_both_have_a_value_of(tmp_path: Path) -> None:
    """Both arms do the same; one of them lost its trajectories of the task that nobody solves."""
    values = [0.0, 0.5, 1.0]
    for name in ("a0", "a1", "b0", "b1"):
        evaluation(tmp_path / f"{name}.json", values)
    without(tmp_path / "b0.json", "t0", "greedy_progress", "progress")
    found = compare_runs([f"{name}={tmp_path}/{name}?.json" for name in "ab"])
    against = found.arms[1].cell(TaskSubset("original"), "progress").against
    assert against is not None and (against.mean, against.n) == (0.0, 2)
    assert found.arms[1].by_seed["original"]["progress"] == (0.0, 0.0)
    assert found.arms[1].ahead == "0 of 2"


def test_invalid_trajectories_of_an_evaluation_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        evaluation(tmp_path / f"{name}.json", [0.0, 0.5, 1.0])
    without(tmp_path / "b.json", "t0", "greedy_progress", "progress")
    words = [str(tmp_path / f"{name}.json") for name in "ab"]
    assert rods("compare", *words, monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "B: b.json: 2 invalid trajectories, counted in no value: infrastructure failed." in said
    assert said.count("invalid") == 1
    run = write_run(tmp_path / "run", steps=2)
    text = (run / "metrics.jsonl").read_text().replace('"set":', '"invalid": 1, "set":', 1)
    (run / "metrics.jsonl").write_text(text)
    assert rods("report", str(run), monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Evaluation before: 1 invalid trajectory, counted in no value" in said


def test_json_has_the_seeds_of_the_runs_and_no_ends_where_tables_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", 3), ("b", 5)):
        write_run(tmp_path / name, seed=seed, steps=2)
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert [arm["seeds"] for arm in json.loads(capsys.readouterr().out)["arms"]] == [[3], [5]]
    evaluation(tmp_path / "a.json", [0.0, 0.5, 0.25])
    evaluation(tmp_path / "b.json", [0.2, 0.7, 0.45])
    words = ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    base, other = json.loads(capsys.readouterr().out)["arms"]
    assert base["seeds"] == [None] and base["results"][0]["after"]["low"] < 0.1
    against = other["results"][0]["against"]
    assert against["mean"] == pytest.approx(0.2) and against["n"] == 3
    assert (against["low"], against["high"]) == (None, None), "all differences are equal"


def shown(paths: Sequence[str | Path]) -> str:
    """The tables of a comparison, without line breaks."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(compare_runs(paths).table())
    return " ".join(console.export_text().split())


def test_differences_by_seed_name_the_set_that_they_are_of(tmp_path: Path) -> None:
    """A baseline with variants, an arm that was evaluated on original tasks only."""
    for name, seed in (("base", 0), ("base", 1), ("plus", 0), ("plus", 1)):
        path = evaluation(
            tmp_path / f"{name}{seed}.json", [0.0, 0.5 + 0.1 * seed * (name == "plus")]
        )
        rows = json.loads(Path(path).read_text())
        variants = [row | {"set": "variant", "task_id": "v" + row["task_id"]} for row in rows]
        Path(path).write_text(json.dumps(rows + variants * (name == "base")))
    text = shown([f"{name}={tmp_path}/{name}?.json" for name in ("base", "plus")])
    by_seed = text.partition("seed by seed")[2].partition("Budgets")[0]
    assert "Held-out original tasks plus" in by_seed and "variants" not in by_seed


def test_two_seeds_that_differ_are_not_reported_as_alike(tmp_path: Path) -> None:
    for index, end in enumerate((0.5, 0.5, 0.5, 1.0)):
        evaluation(tmp_path / f"{'aabb'[index]}{index % 2}.json", [0.5, end])
    text = shown([f"{name}={tmp_path}/{name}?.json" for name in "ab"])
    assert "a 2 - - - - - -" in text, "files of `rods eval` hold no budgets"
    # 12.7 times half the distance: wider than all possible values, so none is shown.
    assert "b +0.125 +0.125" in text.partition("seed by seed")[2]
    assert "No ± is shown if there are too few seeds, or if all differences are equal." in text


def test_a_pattern_leaves_out_what_stands_beside_the_runs(tmp_path: Path) -> None:
    for arm in "ab":
        for seed in (0, 1):
            write_run(tmp_path / f"{arm}-{seed}", seed=seed)
            (tmp_path / f"{arm}-{seed}.log").touch()
            (tmp_path / f"{arm}-{seed}.variants.jsonl").touch()
            (tmp_path / f"{arm}-{seed}.variants.jsonl.synthesis").mkdir()
    found = compare_runs([f"a={tmp_path}/a-*", f"b={tmp_path}/b-*"])
    assert [len(arm.runs) for arm in found.arms] == [2, 2]
    with pytest.raises(StoreError, match=r"a-\*\.log: there is no run"):
        compare_runs([f"a={tmp_path}/a-*.log", f"b={tmp_path}/b-*"])


def test_a_run_that_made_no_variants_is_named(tmp_path: Path) -> None:
    for name, curriculum in (("fixed", "static"), ("rods", "rods")):
        path = write_run(tmp_path / name, curriculum=curriculum, steps=2)
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["config"]["stages"] = [{"name": "all", "epochs": 5, "expand": True}]
        (path / "manifest.json").write_text(json.dumps(manifest))
        kept = [
            row
            for row in (path / "metrics.jsonl").read_text().splitlines()
            if '"epoch"' not in row[:20]
        ]
        (path / "metrics.jsonl").write_text("\n".join(kept))
    notes = compare_runs([tmp_path / "fixed", tmp_path / "rods"]).notes
    assert [note for note in notes if "no variant entered the pool" in note], notes
    assert not any("fixed: no variant" in note for note in notes)


def test_arms_of_other_seeds_and_a_run_that_was_cut_are_named(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("a", 1), ("b", 1), ("b", 2)):
        write_run(tmp_path / f"{name}-{seed}", seed=seed, after=(name, seed) != ("b", 2))
    notes = compare_runs([f"{name}={tmp_path}/{name}-*" for name in "ab"]).notes
    assert any("the arms have different seeds: a 0, 1; b 1, 2. " in note for note in notes)
    assert not any("seed differs" in note for note in notes)
    assert any(note.startswith("b (b-2): There is no evaluation after training") for note in notes)


@pytest.mark.parametrize(
    ("mean", "text"), [(-1e-17, "+0.000"), (-0.0004, "+0.000"), (-0.0006, "-")]
)
def test_a_difference_of_nothing_has_no_minus(mean: float, text: str) -> None:
    assert change(Interval(mean, mean - 0.1, mean + 0.1, 3, 3)).plain.startswith(text)


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
    for arm in ("a=", f"={files[0]}", f"a={files[0]},"):
        with pytest.raises(StoreError, match="lacks a name or a path; expected NAME=PATH,PATH"):
            compare_runs([arm, f"b={files[2]}"])
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
    assert "Held-out original tasks (8 to 32 tasks)" in shown(paths)

"""`experiments/evaluations.py`: differences over scenarios and over seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from places import ROOT

SCRIPT = ROOT / "experiments" / "evaluations.py"


def written(path: Path, values: list[float]) -> str:
    """A file of evaluations with a task in each scenario."""
    rows = [
        {"task_id": f"t{i}", "scenario": f"s{i}"}
        | {key: [value] for key in ("greedy_progress", "progress", "greedy_solved", "solved")}
        for i, value in enumerate(values)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def printed(*words: str) -> str:
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_pairs_have_an_interval_over_scenarios_and_one_over_seeds(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a0.json", [0.0, 0.5]), written(tmp_path / "b0.json", [0.2, 0.7]),
        written(tmp_path / "a1.json", [0.0, 0.5]), written(tmp_path / "b1.json", [0.4, 0.9]),
    ]  # fmt: skip
    said = printed("--pairs", *files)
    assert "progress         0.250 to 0.450 0.650: +0.300 ± 0.000, 2 tasks, 2 scenarios" in said
    # Two seeds, one degree of freedom: 12.706 * 0.1.
    assert "± 1.271 over seeds (2: +0.200 +0.400)" in said


def test_runs_are_set_against_their_start_over_common_tasks(tmp_path: Path) -> None:
    start = written(tmp_path / "start.json", [0.0, 0.5, 1.0])
    said = printed(start, written(tmp_path / "run.json", [0.2, 0.7]))
    assert "2 of 3 tasks are in all files" in said and "over seeds" not in said
    assert "progress         0.250 to 0.450: +0.200 ± 0.000, 2 tasks" in said


def test_a_pair_without_its_other_half_is_refused(tmp_path: Path) -> None:
    assert "--pairs" in printed("--pairs", *[written(tmp_path / "a.json", [0.0, 1.0])] * 3)

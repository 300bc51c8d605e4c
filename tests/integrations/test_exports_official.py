"""A folder in the benchmark's format is read by the package's own loader and judged by its checker.

Both run in a process of their own, because the loader makes folders and the checker gives strings
to `eval`. They need none of the package's requirements but filelock and mpmath.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rods.envs.bfcl import assets
from rods.integrations.formats.exports import export
from rods.synthesis.structure.trace import all_tools
from rods.task import Task
from synthesis_cases import ENVIRONMENT, accepted, sides

SCRIPT = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from bfcl_eval import utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
utils.PROMPT_PATH = Path(sys.argv[2])
utils.POSSIBLE_ANSWER_PATH = utils.PROMPT_PATH / "possible_answer"
loaded = []
for name in sys.argv[3:]:
    entries = utils.load_dataset_entry(f"multi_turn_{name}")
    answers = utils.load_ground_truth_entry(f"multi_turn_{name}")
    assert len({utils.sort_key(entry) for entry in entries}) == len(entries)
    for entry, answer in zip(entries, answers, strict=True):
        assert entry["id"] == answer["id"] and utils.is_multi_turn(entry["id"])
        truth = answer["ground_truth"]
        steps = [[calls] for calls in truth]
        verdicts = [
            multi_turn_checker(s, truth, entry, f"multi_turn_{name}", f"rods{number}")["valid"]
            for number, s in enumerate((steps, [[[]] for _ in truth]))
        ]
        missed = entry.get("missed_function", {})
        loaded.append({
            "id": entry["id"],
            "question": entry["question"],
            "truth": truth,
            "config": entry["initial_config"],
            "functions": [doc["name"] for doc in entry["function"]],
            "missed": {turn: [doc["name"] for doc in docs] for turn, docs in missed.items()},
            "verdicts": verdicts,
        })
json.dump(loaded, sys.stdout)
"""


def loaded(folder: Path, scratch: Path, categories: list[str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", SCRIPT, str(assets.obtain()), str(folder), *categories]
    own = {**os.environ, "BFCL_PROJECT_ROOT": str(scratch)}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.slow
def test_the_packages_own_loader_reads_an_export(tmp_path: Path) -> None:
    tasks: list[Task] = [variant for _, variant in accepted()[:16]]
    tasks += [task for task in sides().train if task.provenance.origin.endswith(("_16", "_95"))][:6]
    export(tasks, tmp_path / "b", "bfcl", ENVIRONMENT)
    categories = sorted({task.category for task in tasks})
    assert len(categories) == 4
    found = loaded(tmp_path / "b", tmp_path, categories)
    written = sorted(tasks, key=lambda task: task.category)
    assert len(found) == len(written)
    for row, task in zip(found, written, strict=True):
        assert row["verdicts"] == [True, False], "the ground truth is right, doing nothing is not"
        assert [[m["content"] for m in turn] for turn in row["question"]] == [
            [turn.user] if turn.user.strip() else [] for turn in task.turns
        ]
        assert row["truth"] == [[str(call) for call in turn.ground_truth] for turn in task.turns]
        assert row["config"] == task.world["initial_config"]
        first = task.turns[0].withheld
        assert sorted(row["functions"]) == sorted(all_tools(ENVIRONMENT, task).keys() - {*first})
        assert sorted(n for names in row["missed"].values() for n in names) == sorted(first)

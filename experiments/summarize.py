"""Summaries of finished runs: what `experiments/` keeps of them, one file an arm.

    python experiments/summarize.py runs/bfcl experiments/bfcl

Reads every finished run folder of the first folder (`ARM-SEED`, as `rods experiment` names them)
and writes `ARM.jsonl` into the second. `src/rods/report/summary.py` has the format.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from rods.infra.files import write_atomic
from rods.report.run_data import (
    GREEDY,
    MANIFEST,
    SAMPLED,
    EvaluationPass,
    JudgedGroup,
    RunData,
    load_run,
)
from rods.report.summary import (
    EPOCH,
    FIGURES,
    FORMAT,
    LETTERS,
    STEP,
    SUFFIX,
    TASK,
    Table,
)

MADE = ("tried", "accepted", "rejected", "seconds")
FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s\"'/\\]+/)+")
"""Folders of an absolute path; they mean nothing on another machine."""


def write_summary(path: Path, runs: Sequence[RunData]) -> None:
    """Write the runs of one arm into one file. No number is rounded: that would shift ties."""
    manifests = [json.loads(FOLDERS.sub("", json.dumps(run.manifest))) for run in runs]
    shared = reduce(_common, manifests)
    held_out = (row for run in runs for found in run.evaluations for row in found.rows)
    tasks = list(dict.fromkeys(_values(row, TASK) for row in held_out))
    judged: dict[str, dict[str, None]] = {}
    for judgement in (j for run in runs for _, j in run.judgements):
        judged.setdefault(judgement.origin, {})[judgement.task_id] = None
    places = {t: n for n, t in enumerate((o, t) for o in sorted(judged) for t in judged[o])}
    head = {"format": FORMAT, "runs": [run.name for run in runs], "manifest": shared}
    lines: list[Table] = [
        head | {"tasks": tasks, "judged": {origin: [*ids] for origin, ids in judged.items()}}
    ]
    for run, manifest in zip(runs, manifests, strict=True):
        judgements = [j for _, j in run.judgements]
        line: Table = {
            "name": run.name,
            "manifest": _beyond(manifest, shared),
            "notes": run.notes,
            "synthesis": dict(zip(MADE, _values(run.made, MADE), strict=True)),
            "steps": _columns(run.steps, STEP) | _numbers([s.numbers for s in run.steps], FIGURES),
            "judgements": _judgements(judgements, places),
            "epochs": _columns(run.epochs, EPOCH),
            "evaluations": [_evaluation(found, tasks) for found in run.evaluations],
        }
        line["steps"]["groups"] = [len(row.judgements) for row in run.steps]
        lines.append(line)
    texts = [json.dumps(line, sort_keys=True, separators=(",", ":")) for line in lines]
    write_atomic(path, "\n".join([*texts, ""]))


def _judgements(judged: Sequence[JudgedGroup], places: Mapping[tuple[str, str], int]) -> Table:
    letters = {region: letter for letter, region in LETTERS.items()}
    columns = _columns(judged, ("rbar", "variance"))
    if all(math.isclose(j.variance, j.rbar * (1 - j.rbar), abs_tol=1e-9) for j in judged):
        del columns["variance"]
    columns["task"] = [places[j.origin, j.task_id] for j in judged]
    columns["region"] = "".join(letters[j.region] for j in judged)
    columns["first_visit"] = "".join(str(int(j.first_visit)) for j in judged)
    return columns


def _evaluation(found: EvaluationPass, tasks: Sequence[tuple[str, ...]]) -> Table:
    """Columns over all held-out tasks of the summary; None where one was not evaluated."""
    by_task = {_values(row, TASK): row for row in found.rows}
    rows = [by_task.get(task) for task in tasks]
    values = _numbers([row.values if row else {} for row in rows], (*SAMPLED, *GREEDY))
    samples = [row.samples if row else None for row in rows]
    same = samples[0] if len(set(samples)) == 1 else samples
    return {"when": found.when, "samples": same} | values


def _common(one: Table, other: Table) -> Table:
    """What two nested tables share."""
    both = {name: other[name] for name in one if name in other}
    tables = {k: _common(one[k], v) for k, v in both.items() if _nested(one[k], v)}
    return {k: v for k, v in both.items() if v == one[k]} | tables


def _beyond(whole: Table, shared: Table) -> Table:
    """What a nested table has beyond what it shares; `merge` puts both together again."""
    own = {k: v for k, v in whole.items() if k not in shared or v != shared[k]}
    return {k: _beyond(v, shared[k]) if _nested(v, shared.get(k)) else v for k, v in own.items()}


def _nested(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)


def _values(row: Any, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in names)


def _columns(rows: Sequence[Any], names: Sequence[str]) -> Table:
    return {name: [_short(getattr(row, name)) for row in rows] for name in names}


def _numbers(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Table:
    """Columns of those numbers that any row has."""
    kept = [name for name in names if any(name in row for row in rows)]
    return {name: [_short(row.get(name)) for row in rows] for name in kept}


def _short(value: Any) -> Any:
    """A whole number without its decimals; all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def main() -> None:
    parser = argparse.ArgumentParser(description="Summaries of finished runs, a file an arm.")
    parser.add_argument("runs", type=Path, help="folder of run folders")
    parser.add_argument("out", type=Path, help="folder of the summaries")
    given = parser.parse_args()
    arms: dict[str, list[RunData]] = {}
    for folder in sorted(path.parent for path in given.runs.glob(f"*/{MANIFEST}")):
        run = load_run(folder)
        if run.manifest.get("finished"):
            arms.setdefault(run.name.rpartition("-")[0], []).append(run)
    given.out.mkdir(parents=True, exist_ok=True)
    for arm, runs in arms.items():
        write_summary(given.out / f"{arm}{SUFFIX}", runs)
        print(f"{given.out / arm}{SUFFIX}: {', '.join(run.name for run in runs)}")


if __name__ == "__main__":
    main()

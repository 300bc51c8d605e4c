"""Summaries: the finished runs of one arm in one file, with what tables and intervals need.

Owns the format, JSON lines; `experiments/summarize.py` writes it. The first line holds what the
runs share: `runs` (their names), the common part of their manifests, `tasks` (held-out: `TASK`) and
`judged` (ids of judged tasks by origin). Each other line is a run: its own part of the manifest,
notes, totals of synthesis, `FIGURES` of each update, judgements, epochs, and the means by task of
each evaluation. Tables stand in columns, and a task as its place in the first line. Judgements have
a letter for each region and 1 for each first visit; without `variance` it is that of rewards of 0
and 1. `samples` is one number where all tasks have as many, and None where a task was left out.

    runs = runs_at(Path("experiments/bfcl/rods.jsonl"))
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rods.errors import StoreError
from rods.infra.dotted import merge
from rods.infra.files import text_of
from rods.report.run_data import (
    GREEDY,
    REGIONS,
    SAMPLED,
    EpochRow,
    EvalRow,
    EvaluationPass,
    JudgedGroup,
    Made,
    RunData,
    StepRow,
    evaluation_of,
    load_run,
)

Table: TypeAlias = dict[str, Any]
"""Nested tables, as JSON has them; columns are lists of one length."""
SUFFIX, EVALUATED, FORMAT = ".jsonl", ".json", 1
FIGURES = (
    *("reward_mean", "zero_variance", "entropy", "trajectories"),
    *("tokens_generated", "buffer.seed_emitted", "buffer.quota_filtered"),
)
"""What is kept of an update's numbers."""
TASK = ("task_id", "category", "set", "scenario", "writer")
STEP = ("step", "epoch", "stage")
EPOCH = ("epoch", "stage", "step", "originals", "generated", "injected", "deferred", "retired")
LETTERS = {name[:1] or "-": name for name in ("", *REGIONS)}
"""A letter for each region."""


def runs_at(path: Path) -> list[RunData]:
    """Read a run, the runs of a summary or what `rods eval --json` printed; else `StoreError`."""
    if path.is_dir() or path.suffix not in (SUFFIX, EVALUATED):
        return [load_run(path)]
    return read_summary(path) if path.suffix == SUFFIX else [_evaluation_at(path)]


def _evaluation_at(path: Path) -> RunData:
    try:
        found = evaluation_of("after", json.loads(text_of(path, "evaluations", StoreError)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = None
    if found is None or not any(row.values for row in found.rows):
        raise StoreError(f"{path}: expected the rows of `rods eval --json`, without --suite.")
    said = "an evaluation by rods eval: its settings, training and first evaluation are not known."
    return RunData(path, {}, evaluations=(found,), notes=(said,))


def read_summary(path: Path) -> list[RunData]:
    """Read all runs of a summary; raises `StoreError`, with the line, where it is damaged."""
    lines = text_of(path, "runs", StoreError).splitlines() or [""]
    head, number, runs = Table(), 0, list[RunData]()
    try:
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            if number > 1:
                runs.append(_run(path.parent / row["name"], row, head))
            elif (head := row)["format"] != FORMAT:
                raise ValueError(f"format {row['format']!r}, expected {FORMAT}")
        if [run.path.name for run in runs] != head["runs"]:
            raise ValueError(f"{len(runs)} runs until here, expected {', '.join(head['runs'])}")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path}, line {number}: the summary is cut short or damaged ({error!r}). Take it from "
            "version control again, or make it again from its runs."
        ) from error
    return runs


def _run(path: Path, line: Table, head: Table) -> RunData:
    manifest = deepcopy(head["manifest"])
    merge(manifest, line["manifest"])
    ids = [(origin, name) for origin, names in head["judged"].items() for name in names]
    judged = iter([_judged(row, *ids[row["task"]]) for row in _rows(line["judgements"])])
    steps: list[StepRow] = []
    for row in _rows(line["steps"]):
        mine = tuple(islice(judged, row["groups"]))
        regions = Counter(j.region for j in mine)
        numbers = {name: float(row[name]) for name in FIGURES if row.get(name) is not None}
        named = {name: row[name] for name in STEP}
        steps.append(StepRow(**named, numbers=numbers, regions=regions, judgements=mine))
    if steps:  # it counts over the whole run so far
        steps[-1] = replace(steps[-1], made=Made(**line["synthesis"]))
    epochs = tuple(EpochRow(**row) for row in _rows(line["epochs"]))
    found = tuple(_evaluated(columns, head["tasks"]) for columns in line["evaluations"])
    return RunData(path, manifest, tuple(steps), epochs, found, tuple(line["notes"]))


def _judged(row: Table, origin: str, name: str) -> JudgedGroup:
    mean = float(row["rbar"])
    return JudgedGroup(
        task_id=name,
        origin=origin,
        rbar=mean,
        variance=float(row.get("variance", mean * (1 - mean))),
        region=LETTERS[row["region"]],
        first_visit=row["first_visit"] == "1",
    )


def _evaluated(columns: Table, tasks: Sequence[Sequence[str]]) -> EvaluationPass:
    rows: list[EvalRow] = []
    kept = {name: columns[name] for name in ("samples", *SAMPLED, *GREEDY) if name in columns}
    if not isinstance(kept["samples"], list):
        kept["samples"] = [kept["samples"]] * len(tasks)
    for task, row in zip(tasks, _rows(kept), strict=True):
        samples = row.pop("samples")
        if samples is not None:
            values = {name: float(value) for name, value in row.items() if value is not None}
            named: Table = dict(zip(TASK, task, strict=True))
            rows.append(EvalRow(**named, values=values, samples=samples))
    return EvaluationPass(columns["when"], tuple(rows))


def _rows(columns: Table) -> Iterator[Table]:
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))

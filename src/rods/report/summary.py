"""Runs that are read from one file: the summary of an arm, and what `rods eval --json` printed.

Owns the format of a summary, gzip of JSON lines: the `RunData` of a finished run a line, with the
run's name in place of its path. `experiments/summarize.py` writes it, and says what it leaves out.

    runs = runs_at(Path("experiments/bfcl/rods.jsonl.gz"))
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from rods.errors import StoreError
from rods.infra.files import disk, text_of
from rods.report.run_data import RunData, evaluation_of, load_run
from rods.store import MANIFEST

SUFFIX, EVALUATED = ".jsonl.gz", ".json"
RUN = TypeAdapter(RunData)
"""A run as a line of a summary."""


def runs_at(path: Path) -> list[RunData]:
    """Read a run, the runs of a summary or what `rods eval --json` printed; else `StoreError`."""
    if not path.is_dir() and path.name.endswith(SUFFIX):
        return read_summary(path)
    if not path.is_dir() and path.suffix == EVALUATED:
        return [_evaluation_at(path)]
    if not path.exists():
        what = "no run, no summary and no file of `rods eval --json`"
        raise StoreError(f"{path}: there is {what} with this name.")
    return [load_run(path)]


def is_read(path: str) -> bool:
    """Whether `runs_at` reads such a path; a pattern also matches the logs beside runs."""
    return path.endswith((SUFFIX, EVALUATED)) or (Path(path) / MANIFEST).is_file()


def _evaluation_at(path: Path) -> RunData:
    try:
        found = evaluation_of("after", json.loads(text_of(path, "evaluations", StoreError)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = None
    if found is None or not any(row.values for row in found.rows):
        raise StoreError(f"{path}: expected the rows of `rods eval --json`, without --suite.")
    note = "an evaluation by rods eval: its settings, training and first evaluation are not known."
    return RunData(path, {}, evaluations=(found,), notes=(note, *(f"{why}." for why in found.lost)))


def read_summary(path: Path) -> list[RunData]:
    """Read all runs of a summary; raises `StoreError` where it is missing or damaged."""
    with disk(path, "reading"):
        data = path.read_bytes()
    runs, why = list[RunData](), ""
    try:
        runs = [RUN.validate_json(line) for line in gzip.decompress(data).splitlines()]
    except (EOFError, OSError, ValueError, zlib.error) as error:
        why = f" ({error})"
    if not runs:
        raise StoreError(
            f"{path}: the summary is cut short or damaged{why}. Take it from version control "
            "again, or make it again from its runs."
        )
    return [replace(run, path=path.parent / run.path) for run in runs]

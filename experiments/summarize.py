"""Summaries of finished runs: what `experiments/` keeps of them, one file an arm.

    python experiments/summarize.py runs/bfcl experiments/bfcl

Reads every finished run folder of the first folder (`ARM-SEED`, as `rods experiment` names them)
and writes `ARM.jsonl.gz` into the second. `src/rods/report/summary.py` has the format. Left out are
trajectories, folders of this machine, and the numbers of an update beside `FIGURES`. No number is
rounded: that would shift ties.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rods.infra.files import write_atomic
from rods.report.run_data import RunData, load_run
from rods.report.summary import RUN, SUFFIX
from rods.store import MANIFEST

FIGURES = (
    *("reward_mean", "zero_variance", "entropy", "trajectories"),
    *("tokens_generated", "buffer.seed_emitted", "buffer.quota_filtered"),
)
"""What is kept of an update's numbers."""
FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s\"'/\\]+/)+")
"""Folders of an absolute path; they mean nothing on another machine."""


def write_summary(path: Path, runs: Sequence[RunData]) -> None:
    """Write the runs of one arm into one file; the same runs give the same bytes."""
    lines = [RUN.dump_json(_kept(run), exclude_defaults=True) for run in runs]
    write_atomic(path, gzip.compress(b"\n".join(lines), mtime=0))


def _kept(run: RunData) -> RunData:
    manifest = json.loads(FOLDERS.sub("", json.dumps(run.manifest)))
    numbers = ({k: row.numbers[k] for k in FIGURES if k in row.numbers} for row in run.steps)
    steps = [replace(row, numbers=kept) for row, kept in zip(run.steps, numbers, strict=True)]
    return replace(run, path=Path(run.name), manifest=manifest, steps=tuple(steps))


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

"""What training changes on tasks in which something is missing, and on the others.

    python benchmarks/category_gains.py experiments/smollm2/by_call start:rods-1 start:rods-2

Each pair names two files of a folder that `rods eval --json` wrote, before and after the training
of one seed. A row is one set of held-out tasks: the mean before, the gain of each seed, and the
mean gain with half of its 95 % interval over scenarios, each task averaged over seeds, and over
seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from shared import ROOT, Options

from rods.evaluation.stats import mean_ci

MISSING = ("miss_func", "miss_param")
"""Categories of BFCL with a turn in which the agent must not call."""
KINDS = {"all tasks": None, "nothing missing": False, "something missing": True}
SETS = {"variants": ("variant",), "originals": ("original",), "both": ("variant", "original")}
MEASURES = {"greedy": "greedy_progress", "sampled": "progress"}


class Row(NamedTuple):
    """Progress of one task before and after the training of one seed."""

    task: str
    scenario: str
    missing: bool
    part: str
    before: float
    after: float


def rows(before: Path, after: Path, measure: str) -> list[Row]:
    """Tasks with a valid trajectory in both files."""
    first, last = ({row["task_id"]: row for row in _read(path)} for path in (before, after))
    return [
        Row(
            task, row["scenario"], row["category"] in MISSING, row["set"],
            fmean(row[measure]), fmean(last[task][measure]),
        )
        for task, row in first.items()
        if task in last and row[measure] and last[task][measure]
    ]  # fmt: skip


def line(seeds: Sequence[Sequence[Row]]) -> str:
    """The gains of some tasks."""
    gains: dict[tuple[str, str], list[float]] = {}
    for row in (row for one in seeds for row in one):
        gains.setdefault((row.scenario, row.task), []).append(row.after - row.before)
    means = [fmean(gain) for gain in gains.values()]
    by_seed = [fmean(row.after - row.before for row in one) for one in seeds]
    start = fmean(row.before for one in seeds for row in one)
    each = ", ".join(f"{gain:+.3f}" for gain in by_seed)
    over = _half(mean_ci(means, [scenario for scenario, _ in gains]))
    among = _half(mean_ci(by_seed))
    return f"{len(gains):4} {start:.3f} {each}: {fmean(means):+.3f} ± {over} (seeds ± {among})"


def _half(interval: Any) -> str:
    return "-" if interval is None else f"{(interval.high - interval.low) / 2:.3f}"


def _read(path: Path) -> Iterable[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = Options(
        __doc__,
        {
            "folder": ROOT / "experiments" / "smollm2" / "by_call",
            "pairs": ["start:rods-1", "start:rods-2"],
        },
    )
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the files")
    parser.add_argument("pairs", nargs="*", help="BEFORE:AFTER, names without .json")
    given = parser.parse_args()
    if not given.pairs:
        parser.error("name a folder and at least one BEFORE:AFTER")
    for name, measure in MEASURES.items():
        seeds = [
            rows(*(given.folder / f"{part}.json" for part in pair.split(":")), measure)
            for pair in given.pairs
        ]
        for part, sets in SETS.items():
            for kind, missing in KINDS.items():
                some = [
                    [r for r in one if r.part in sets and missing in (None, r.missing)]
                    for one in seeds
                ]
                print(f"{name:8} {part:10} {kind:18} {line(some)}")


if __name__ == "__main__":
    main()

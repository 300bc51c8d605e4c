"""Compares evaluations: `rods eval --json` of each.

    python experiments/evaluations.py START.json RUN.json [RUN.json ...]
    python experiments/evaluations.py --pairs BASE_0.json ARM_0.json BASE_1.json ARM_1.json ...

The first form sets runs against their start, the second an arm against a baseline, seed by seed.
Every task's values are averaged over the runs (seeds of one arm), then over tasks. ± is half of
the 95 % interval over scenarios. With pairs, a second one is over seeds: of the pairs' differences.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from rods.evaluation.stats import mean_ci, paired_difference

FIGURES = ("greedy_progress", "progress", "greedy_solved", "solved")
Rows = dict[str, dict[str, list[float] | str]]


def rows_of(path: str) -> Rows:
    """The rows by task."""
    return {row["task_id"]: row for row in json.loads(Path(path).read_text(encoding="utf-8"))}


def main() -> None:
    """Print a line for each figure."""
    if {"-h", "--help"}.intersection(sys.argv):
        sys.exit(__doc__)
    pairs = sys.argv[1:2] == ["--pairs"]
    found = [rows_of(path) for path in sys.argv[1 + pairs :]]
    if len(found) < 2 or (pairs and len(found) % 2):
        sys.exit(__doc__)
    before, after = (found[::2], found[1::2]) if pairs else (found[:1], found[1:])
    common = set(found[0]).intersection(*found)
    print(f"{len(common)} of {max(map(len, found))} tasks are in all files")
    for figure in FIGURES:
        tasks = [
            task for task in found[0] if task in common and all(r[task][figure] for r in found)
        ]
        compare(figure, tasks, before, after, pairs)


def compare(
    figure: str, tasks: list[str], before: list[Rows], after: list[Rows], pairs: bool
) -> None:
    """Print means and their difference with its intervals."""
    levels = [
        [[statistics.mean(run[task][figure]) for task in tasks] for run in side]
        for side in (before, after)
    ]
    base, ours = ([statistics.mean(v) for v in zip(*side, strict=True)] for side in levels)
    gain = paired_difference(base, ours, [str(before[0][task]["scenario"]) for task in tasks])
    if gain is None:
        print(f"{figure:16} fewer than two scenarios say nothing")
        return
    each = " ".join(f"{statistics.mean(values):.3f}" for values in levels[1])
    line = f"{figure:16} {statistics.mean(base):.3f} to {each}: {gain.mean:+.3f} ± "
    line += f"{gain.half_width:.3f}, {len(tasks)} tasks, {gain.clusters} scenarios"
    if pairs:
        gains = [statistics.mean(b) - statistics.mean(a) for a, b in zip(*levels, strict=True)]
        over = mean_ci(gains)
        reach = "no interval over seeds" if over is None else f"± {over.half_width:.3f} over seeds"
        line += f"; {reach} ({len(gains)}: {' '.join(f'{gain:+.3f}' for gain in gains)})"
    print(line)


if __name__ == "__main__":
    main()

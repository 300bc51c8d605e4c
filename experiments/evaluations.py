"""Compares evaluations of some runs with that of their start: `rods eval --json` of each.

    python experiments/evaluations.py START.json RUN.json [RUN.json ...]

Every task's difference to the start is averaged over the runs (seeds of one arm), then over tasks.
± is half of the 95 % interval over scenarios.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from rods.evaluation.stats import paired_difference

FIGURES = ("greedy_progress", "progress", "greedy_solved", "solved")


def rows_of(path: str) -> dict[str, dict[str, list[float] | str]]:
    """The rows by task."""
    return {row["task_id"]: row for row in json.loads(Path(path).read_text(encoding="utf-8"))}


def main() -> None:
    """Print a line for each figure."""
    start, *runs = map(rows_of, sys.argv[1:])
    for figure in FIGURES:
        tasks = [task for task in start if all(r[task][figure] for r in (start, *runs))]
        mean = {task: statistics.mean(start[task][figure]) for task in tasks}
        levels = [[statistics.mean(run[task][figure]) for task in tasks] for run in runs]
        after = [statistics.mean(values) for values in zip(*levels, strict=True)]
        scenarios = [str(start[task]["scenario"]) for task in tasks]
        found = paired_difference([*mean.values()], after, scenarios)
        assert found is not None, "fewer than two scenarios say nothing"
        each = " ".join(f"{statistics.mean(values):.3f}" for values in levels)
        change = f"{found.mean:+.3f} ± {found.half_width:.3f}"
        print(f"{figure:16} {statistics.mean(mean.values()):.3f} to {each}: {change}, "
              f"{len(tasks)} tasks, {found.clusters} scenarios")  # fmt: skip


if __name__ == "__main__":
    main()

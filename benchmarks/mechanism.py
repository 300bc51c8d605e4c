"""The mechanism in runs' logs: where the variance of rewards is, and where new variants land.

    python benchmarks/mechanism.py RUN [RUN ...]      # run folders, or summaries of runs

Prints, over all judgements of the runs: the mean variance of rewards within a group inside the
boundary against outside of it (paper: 2.0 to 2.2 times); mean rewards of new variants at their
first judgement (paper: 0.25 to 0.75); how many of the tasks that could be seeds became some, in
the first and the second half of the updates; by how much a task's mean reward moved until it was
judged again, and how many updates later that was (paper: pass@16 less than 0.10 in about 13 steps);
groups without variance in the first and the last quarter of the updates; the mean rewards of
original tasks and of variants, when new and when they return, by quarter; how many tasks were
played, and from how many original ones their variants came, where the run folder has a checkpoint
(exp of the entropy: as many as if all were used alike).
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from shared import ROOT, Options

from rods.curriculum.saving import VARIANTS
from rods.infra.checkpoints import Checkpoints
from rods.report.run_data import RunData, StepRow
from rods.report.summary import runs_at
from rods.task import Task

BETWEEN = (0.25, 0.75)
"""Where the paper's accepted variants land."""
EMITTED, FILTERED = "buffer.seed_emitted", "buffer.quota_filtered"


def variances(steps: Sequence[StepRow]) -> str:
    """Inside against outside of the boundary."""
    judged = [j for s in steps for j in s.judgements]
    inside = [j.variance for j in judged if j.region == "boundary"]
    outside = [j.variance for j in judged if j.region != "boundary"]
    first, other = statistics.fmean(inside), statistics.fmean(outside)
    return (
        f"variance inside {first:.4f} ({len(inside)} groups), outside {other:.4f} "
        f"({len(outside)}): {first / other:.2f} times"
    )


def landing(steps: Sequence[StepRow]) -> str:
    """First judgements of variants."""
    new = [j for s in steps for j in s.judgements if j.origin != "original"]
    first = [j for j in new if j.first_visit]
    if not first:
        return "no variant was judged"
    means = [j.rbar for j in first]
    low, high = BETWEEN
    between = statistics.fmean(low <= m <= high for m in means)
    boundary = statistics.fmean(j.region == "boundary" for j in first)
    variance = statistics.fmean(j.variance for j in first)
    return (
        f"{len(first)} new variants judged: median mean reward {statistics.median(means):.2f}, "
        f"{between:.0%} between {low} and {high}, {boundary:.0%} on the boundary, mean variance "
        f"{variance:.4f}"
    )


def selection(runs: Sequence[RunData]) -> str:
    """What there was to choose: of tasks that could be seeds, how many became some, by half."""
    chosen, could = [0, 0], [0, 0]
    for run in runs:
        last = {s.epoch: s for s in run.steps if EMITTED in s.numbers}
        for step in last.values():
            emitted, late = int(step.numbers[EMITTED]), 2 * step.step > run.steps[-1].step
            chosen[late] += emitted
            could[late] += emitted + int(step.numbers[FILTERED])
    if not all(could):
        return "no seeds were chosen"
    early, late = (f"{n} of {of} ({n / of:.0%})" for n, of in zip(chosen, could, strict=True))
    return f"of tasks that could be seeds, chosen: first half {early}, second half {late}"


def movement(runs: Sequence[RunData]) -> str:
    """How a task's mean reward moves until it is judged again."""
    moved, later = list[float](), list[int]()
    for run in runs:
        seen: dict[str, tuple[int, float]] = {}
        for step, j in run.judgements:
            if j.task_id in seen:
                when, before = seen[j.task_id]
                moved.append(j.rbar - before)
                later.append(step - when)
            seen[j.task_id] = (step, j.rbar)
    if not moved:
        return "no task was judged twice"
    return (
        f"{len(moved)} second judgements, {statistics.median(later):.0f} updates later (median): "
        f"mean reward {statistics.fmean(moved):+.3f} on average, "
        f"{statistics.fmean(map(abs, moved)):.3f} in absolute value"
    )


def quarters(runs: Sequence[RunData]) -> str:
    """Groups without variance, first and last quarter of each run."""
    shares = [found for run in runs if (found := run.quarters("zero_variance"))]
    pairs = ", ".join(f"{first:.0%} to {last:.0%}" for first, last in shares)
    return f"groups without variance, first to last quarter, by run: {pairs}"


def visits(runs: Sequence[RunData]) -> list[str]:
    """Mean rewards by quarter of the updates, which show what of a rise comes from the mix."""
    found: dict[tuple[str, bool], list[list[float]]] = {}
    for run in runs:
        last = run.steps[-1].step
        for step, j in run.judgements:
            kind = j.origin, j.first_visit
            found.setdefault(kind, [[], [], [], []])[4 * (step - 1) // last].append(j.rbar)
    names = {"original": "original tasks", "variant": "variants"}
    return [
        f"{names[origin]} {'at their first visit' if new else 'that return'}, by quarter: "
        + ", ".join(f"{statistics.fmean(q):.2f} ({len(q)})" if q else "-" for q in rows)
        for (origin, new), rows in sorted(found.items())
    ]


def breadth(run: RunData) -> str:
    """How many tasks a run played, and how many original ones its groups of variants go back to."""
    played = Counter(j.task_id for _, j in run.judgements)
    said = f"{run.name}: {len(played)} tasks played"
    checkpoint = Checkpoints(run.path / "checkpoint").latest()
    if checkpoint is None:
        return said
    lines = (checkpoint.path / VARIANTS).read_text().splitlines()
    variants = [Task.from_json(json.loads(line)["task"], VARIANTS) for line in lines]
    first = {task.id: task.provenance.ancestors[0] for task in variants}
    roots = Counter[str]()
    for name, groups in played.items():
        if name in first:
            roots[first[name]] += groups
    if not roots:
        return said
    total = sum(roots.values())
    entropy = -sum(n / total * math.log(n / total) for n in roots.values())
    return (
        f"{said}; {total} groups of variants of {len(roots)} original tasks "
        f"(effectively {math.exp(entropy):.1f})"
    )


RUNS = [ROOT / "experiments" / name for name in ("readme/seed.jsonl.gz", "bfcl/rods.jsonl.gz")]
"""Of a quick run."""


def main() -> None:
    parser = Options(__doc__, {"runs": RUNS})
    parser.add_argument("runs", nargs="*", type=Path)
    paths = parser.parse_args().runs
    if not paths:
        parser.error("name a run folder, or a summary of runs")
    runs = [run for path in paths for run in runs_at(path)]
    together = [step for run in runs for step in run.steps]
    lines = (variances(together), landing(together), selection(runs), movement(runs))
    for line in (*lines, quarters(runs), *visits(runs), *map(breadth, runs)):
        print(line)


if __name__ == "__main__":
    main()

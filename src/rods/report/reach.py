"""Held-out results on the way of an arm's runs: curves, and the trajectories that a level took.

Owns nothing of pairing or intervals: a point is the plain mean over an arm's seeds, at the
evaluations that all of them have (`evaluation.every`).

    curve = held_out_curve(runs, "variant", "greedy_progress")
    trajectories_to(curve, level=max(p.value for p in baseline_curve))
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rods.report.run_data import RunData


class Point(NamedTuple):
    """One evaluation, mean over seeds."""

    trajectories: float
    """Sampled for training until then."""
    value: float


def held_out_curve(runs: Sequence[RunData], of: str, metric: str) -> list[Point]:
    """Points in their order.

    Args:
        runs: the seeds of one arm.
        of: `variant` or `original`.
        metric: a key of `METRICS`, such as `greedy_progress`.
    """
    if not runs:
        return []
    points: list[Point] = []
    for name in [e.when for e in runs[0].evaluations]:
        found = [_point(run, name, of, metric) for run in runs]
        whole = [p for p in found if p is not None]
        if len(whole) == len(runs):
            spent, values = zip(*whole, strict=True)
            points.append(Point(statistics.fmean(spent), statistics.fmean(values)))
    return sorted(points)


def trajectories_to(curve: Sequence[Point], level: float) -> float | None:
    """Trajectories at which the straight lines between points first reach a level; None: never."""
    for before, after in pairwise(curve):
        if before.value >= level:
            return before.trajectories
        if after.value >= level:
            share = (level - before.value) / (after.value - before.value)
            return before.trajectories + share * (after.trajectories - before.trajectories)
    return None


def _point(run: RunData, name: str, of: str, metric: str) -> Point | None:
    evaluation = run.evaluation(name)
    rows = evaluation.rows if evaluation else ()
    values = [r.values[metric] for r in rows if r.set == of and metric in r.values]
    return Point(_spent(run, name), statistics.fmean(values)) if values else None


def _spent(run: RunData, when: str) -> float:
    if when == "before":
        return 0.0
    last = run.steps[-1].step if when == "after" else int(when.split()[-1])
    return sum(row.numbers.get("trajectories", 0.0) for row in run.steps if row.step <= last)

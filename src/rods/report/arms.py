"""Shared code of comparisons of runs and of arms: pairs, budgets, curves in one chart, and what a
level of the held-out results took.

Owns which evaluation is set against which. Knows neither tables nor pages.

    compared((run.evaluation("before"), run.last_evaluation), (baseline, run.last_evaluation))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypeAlias

from rods.report.heldout import METRICS, MetricCell, TaskSubset, measured, result_rows
from rods.report.panels import CURVES, TOOL_CURVES, Figure, step_series
from rods.report.plots import Axes, Series, line_chart
from rods.report.run_data import EvaluationPass, RunData

COLOURS = ("s-grey", "s-1", "s-3", "s-mastered", "s-4", "s-hard", "s-2")
FAIR = 0.05
"""Runs whose trajectories or tokens differ by a larger share count as different budgets."""

Pair: TypeAlias = tuple[EvaluationPass | None, EvaluationPass | None]
"""Two evaluations whose common tasks are paired."""


Cells: TypeAlias = Mapping[tuple[TaskSubset, str], MetricCell]
"""By part and metric, in their order; what was not measured is missing."""


def compared(own: Pair, against: Pair = (None, None)) -> Cells:
    """One run or arm before and after training, and its differences to the baseline.

    Args:
        own: before and after training.
        against: the baseline's and its own after training.
    """
    rows = result_rows(*own)
    other = {row.part: row.cells for row in result_rows(*against)} if all(against) else {}
    found: dict[tuple[TaskSubset, str], MetricCell] = {}
    for row in rows:
        for metric in measured(rows, METRICS):
            pair = other[row.part][metric] if row.part in other else MetricCell()
            cell = replace(row.cells[metric], against=pair.difference, common=pair.paired)
            found[row.part, metric] = cell
    return found


def parts_and_metrics(cells: Iterable[Cells]) -> tuple[list[TaskSubset], list[str]]:
    """What any of them has values of, in the order of the parts and of `METRICS`."""
    keys = dict.fromkeys(key for found in cells for key in found)
    known = {metric for _, metric in keys}
    return [*dict.fromkeys(part for part, _ in keys)], [m for m in METRICS if m in known]


def uneven_budgets(who: str, runs: Sequence[Sequence[RunData]], names: Sequence[str]) -> list[str]:
    """Sentences about budgets that differ by more than `FAIR`.

    `who` are the runs or the arms; each of the `names` stands before a mean, or is empty.
    """
    found: list[str] = []
    for what, key in (("trajectories", "trajectories"), ("generated tokens", "tokens_generated")):
        means = [fmean(run.total(key) for run in mine) for mine in runs]
        if max(means) > (1 + FAIR) * min(means):
            pairs = zip(names, means, strict=True)
            listed = ", ".join(f"{name} {mean:.0f}".strip() for name, mean in pairs)
            found.append(f"the {who} spent different budgets of {what}: {listed}.")
    return found


def colours_of(lines: Sequence[object]) -> list[str]:
    """A colour class for each, in their order."""
    return [COLOURS[i % len(COLOURS)] for i in range(len(lines))]


def overlay(title: str, caption: str, lines: Sequence[Series], axes: Axes) -> Figure:
    """Lines of several runs in one chart, with their legend."""
    legend = [(line.name, line.css) for line in lines]
    return Figure(title, caption, line_chart(lines, axes), legend)


def overlays(runs: Sequence[RunData], labels: Sequence[str]) -> list[Figure]:
    """The learning curves of all runs in common charts."""
    figures: list[Figure] = []
    named = list(zip(runs, labels, colours_of(runs), strict=True))
    for title, caption, curves, share, _ in (*CURVES, *TOOL_CURVES):
        axes = Axes("step", (0.0, 1.0) if share else None)
        for curve in curves:
            found = (step_series(run.steps, curve.key, label, css) for run, label, css in named)
            lines = [Series(s.name, s.xs, s.ys, s.css) for s in found if s]  # without thin lines
            if lines:
                name = title if len(curves) == 1 else f"{title}: {curve.name}"
                figures.append(overlay(name, caption, lines, axes))
    return figures


class Point(NamedTuple):
    """One evaluation, mean over seeds."""

    trajectories: float
    """Sampled for training until then."""
    value: float


def held_out_curve(runs: Sequence[RunData], of: str, metric: str) -> list[Point]:
    """Points of an arm's seeds in their order; `of` is `variant` or `original`."""
    if not runs:
        return []
    points: list[Point] = []
    for name in [e.when for e in runs[0].evaluations]:
        found = [_point(run, name, of, metric) for run in runs]
        whole = [p for p in found if p is not None]
        if len(whole) == len(runs):
            spent, values = zip(*whole, strict=True)
            points.append(Point(fmean(spent), fmean(values)))
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
    return Point(_spent(run, name), fmean(values)) if values else None


def _spent(run: RunData, when: str) -> float:
    if when == "before":
        return 0.0
    last = run.steps[-1].step if when == "after" else int(when.split()[-1])
    return sum(row.numbers.get("trajectories", 0.0) for row in run.steps if row.step <= last)

"""The curves of the report over training steps: what is plotted in which chart.

Owns the series of the curves in `curves.toml`. It does not draw and reads no files.

    for figure in learning_curves(run):
        figure.title, figure.chart
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rods.report.plots import Axes, Plot, Series, line_chart, smooth
from rods.report.run_data import RunData, StepRow


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    title: str
    caption: str
    chart: Plot | None
    """`None`: there are no data for it, and the caption says so."""
    legend: Sequence[tuple[str, str]] = ()
    """Names and colour classes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a learning curve."""

    key: str
    name: str
    css: str = "s-1"


class Chart(NamedTuple):
    """What is plotted in one chart."""

    title: str
    caption: str
    curves: Sequence[Curve]
    share: bool
    """The axis goes from 0 to 1."""
    still: float | None = None
    """A value that says nothing."""


def _charts(table: str) -> tuple[Chart, ...]:
    rows = tomllib.loads(Path(__file__).with_name("curves.toml").read_text("utf-8"))[table]
    return tuple(
        Chart(
            r["title"],
            r["caption"],
            [Curve(*c) for c in r["curves"]],
            r.get("share", False),
            r.get("still"),
        )
        for r in rows
    )


CURVES, TOOL_CURVES = _charts("learning"), _charts("tool")
"""The second: metrics of tool use, drawn for runs whose reward judges final answers."""
SCHEDULE_CURVES = _charts("schedule")
"""Metrics of the schedule (docs/schedules.md)."""


def learning_curves(run: RunData) -> list[Figure]:
    """One figure for each curve; those that were not measured say so."""
    return _curves(run, CURVES)


def tool_curves(run: RunData) -> list[Figure]:
    """Metrics of tool use; empty for runs that have none."""
    if not any("code_ratio" in row.numbers for row in run.steps):
        return []
    return _curves(run, TOOL_CURVES)


def schedule_curves(run: RunData) -> list[Figure]:
    """Metrics of the schedule that moved; empty where none did."""
    moved = [
        chart
        for chart in SCHEDULE_CURVES
        if any(
            row.numbers.get(curve.key, chart.still) != chart.still
            for row in run.steps
            for curve in chart.curves
        )
    ]
    return _curves(run, moved)


def _curves(run: RunData, chosen: Sequence[Chart]) -> list[Figure]:
    figures: list[Figure] = []
    stages = stage_starts(run.steps)
    for title, caption, curves, share, _ in chosen:
        series = [s for c in curves if (s := step_series(run.steps, c.key, c.name, c.css))]
        if not series:
            figures.append(Figure(title, "Not recorded in this run.", None))
            continue
        axes = Axes("step", (0.0, 1.0) if share else None)
        legend = [(s.name, s.css) for s in series] if len(series) > 1 else []
        figures.append(Figure(title, caption, line_chart(series, axes, stages), legend))
    return figures


def stage_starts(steps: Sequence[StepRow]) -> list[tuple[float, str]]:
    """First step and name of each stage; empty where there is but one."""
    starts = [
        (float(row.step), row.stage)
        for i, row in enumerate(steps)
        if i == 0 or row.stage != steps[i - 1].stage
    ]
    return starts if len(starts) > 1 else []


def step_series(steps: Sequence[StepRow], key: str, name: str, css: str) -> Series | None:
    """One number over steps, smoothed from 12 steps on; `None` if it was never measured."""
    ys = [row.numbers.get(key, math.nan) for row in steps]
    if all(math.isnan(y) for y in ys):
        return None
    xs = [float(row.step) for row in steps]
    if len(ys) < 12:
        return Series(name, xs, ys, css)
    return Series(name, xs, smooth(ys, max(3, len(ys) // 12) | 1), css, faint=ys)

"""The figures of the report, from rows to charts. Owns what is plotted, not how it is drawn.

Each function takes a `RunData` and gives `Figure`s; where the data are missing it gives a figure
without a chart whose note says what is missing. Which learning curves there are stands in
`curves.toml`.

    for figure in learning_curves(run):
        figure.title, figure.chart
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from rods.infra.text import counted
from rods.report import plots
from rods.report.heldout import METRICS, SETS, category_words, held_out_curve, missed
from rods.report.plots import Axes, Dot, Layer, Plot, Series
from rods.report.run_data import REGIONS, JudgedGroup, RunData, StepRow
from rods.synthesis.rejection import reason_words

TABLES = tomllib.loads(Path(__file__).with_name("curves.toml").read_text("utf-8"))
RETIRED: Mapping[str, str] = TABLES["retired"]
"""Reasons for which variants leave the pool, with color classes."""
COLORS = ("s-grey", "s-1", "s-3", "s-mastered", "s-4", "s-hard", "s-2")
NO_VARIANCE = 1e-12
"""A group whose variance is not above it has equal rewards, up to rounding."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    title: str
    caption: str
    chart: Plot | None
    """`None`: there are no data for it, and the caption says so."""
    legend: Sequence[tuple[str, str]] = ()
    """Names and color classes."""


class Curve(NamedTuple):
    """One line of a learning curve."""

    key: str
    name: str
    css: str = "s-1"


class Chart(NamedTuple):
    """What is plotted in one chart."""

    title: str
    caption: str
    curves: Sequence[Curve]
    share: bool = False
    """The axis goes from 0 to 1."""
    still: float | None = None
    """A value that says nothing."""


CURVES, TOOL_CURVES, SCHEDULE_CURVES = (
    TypeAdapter(tuple[Chart, ...]).validate_python(TABLES[name])
    for name in ("learning", "tool", "schedule")
)
"""The second: metrics of tool use, drawn for runs whose reward judges final answers. The third:
metrics of the schedule (docs/guides/schedules.md)."""


def learning_curves(run: RunData) -> list[Figure]:
    """One figure for each curve; those that were not measured say so."""
    return [_learning_curve(run, chart) for chart in CURVES]


def held_out_curves(run: RunData) -> list[Figure]:
    """Held-out progress over updates; empty without an evaluation on the way."""
    lines: list[Series] = []
    for kind, metric in product(SETS, ("greedy_progress", "progress")):
        points = held_out_curve([run], kind, metric)
        if len(points) > 2:
            name = f"{SETS[kind].removeprefix('Held-out ')}, {METRICS[metric][1]}"
            updates, values = [p.update for p in points], [p.value for p in points]
            lines.append(Series(name, updates, values, COLORS[len(lines) + 1]))
    if not lines:
        return []
    caption = "Mean share of turns solved in each evaluation."
    return [overlay("Held-out progress", caption, lines, Axes("update", (0.0, 1.0)))]


def tool_curves(run: RunData) -> list[Figure]:
    """Metrics of tool use; empty for runs that have none."""
    measured = any("code_ratio" in row.numbers for row in run.steps)
    return [_learning_curve(run, chart) for chart in TOOL_CURVES] if measured else []


def schedule_curves(run: RunData) -> list[Figure]:
    """Metrics of the schedule that moved; empty where none did."""

    def moved(chart: Chart) -> bool:
        values = (row.numbers.get(c.key, chart.still) for row in run.steps for c in chart.curves)
        return any(value != chart.still for value in values)

    return [_learning_curve(run, chart) for chart in filter(moved, SCHEDULE_CURVES)]


def _learning_curve(run: RunData, chart: Chart) -> Figure:
    curves = [step_series(run.steps, curve.key, curve.name, curve.css) for curve in chart.curves]
    measured = [line for line in curves if line]
    lines = [line for line in measured if moves(line.faint or line.ys)]
    if not lines:
        why = "0 in every update." if measured else "Not recorded in this run."
        return Figure(chart.title, why, None)
    caption = chart.caption
    if zero := ", ".join(line.name for line in measured if line not in lines):
        caption += f" 0 in every update: {zero}."
    if any(line.faint for line in lines):
        caption += " Thin: each update; thick: average."
    axes = Axes("update", (0.0, 1.0) if chart.share else None, run.stage_starts)
    legend = [(line.name, line.css) for line in lines] if len(lines) > 1 else []
    return Figure(chart.title, caption, plots.line_chart(lines, axes), legend)


def moves(values: Sequence[float]) -> bool:
    """True if some number is not 0; NaN was not measured."""
    return any(value != 0 and not math.isnan(value) for value in values)


def step_series(steps: Sequence[StepRow], key: str, name: str, css: str) -> Series | None:
    """One number over updates, smoothed from 12 on; `None` if it was never measured."""
    ys = [row.numbers.get(key, math.nan) for row in steps]
    if all(math.isnan(y) for y in ys):
        return None
    xs = [float(row.step) for row in steps]
    if len(ys) < 12:
        return Series(name, xs, ys, css)
    return Series(name, xs, plots.smooth(ys, max(3, len(ys) // 12) | 1), css, faint=ys)


def boundary_band(run: RunData) -> tuple[float, float]:
    """Limits of the boundary region in this run's settings (0.20 and 0.85 where unknown)."""
    low, high = run.setting("boundary.low"), run.setting("boundary.high")
    return (
        float(low) if isinstance(low, int | float) else 0.20,
        float(high) if isinstance(high, int | float) else 0.85,
    )


def pool_figures(run: RunData) -> list[Figure]:
    """Active, injected and retired tasks over epochs."""
    if not run.epochs:
        return [Figure("Replay buffer", "No epoch is recorded in this run.", None)]
    numbers = [epoch.epoch for epoch in run.epochs]
    if any(last >= now for last, now in pairwise(numbers)):  # each stage counts its own epochs
        numbers = list(range(1, len(numbers) + 1))
    xs = [float(number) for number in numbers]
    stages = list(dict.fromkeys(epoch.stage for epoch in run.epochs if epoch.stage))
    axes = Axes(f"epoch (stages: {', '.join(stages)})" if len(stages) > 1 else "epoch")
    active = [
        ("original", [float(e.originals) for e in run.epochs], "s-grey"),
        ("variant", [float(e.generated) for e in run.epochs], "s-boundary"),
    ]
    moved = [
        ("injected", [float(e.injected) for e in run.epochs], "s-boundary"),
        ("deferred to a later epoch", [float(e.deferred) for e in run.epochs], "s-grey"),
    ]
    left = f"{run.retired} variants left the pool."
    came = f"{run.injected} variants entered the pool at epoch starts. Deferred ones come later."
    return [
        _stacked("Active tasks", "Tasks that can be drawn in an epoch.", xs, active, axes),
        _stacked("Injected variants", came, xs, moved, axes),
        _stacked("Retired variants, by reason", left, xs, _retired(run), axes),
    ]


def _retired(run: RunData) -> list[Layer]:
    """How many variants left the pool in each epoch, by reason; known reasons come first."""
    found = {reason for epoch in run.epochs for reason, n in epoch.retired.items() if n}
    known = [reason for reason in RETIRED if reason in found]
    layers: list[Layer] = []
    for reason in (*known, *sorted(found - RETIRED.keys())):
        counts = [float(epoch.retired.get(reason, 0)) for epoch in run.epochs]
        layers.append((words(reason), counts, RETIRED.get(reason, "s-2")))
    return layers


def _stacked(
    title: str, caption: str, xs: Sequence[float], layers: Sequence[Layer], axes: Axes
) -> Figure:
    layers = [layer for layer in layers if any(layer[1])]
    chart = plots.stacked_bars(xs, layers, axes) if layers else None
    return Figure(title, caption, chart, [(name, css) for name, _, css in layers])


def mechanism_figures(run: RunData) -> list[Figure]:
    """Where variants land (if any were tried), variance against mean progress, regions."""
    landing = [_landing(run)] if first_visits(run) or run.made.tried else []
    return [*landing, _variance(run), _regions(run)]


def first_visits(run: RunData) -> list[JudgedGroup]:
    """The first judgement of each variant; a later one never counts, even if so marked."""
    marked = [j for _, j in run.judgements if j.origin == "variant" and j.first_visit]
    return list({judged.task_id: judged for judged in reversed(marked)}.values())[::-1]


class Landing(NamedTuple):
    """The mean progress of new variants."""

    values: Sequence[float]
    median: float
    inside: int
    """How many of them lie on the boundary."""

    @property
    def share(self) -> float:
        """Share of them on the boundary."""
        return self.inside / len(self.values)


def landing_of(run: RunData) -> Landing | None:
    """Where new variants land; None where none was visited."""
    visits = first_visits(run)
    values = [judged.rbar for judged in visits]
    inside = sum(judged.region == "boundary" for judged in visits)  # by settings of that time
    return Landing(values, statistics.median(values), inside) if values else None


def _landing(run: RunData) -> Figure:
    title = "Where new variants land"
    landing = landing_of(run)
    if landing is None:
        return Figure(title, "No variant was visited in this run.", None)
    visits, band = first_visits(run), boundary_band(run)
    categories = sorted({judged.category for judged in visits})
    groups: list[Layer] = []
    for category, css in zip(categories, cycle(("s-1", "s-3", "s-4", "s-2")), strict=False):
        means = [judged.rbar for judged in visits if judged.category == category]
        groups.append((category_words(category), means, css))
    low, high = min(0.0, *landing.values), max(1.0, *landing.values)
    edges = [low + (high - low) * i / 20 for i in range(21)]
    axes = Axes("mean progress at the first visit")
    marker = landing.median, f"median {landing.median:.2f}"
    caption = (
        f"Mean progress of {len(visits)} variants at their first visit. {landing.inside} "
        f"({landing.share:.0%}) land on the boundary ({band[0]:.2f} to {band[1]:.2f}, shaded)."
    )
    legend = [(name, css) for name, _, css in groups]
    return Figure(title, caption, plots.histogram(groups, edges, axes, band, marker), legend)


def _variance(run: RunData) -> Figure:
    title = "Variance against mean progress"
    if not run.judgements:
        return Figure(title, "No judgement is recorded in this run.", None)
    groups: list[tuple[str, list[Dot], str]] = []
    for origin, css in (("original", "s-grey"), ("variant", "s-boundary")):
        mine = [judged for _, judged in run.judgements if judged.origin == origin]
        counts = Counter((round(judged.rbar, 3), round(judged.variance, 4)) for judged in mine)
        dots = [(mean, variance, n) for (mean, variance), n in sorted(counts.items())]
        groups.append((origin, dots, css))
    curve = [(i / 50, i / 50 * (1 - i / 50)) for i in range(51)]
    boundary, without = boundary_without_variance(run)
    share = f" ({without / boundary:.0%})" if boundary else ""
    caption = (
        f"A dot is one of {len(run.judgements)} judgements; where several coincide, it is larger. "
        "Upwards: variance of progress in the group. Dashed: its upper bound, r(1 - r) for a mean "
        f"of r. Of {boundary} judgements on the boundary, {without}{share} have no variance and so "
        "give no gradient."
    )
    legend = [(name, css) for name, dots, css in groups if dots]
    chart = plots.scatter(groups, Axes("mean progress"), boundary_band(run), curve)
    return Figure(title, caption, chart, legend)


def boundary_without_variance(run: RunData) -> tuple[int, int]:
    """Judgements on the boundary, and those of them whose rewards are all equal."""
    groups = [judged for _, judged in run.judgements if judged.region == "boundary"]
    return len(groups), sum(judged.variance <= NO_VARIANCE for judged in groups)


def _regions(run: RunData) -> Figure:
    title = "Regions over training"
    rows = [row for row in run.steps if sum(row.regions.values())]
    if not rows:
        return Figure(title, "No region is recorded in this run.", None)
    size = math.ceil(len(rows) / 40)
    chunks = [rows[i : i + size] for i in range(0, len(rows), size)]
    xs = [float(statistics.mean(row.step for row in chunk)) for chunk in chunks]
    sums = [sum((Counter(row.regions) for row in chunk), Counter[str]()) for chunk in chunks]
    layers = [(name, [n[name] / n.total() for n in sums], f"s-{name}") for name in REGIONS]
    each = "each update" if size == 1 else f"each {size} updates"
    caption = f"Share of judged tasks in each region, for {each}."
    return _stacked(title, caption, xs, layers, Axes("update", (0.0, 1.0)))


def synthesis_figure(run: RunData) -> Figure:
    """What became of all candidates of the synthesis, by reason."""
    title = "Synthesis: what became of the candidates"
    made = run.made
    if not made.tried:
        return Figure(title, "Nothing was synthesized in this run.", None)
    parts = [("accepted", made.accepted, "s-mastered")]
    for reason, n in sorted(made.rejected.items(), key=lambda item: -item[1]):
        parts.append((reason_words(reason), n, "s-hard"))
    other = made.tried - sum(n for _, n, _ in parts)
    if other > 0:
        parts.append(("not accounted for", other, "s-grey"))
    rows = [(name, float(n), f"{n} ({n / made.tried:.0%})", css) for name, n, css in parts]
    pace = f", in {made.seconds:.0f} s of the worker's time" if made.seconds else ""
    caption = f"{made.tried} candidates were tried, {made.accepted} accepted{pace}."
    return Figure(title, caption, plots.bars(rows))


def words(name: str) -> str:
    """A key as words: `too_hard` becomes `too hard`."""
    return name.replace("_", " ")


def signed(difference: float) -> str:
    """`+0.112`; a difference that is rounded to nothing has no minus."""
    return f"{round(difference, 3) + 0.0:+.3f}"


class Tile(NamedTuple):
    """One number of the overview."""

    value: str
    label: str
    detail: str = ""


def facts(run: RunData) -> list[Tile]:
    """What training, buffer and synthesis did: for the page, a terminal and a comparison."""
    found: list[Tile] = []
    if shares := run.quarters("zero_variance"):
        size = max(1, len(run.steps) // 4)
        each = f" {size}" * (size > 1)
        when = f"first{each} and last{each} of {counted(len(run.steps), 'update')}"
        change = f"{shares[0]:.0%} \N{RIGHTWARDS ARROW} {shares[1]:.0%}"
        found.append(Tile(change, "groups without variance", when))
    if landing := landing_of(run):
        inside = f"{landing.share:.0%} of {len(landing.values)} on the boundary"
        found.append(Tile(f"{landing.median:.2f}", "mean progress of new variants, median", inside))
    boundary, without = boundary_without_variance(run)
    if boundary:
        what = "boundary tasks whose rollouts all earned the same reward"
        counts = f"{without} of {counted(boundary, 'judgement')}"
        found.append(Tile(f"{without / boundary:.0%}", what, counts))
    made = run.made
    if made.tried:
        counts = f"{made.accepted} accepted of {made.tried} tried"
        found.append(Tile(f"{made.accepted / made.tried:.0%}", "synthesis yield", counts))
    if why := missed(run):
        found.append(Tile("0", "variants", why))
    if run.injected:
        gone = sum((Counter(epoch.retired) for epoch in run.epochs), Counter[str]())
        reasons = ", ".join(f"{words(name)} {n}" for name, n in gone.items())
        over = f"over {counted(len(run.epochs), 'epoch')}{f' ({reasons})' if reasons else ''}"
        found.append(Tile(f"{run.injected} / {run.retired}", "variants injected / retired", over))
    return found


# -- several runs in one chart -------------------------------------------------------------------


def colors_of(lines: Sequence[object]) -> list[str]:
    """A color class for each, in their order."""
    return [COLORS[i % len(COLORS)] for i in range(len(lines))]


def overlay(title: str, caption: str, lines: Sequence[Series], axes: Axes) -> Figure:
    """Lines of several runs in one chart, with their legend."""
    legend = [(line.name, line.css) for line in lines]
    return Figure(title, caption, plots.line_chart(lines, axes), legend)


def overlays(runs: Sequence[RunData], labels: Sequence[str]) -> list[Figure]:
    """Learning curves of all runs in common charts."""
    figures: list[Figure] = []
    named = list(zip(runs, labels, colors_of(runs), strict=True))
    for title, caption, curves, share, _ in (*CURVES, *TOOL_CURVES):
        axes = Axes("update", (0.0, 1.0) if share else None)
        for curve in curves:
            found = (step_series(run.steps, curve.key, label, css) for run, label, css in named)
            lines = [replace(line, faint=None) for line in found if line]  # without thin lines
            if any(moves(line.ys) for line in lines):
                name = title if len(curves) == 1 else f"{title}: {curve.name}"
                figures.append(overlay(name, caption, lines, axes))
    return figures

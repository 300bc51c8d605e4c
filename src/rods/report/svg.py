"""Charts as inline SVG text. Owns scales, axes and marks; knows nothing about runs.

Colours are CSS classes (`s-hard`, `s-1`) that the page defines for light and dark.
Every text is escaped. Line and stacked charts carry their numbers in `data-series`, from which the
page's script shows values under the pointer; the charts are complete without it.

    line_chart([Series("reward", [0, 1, 2], [0.1, 0.4, 0.5], "s-1")], Axes(x_label="step"))
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True, slots=True)
class Series:
    """One named list of points; NaN breaks a line."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    css: str = "s-1"
    faint: Sequence[float] | None = None
    """Raw values drawn thinly behind `ys` (which are then a moving average)."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Size, labels and ranges of a chart, in SVG units."""

    width: int = 540
    height: int = 230
    left: int = 46
    right: int = 14
    top: int = 12
    bottom: int = 38
    x_label: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    whole_x: bool = True
    """The x axis counts something, so its ticks are whole numbers."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Axes with settled ranges: maps data to pixels."""

    axes: Axes
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """Horizontal pixel of a data value."""
        a = self.axes
        return a.left + (value - self.x0) / (self.x1 - self.x0) * (a.width - a.left - a.right)

    def y(self, value: float) -> float:
        """Vertical pixel of a data value."""
        a = self.axes
        return a.height - a.bottom - self.rise(value)

    def rise(self, value: float) -> float:
        """Pixels between the bottom of the plot and a data value."""
        a = self.axes
        return (value - self.y0) / (self.y1 - self.y0) * (a.height - a.top - a.bottom)


def ticks(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """About `count` round numbers within [low, high] (steps of 1, 2, 2.5 or 5 times 10^k)."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    step = max(1.0, round(step)) if whole else step
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def number(value: float) -> str:
    """A short text of a number: 0, 0.25, 1.2k, 3e-06."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g}M"
    if size >= 10_000:
        return f"{value / 1e3:.3g}k"
    if size >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3g}"


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Centred moving average over at most `window` values; NaN values are left out of it."""
    half, out = window // 2, list[float]()
    for i in range(len(values)):
        near = [v for v in values[max(0, i - half) : i + half + 1] if not math.isnan(v)]
        out.append(math.fsum(near) / len(near) if near else math.nan)
    return out


def line_chart(
    series: Sequence[Series], axes: Axes, marks: Sequence[tuple[float, str]] = ()
) -> Markup:
    """Lines over a common x axis; `marks` are x values with a text, drawn as thin uprights."""
    frame = _fit(axes, [s.xs for s in series], [[*s.ys, *(s.faint or ())] for s in series])
    parts = [_grid(frame)]
    parts.extend(_uprights(frame, marks))
    for s in series:
        if s.faint is not None:
            parts.append(f'<path class="line faint {s.css}" d="{_path(frame, s.xs, s.faint)}"/>')
        parts.append(f'<path class="line {s.css}" d="{_path(frame, s.xs, s.ys)}"/>')
        if len(s.xs) == 1:
            parts.append(_dot(frame, s.xs[0], s.ys[0], s.css, 3.5))
    return _svg(frame, parts, series)


def stacked_area(
    xs: Sequence[float], layers: Sequence[tuple[str, Sequence[float], str]], axes: Axes
) -> Markup:
    """Layers (name, values, css class) stacked from the bottom; drawn as bars with few points."""
    totals = [math.fsum(layer[1][i] for layer in layers) for i in range(len(xs))]
    bars = len(xs) <= 40
    if bars and xs:
        gap = min((b - a for a, b in itertools.pairwise(xs)), default=1.0) or 1.0
        axes = axes if axes.x_range else _with_x(axes, (xs[0] - gap / 2, xs[-1] + gap / 2))
    else:
        gap = 0.0
    frame = _fit(axes, [xs], [[0.0, *totals]])
    parts = [_grid(frame)]
    base = [0.0] * len(xs)
    for name, values, css in layers:
        top = [b + v for b, v in zip(base, values, strict=True)]
        if bars:
            parts.extend(
                _bar(frame, x, gap * 0.72, b, t, css, f"{name}: {number(t - b)}")
                for x, b, t in zip(xs, base, top, strict=True)
            )
        else:
            there = [f"{frame.x(x):.1f},{frame.y(t):.1f}" for x, t in zip(xs, top, strict=True)]
            back = [f"{frame.x(x):.1f},{frame.y(b):.1f}" for x, b in zip(xs, base, strict=True)]
            points = " ".join([*there, *reversed(back)])
            parts.append(f'<polygon class="fill {css}" points="{points}"/>')
        base = top
    return _svg(frame, parts, [Series(name, xs, values, css) for name, values, css in layers])


def histogram(
    groups: Sequence[tuple[str, Sequence[float], str]],
    edges: Sequence[float],
    axes: Axes,
    band: tuple[float, float] | None = None,
    marker: tuple[float, str] | None = None,
) -> Markup:
    """Stacked counts of several groups (name, values, css) over bins; the last bin is closed.

    Args:
        groups: values outside of the edges are not drawn; the caller chooses edges that hold all.
        edges: rising limits of the bins.
        axes: the x range is that of the edges.
        band: an interval of x to shade.
        marker: an x value and the text of a vertical line.
    """
    counts = [_count(values, edges) for _, values, _ in groups]
    totals = [float(sum(c)) for c in zip(*counts, strict=True)]
    frame = _fit(_with_x(axes, (edges[0], edges[-1])), [edges], [[0.0, 1.0, *totals]])
    parts = [_band(frame, band)] if band else []
    parts.append(_grid(frame))
    base = [0.0] * (len(edges) - 1)
    for (name, _, css), column in zip(groups, counts, strict=True):
        for i, count in enumerate(column):
            if count:
                middle, width = (edges[i] + edges[i + 1]) / 2, (edges[i + 1] - edges[i]) * 0.9
                text = f"{name}: {count} in {number(edges[i])} to {number(edges[i + 1])}"
                parts.append(_bar(frame, middle, width, base[i], base[i] + count, css, text))
        base = [b + c for b, c in zip(base, column, strict=True)]
    if marker:
        parts.append(_marker(frame, *marker))
    return _svg(frame, parts, [])


def scatter(
    groups: Sequence[tuple[str, Sequence[tuple[float, float, int]], str]],
    axes: Axes,
    band: tuple[float, float] | None = None,
    curve: Sequence[tuple[float, float]] = (),
) -> Markup:
    """Points (x, y, count) of several groups; a dot grows with its count."""
    points = [p for _, group, _ in groups for p in group]
    frame = _fit(
        axes,
        [[p[0] for p in points] + [c[0] for c in curve]],
        [[p[1] for p in points] + [c[1] for c in curve]],
    )
    growth = min(0.9, 8 / math.sqrt(max([p[2] for p in points] + [1])))
    parts = [_band(frame, band)] if band else []
    parts.append(_grid(frame))
    for name, group, css in groups:
        for x, y, count in group:
            text = f"{name}: {count} at rbar {x:.3f}, variance {y:.4f}"
            radius = 1.9 + growth * math.sqrt(count)
            parts.append(_dot(frame, x, y, f"point {css}", radius, text))
    if curve:
        path = _path(frame, [c[0] for c in curve], [c[1] for c in curve])
        parts.append(f'<path class="curve" d="{path}"/>')
    return _svg(frame, parts, [])


def bars(rows: Sequence[tuple[str, float, str, str]], width: int = 540, label: int = 150) -> Markup:
    """Horizontal bars: (name, value, text at its end, css class)."""
    height, most = 26 * len(rows) + 6, max([r[1] for r in rows] + [1e-9])
    parts: list[str] = []
    for i, (name, value, text, css) in enumerate(rows):
        y, length = 4 + 26 * i, value / most * (width - label - 120)
        parts.append(
            f'<text class="name" x="{label - 8}" y="{y + 14}" text-anchor="end">'
            f"{escape(name)}</text>"
            f'<rect class="fill {css}" x="{label}" y="{y + 2}" width="{max(length, 1):.1f}" '
            f'height="16" rx="2"/><text x="{label + max(length, 1) + 7:.1f}" y="{y + 14}">'
            f"{escape(text)}</text>"
        )
    return Markup(
        f'<svg class="chart bars" role="img" viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    )


def whisker(mean: float, low: float, high: float, reach: tuple[float, float], css: str) -> Markup:
    """A dot with its interval on the scale `reach`, which must hold zero, marked by an upright."""
    width, height = 92, 18

    def x(value: float) -> float:
        return 5 + (value - reach[0]) / (reach[1] - reach[0]) * (width - 10)

    return Markup(
        f'<svg class="whisker" role="img" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" '
        f'y2="{height}"/><line class="reach {css}" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="9" '
        f'y2="9"/><circle class="fill {css}" cx="{x(mean):.1f}" cy="9" r="4"/></svg>'
    )


def _count(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for value in values:
        for i in range(len(counts)):
            last = i == len(counts) - 1
            if edges[i] <= value < edges[i + 1] or (last and value == edges[-1]):
                counts[i] += 1
                break
    return counts


def _with_x(axes: Axes, x_range: tuple[float, float]) -> Axes:
    return dataclasses.replace(axes, x_range=x_range)


def _fit(axes: Axes, xs: Sequence[Sequence[float]], ys: Sequence[Sequence[float]]) -> Frame:
    every_x = [v for column in xs for v in column if math.isfinite(v)] or [0.0, 1.0]
    every_y = [v for column in ys for v in column if math.isfinite(v)] or [0.0, 1.0]
    x0, x1 = axes.x_range or (min(every_x), max(every_x))
    if x0 == x1:
        x0, x1 = x0 - 0.5, x1 + 0.5
    if axes.y_range:
        return Frame(axes, x0, x1, *axes.y_range)
    y0, y1 = min(every_y), max(every_y)
    if y0 >= 0 and y0 < 0.6 * y1:
        y0 = 0.0
    spread = (y1 - y0) or abs(y1) or 1.0
    marks = ticks(y0, y1 + 0.02 * spread, 4)
    step = marks[1] - marks[0] if len(marks) > 1 else spread
    return Frame(
        axes,
        x0,
        x1,
        math.floor(y0 / step + 1e-6) * step,
        math.ceil((y1 + 0.02 * spread) / step - 1e-6) * step,
    )


def _grid(frame: Frame) -> str:
    a, parts = frame.axes, list[str]()
    for value in ticks(frame.y0, frame.y1, 4):
        y = frame.y(value)
        parts.append(
            f'<line class="grid" x1="{a.left}" x2="{a.width - a.right}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/><text x="{a.left - 7}" y="{y + 4:.1f}" text-anchor="end">'
            f"{number(value)}</text>"
        )
    floor = a.height - a.bottom
    for value in ticks(frame.x0, frame.x1, 7, a.whole_x):
        x = frame.x(value)
        parts.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 4}"/>'
            f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{number(value)}</text>'
        )
    parts.append(
        f'<line class="axis" x1="{a.left}" x2="{a.width - a.right}" y1="{floor}" y2="{floor}"/>'
    )
    if a.x_label:
        parts.append(
            f'<text class="label" x="{a.width - a.right}" y="{a.height - 4}" '
            f'text-anchor="end">{escape(a.x_label)}</text>'
        )
    return "".join(parts)


def _path(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> str:
    commands: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(y):
            pen = "M"
            continue
        commands.append(f"{pen}{frame.x(x):.1f} {frame.y(y):.1f}")
        pen = "L"
    return "".join(commands)


def _bar(
    frame: Frame, x: float, width: float, low: float, high: float, css: str, title: str
) -> str:
    left, right = frame.x(x - width / 2), frame.x(x + width / 2)
    return (
        f'<rect class="fill {css}" x="{left:.1f}" y="{frame.y(high):.1f}" '
        f'width="{right - left:.1f}" height="{frame.rise(high) - frame.rise(low):.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _dot(frame: Frame, x: float, y: float, css: str, radius: float, title: str = "") -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<circle class="fill {css}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" '
        f'r="{radius:.1f}">{inner}</circle>'
    )


def _band(frame: Frame, band: tuple[float, float]) -> str:
    a, left, right = frame.axes, frame.x(band[0]), frame.x(band[1])
    return (
        f'<rect class="band" x="{left:.1f}" y="{a.top}" width="{right - left:.1f}" '
        f'height="{a.height - a.top - a.bottom}"/>'
    )


def _marker(frame: Frame, value: float, text: str) -> str:
    a, x = frame.axes, frame.x(value)
    side, shift = ("end", -6) if x > a.width / 2 else ("start", 6)
    return (
        f'<line class="marker" x1="{x:.1f}" x2="{x:.1f}" y1="{a.top}" y2="{a.height - a.bottom}"/>'
        f'<text class="strong" x="{x + shift:.1f}" y="{a.top + 12}" text-anchor="{side}">'
        f"{escape(text)}</text>"
    )


def _uprights(frame: Frame, marks: Sequence[tuple[float, str]]) -> list[str]:
    """One line a mark; a text that would run into the one before stands a row lower."""
    drawn: list[str] = []
    row, free = 0, float("-inf")
    for value, text in marks:
        row = row + 1 if frame.x(value) < free else 0
        free = frame.x(value) + 7 * len(text) + 8
        drawn.append(_upright(frame, value, text, row))
    return drawn


def _upright(frame: Frame, value: float, text: str, row: int) -> str:
    a, x = frame.axes, frame.x(value)
    y = a.top + 4 + 11 * row
    return (
        f'<line class="upright" x1="{x:.1f}" x2="{x:.1f}" y1="{a.top}" '
        f'y2="{a.height - a.bottom}"/><text class="label" x="{x + 4:.1f}" y="{y}">'
        f"{escape(text)}</text>"
    )


def _svg(frame: Frame, parts: Sequence[str], series: Sequence[Series]) -> Markup:
    a, data = frame.axes, ""
    if series:
        payload = {
            "x": [frame.x0, frame.x1, a.left, a.width - a.right],
            "label": a.x_label,
            "series": [[s.name, s.css, *_pairs(s)] for s in series],
        }
        data = f' data-series="{escape(json.dumps(payload, separators=(",", ":")))}"'
    return Markup(
        f'<svg class="chart" role="img" viewBox="0 0 {a.width} {a.height}"{data}>'
        f"{''.join(parts)}</svg>"
    )


def _pairs(series: Series) -> tuple[list[float], list[float | None]]:
    shown = series.faint if series.faint is not None else series.ys
    return [float(x) for x in series.xs], [None if math.isnan(y) else round(y, 6) for y in shown]

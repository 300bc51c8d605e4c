"""Charts as inline SVG text. Owns lines, bars and dots on a `frame`; knows nothing about runs.

Colours are CSS classes (`s-hard`, `s-1`) that the page defines for light and dark.
Every text is escaped. Line and stacked charts carry their numbers in `data-series`, from which the
page's script shows values under the pointer; the charts are complete without it.

    line_chart([Series("reward", [0, 1, 2], [0.1, 0.4, 0.5], "s-1")], Axes(x_label="step"))
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from rods.report.frame import Axes, Frame, fit, grid, mark, number, shade, uprights, with_x


@dataclass(frozen=True, slots=True)
class Series:
    """One named list of points; NaN breaks a line."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    css: str = "s-1"
    faint: Sequence[float] | None = None
    """Raw values drawn thinly behind `ys` (which are then a moving average)."""


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
    frame = fit(axes, [s.xs for s in series], [[*s.ys, *(s.faint or ())] for s in series])
    parts = [grid(frame)]
    parts.extend(uprights(frame, marks))
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
        axes = axes if axes.x_range else with_x(axes, (xs[0] - gap / 2, xs[-1] + gap / 2))
    else:
        gap = 0.0
    frame = fit(axes, [xs], [[0.0, *totals]])
    parts = [grid(frame)]
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
    frame = fit(with_x(axes, (edges[0], edges[-1])), [edges], [[0.0, 1.0, *totals]])
    parts = [shade(frame, band)] if band else []
    parts.append(grid(frame))
    base = [0.0] * (len(edges) - 1)
    for (name, _, css), column in zip(groups, counts, strict=True):
        for i, count in enumerate(column):
            if count:
                middle, width = (edges[i] + edges[i + 1]) / 2, (edges[i + 1] - edges[i]) * 0.9
                text = f"{name}: {count} in {number(edges[i])} to {number(edges[i + 1])}"
                parts.append(_bar(frame, middle, width, base[i], base[i] + count, css, text))
        base = [b + c for b, c in zip(base, column, strict=True)]
    if marker:
        parts.append(mark(frame, *marker))
    return _svg(frame, parts, [])


def scatter(
    groups: Sequence[tuple[str, Sequence[tuple[float, float, int]], str]],
    axes: Axes,
    band: tuple[float, float] | None = None,
    curve: Sequence[tuple[float, float]] = (),
) -> Markup:
    """Points (x, y, count) of several groups; a dot grows with its count."""
    points = [p for _, group, _ in groups for p in group]
    frame = fit(
        axes,
        [[p[0] for p in points] + [c[0] for c in curve]],
        [[p[1] for p in points] + [c[1] for c in curve]],
    )
    growth = min(0.9, 8 / math.sqrt(max([p[2] for p in points] + [1])))
    parts = [shade(frame, band)] if band else []
    parts.append(grid(frame))
    for name, group, css in groups:
        for x, y, count in group:
            text = f"{name}: {count} at mean reward {x:.3f}, variance {y:.4f}"
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

"""Charts as plotly figures: plain data that the page's script draws. Knows nothing about runs.

A color is a class of the style sheet (`s-hard`, `s-1`). A figure holds it as `var(--hard)`, and
the script of the page puts the value in. Names are escaped, because plotly reads markup.

    line_chart([Series("reward", [0, 1, 2], [0.1, 0.4, 0.5], "s-1")], Axes("update"))
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from markupsafe import escape

from rods.errors import StoreError
from rods.infra.install import install_line

Plot: TypeAlias = dict[str, Any]
"""A plotly figure: `data` (traces) and `layout`."""
Layer: TypeAlias = tuple[str, Sequence[float], str]
"""A name, its values and its color class."""
NUMBERED = {"s-1": "one", "s-2": "two", "s-3": "three", "s-4": "four"}
"""Colors of the style sheet whose classes are numbers."""
FEW = 12
"""Lines of fewer points show them."""
LETTER = 7 / 260
"""Width of a letter as a share of the narrowest chart."""


@dataclass(frozen=True, slots=True)
class Series:
    """One named list of points; NaN breaks a line."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    css: str = "s-1"
    faint: Sequence[float] | None = None
    """Raw values drawn thinly behind `ys` (which are then a moving average)."""


class Axes(NamedTuple):
    """Label of x, and range of y where it is fixed."""

    x_label: str = ""
    y_range: tuple[float, float] | None = None


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Centered moving average over at most `window` values; NaN values are left out of it."""
    half, out = window // 2, list[float]()
    for i in range(len(values)):
        near = [v for v in values[max(0, i - half) : i + half + 1] if not math.isnan(v)]
        out.append(math.fsum(near) / len(near) if near else math.nan)
    return out


def line_chart(
    series: Sequence[Series], axes: Axes, marks: Sequence[tuple[float, str]] = ()
) -> Plot:
    """Lines over a common x axis; `marks` are x values with a text, drawn as thin uprights."""
    traces: list[Plot] = []
    for s in series:
        if s.faint is not None:
            traces.append(_line(s, s.faint, width=1) | {"opacity": 0.35})
        mode = "lines+markers" if len(s.xs) < FEW else "lines"
        shown = _line(s, s.ys, width=2.2) | {"mode": mode, "marker": {"size": 5}}
        traces.append(shown if s.faint is None else shown | {"hoverinfo": "skip"})
    xs = [x for s in series for x in s.xs]
    layout = _layout(axes, xs, [y for s in series for y in (*s.ys, *(s.faint or ()))])
    return {"data": traces, "layout": layout | _uprights(marks, xs)}


def stacked_bars(xs: Sequence[float], layers: Sequence[Layer], axes: Axes) -> Plot:
    """Layers stacked from the bottom, a bar for each x."""
    traces = [_bar(name, xs, values, css) for name, values, css in layers]
    layout = _layout(axes, xs, [0.0]) | {"barmode": "stack", "bargap": 0.28 if len(xs) < 60 else 0}
    return {"data": traces, "layout": layout}


def histogram(
    groups: Sequence[Layer],
    edges: Sequence[float],
    axes: Axes,
    band: tuple[float, float],
    marker: tuple[float, str],
) -> Plot:
    """Stacked counts of several groups over bins between rising edges; the last bin is closed.

    Values outside of the edges are not drawn. An interval of x (`band`) is shaded; `marker` is an x
    value and the text of a vertical line.
    """
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    bins = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(edges)]
    traces: list[Plot] = []
    for name, values, css in groups:
        counts = np.histogram(values, edges)[0].tolist()
        trace = _bar(name, middles, counts, css)
        traces.append(trace | {"customdata": bins, "hovertemplate": "%{y} in %{customdata}"})
    at, words = marker
    right = at > (edges[0] + edges[-1]) / 2
    beside: Plot = {"xanchor": "right" if right else "left", "xshift": -4 if right else 4}
    beside |= {"font": {"color": "var(--ink)"}, "yanchor": "bottom"}
    layout: Plot = {
        "xaxis": _x_axis(axes, edges) | {"range": [edges[0], edges[-1]]},
        "yaxis": {"tickformat": ",d"},
        "barmode": "stack", "bargap": 0.1, "margin": {"t": 20},
        "shapes": [_band(band), _upright(at, "var(--ink)", "dash")],
        "annotations": [_words(at, 0, words) | beside],
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def scatter(
    groups: Sequence[tuple[str, Sequence[tuple[float, float, int]], str]],
    axes: Axes,
    band: tuple[float, float],
    curve: Sequence[tuple[float, float]],
) -> Plot:
    """Points (x, y, count) of several groups over a curve; a dot grows with its count."""
    most = max([n for _, group, _ in groups for _, _, n in group] + [1])
    growth = min(1.8, 16 / math.sqrt(most))
    traces: list[Plot] = []
    for name, group, css in groups:
        sizes = [3.8 + growth * math.sqrt(n) for _, _, n in group]
        dots = {"size": sizes, "color": color(css), "opacity": 0.45, "line": {"width": 0}}
        form = f"{escape(name)}: %{{customdata}} at mean progress %{{x:.3f}}, variance %{{y:.4f}}"
        traces.append(
            _points(name, [p[:2] for p in group], "markers")
            | {"marker": dots, "customdata": [n for _, _, n in group]}
            | {"hovertemplate": form + "<extra></extra>", "cliponaxis": False}
        )
    dashed = {"color": "var(--ink)", "width": 1.3, "dash": "dash"}
    traces.append(_points("", curve, "lines") | {"line": dashed, "hoverinfo": "skip"})
    layout = _layout(axes, [x for x, _ in curve], [0.0])
    layout |= {"shapes": [_band(band)], "hovermode": "closest"}
    return {"data": traces, "layout": layout}


def bars(rows: Sequence[tuple[str, float, str, str]]) -> Plot:
    """Horizontal bars: (name, value, text at its end, css class)."""
    trace: Plot = {"type": "bar", "orientation": "h", "textposition": "outside"}
    trace |= {"x": [row[1] for row in rows], "text": [escape(row[2]) for row in rows]}
    trace |= {"marker": {"color": [color(row[3]) for row in rows]}, "hoverinfo": "skip"}
    most = max([value for _, value, _, _ in rows] + [1e-9])
    axis = {"visible": False, "range": [0, 1.35 * most]}
    return _rows(trace | {"cliponaxis": False}, [name for name, *_ in rows], axis)


def forest(
    rows: Sequence[tuple[str, float, float, float, str]], reach: tuple[float, float]
) -> Plot:
    """Dots with their intervals beside zero: (name, mean, low, high, css class).

    Args:
        rows: from the top; a name may be markup.
        reach: range of x, common to charts that are read side by side.
    """
    whiskers: Plot = {"type": "data", "symmetric": False, "color": "var(--soft)", "width": 3}
    whiskers |= {"array": [high - mean for _, mean, _, high, _ in rows], "thickness": 1.6}
    trace: Plot = {
        "type": "scatter", "mode": "markers", "x": [mean for _, mean, *_ in rows],
        "marker": {"color": [color(css) for *_, css in rows], "size": 9},
        "error_x": whiskers | {"arrayminus": [mean - low for _, mean, low, *_ in rows]},
        "customdata": [[low, high] for _, _, low, high, _ in rows],
        "hovertemplate": "%{x:+.3f} [%{customdata[0]:+.3f}, %{customdata[1]:+.3f}]<extra></extra>",
    }  # fmt: skip
    axis = {"zeroline": True, "zerolinecolor": "var(--soft)", "nticks": 6, "range": [*reach]}
    return _rows(trace, [name for name, *_ in rows], axis)


def plotly_script() -> str:
    """plotly.js as text for a page: compressed, since as it is it would be 4.8 MB of each page.

    Raises:
        StoreError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise StoreError(f"a page with charts needs plotly: {install_line('train')}.") from error
    packed = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return base64.b64encode(packed).decode()


def color(css: str) -> str:
    """A color class as the variable of the style sheet that holds it."""
    return f"var(--{NUMBERED.get(css, css.removeprefix('s-'))})"


def _line(series: Series, ys: Sequence[float], width: float) -> Plot:
    points = _points(series.name, list(zip(series.xs, ys, strict=True)), "lines")
    return points | {"line": {"color": color(series.css), "width": width}, "cliponaxis": False}


def _points(name: str, points: Sequence[tuple[float, float]], mode: str) -> Plot:
    ys = [round(y, 6) if math.isfinite(y) else None for _, y in points]
    named: Plot = {"type": "scatter", "mode": mode, "name": str(escape(name))}
    return named | {"x": [x for x, _ in points], "y": ys}


def _bar(name: str, xs: Sequence[float], ys: Sequence[float], css: str) -> Plot:
    mark = {"color": color(css)}
    return {"type": "bar", "name": str(escape(name)), "x": [*xs], "y": [*ys], "marker": mark}


def _rows(trace: Plot, names: Sequence[str], axis: Plot) -> Plot:
    """A chart with a row for each name; names may repeat, so rows are numbers with labels."""
    rows = list(range(len(names)))
    labels = {"tickvals": rows, "ticktext": [str(escape(name)) for name in names]}
    side = {**labels, "range": [len(names) - 0.5, -0.5], "showgrid": False, "automargin": True}
    layout: Plot = {"xaxis": axis, "yaxis": side, "hovermode": "closest"}
    layout |= {"height": 40 + 21 * len(names), "margin": {"t": 6, "b": 30}}
    return {"data": [trace | {"y": rows}], "layout": layout}


def _layout(axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> Plot:
    """Both axes; y from 0 where that costs little room."""
    x = _x_axis(axes, xs)
    if axes.y_range:
        return {"xaxis": x, "yaxis": {"range": [*axes.y_range]}}
    known = [v for v in ys if math.isfinite(v)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    mode = "tozero" if low >= 0 and low <= 0.6 * high else "normal"
    return {"xaxis": x, "yaxis": {"rangemode": mode}}


def _x_axis(axes: Axes, xs: Sequence[float]) -> Plot:
    """The label, and whole ticks where x counts few things."""
    label = str(escape(axes.x_label))
    axis: Plot = {"title": {"text": label}, "unifiedhovertitle": {"text": f"{label} %{{x}}"}}
    few = xs and max(xs) - min(xs) < 8 and all(x == int(x) for x in xs)
    return axis | {"dtick": 1, "tickformat": "d"} if few else axis


def _uprights(marks: Sequence[tuple[float, str]], xs: Sequence[float]) -> Plot:
    """One line a mark; a text that would run into the one before stands a row lower."""
    width = (max(xs) - min(xs) if xs else 0.0) or 1.0
    notes: list[Plot] = []
    row, free = 0, -math.inf
    for at, text in marks:
        row = row + 1 if at < free else 0
        free = at + width * LETTER * (len(text) + 1)
        notes.append(_words(at, row, text) | {"xanchor": "left"})
    return {"shapes": [_upright(at, "var(--grey)", "dot") for at, _ in marks], "annotations": notes}


def _upright(at: float, ink: str, dash: str) -> Plot:
    line = {"color": ink, "width": 1.3, "dash": dash}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _words(at: float, row: int, text: str) -> Plot:
    place: Plot = {"x": at, "y": 1, "yref": "paper", "yanchor": "top", "yshift": -12 * row}
    return {**place, "text": str(escape(text)), "showarrow": False}


def _band(limits: tuple[float, float]) -> Plot:
    """A shaded interval of x, below the data."""
    edges = {"x0": limits[0], "x1": limits[1], "y0": 0, "y1": 1, "yref": "paper"}
    look = {"fillcolor": "var(--band)", "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", **edges, **look}

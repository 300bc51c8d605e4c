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
Dot: TypeAlias = tuple[float, float, int]
"""x, y and how many points coincide there."""
Bar: TypeAlias = tuple[str, float, str, str]
"""A name, its value, the text at the end of the bar and its color class."""
Whisker: TypeAlias = tuple[str, float, float, float, str, str]
"""A name, a mean, both ends of its interval (alike: no bar), a color class, the ends in words."""
NUMBERED = {"s-1": "one", "s-2": "two", "s-3": "three", "s-4": "four"}
"""Colors of the style sheet whose classes are numbers."""
FEW_POINTS = 12
"""Lines of fewer points show them."""
LETTER_WIDTH = 7 / 260
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
    """Label of x, range of y where it is fixed, and values of x with a text: thin uprights."""

    x_label: str = ""
    y_range: tuple[float, float] | None = None
    marks: Sequence[tuple[float, str]] = ()


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Centered moving average over at most `window` values; NaN values are left out of it."""
    half = window // 2
    averages: list[float] = []
    for i in range(len(values)):
        near = values[max(0, i - half) : i + half + 1]
        known = [value for value in near if not math.isnan(value)]
        averages.append(math.fsum(known) / len(known) if known else math.nan)
    return averages


def line_chart(series: Sequence[Series], axes: Axes) -> Plot:
    """Lines over a common x axis."""
    traces: list[Plot] = []
    xs: list[float] = []
    ys: list[float] = []
    for line in series:
        xs += line.xs
        ys += line.ys
        shown = _line(line, line.ys, width=2.2)
        shown |= {"mode": "lines+markers" if len(line.xs) < FEW_POINTS else "lines"}
        shown |= {"marker": {"size": 5}}
        if line.faint is not None:
            ys += line.faint
            traces.append(_line(line, line.faint, width=1) | {"opacity": 0.35})
            shown["hoverinfo"] = "skip"  # the raw values answer the pointer
        traces.append(shown)
    return {"data": traces, "layout": _layout(axes, xs, ys) | _uprights(axes.marks, xs)}


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
    bins = list(pairwise(edges))
    middles = [(low + high) / 2 for low, high in bins]
    names = [f"{low:.3g} to {high:.3g}" for low, high in bins]
    traces: list[Plot] = []
    for name, values, css in groups:
        counts = np.histogram(values, edges)[0].tolist()
        trace = _bar(name, middles, counts, css)
        traces.append(trace | {"customdata": names, "hovertemplate": "%{y} in %{customdata}"})
    at, text = marker
    layout: Plot = {
        "xaxis": x_axis(axes, edges) | {"range": [edges[0], edges[-1]]},
        "yaxis": {"tickformat": ",d"},
        "barmode": "stack", "bargap": 0.1, "margin": {"t": 20},
        "shapes": [_band(band), _upright(at, "var(--ink)", "dash")],
        "annotations": [_beside(at, text, left=at > (edges[0] + edges[-1]) / 2)],
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def scatter(
    groups: Sequence[tuple[str, Sequence[Dot], str]],
    axes: Axes,
    band: tuple[float, float],
    curve: Sequence[tuple[float, float]],
) -> Plot:
    """Dots of several groups over a curve; a dot grows with its count."""
    most = max([count for _, dots, _ in groups for _, _, count in dots] + [1])
    growth = min(1.8, 16 / math.sqrt(most))
    traces: list[Plot] = []
    for name, dots, css in groups:
        counts = [count for _, _, count in dots]
        sizes = [3.8 + growth * math.sqrt(count) for count in counts]
        trace = _points(name, [(x, y) for x, y, _ in dots], "markers")
        trace |= {
            "marker": {"size": sizes, "color": color(css), "opacity": 0.6, "line": {"width": 0}},
            "customdata": counts,
            "hovertemplate": f"{escape(name)}: %{{customdata}} at mean progress %{{x:.3f}}, "
            "variance %{y:.4f}<extra></extra>",
            "cliponaxis": False,
        }
        traces.append(trace)
    dashed = {"color": "var(--ink)", "width": 1.3, "dash": "dash"}
    traces.append(_points("", curve, "lines") | {"line": dashed, "hoverinfo": "skip"})
    layout = _layout(axes, [x for x, _ in curve], [0.0])
    layout |= {"shapes": [_band(band)], "hovermode": "closest"}
    return {"data": traces, "layout": layout}


def bars(rows: Sequence[Bar]) -> Plot:
    """Horizontal bars with a text at the end of each."""
    values = [value for _, value, _, _ in rows]
    trace: Plot = {
        "type": "bar", "orientation": "h", "textposition": "outside",
        "x": values, "text": [escape(text) for _, _, text, _ in rows],
        "marker": {"color": [color(css) for _, _, _, css in rows]},
        "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip
    plot = _rows(trace, [row[0] for row in rows], {"visible": False, "range": [0, max(values)]})
    # The text of the longest bar stands in the margin, however narrow the chart is.
    plot["layout"]["margin"]["r"] = 14 + 7 * max(len(row[2]) for row in rows)
    return plot


def forest(rows: Sequence[Whisker], reach: tuple[float, float]) -> Plot:
    """Dots with their intervals beside zero.

    Args:
        rows: from the top; a name may be markup.
        reach: range of x, common to charts that are read side by side.
    """
    whiskers: Plot = {
        "type": "data", "symmetric": False, "color": "var(--soft)", "width": 3,
        "array": [high - mean for _, mean, _, high, *_ in rows], "thickness": 1.6,
        "arrayminus": [mean - low for _, mean, low, *_ in rows],
    }  # fmt: skip
    trace: Plot = {
        "type": "scatter", "mode": "markers", "x": [row[1] for row in rows],
        "marker": {"color": [color(row[4]) for row in rows], "size": 9},
        "error_x": whiskers,
        "customdata": [row[5] for row in rows],
        "hovertemplate": "%{x:+.3f} %{customdata}<extra></extra>",
    }  # fmt: skip
    axis = {"zeroline": True, "zerolinecolor": "var(--soft)", "tickangle": 0, "range": [*reach]}
    return _rows(trace, [row[0] for row in rows], axis)


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
    xs = [x for x, _ in points]
    ys = [round(y, 6) if math.isfinite(y) else None for _, y in points]
    return {"type": "scatter", "mode": mode, "name": str(escape(name)), "x": xs, "y": ys}


def _bar(name: str, xs: Sequence[float], ys: Sequence[float], css: str) -> Plot:
    marker = {"color": color(css)}
    return {"type": "bar", "name": str(escape(name)), "x": [*xs], "y": [*ys], "marker": marker}


def _rows(trace: Plot, names: Sequence[str], axis: Plot) -> Plot:
    """A chart with a row for each name; names may repeat, so rows are numbers with labels."""
    rows = list(range(len(names)))
    names_axis = {
        "tickvals": rows, "ticktext": [str(escape(name)) for name in names],
        "range": [len(names) - 0.5, -0.5], "showgrid": False, "automargin": True,
    }  # fmt: skip
    layout: Plot = {
        "xaxis": axis, "yaxis": names_axis, "hovermode": "closest",
        "height": 40 + 21 * len(names), "margin": {"t": 6, "b": 30},
    }  # fmt: skip
    return {"data": [trace | {"y": rows}], "layout": layout}


def _layout(axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> Plot:
    """Both axes; y from 0 where that costs little room."""
    if axes.y_range:
        return {"xaxis": x_axis(axes, xs), "yaxis": {"range": [*axes.y_range]}}
    known = [y for y in ys if math.isfinite(y)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    mode = "tozero" if 0 <= low <= 0.6 * high else "normal"
    return {"xaxis": x_axis(axes, xs), "yaxis": {"rangemode": mode}}


def x_axis(axes: Axes, xs: Sequence[float]) -> Plot:
    """The label, and whole ticks where x counts few things."""
    label = str(escape(axes.x_label))
    axis: Plot = {"title": {"text": label}, "unifiedhovertitle": {"text": f"{label} %{{x}}"}}
    if xs and min(xs) == max(xs):  # else plotly reaches from -1 to 1 around a single 0
        axis["range"] = [xs[0] - 0.5, xs[0] + 0.5]
    if xs and max(xs) - min(xs) < 8 and all(x == int(x) for x in xs):
        axis |= {"dtick": 1, "tickformat": "d"}
    return axis


def _uprights(marks: Sequence[tuple[float, str]], xs: Sequence[float]) -> Plot:
    """One line a mark; a text that would run into the one before stands a row lower."""
    width = (max(xs) - min(xs) if xs else 0.0) or 1.0
    notes: list[Plot] = []
    row = 0
    end = -math.inf  # where the text before ends
    for at, text in marks:
        row = row + 1 if at < end else 0
        end = at + width * LETTER_WIDTH * (len(text) + 1)
        notes.append(_note(at, row, text) | {"xanchor": "left"})
    return {"shapes": [_upright(at, "var(--grey)", "dot") for at, _ in marks], "annotations": notes}


def _upright(at: float, ink: str, dash: str) -> Plot:
    line = {"color": ink, "width": 1.3, "dash": dash}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _note(at: float, row: int, text: str) -> Plot:
    return {
        "x": at, "y": 1, "yref": "paper", "yanchor": "top", "yshift": -12 * row,
        "text": str(escape(text)), "showarrow": False,
    }  # fmt: skip


def _beside(at: float, text: str, left: bool) -> Plot:
    """The text of a vertical line, above the chart and on one side of the line."""
    side = {"xanchor": "right", "xshift": -4} if left else {"xanchor": "left", "xshift": 4}
    return _note(at, 0, text) | side | {"font": {"color": "var(--ink)"}, "yanchor": "bottom"}


def _band(limits: tuple[float, float]) -> Plot:
    """A shaded interval of x, below the data."""
    return {
        "type": "rect", "x0": limits[0], "x1": limits[1], "y0": 0, "y1": 1, "yref": "paper",
        "fillcolor": "var(--band)", "line": {"width": 0}, "layer": "below",
    }  # fmt: skip

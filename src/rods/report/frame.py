"""What a chart is drawn on: axes with settled ranges, their lines and numbers, marks across them.

Owns scales and everything that belongs to no series. Every text is escaped.

    frame = fit(Axes(x_label="step"), [[0, 1, 2]], [[0.1, 0.4, 0.5]])
    parts = [grid(frame)]
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape


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


def with_x(axes: Axes, x_range: tuple[float, float]) -> Axes:
    """The axes with another range of x."""
    return dataclasses.replace(axes, x_range=x_range)


def fit(axes: Axes, xs: Sequence[Sequence[float]], ys: Sequence[Sequence[float]]) -> Frame:
    """Settle the ranges: those of the axes, else round ones around the data."""
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


def grid(frame: Frame) -> str:
    """Lines and numbers of both axes."""
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


def shade(frame: Frame, band: tuple[float, float]) -> str:
    """A shaded interval of x."""
    a, left, right = frame.axes, frame.x(band[0]), frame.x(band[1])
    return (
        f'<rect class="band" x="{left:.1f}" y="{a.top}" width="{right - left:.1f}" '
        f'height="{a.height - a.top - a.bottom}"/>'
    )


def mark(frame: Frame, value: float, text: str) -> str:
    """A vertical line with its text."""
    a, x = frame.axes, frame.x(value)
    side, shift = ("end", -6) if x > a.width / 2 else ("start", 6)
    return (
        f'<line class="marker" x1="{x:.1f}" x2="{x:.1f}" y1="{a.top}" y2="{a.height - a.bottom}"/>'
        f'<text class="strong" x="{x + shift:.1f}" y="{a.top + 12}" text-anchor="{side}">'
        f"{escape(text)}</text>"
    )


def uprights(frame: Frame, marks: Sequence[tuple[float, str]]) -> list[str]:
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

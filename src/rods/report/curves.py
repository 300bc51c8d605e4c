"""The curves of the report over training steps: what is plotted in which chart.

Owns the tables of curves and their series. It does not draw and reads no files.

    for figure in learning_curves(run):
        figure.title, figure.chart
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rods.report.frame import Axes
from rods.report.run_data import RunData, StepRow
from rods.report.svg import Series, line_chart, smooth


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    title: str
    caption: str
    chart: Markup | None
    """`None`: there are no data for it, and the caption says so."""
    legend: Sequence[tuple[str, str]] = ()
    """Names and colour classes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a learning curve."""

    key: str
    name: str
    css: str = "s-1"


CURVES: Sequence[tuple[str, str, Sequence[Curve], bool]] = (
    (
        "Progress reward",
        "Mean share of turns solved in a step's trajectories: comparable over stages.",
        (Curve("progress_mean", "progress reward", "s-mastered"),),
        True,
    ),
    (
        "Mean reward",
        "Mean training reward of a step's trajectories. Stages may use different rewards.",
        (Curve("reward_mean", "mean reward"),),
        False,
    ),
    (
        "Groups without variance",
        "Share of groups whose rewards are all equal: they give no gradient.",
        (Curve("zero_variance", "share of groups", "s-hard"),),
        True,
    ),
    (
        "Entropy and KL",
        "Mean entropy of the policy (nats a token), and its KL divergence from the frozen start.",
        (Curve("entropy", "entropy", "s-4"), Curve("kl", "KL", "s-3")),
        False,
    ),
    ("Loss", "Policy loss of the update.", (Curve("loss", "loss", "s-2"),), False),
    (
        "Gradient norm",
        "Norm of the gradient before clipping.",
        (Curve("grad_norm", "gradient norm", "s-2"),),
        False,
    ),
    (
        "Clipped tokens",
        "Share of tokens whose probability ratio was clipped from above or from below.",
        (Curve("clip_high", "above", "s-hard"), Curve("clip_low", "below", "s-1")),
        False,
    ),
    (
        "Rollout speed",
        "Generated tokens a second of rollout.",
        (Curve("tokens_per_s", "tokens/s", "s-mastered"),),
        False,
    ),
    (
        "Seconds of a step",
        "Wall-clock time of a step, for rollouts and for the update.",
        (Curve("seconds_rollout", "rollouts", "s-1"), Curve("seconds_update", "update", "s-3")),
        False,
    ),
)


TOOL_CURVES: Sequence[tuple[str, str, Sequence[Curve], bool]] = (
    (
        "Answers and code",
        "Share of responses whose answer is right, that make a call, and both.",
        (
            Curve("accuracy", "right", "s-mastered"),
            Curve("code_ratio", "with a call", "s-1"),
            Curve("code_correct_ratio", "with a call and right", "s-4"),
        ),
        True,
    ),
    (
        "Calls",
        "Executed calls of a response, on average, and right answers per executed call.",
        (
            Curve("calls_per_trajectory", "calls", "s-1"),
            Curve("tool_productivity", "right answers per call", "s-mastered"),
        ),
        False,
    ),
    (
        "Execution success",
        "Share of executed calls that succeeded, in right and in wrong answers.",
        (
            Curve("execution_success_right", "right answers", "s-mastered"),
            Curve("execution_success_wrong", "wrong answers", "s-hard"),
        ),
        True,
    ),
    (
        "Response length",
        "Sampled tokens of a response; what tools printed is not counted.",
        (
            Curve("response_tokens_right", "right answers", "s-mastered"),
            Curve("response_tokens_wrong", "wrong answers", "s-hard"),
        ),
        False,
    ),
    (
        "Position of the first call",
        "Share of the response that stands before its first call, over responses with a call.",
        (Curve("first_call_share", "share of the response", "s-3"),),
        True,
    ),
)
"""Meters of tool use, drawn for runs whose reward judges final answers."""


def learning_curves(run: RunData) -> list[Figure]:
    """One figure for each curve; those that were not measured say so."""
    return _curves(run, CURVES)


def tool_curves(run: RunData) -> list[Figure]:
    """Meters of tool use; empty for runs that have none."""
    if not any("code_ratio" in row.numbers for row in run.steps):
        return []
    return _curves(run, TOOL_CURVES)


def _curves(run: RunData, chosen: Sequence[tuple[str, str, Sequence[Curve], bool]]) -> list[Figure]:
    figures: list[Figure] = []
    stages = stage_starts(run.steps)
    for title, caption, curves, share in chosen:
        series = [s for c in curves if (s := step_series(run.steps, c.key, c.name, c.css))]
        if not series:
            figures.append(Figure(title, "Not recorded in this run.", None))
            continue
        axes = Axes(x_label="step", y_range=(0.0, 1.0) if share else None)
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

"""Charts of the overview and of the boundary map. Owns what is plotted, not how it is drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from rods.report.heldout import held_out_curve
from rods.report.panels import Figure, boundary_band, colors_of, overlay, step_series
from rods.report.plots import Axes, Plot, Series, color, x_axis
from rods.report.run_data import Made, RunData
from rods.view.runs import RunView

Points: TypeAlias = Callable[[RunData], Sequence[tuple[float, float]]]  # What a run has of a curve
STEPS, SHARES = Axes("update"), Axes("update", (0.0, 1.0))
LINES = 400  # Tasks whose course is drawn as a line; of more, only points are drawn
CURVES = {
    "reward_mean": ("Reward", "Mean reward of an update's trajectories.", STEPS),
    "zero_variance": (
        "Groups without variance",
        "Share of groups whose rewards are all equal.",
        SHARES,
    ),
    "trajectories_per_s": ("Speed", "Trajectories per second of rollouts.", STEPS),
}


def overview(runs: Sequence[RunView]) -> list[Figure]:
    """The curves of all runs, over one another, with the starts of stages that all have."""
    starts = [run.data.stage_starts for run in runs if run.data.steps] or [[]]
    stages = [start for start in starts[0] if all(start in each for each in starts)]

    def drawn(title: str, caption: str, axes: Axes, points: Points) -> Figure:
        lines: list[Series] = []
        for run, css in zip(runs, colors_of([None, *runs])[1:], strict=True):  # the first is grey
            if found := points(run.data):
                xs, ys = zip(*found, strict=True)
                lines.append(Series(run.label, xs, ys, css))
        if not lines:
            return Figure(title, "Not recorded so far.", None)
        return overlay(title, caption, lines, axes)

    reward, variance, speed = (
        drawn(title, caption, axes._replace(marks=stages), partial(_steps, key))
        for key, (title, caption, axes) in CURVES.items()
    )
    sampled = Axes("trajectories", (0.0, 1.0))
    held_out = [
        drawn(title, caption, sampled, partial(_held_out, of))
        for of, title, caption in (
            ("original", "Held-out original tasks", "Mean progress of sampled trajectories."),
            ("variant", "Held-out variants", "Mean progress of sampled trajectories."),
        )
        if of == "original" or any(_held_out(of, run.data) for run in runs)
    ]
    pool = drawn("Pool size", "Tasks that can be drawn at the start of each epoch.", STEPS, _pool)
    made = drawn("Synthesis yield", "Accepted share of all candidates until then.", SHARES, _yield)
    return [reward, *held_out, pool, variance, made, speed]


def _steps(key: str, data: RunData) -> Sequence[tuple[float, float]]:
    found = step_series(data.steps, key, "", "")
    return list(zip(found.xs, found.ys, strict=True)) if found else []


def _pool(data: RunData) -> Sequence[tuple[float, float]]:
    return [(e.step, e.originals + e.generated) for e in data.epochs]


def _held_out(of: str, data: RunData) -> Sequence[tuple[float, float]]:
    return [point[:2] for point in held_out_curve([data], of, "progress")]


def _yield(data: RunData) -> list[tuple[float, float]]:
    rows: list[tuple[float, Made]] = [(row.step, row.made) for row in (*data.epochs, *data.steps)]
    return [(s, m.accepted / m.tried) for s, m in sorted(rows, key=lambda r: r[0]) if m.tried]


class TaskCourse(NamedTuple):
    """One task's judgements over training."""

    task_id: str
    category: str
    origin: str
    """`original` or `variant`."""
    points: list[tuple[int, float]]
    """Steps and mean progress."""

    @property
    def last(self) -> float:
        """The latest mean progress."""
        return self.points[-1][1]


def courses(data: RunData) -> dict[str, TaskCourse]:
    """Every judged task by its id."""
    points: Mapping[str, list[tuple[int, float]]] = defaultdict(list)
    found: dict[str, TaskCourse] = {}
    for step, judged in data.judgements:
        task = judged.task_id
        points[task].append((step, judged.rbar))
        found[task] = TaskCourse(task, judged.category, judged.origin, points[task])
    return found


def boundary_map(run: RunView, found: Mapping[str, TaskCourse]) -> Figure:
    """Mean progress of every task over updates; dotted lines lead from ancestors to variants."""
    title = "Boundary map"
    if not found:
        return Figure(title, "No task has been judged so far.", None)
    low, high = boundary_band(run.data)
    kinds = {"original": ("original task", "s-grey"), "variant": ("variant", "s-boundary")}
    traces: list[Plot] = [_descent(run, found)]
    for origin, (name, css) in kinds.items():
        mine = [c for c in found.values() if c.origin == origin]
        if mine:
            traces.append(_trace(name, css, mine, len(found) <= LINES))
    band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high}
    look = {"fillcolor": "var(--band)", "line": {"width": 0}, "layer": "below"}
    layout: Plot = {
        "xaxis": x_axis(STEPS, [x for course in found.values() for x, _ in course.points]),
        "yaxis": {"title": {"text": "mean progress"}, "range": [-0.03, 1.03]},
        "shapes": [{**band, **look}],
    }
    each = " A solid line is the course of one task." * (len(found) <= LINES)
    caption = (
        f"{len(found)} tasks. Shaded: the boundary, from {low:g} to {high:g}. Dotted lines lead "
        f"from an ancestor to its variant.{each} A click opens the task."
    )
    return Figure(title, caption, {"data": traces, "layout": layout}, list(kinds.values()))


def _trace(name: str, css: str, mine: Sequence[TaskCourse], lines: bool) -> Plot:
    xs, ys, ids = list[Any](), list[Any](), list[Any]()
    for course in mine:
        for step, rbar in course.points:
            xs.append(step)
            ys.append(round(rbar, 4))
            ids.append(course.task_id)
        xs.append(None)  # a gap, so that the next task has a line of its own
        ys.append(None)
        ids.append(None)
    return {
        "type": "scattergl" if len(xs) > 5000 else "scatter", "name": name,
        "mode": "lines+markers" if lines else "markers",
        "x": xs, "y": ys, "customdata": ids,
        "line": {"color": color(css), "width": 0.8},
        "marker": {"color": color(css), "size": 6, "opacity": 0.75},
        "hovertemplate": "%{customdata}<br>update %{x}, mean progress %{y:.2f}<extra></extra>",
    }  # fmt: skip


def _descent(run: RunView, found: Mapping[str, TaskCourse]) -> Plot:
    xs, ys = list[Any](), list[Any]()
    for course in found.values():
        task = run.tasks.get(course.task_id)
        if task is None or task.is_original:
            continue
        parent = found.get(task.provenance.ancestors[-1])
        step, progress = course.points[0]
        before = [point for point in parent.points if point[0] < step] if parent else []
        if before:
            last_step, last_progress = before[-1]
            xs += [last_step, step, None]
            ys += [round(last_progress, 4), round(progress, 4), None]
    return {
        "type": "scatter", "mode": "lines", "x": xs, "y": ys, "hoverinfo": "skip",
        "name": "descent", "line": {"color": "var(--three)", "width": 1, "dash": "dot"},
        "opacity": 0.7,
    }  # fmt: skip

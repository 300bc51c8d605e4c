"""Held-out results as rows: before, after and the paired difference, for each set and part of it.

Owns which tasks and which evaluations are paired with which, and what a level of the results took;
the intervals come from `evaluation/stats.py`. A set's parts are its writers (where it has variants
of several) and its categories. Knows neither tables nor pages.

    for row in result_rows(run.evaluation("before"), run.last_evaluation):
        row.part.label, row.cells["greedy_progress"].difference
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple, cast

from rods.evaluation.stats import Interval, mean_ci, paired_difference
from rods.report.run_data import EvalRow, EvaluationPass, RunData

METRICS: Mapping[str, tuple[str, str]] = {
    "greedy_progress": ("Progress", "greedy"),
    "progress": ("Progress", "sampled"),
    "greedy_solved": ("Conversations solved", "greedy"),
    "solved": ("Conversations solved", "sampled"),
    "greedy_official": ("Official verdict", "greedy"),
    "official": ("Official verdict", "sampled"),
}
"""What is measured, and how."""
LEADING = tuple(METRICS)[:4]
"""What tables lead with; the benchmark's own verdict stands in the report."""
OF_TURNS = {"greedy_solved": "greedy_progress", "solved": "progress"}
"""What tasks of one turn have twice."""
SETS: Mapping[str, str] = {"variant": "Held-out variants", "original": "Held-out original tasks"}
WRITERS: Mapping[str, str] = {
    "graph": "template-written messages",
    "resample": "human-written messages",
}
WRITERS_NOTE = (
    "Template-written messages (graph) are filled in from templates. Human-written messages "
    "(resample) are those of original tasks, with other names and values."
)
CATEGORIES: Mapping[str, str] = {
    "base": "base",
    "miss_func": "missing function",
    "miss_param": "missing parameter",
    "long_context": "long context",
}


def category_words(category: str) -> str:
    """A category as words: `miss_func` becomes `missing function`."""
    return CATEGORIES.get(category, category.replace("_", " "))


FAIR = 0.05
"""Runs whose trajectories or tokens differ by a larger share count as different budgets."""


@dataclass(frozen=True, slots=True)
class MetricCell:
    """One metric of one row. A part is `None` where it was not measured or has no interval."""

    before: Interval | None = None
    after: Interval | None = None
    difference: Interval | None = None
    paired: int = 0
    """Tasks that both evaluations hold."""
    against: Interval | None = None
    """In a comparison: this one after training minus the baseline after training; `None` for the
    baseline."""
    common: int = 0
    """Tasks behind `against`."""


class TaskSubset(NamedTuple):
    """Some tasks of a set: all of them, those of a writer, or those of a category."""

    set: str
    by: Literal["", "writer", "category"] = ""
    value: str = ""

    def holds(self, row: EvalRow) -> bool:
        """Whether a task belongs to it."""
        return row.set == self.set and (not self.by or getattr(row, self.by) == self.value)

    @property
    def title(self) -> str:
        """Name of the set."""
        return SETS.get(self.set, self.set)

    @property
    def label(self) -> str:
        """Name in the first column of a table."""
        if not self.by:
            return "all"
        return (WRITERS if self.by == "writer" else CATEGORIES).get(self.value, self.value)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One part of one set."""

    part: TaskSubset
    tasks: int
    scenarios: int
    cells: Mapping[str, MetricCell]


def result_rows(
    before: EvaluationPass | None,
    after: EvaluationPass | None,
    base: EvaluationPass | None = None,
    mine: EvaluationPass | None = None,
) -> list[ResultRow]:
    """All rows: for each set first all tasks, then each writer, then each category.

    In a comparison, `base` is the baseline's evaluation and `mine` this one, both after training.
    """
    passes = [by_key(one) for one in (before, after, base, mine)]
    everything = [*{**passes[0], **passes[1]}.values()]
    rows: list[ResultRow] = []
    for part in _parts(everything):
        held = [row for row in everything if part.holds(row)]
        cells = {metric: _cell(part, metric, passes) for metric in METRICS}
        rows.append(ResultRow(part, len(held), len({row.scenario for row in held}), cells))
    return rows


def _parts(rows: Sequence[EvalRow]) -> list[TaskSubset]:
    """Each set, its writers and its categories; one alone says nothing beside the whole."""
    parts: list[TaskSubset] = []
    for name in sorted({row.set for row in rows}, key=_order(SETS)):
        parts.append(TaskSubset(name))
        mine = [row for row in rows if row.set == name]
        writers = sorted({row.writer for row in mine}, key=_order(WRITERS))
        groups = sorted({row.category for row in mine}, key=_order(CATEGORIES))
        parts += [TaskSubset(name, "writer", w) for w in writers if len(writers) > 1]
        parts += [TaskSubset(name, "category", c) for c in groups if len(groups) > 1]
    return parts


def measured(rows: Iterable[ResultRow], metrics: Iterable[str] = LEADING) -> list[str]:
    """Select the metrics that any row has a value of."""
    cells = [row.cells for row in rows]
    return [name for name in metrics if any(row[name].before or row[name].after for row in cells)]


def shown(rows: Sequence[ResultRow]) -> list[str]:
    """What tables lead with: conversations solved only where it is neither progress nor 0."""
    left_out = {*_twice(rows), *unsolved(rows)}
    return [metric for metric in measured(rows) if metric not in left_out]


def unsolved(rows: Sequence[ResultRow]) -> list[str]:
    """Metrics of conversations solved that are measured, and are 0 in all rows."""
    left = [metric for metric in measured(rows, OF_TURNS) if metric not in _twice(rows)]
    cells = {metric: [row.cells[metric] for row in rows] for metric in left}
    values = {m: [v for c in some for v in (c.before, c.after) if v] for m, some in cells.items()}
    return [metric for metric in left if all(value.mean == 0 for value in values[metric])]


def unsolved_note(rows: Sequence[ResultRow]) -> str:
    """A sentence in place of columns that hold nothing but 0."""
    ways = " and ".join(METRICS[metric][1] for metric in unsolved(rows))
    return f"Conversations solved, {ways}: 0 everywhere." if ways else ""


def _twice(rows: Sequence[ResultRow]) -> set[str]:
    """Metrics of conversations that equal those of turns in all rows."""
    return {
        solved
        for solved, progress in OF_TURNS.items()
        if all(row.cells[solved] == row.cells[progress] for row in rows)
    }


Key = tuple[str, str]
"""What says that two runs evaluated the same task: its set and its id."""


def by_key(evaluation: EvaluationPass | None) -> dict[Key, EvalRow]:
    """The rows of an evaluation; none where there was none."""
    return {(r.set, r.task_id): r for r in evaluation.rows} if evaluation else {}


def _cell(part: TaskSubset, metric: str, passes: Iterable[Mapping[Key, EvalRow]]) -> MetricCell:
    before, after, base, mine = (
        {key: row for key, row in rows.items() if metric in row.values and part.holds(row)}
        for rows in passes
    )
    difference, paired = _paired(metric, before, after)
    against, common = _paired(metric, base, mine)
    means = _mean(metric, before), _mean(metric, after)
    return MetricCell(*means, difference, paired, against, common)


def _mean(metric: str, rows: Mapping[Key, EvalRow]) -> Interval | None:
    values = [row.values[metric] for row in rows.values()]
    return mean_ci(values, [row.scenario for row in rows.values()])


def _paired(
    metric: str, first: Mapping[Key, EvalRow], last: Mapping[Key, EvalRow]
) -> tuple[Interval | None, int]:
    """The difference over the common tasks, and how many these are."""
    both = [key for key in first if key in last]
    difference = paired_difference(
        [first[key].values[metric] for key in both],
        [last[key].values[metric] for key in both],
        [last[key].scenario for key in both],
    )
    return difference, len(both)


def _order(known: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """Sort key: known names in their order, then the others by name."""
    names = list(known)
    return lambda name: (names.index(name) if name in names else len(names), name)


# -- several runs or arms ------------------------------------------------------------------------


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


def without_variants(arms: Mapping[str, Iterable[RunData]]) -> list[str]:
    """Sentences about runs that were to train on variants, and did not."""
    no = "no variant entered the pool of"
    found = {f"{at}: {no} {run.name}": missed(run) for at, runs in arms.items() for run in runs}
    return [f"{which}: {why}." for which, why in found.items() if why]


def missed(run: RunData) -> str:
    """Why no variant entered the pool of a run that was to make some; else empty."""
    stages = cast("list[dict[str, Any]]", run.setting("stages") or [])
    growing = {str(stage["name"]) for stage in stages if stage.get("expand")}
    if run.setting("curriculum") != "rods" or not growing or not run.steps or run.injected:
        return ""
    rows = [row for row in run.steps if row.stage in growing]
    judged = [j for row in rows for j in row.judgements]
    when = " (rods train --dry-run states when variants enter)"
    if not judged:
        return f"training ended before the stage {' or '.join(sorted(growing))}{when}"
    if run.made.tried:
        return f"accepted candidates: {run.made.accepted}; none entered at an epoch's start"
    if any(judgement.region == "boundary" for judgement in judged):
        if rows[0].epoch != rows[-1].epoch:
            return "the synthesis worker tried no candidate"
        return f"training ended in the first epoch of the stage {rows[0].stage}{when}"
    low, high = run.setting("boundary.low"), run.setting("boundary.high")
    return (
        f"no task was on the boundary ({low} to {high}), mean progress "
        f"{fmean(judgement.rbar for judgement in judged):.2f}. A weak model needs more "
        "demonstrations (docs/guides/cold-start.md), a strong one harder tasks"
    )


def notes_of(arms: Mapping[str, Sequence[RunData]]) -> list[str]:
    """Notes of the runs themselves, each once, after the arms that have it, or these runs."""
    notes: dict[str, dict[str, None]] = {}
    for label, mine in arms.items():
        for note in dict.fromkeys(chain.from_iterable(run.notes for run in mine)):
            having = dict.fromkeys(run.name for run in mine if note in run.notes)
            which = f"{label} ({', '.join(having)})" if len(having) < len(mine) else label
            notes.setdefault(note, {})[which] = None
    return [f"{', '.join(who)}: {note}" for note, who in notes.items()]


class Point(NamedTuple):
    """One evaluation, mean over seeds."""

    trajectories: float
    """Sampled for training until then."""
    value: float
    update: float = 0.0  # the last one before it


def held_out_curve(runs: Sequence[RunData], of: str, metric: str) -> list[Point]:
    """Points of an arm's seeds (at least one); `of` is `variant` or `original`."""
    points: list[Point] = []
    for evaluation in runs[0].evaluations:
        found = [p for run in runs if (p := _point(run, evaluation.when, of, metric))]
        if len(found) == len(runs):
            points.append(Point(*map(fmean, zip(*found, strict=True))))
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


def _point(run: RunData, when: str, of: str, metric: str) -> Point | None:
    rows = by_key(run.evaluation(when)).values()
    values = [r.values[metric] for r in rows if r.set == of and metric in r.values]
    if not values:
        return None
    ends = {"before": -math.inf, "after": math.inf}
    last = ends[when] if when in ends else int(when.split()[-1])
    steps = [row for row in run.steps if row.step <= last]
    spent = sum(row.numbers.get("trajectories", 0.0) for row in steps)
    return Point(spent, fmean(values), steps[-1].step if steps else 0)

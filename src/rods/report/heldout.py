"""Held-out results as rows: before, after and the paired difference, for each set and part of it.

Owns which tasks are paired with which; the intervals come from `evaluation/stats.py`. A set's parts
are its writers (where it has variants of several) and its categories.

    for row in result_rows(run.evaluation("before"), run.last_evaluation):
        row.label, row.cells["greedy_progress"].difference
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rods.evaluation.stats import Interval, mean_ci, paired_difference
from rods.report.run_data import EvalRow, EvaluationPass

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
        mine = {"": "", "writer": row.writer, "category": row.category}[self.by]
        return row.set == self.set and mine == self.value

    @property
    def label(self) -> str:
        """What to write in the first column."""
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

    @property
    def set(self) -> str:
        """`variant` or `original`."""
        return self.part.set

    @property
    def whole(self) -> bool:
        """Whether it is the whole set."""
        return not self.part.by


def result_rows(before: EvaluationPass | None, after: EvaluationPass | None) -> list[ResultRow]:
    """All rows: for each set first all tasks, then each writer, then each category."""
    first, last = by_key(before), by_key(after)
    everything = {**first, **last}
    rows: list[ResultRow] = []
    for part in parts_of(list(everything.values())):
        chosen = [k for k, row in everything.items() if part.holds(row)]
        cells = {m: _cell(m, chosen, first, last) for m in METRICS}
        scenarios = {everything[k].scenario for k in chosen}
        rows.append(ResultRow(part, len(chosen), len(scenarios), cells))
    return rows


def parts_of(rows: Sequence[EvalRow]) -> list[TaskSubset]:
    """Each set, its writers and its categories; one alone says nothing beside the whole."""
    parts: list[TaskSubset] = []
    for name in sorted({row.set for row in rows}, key=_order(SETS)):
        mine = [row for row in rows if row.set == name]
        writers = sorted({row.writer for row in mine}, key=_order(WRITERS))
        groups = sorted({row.category for row in mine}, key=_order(CATEGORIES))
        parts.append(TaskSubset(name))
        parts += [TaskSubset(name, "writer", w) for w in writers if len(writers) > 1]
        parts += [TaskSubset(name, "category", c) for c in groups if len(groups) > 1]
    return parts


def measured(rows: Iterable[ResultRow], metrics: Iterable[str] = LEADING) -> list[str]:
    """Those of the metrics that any row has a value of."""
    cells = [row.cells for row in rows]
    return [m for m in metrics if any(c[m].before or c[m].after for c in cells)]


Key = tuple[str, str]
"""What says that two runs evaluated the same task: its set and its id."""


def by_key(evaluation: EvaluationPass | None) -> dict[Key, EvalRow]:
    """The rows of an evaluation; none where there was none."""
    return {(r.set, r.task_id): r for r in evaluation.rows} if evaluation else {}


def _cell(
    metric: str, keys: list[Key], first: Mapping[Key, EvalRow], last: Mapping[Key, EvalRow]
) -> MetricCell:
    before = {k: first[k] for k in keys if k in first and metric in first[k].values}
    after = {k: last[k] for k in keys if k in last and metric in last[k].values}
    both = [k for k in before if k in after]
    difference = paired_difference(
        [before[k].values[metric] for k in both],
        [after[k].values[metric] for k in both],
        [after[k].scenario for k in both],
    )
    return MetricCell(_mean(metric, before), _mean(metric, after), difference, len(both))


def _mean(metric: str, rows: Mapping[Key, EvalRow]) -> Interval | None:
    return mean_ci([r.values[metric] for r in rows.values()], [r.scenario for r in rows.values()])


def _order(known: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """Sort key: known names in their order, then the others by name."""
    names = list(known)
    return lambda name: (names.index(name) if name in names else len(names), name)

"""Held-out results as rows: before, after and the paired difference, for each set and category.

Owns which tasks are paired with which; the intervals come from `evaluation/stats.py`.

    for row in result_rows(run.evaluation("before"), run.last_evaluation):
        row.label, row.cells["progress"].difference
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rods.evaluation.stats import Difference, Interval, mean_ci, paired_difference
from rods.report.run_data import EvalRow, Evaluation

METRICS: Mapping[str, str] = {
    "progress": "Progress reward",
    "solved": "Accuracy, our verdict",
    "parity": "Accuracy, official parity",
}
SETS: Mapping[str, str] = {"variant": "Held-out variants", "original": "Held-out original tasks"}
CATEGORIES: Mapping[str, str] = {
    "base": "base",
    "miss_func": "missing function",
    "miss_param": "missing parameter",
    "long_context": "long context",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric of one row. A part is `None` where it was not measured or has no interval."""

    before: Interval | None
    after: Interval | None
    difference: Difference | None
    paired: int
    """Tasks that both evaluations hold."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One set, or one category of it."""

    set: str
    category: str
    """Empty: all categories."""
    tasks: int
    scenarios: int
    cells: Mapping[str, Cell]

    @property
    def label(self) -> str:
        """What to write in the first column."""
        return CATEGORIES.get(self.category, self.category) if self.category else "all"


def result_rows(before: Evaluation | None, after: Evaluation | None) -> list[ResultRow]:
    """All rows: for each set first all tasks, then each category (unless there is but one)."""
    first, last = _by_key(before), _by_key(after)
    everything = {**first, **last}
    rows: list[ResultRow] = []
    for name in sorted({s for s, _ in everything}, key=_order(SETS)):
        keys = [key for key in everything if key[0] == name]
        groups = sorted({everything[key].category for key in keys}, key=_order(CATEGORIES))
        for category in ["", *(groups if len(groups) > 1 else [])]:
            chosen = [k for k in keys if not category or everything[k].category == category]
            rows.append(
                ResultRow(
                    name,
                    category,
                    len(chosen),
                    len({everything[k].scenario for k in chosen}),
                    {m: _cell(m, chosen, first, last) for m in METRICS},
                )
            )
    return rows


def unpaired(before: Evaluation | None, after: Evaluation | None) -> int:
    """Tasks that only one of two evaluations holds; 0 unless both exist."""
    if before is None or after is None:
        return 0
    return len(_by_key(before).keys() ^ _by_key(after).keys())


Key = tuple[str, str]


def _by_key(evaluation: Evaluation | None) -> dict[Key, EvalRow]:
    return {(r.set, r.task_id): r for r in evaluation.rows} if evaluation else {}


def _cell(
    metric: str, keys: list[Key], first: Mapping[Key, EvalRow], last: Mapping[Key, EvalRow]
) -> Cell:
    before = [first[k] for k in keys if k in first and metric in first[k].values]
    after = [last[k] for k in keys if k in last and metric in last[k].values]
    both = [
        k
        for k in keys
        if k in first and k in last and metric in first[k].values and metric in last[k].values
    ]
    difference = paired_difference(
        [first[k].values[metric] for k in both],
        [last[k].values[metric] for k in both],
        [last[k].scenario for k in both],
    )
    return Cell(_mean(metric, before), _mean(metric, after), difference, len(both))


def _mean(metric: str, rows: list[EvalRow]) -> Interval | None:
    return mean_ci([r.values[metric] for r in rows], [r.scenario for r in rows])


def _order(known: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """Sort key: known names in their order, then the others by name."""
    names = list(known)
    return lambda name: (names.index(name) if name in names else len(names), name)

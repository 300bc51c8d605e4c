"""The end of a run as tables on a terminal. Owns words and columns, computes nothing new.

Console(stderr=True).print(summary(path))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean

from rich import box
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from rods.evaluation.stats import Interval
from rods.evaluation.suites import Accuracy, SuiteRow
from rods.report import heldout
from rods.report.heldout import METRICS, MetricCell, ResultRow
from rods.report.panels import facts, signed, words
from rods.report.run_data import EvaluationPass, RunData, load_run

NONE = "No ± is shown if there are too few scenarios, or if all differences are equal."
"""Note on values that are shown without ±."""
SHOWN = 3
"""Values of pass^k that are shown; the rest follows from `right` in `--json`."""
REASONS = 5
"""Reasons of wrong trajectories that are shown; all are in `--json`."""


def summary(path: Path) -> Group:
    """What `rods train` ends with: results, and what the buffer did."""
    run = load_run(path)
    lines = [f"{fact.label.capitalize()}: {fact.value}, {fact.detail}." for fact in facts(run)]
    notes = [Text(note, style="yellow") for note in run.notes]
    return Group(summary_table(run), *map(Text, lines), *notes)


def summary_table(run: RunData) -> Table:
    """Held-out results before and after, with paired 95 % intervals; fits 80 columns."""
    last = run.last_evaluation
    rows = heldout.result_rows(run.evaluation("before"), last)
    at = f", before training and at {last.when}" if last and last.when != "after" else ""
    title = f"Held-out results of {run.name}{at}"
    each = "of the 95 % interval over scenarios, each compared with itself before"
    return _table(title, each, rows, _change)


def markdown_table(run: RunData) -> list[str]:
    """Write the table of results in Markdown, a row a line."""
    rows = heldout.result_rows(run.evaluation("before"), run.last_evaluation)
    metrics = heldout.shown(rows)
    lines = [["", "tasks", *(heading(metric, " ") for metric in metrics)]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        cells = [_change(row.cells[metric]).plain.replace("\n", ", ") for metric in metrics]
        name = " ".join(_named(row).split()).replace("|", "\\|")  # a category is a user's word
        lines.append([name, str(row.tasks), *cells])
    return [f"| {' | '.join(line)} |" for line in lines]


def evaluation_table(found: EvaluationPass) -> Table:
    """One evaluation, each mean with its 95 % interval; fits 80 columns."""

    def shown(cell: MetricCell) -> Text:
        # Limits get a line of their own: beside the mean, a table would exceed 80 columns.
        return Text(
            f"{mean(cell.after)}{reach(cell.after) if cell.after else ''}".replace(" (", "\n(")
        )

    rows = heldout.result_rows(None, found)
    each = ". ".join(["of the 95 % interval over scenarios", *found.lost])
    return _table("Held-out results", each, rows, shown)


def _table(
    title: str, interval: str, rows: Sequence[ResultRow], cell: Callable[[MetricCell], Text]
) -> Table:
    metrics = heldout.shown(rows)
    measured = [r for r in rows if any(c.before or c.after for c in r.cells.values())]
    notes = [f"\N{PLUS-MINUS SIGN}: half {interval}."]
    if any("solved" in metric for metric in metrics):
        notes.append("Solved: conversations whose turns are all solved.")
    if _without(measured):
        notes.append(NONE)
    if len(measured) < len(rows):
        notes.append("Parts with one scenario are left out.")
    if note := heldout.unsolved_note(measured):
        notes.append(note)
    if any(row.part.by == "writer" for row in measured):
        notes.append(f"\n{heldout.WRITERS_NOTE}")
    columns = numbers(["tasks", *map(heading, metrics)])
    shown = [[cell(row.cells[metric]) for metric in metrics] for row in measured]
    if any("(" in text.plain for cells in shown for text in cells):
        notes.insert(1, "(a to b): the 95 % interval, cut off at the least or largest value.")
    table = plain_table(title, " ".join(notes), Column("held out", no_wrap=True), *columns)
    for row, cells in zip(measured, shown, strict=True):
        if not row.part.by:
            table.add_section()
        style = "" if row.part.by else "bold"
        table.add_row(Text(_named(row)), str(row.tasks), *cells, style=style)
    return table


def _named(row: ResultRow) -> str:
    name = row.part.label if row.part.by else row.part.title
    return re.sub("^Held-out | (tasks|messages)$", "", name)


def _without(rows: Sequence[ResultRow]) -> bool:
    """Whether a value of some row has no interval that would say anything."""
    cells = (cell for row in rows for cell in row.cells.values())
    shown = ((c.difference or c.after, -1.0 if c.difference else 0.0) for c in cells)
    return any(found and not reach(found, least) for found, least in shown)


def _change(cell: MetricCell) -> Text:
    means = f"{mean(cell.before)} \N{RIGHTWARDS ARROW} {mean(cell.after)}"
    return Text.assemble(means, *(["\n", change(cell.difference)] if cell.difference else []))


def plain_table(title: str, caption: str, *columns: Column | str) -> Table:
    """A table without borders; the box's own blank parts columns: six of them fit 80 columns."""
    above, below = Text(title, "table.title"), Text(caption, "table.caption")  # names as they are
    table = Table(*columns, title=above, caption=below, box=box.SIMPLE_HEAD, padding=0)
    table.show_edge = table.pad_edge = False
    return table


def numbers(names: Iterable[str]) -> list[Column]:
    """Columns of numbers, broken over lines at blanks only where a table would be too wide."""
    return [Column(name, justify="right") for name in names]


def heading(metric: str, between: str = "\n") -> str:
    """`progress`, then `greedy`."""
    what, way = METRICS[metric]
    return f"{what.split()[-1].lower()}{between}{way}"


def mean(found: Interval | None) -> str:
    """Three digits, or a dash."""
    return "-" if found is None else f"{found.mean:.3f}"


def spread(values: Sequence[float]) -> str:
    """`2016`, or with seeds that differ `2016 (1984 to 2048)`; a dash of no values."""
    if not values:
        return "-"
    form = ".2f" if any(v != int(v) for v in values) else ".0f"
    middle, low, high = f"{fmean(values):{form}}", min(values), max(values)
    return middle if low == high else f"{middle} ({low:{form}} to {high:{form}})"


def reach(found: Interval, least: float = 0.0) -> str:
    """` ±0.026`; the limits, if one is beyond the possible; nothing, if both are, or all is alike.

    Args:
        found: of shares, or of differences of shares.
        least: the least possible value; the largest is 1.
    """
    if found.is_flat or (found.low <= least and found.high >= 1):
        return ""
    if found.low < least or found.high > 1:
        low = f"{found.low:.2f}" if found.low > least else f"{least:.0f}"
        return f" ({low} to {f'{found.high:.2f}' if found.high < 1 else '1'})"
    return f" \N{PLUS-MINUS SIGN}{found.half_width:.3f}"


def change(found: Interval | None) -> Text:
    """`+0.112 ±0.026`, green or red where the interval excludes zero; a dash without one."""
    if found is None:
        return Text("-", style="dim")
    color = "dim" if not found.excludes_zero else "green" if found.mean > 0 else "red"
    return Text(f"{signed(found.mean)}{reach(found, -1.0)}", style=color)


def suite_table(name: str, found: Sequence[Accuracy], rows: Sequence[SuiteRow]) -> Group:
    """Accuracies with 95 % intervals, then why trajectories are wrong; fits 80 columns."""
    repeats = sorted({len(row.right) for row in rows})
    times = "-".join(map(str, dict.fromkeys([repeats[0], repeats[-1]]))) if repeats else "0"
    few = any(one.mean is not None and not (one.interval and reach(one.interval)) for one in found)
    how = "Sampled greedily" if all(row.greedy for row in rows) else "Not all sampled greedily"
    trials = min(SHOWN, min((len(one.passes) for one in found if one.passes), default=0))
    process = ["process"] * any(one.process is not None for one in found)
    table = plain_table(
        name,
        f"\N{PLUS-MINUS SIGN}: half of the 95 % interval over scenarios. {how}, "
        f"{times} valid trajectories a task.{f' {NONE}' if few else ''}",
        Column("", no_wrap=True),
        *numbers(["tasks", "accuracy", *process, *(f"pass^{k + 2}" for k in range(trials))]),
    )
    for is_average, group in groupby(found, lambda one: one.is_average):
        if is_average:
            table.add_section()
        for one in group:
            value = "-" if one.mean is None else f"{one.mean:.3f}"
            accuracy = f"{mean(one.interval)}{reach(one.interval)}" if one.interval else value
            more = [one.process] if one.process is not None else []
            others = [f"{share:.3f}" for share in (*more, *one.passes[:trials])]
            cells = (Text(words(one.name)), str(one.tasks), accuracy, *others)
            table.add_row(*cells, style="bold" if is_average else "")
    return Group(table, *[Text(line) for line in _notes(rows)])


def _notes(rows: Sequence[SuiteRow]) -> list[str]:
    wrong = Counter(why for row in rows for why in row.why if why)
    lines = [f"{n:5} wrong: {why}" for why, n in wrong.most_common(REASONS)]
    if len(wrong) > REASONS:
        rest = wrong.total() - sum(n for _, n in wrong.most_common(REASONS))
        lines.append(f"{rest:5} wrong for {len(wrong) - REASONS} other reasons (--json)")
    failures = Counter(failure for row in rows for failure in row.failures)
    if failures:
        most, times = failures.most_common(1)[0]
        lines.append(
            f"{failures.total():5} invalid, counted in no accuracy; most often ({times}): {most}"
        )
    return lines

"""The end of a run as tables on a terminal. Owns words and columns, computes nothing new.

Console(stderr=True).print(summary(load_run(path), report=path / "report.html"))
"""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rods.evaluation.stats import Difference, Interval
from rods.report.heldout import METRICS, SETS, Cell, result_rows
from rods.report.panels import boundary_band, first_visits, words
from rods.report.run_data import RunData, load_run


def summary(run: Path | RunData, report: Path | None = None) -> Group:
    """What `rods train` ends with: results, what the buffer did, where the report is."""
    data = run if isinstance(run, RunData) else load_run(run)
    lines = [Text(line) for line in summary_lines(data)]
    notes = [Text(note, style="yellow") for note in data.notes]
    where = [Text(f"Report: {report}")] if report else []
    return Group(summary_table(data), *lines, *notes, *where)


def summary_table(run: Path | RunData) -> Table:
    """Held-out results before and after, with paired 95 % intervals; fits 80 columns."""
    data = run if isinstance(run, RunData) else load_run(run)
    table = Table(
        title=f"Held-out results of {escape(data.name)}",
        caption="\N{PLUS-MINUS SIGN}: half of the paired 95 % interval, by scenario. Accuracy: "
        "our verdict, abstention judged too; parity: the benchmark's own.",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    table.add_column("tasks", justify="right", no_wrap=True)
    for name in ("progress", "accuracy", "parity"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result_rows(data.evaluation("before"), data.last_evaluation):
        if not row.category:
            table.add_section()
        name = f" {row.label}" if row.category else SETS.get(row.set, row.set)
        cells = [_cell(row.cells[metric]) for metric in METRICS]
        style = "" if row.category else "bold"
        table.add_row(
            Text(name.removeprefix("Held-out ").removesuffix(" tasks")),
            str(row.tasks),
            *cells,
            style=style,
        )
    return table


def _cell(cell: Cell) -> Text:
    means = f"{mean(cell.before)} \N{RIGHTWARDS ARROW} {mean(cell.after)}"
    return Text.assemble(means, *(["\n", change(cell.difference)] if cell.difference else []))


def mean(found: Interval | None) -> str:
    """Three digits, or a dash."""
    return "-" if found is None else f"{found.mean:.3f}"


def change(found: Difference | None) -> Text:
    """`+0.112 ± 0.026`, green or red where the interval excludes zero; a dash without one."""
    if found is None:
        return Text("-", style="dim")
    colour = "dim" if not found.excludes_zero else "green" if found.mean > 0 else "red"
    return Text(f"{found.mean:+.3f} \N{PLUS-MINUS SIGN} {found.half_width:.3f}", style=colour)


def summary_lines(run: RunData) -> list[str]:
    """What training, buffer and synthesis did, a sentence each."""
    lines: list[str] = []
    shares = [s for r in run.steps if (s := r.numbers.get("zero_variance")) is not None]
    if shares:
        quarter = max(1, len(shares) // 4)
        first, last = statistics.mean(shares[:quarter]), statistics.mean(shares[-quarter:])
        lines.append(
            f"{len(run.steps)} updates; groups without variance: {first:.0%} in the first quarter, "
            f"{last:.0%} in the last."
        )
    if run.epochs:
        gone: Counter[str] = Counter()
        for epoch in run.epochs:
            gone.update(epoch.retired)
        reasons = ", ".join(f"{words(name)} {n}" for name, n in gone.items() if n)
        lines.append(
            f"Buffer: {run.epochs[-1].generated} variants active at the last epoch's start, "
            f"{sum(e.injected for e in run.epochs)} injected, {gone.total()} retired"
            f"{f' ({reasons})' if reasons else ''} over {len(run.epochs)} epochs."
        )
    if visits := first_visits(run):
        low, high = boundary_band(run)
        inside = sum(low <= j.rbar <= high for j in visits)
        lines.append(
            f"{len(visits)} new variants were judged: median rbar "
            f"{statistics.median(j.rbar for j in visits):.2f}, {inside / len(visits):.0%} on the "
            "boundary."
        )
    if run.made.tried:
        lines.append(
            f"Synthesis: {run.made.accepted} accepted of {run.made.tried} tried "
            f"({run.made.accepted / run.made.tried:.0%})."
        )
    return lines

"""A suite's accuracies as a table on a terminal. Owns words and columns, computes nothing new.

Console().print(suite_table("bfcl-multi-turn", accuracies(rules, rows), rows))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rods.evaluation.suites import Accuracy, SuiteRow
from rods.report.results import NONE, mean, plain_table, reach

SHOWN = 3
"""Values of pass^k that are shown; the rest follows from `right` in `--json`."""
REASONS = 5
"""Reasons of wrong trajectories that are shown; all are in `--json`."""


def suite_table(name: str, found: Sequence[Accuracy], rows: Sequence[SuiteRow]) -> Group:
    """Accuracies with 95 % intervals, then why trajectories are wrong; fits 80 columns."""
    repeats = sorted({len(row.right) for row in rows})
    times = "-".join(map(str, dict.fromkeys([repeats[0], repeats[-1]]))) if repeats else "0"
    few = any(one.interval and not reach(one.interval) for one in found)
    table = plain_table(
        name,
        "\N{PLUS-MINUS SIGN}: half of the 95 % interval, by scenario. Sampled greedily, "
        f"{times} valid trajectories a task.{f' {NONE}' if few else ''}",
    )
    table.add_column("", no_wrap=True)
    table.add_column("tasks", justify="right", no_wrap=True)
    table.add_column("accuracy", justify="right", no_wrap=True)
    if any(one.process is not None for one in found):
        table.add_column("process", justify="right", no_wrap=True)
    trials = min(SHOWN, min((len(one.passes) for one in found if one.passes), default=0))
    for k in range(trials):
        table.add_column(f"pass^{k + 2}", justify="right", no_wrap=True)
    section = False
    for one in found:
        if one.is_average and not section:
            table.add_section()
            section = True
        _add(table, one, trials)
    return Group(table, *[Text(line) for line in _notes(rows)])


def _add(table: Table, one: Accuracy, trials: int) -> None:
    width = reach(one.interval) if one.interval else ""
    value = "-" if one.mean is None else f"{one.mean:.3f}"
    said = mean(one.interval) if one.interval else value
    process = [] if one.process is None else [f"{one.process:.3f}"]
    table.add_row(
        Text(one.name.replace("_", " ")),
        str(one.tasks),
        f"{said}{width}",
        *process,
        *[f"{value:.3f}" for value in one.passes[:trials]],
        style="bold" if one.is_average else "",
    )


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

"""`rods compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import AsJson, print_results, say
from rods.cli.report import compared


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Two or more: folders of runs, summaries, eval --json > a.json."),
    ],
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: results with paired intervals, and curves."""
    from rods.report.compare import compare_runs

    comparison = compare_runs(runs)
    print_results(compared(comparison), comparison.table())
    for note in comparison.notes:
        say(f"note: {note}")
    if page is not None:
        comparison.write(page)
        say(f"page: {page}")

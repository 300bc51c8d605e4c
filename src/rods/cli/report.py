"""`rods report`: build the page of a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import out, say


def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Write report.html into a run's folder, and print its table."""
    from rods.report.build import build_report
    from rods.report.results import summary_table

    page = build_report(run)
    out().print(summary_table(run))
    say(f"report: {page}")

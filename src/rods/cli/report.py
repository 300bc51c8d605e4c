"""`rods report` builds the page of a run again; `rods view` shows runs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import out, say
from rods.errors import PrerequisiteError, StoreError
from rods.infra.guard import new_token
from rods.infra.install import install_line
from rods.store import MANIFEST

HOST = "127.0.0.1"


def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Write report.html into a run's folder, and print its table."""
    from rods.report.build import build_report
    from rods.report.results import summary_table
    from rods.report.run_data import load_run

    page = build_report(run)
    out().print(summary_table(load_run(run)))
    say(f"report: {page}")


def view(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs. [default: all in ./runs]")
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0: any free one.", min=0, max=65535)] = 8020,
) -> None:
    """Show runs in a browser, finished or in training.

    A run in training grows as you look. Only this machine can open the printed address.
    """
    try:
        from rods.infra.listen import address, bound
        from rods.view.runs import open_runs
        from rods.view.server import serve_view
    except ImportError as error:
        raise PrerequisiteError(f"rods view needs {error.name}: {install_line('view')}.") from error
    folders = runs or sorted(path.parent for path in Path("runs").glob(f"*/{MANIFEST}"))
    if not folders:
        raise StoreError("there is no run in ./runs. Name the folder of a run: rods view RUN.")
    opened = open_runs(folders)
    with bound(HOST, port) as listening:
        token = new_token()
        say(f"{len(opened)} runs at {address(listening, HOST)}/?token={token} (Ctrl-C ends it)")
        serve_view(opened, listening, token)

"""`rods report` and `rods compare` build pages of runs; `rods view` shows runs in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods.cli.common import AsJson, Recipe, overrides_of, print_results, refuse_unread, say
from rods.config import load_config
from rods.envs import make_environment
from rods.envs.originals import require_own
from rods.errors import ConfigError, StoreError
from rods.infra.claims import claimed
from rods.infra.guard import new_token
from rods.infra.install import needed
from rods.infra.text import counted, quoted
from rods.store import MANIFEST, TRAIN

if TYPE_CHECKING:
    from rods.evaluation.stats import Interval
    from rods.report.experiment import Experiment
    from rods.report.heldout import ResultRow
    from rods.report.run_data import RunData

HOST = "127.0.0.1"


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")], as_json: AsJson = False
) -> None:
    """Write report.html into a run's folder, and print its table."""
    from rods.report.build import build_report, uses
    from rods.report.results import summary_table
    from rods.report.run_data import load_run, yields_of

    page = build_report(run)
    found = load_run(run)
    yields, low = yields_of(found)
    by_seed = [made.to_json() for made in yields]
    print_results({**results_of(found), "by_seed": by_seed}, summary_table(found), *low)
    for note in found.notes:
        say(f"note: {note}")
    if not (found.evaluation("after") or found.manifest.get("finished")):
        kind = found.manifest.get("kind", TRAIN)
        say(f"To finish the run: rods {kind} --resume {quoted(run)}.")
        if now := dict(uses(found)).get("evaluate it"):
            say(f"To evaluate it now: {now}.")
    say(f"report: {page}")


def results_of(run: RunData) -> dict[str, Any]:
    """Return what a run gave, as JSON: each held-out result before and after training."""
    from rods.report import heldout

    return {
        "run": run.path,
        "report": run.path / "report.html",
        "finished": bool(run.manifest.get("finished")),
        "updates": len(run.steps),
        "seconds": run.seconds,
        "results": _rows(heldout.result_rows(run.evaluation("before"), run.last_evaluation)),
        "notes": run.notes,
    }


def compared(found: Experiment) -> dict[str, Any]:
    """Return runs or arms side by side, as JSON; `against` is the difference to the baseline."""
    arms = [
        {
            "name": arm.name, "settings": arm.overrides, "seeds": arm.seeds,
            "results": _rows(arm.rows), "differences_by_seed": arm.by_seed,
        }
        for arm in found.arms
    ]  # fmt: skip
    return {"name": found.name, "baseline": found.baseline, "arms": arms, "notes": found.notes}


def _rows(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    from rods.report.heldout import METRICS, MetricCell, measured

    def plain(part: Interval | int | None) -> object:
        if part is None or isinstance(part, int):
            return part
        # As in the tables, no ends where all values are alike: they show no spread.
        return {**asdict(part), **dict.fromkeys(("low", "high") if part.is_flat else ())}

    return [
        {"set": row.part.set, "part": row.part.label, "metric": m}
        | {part.name: plain(getattr(row.cells[m], part.name)) for part in fields(MetricCell)}
        for row in rows
        for m in measured(rows, METRICS)
    ]


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs, summaries, or files of `rods eval --json`; arms as NAME=PATH,PATH."
        ),
    ],
    page: Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: results with paired intervals, and curves.

    The first run or arm is the baseline; differences are the others minus it.
    Several seeds of an arm: rods compare fixed='runs/fixed-*' rods='runs/rods-*'
    If no other was evaluated on a task of the baseline, the exit status is 1.
    """
    from rods.report.compare import compare_runs

    with claimed(page, "file") if page else nullcontext():
        comparison = compare_runs(runs)
        print_results(compared(comparison), comparison.table())
        for note in comparison.notes:
            say(f"note: {note}")
        if page is not None:
            comparison.write(page)
            say(f"page: {page}")
    if comparison.is_apart:
        raise typer.Exit(1)


def view(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs. [default: all in ./runs]")
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0: any free one.", min=0, max=65535)] = 8020,
    tasks: Annotated[
        Path | None, typer.Option(help="Accept, edit or reject the seed tasks of this file.")
    ] = None,
    recipe: Recipe = "rods",
) -> None:
    """Show runs in a browser, or seed tasks to review.

    A run in training grows as you look. Only this machine can open the printed address.
    With --tasks: --env.name NAME, as in rods synth.
    """
    asked = overrides_of(context.args, "view")
    if tasks is None:
        if asked:
            raise ConfigError(f"--{asked[0].partition('=')[0]} has no effect without --tasks FILE.")
        refuse_unread(context, ["recipe"], "without --tasks FILE")
    with needed("rods view needs {}", "view"):
        from rods.infra.listen import address, bound
        from rods.view.pages import add_pages
        from rods.view.runs import open_runs
        from rods.view.seeds import SeedFile, add_seed_page
        from rods.view.server import serve_view
    if tasks is not None:
        if runs:
            raise ConfigError("--tasks shows tasks, not runs. Leave out one of them.")
        settings = load_config(recipe, overrides=asked).env
        file = SeedFile(tasks, make_environment(settings.name, settings.arguments))
        require_own(file.tasks(), settings, file.environment, tasks)
        add, what = partial(add_seed_page, file), counted(len(file.tasks()), "seed task")
    else:
        folders = runs or sorted(path.parent for path in Path("runs").glob(f"*/{MANIFEST}"))
        if not folders:
            raise StoreError("there is no run in ./runs. Name the folder of a run: rods view RUN.")
        opened = open_runs(folders)
        add, what = partial(add_pages, opened), counted(len(opened), "run")
    with bound(HOST, port) as listening:
        token = new_token()
        say(f"{what} at {address(listening, HOST)}/?token={token} (Ctrl-C ends it)")
        serve_view(add, listening, token)

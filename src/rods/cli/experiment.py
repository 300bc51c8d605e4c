"""`rods experiment`: run a grid of arms and seeds, resumable, with one table and one page."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Annotated, NoReturn

import typer
from rich.markup import escape
from rich.table import Table

from rods.cli.common import AsJson, numbers, overrides, print_results, say, with_writer
from rods.cli.report import compared
from rods.cli.synth import queue_of
from rods.config.checks import require
from rods.config.drift import deciding, may_change, moved
from rods.errors import ConfigError, Interrupted, RodsError, StoreError
from rods.evaluation.grid import Grid, GridRun, load_grid
from rods.infra.files import disk
from rods.store import MANIFEST, RunDirectory
from rods.task import write_tasks
from rods.types import Json

THREADS, VARIANTS = "model.threads", "static.variants"
_RUNNING: list[Popen[bytes]] = []


def experiment(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A bundled experiment, or a .toml file.")] = "bfcl",
    folder: Annotated[str, typer.Option("--out", help="Folder. [default: runs/NAME]")] = "",
    parallel: Annotated[int, typer.Option(min=1, help="Runs at once, one thread each.")] = 1,
    seeds: Annotated[str, typer.Option(help="Seeds instead of the file's: 0,1,2")] = "",
    arms: Annotated[str, typer.Option(help="Only these arms: fixed,rods")] = "",
    baseline: Annotated[str, typer.Option(help="The arm to compare with. [default: FILE's]")] = "",
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show results so far.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="HTML page to write. [default: experiment.html in --out; --show: none]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all settings, show the runs, then stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every arm with every seed, then compare them.

    Finished runs stay, unfinished runs resume. Any setting, for all arms: --section.key VALUE.
    """
    from rods.report.experiment import Experiment

    chosen_seeds = numbers(seeds, "--seeds", int, "0,1,2")
    chosen = [arm for part in arms.split(",") if (arm := part.strip())]
    grid = load_grid(file, chosen_seeds, chosen, overrides(context.args), baseline)
    # A run is made by `rods train`, which reads an arm's settings as a command line.
    made = (arm._replace(overrides=(*with_writer(arm.overrides),)) for arm in grid.arms)
    grid = replace(grid, arms=tuple(made))
    where = Path(folder or f"runs/{grid.name}")
    if not show:
        _require(grid)
    if dry_run:
        print_results(*_planned(grid, where))
        return
    failed = [] if show else _run(grid, where, parallel)
    found = Experiment.of(grid, where)
    print_results(compared(found), found.table())
    for note in found.notes:
        say(f"note: {note}")
    if page or not show:
        say(f"page: {found.write(page or where / 'experiment.html')}")
    if failed:
        raise RodsError("; ".join(failed) + ". The same command runs what is missing.")


def _require(grid: Grid) -> None:
    """Refuse an arm that could not be trained, before hours of runs; raises `ConfigError`."""
    from rods.assemble.refusals import require_named

    for arm in grid.arms:
        config = grid.config(GridRun(arm, grid.seeds[0]))
        try:
            require(config, "training")
            require_named(config)
        except ConfigError as error:
            raise ConfigError(f"experiment {grid.name}, arm {arm.name!r}: {error}") from error


def _planned(grid: Grid, where: Path) -> tuple[list[dict[str, Json]], Table, str]:
    """Return the arms as data, as a table, and the number of runs."""
    finished = Counter(cell.arm.name for cell in grid.cells if _finished(grid, cell, where))
    table = Table("arm", "runs", "finished", "settings")
    rows: list[dict[str, Json]] = []
    for arm in grid.arms:
        done, runs = finished[arm.name], len(grid.seeds)
        rows.append({"arm": arm.name, "runs": runs, "finished": done, "settings": [*arm.settings]})
        table.add_row(arm.name, str(runs), str(done), escape("\n".join(arm.settings)))
    missing, seeds = len(grid.cells) - finished.total(), ", ".join(map(str, grid.seeds))
    what = f"recipe {grid.recipe}, profile {grid.profile}, seeds {seeds}"
    return rows, table, f"{missing} of {len(grid.cells)} runs are missing; {what}."


def _run(grid: Grid, where: Path, parallel: int) -> list[str]:
    """Run all unfinished runs; return one text for each run that failed."""
    with disk(where, "making"):
        where.mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in grid.cells if not _finished(grid, cell, where)]
    done = f"{len(grid.cells) - len(waiting)} of {len(grid.cells)} runs are finished already"
    say(f"{done}. A line follows when one ends; the log of each: {where / 'NAME.log'}")
    failed: list[str] = []
    signal.signal(signal.SIGTERM, _terminated)
    with ThreadPoolExecutor(parallel) as pool:
        try:
            running: dict[Future[int], GridRun] = {
                pool.submit(_one, grid, cell, where, parallel > 1): cell for cell in waiting
            }
            for done in as_completed(running):
                cell, status = running[done], done.result()
                say(f"{cell.name}: {'finished' if not status else f'ended with {status}'}")
                if status:
                    failed.append(f"{cell.name} ended with {status}: {_last_words(where, cell)}")
        except KeyboardInterrupt as stop:
            pool.shutdown(wait=False, cancel_futures=True)  # before a place becomes free
            say("waiting until the runs have stopped")
            # The runs got a Ctrl-C too, but perhaps not the SIGTERM of a batch system.
            for run in _RUNNING if stop.args else ():
                run.terminate()
            pool.shutdown(wait=True)
            raise Interrupted("interrupted. The same command resumes.") from stop
    return failed


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def _finished(grid: Grid, cell: GridRun, where: Path) -> bool:
    """Return true if a run is finished; raises `StoreError` if its settings differ."""
    path = where / cell.name
    if not (path / MANIFEST).is_file():
        return False
    run = RunDirectory.open(path)
    config = grid.config(_with_variants(cell, where))
    # Arms are compared at equal budgets, on the same tasks; the folder of variants may have moved.
    free = may_change(compared=True) | {VARIANTS}
    changed = deciding(run.config.changed(config), free)
    if changed := [text for text in changed if not moved(text)]:
        raise StoreError(
            f"{path}: the settings of this run differ from those of the experiment: "
            f"{'; '.join(changed)}. Choose another --out, or remove that run."
        )
    return bool(run.manifest["finished"])


def _one(grid: Grid, cell: GridRun, where: Path, alone: bool) -> int:
    """Execute one run in its own process, with its output in a log beside it."""
    path = where / cell.name
    if _finished(grid, cell, where):  # by another command, with the same folder, in the meantime
        return 0
    given = [*_with_variants(cell, where).arm.overrides]
    if alone and not any(text.startswith(f"{THREADS}=") for text in given):
        given.append(f"{THREADS}=1")
    with (where / f"{cell.name}.log").open("a", encoding="utf-8") as log:

        def rods(*words: str) -> int:
            command = [sys.executable, "-m", "rods.cli.main", *words]
            run = Popen(command, stdout=log, stderr=log)
            _RUNNING.append(run)
            return run.wait()

        settings = [f"--{text}" for text in given]
        if (path / MANIFEST).is_file():  # a server or a folder may have moved since its start
            return rods("train", "--resume", str(path), *settings)
        if cell.arm.static_variants and (status := _synthesize(grid, cell, where, rods)):
            return status
        recipe = ["--recipe", grid.recipe, "--profile", grid.profile, "--seed", str(cell.seed)]
        return rods("train", *recipe, "--out", str(path), *settings)


def _synthesize(grid: Grid, cell: GridRun, where: Path, rods: Callable[..., int]) -> int:
    """Make variants of the run's original tasks once, by `rods synth`."""
    from rods.assemble.tasks import splits_of

    target, seeds = _variants(cell, where), where / f"{cell.name}.originals.jsonl"
    if target.exists():
        return 0
    originals = splits_of(grid.config(cell)).originals
    write_tasks(seeds, originals)
    number = max(1, round(cell.arm.static_variants * len(originals)))
    how = "--resume" if queue_of(target).exists() else "--out"
    return rods(
        "synth", how, str(target), "--tasks", str(seeds), "--n", str(number),
        "--recipe", grid.recipe, "--profile", grid.profile, "--seed", str(cell.seed),
        *(f"--{text}" for text in cell.arm.overrides),
    )  # fmt: skip


def _with_variants(cell: GridRun, where: Path) -> GridRun:
    """Return the cell with the variants that are made for it."""
    if not cell.arm.static_variants:
        return cell
    own = f"{VARIANTS}={json.dumps([str(_variants(cell, where).resolve())])}"
    return cell._replace(arm=cell.arm._replace(overrides=(*cell.arm.overrides, own)))


def _variants(cell: GridRun, where: Path) -> Path:
    return where / f"{cell.name}.variants.jsonl"


def _last_words(where: Path, cell: GridRun) -> str:
    path = where / f"{cell.name}.log"
    lines = path.read_text(encoding="utf-8").strip().split("\n") if path.exists() else [""]
    return f"{lines[-1]!r} ({path})"

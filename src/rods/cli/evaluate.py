"""`rods eval`: a policy on the held-out side, without training."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import Profile, Recipe, out, overrides, progress
from rods.config import SMALL, load_config, with_overrides


def evaluate(
    context: typer.Context,
    recipe: Recipe = "rods",
    profile: Profile = SMALL,
    run: Annotated[
        Path | None, typer.Option(help="Evaluate the last checkpoint of this run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a row a task.")] = False,
) -> None:
    """Evaluate a policy on held-out originals and variants. Any setting: --section.key VALUE."""
    from rods.assemble.evaluated import evaluation_of
    from rods.report.results import evaluation_table
    from rods.report.run_data import evaluation_of as evaluation_from
    from rods.store import RunDirectory

    asked = overrides(context.args)
    if run is not None:
        config = with_overrides(RunDirectory.open(run).config, asked)
    else:
        config = load_config(recipe, profile, asked)
    play = evaluation_of(config, run)
    with progress("held-out trajectories", None) as show:
        rows = asyncio.run(play(lambda done, total: show(done, "", total)))
    if as_json:
        out().print_json(data=rows)
    else:
        out().print(evaluation_table(evaluation_from("after", rows)))

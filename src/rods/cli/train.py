"""`rods train`: the closed loop, from nothing or from where a run stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import (
    EXTRA,
    FULL,
    out,
    overrides,
    profile_of,
    say,
    writer_overrides,
    writers_of,
)
from rods.config import SMALL, RunConfig, load_config, with_overrides
from rods.errors import ConfigError


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("train", context_settings=EXTRA)(train)


def train(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Option(help="A bundled recipe, or a .toml file. [default: rods]")
    ] = "",
    model: Annotated[
        str, typer.Option(help="Your own model, model.name: a folder or a name on a hub.")
    ] = "",
    profile: Annotated[
        str,
        typer.Option(
            help="A profile of the recipe; `small`: its first; `full`: all of it. "
            "[default: small; full with --model]"
        ),
    ] = "",
    curriculum: Annotated[
        str, typer.Option(help="`rods`, or `static`: the fixed pool with the same budget.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    folder: Annotated[str, typer.Option("--out", help="Folder of the run.")] = "",
    resume: Annotated[
        Path | None, typer.Option(help="A run to go on with, by its own settings.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print the settings and stop.")] = False,
    writer: Annotated[str, typer.Option(help="What writes variants: synthesis.writer.")] = "",
    writer_url: Annotated[str, typer.Option(help="Its chat server: synthesis.llm.url.")] = "",
    writer_model: Annotated[str, typer.Option(help="Its model: synthesis.llm.model.")] = "",
) -> None:
    """Train a policy while its tasks follow it. Any setting: --section.key VALUE."""
    asked = writer_overrides(overrides(context.args), writer, writer_url, writer_model)
    chosen = profile_of(profile or (FULL if model else SMALL))
    if model:
        asked.append(f"model.name={json.dumps(model)}")
    if curriculum:
        asked.append(f"curriculum={curriculum}")
    if seed is not None:
        asked.append(f"seed={seed}")
    if resume is not None and not (recipe or profile):
        config = _own_settings(resume, asked, folder)
    else:
        config = load_config(recipe or "rods", chosen, asked)
    if dry_run:
        out().print_json(config.model_dump_json())
        return
    _run(config, folder, resume)


def _own_settings(run: Path, asked: Sequence[str], folder: str) -> RunConfig:
    """What a run was started with, and what this command line changes of it."""
    from rods.store import RunDirectory

    if folder and Path(folder).resolve() != run.resolve():
        raise ConfigError(f"--out {folder}: a run goes on in its own folder, {run}. Leave --out.")
    made = RunDirectory.open(run)
    made.require_version()
    return with_overrides(made.config, asked)


def _run(config: RunConfig, folder: str, resume: Path | None) -> None:
    from rods.assemble import train as run_training
    from rods.report.results import summary

    started = time.monotonic()
    if config.curriculum == "rods":
        say(f"variants are written by: {writers_of(config.synthesis)}")
    run = run_training(config, folder, resume)
    page = run.path / "report.html"
    out().print(summary(run.path, page))
    say(f"{time.monotonic() - started:.0f} s. Report: {page}")

"""`rods train`: start the closed loop, or continue a run that stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rods.cli import common
from rods.cli.report import results_of
from rods.config import FULL, RunConfig, Start, load_config, profile_name, with_overrides
from rods.config.checks import require
from rods.config.drift import require_same
from rods.errors import ConfigError
from rods.infra.install import install_line, installed
from rods.infra.text import quoted
from rods.store import RunDirectory
from rods.writers import in_words

ADAPTERS = 1e-5  # least usual learning rate of LoRA adapters (`train.lr`)


def train(
    context: typer.Context,
    recipe: common.Recipe = "",
    model: common.Model = "",
    profile: common.ModelProfile = "",
    dialect: common.Dialect = "",
    curriculum: Annotated[
        str,
        typer.Option(
            help="rods: variants during training; static: a fixed pool; envtuning: a fixed pool "
            "with hints. [default: the recipe's]"
        ),
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    folder: Annotated[str, typer.Option("--out", help="Folder. [default: new, in runs]")] = "",
    resume: common.Resume = None,
    drift: common.Drift = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show settings, tasks and memory, then stop.")
    ] = False,
    memory: common.Memory = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Log to tensorboard, wandb, mlflow or trackio; may be repeated."),
    ] = None,
    writer: Annotated[str, typer.Option(help="Writer of variants: synthesis.writer.")] = "",
    writer_url: common.WriterUrl = "",
    writer_model: common.WriterModel = "",
    as_json: common.AsJson = False,
) -> None:
    """Train a model on tasks and on their variants.

    Settings are options, too, but not listed below: --updates 20, --rollout.k 16. `rods settings`
    lists them. Without --recipe, the recipe is rods.
    """
    asked = common.writer_overrides(context.args, writer, writer_url, writer_model)
    if curriculum:  # not as JSON: `rods experiment` gives a text in quotes
        asked.append(f"curriculum={curriculum}")
    named = {"model.name": model, "model.dialect": dialect, "seed": seed, "track.names": track}
    asked += common.given({**named, "train.local.memory_gib": memory}, asked)
    common.resumed(folder, resume, drift)
    if resume is not None:
        start, config = _own_settings(resume, recipe, profile, asked)
    else:
        recipe = recipe or "rods"
        start = Start(recipe, profile_name(recipe, common.profile_for(profile, asked)), asked)
        config = load_config(*start)
    if config.model.lora_rank and config.train.lr < ADAPTERS:
        common.say(
            f"train.lr = {config.train.lr:g} is a rate for all weights. Adapters (model.lora_rank) "
            "usually learn with 1e-5 to 1e-4, for example --train.lr 2e-5."
        )
    if dry_run:
        if resume is not None:  # is refused as the resume itself would be
            run = RunDirectory.open(resume)
            require_same(str(resume), run.config.changed(config), drift)
            run.require_more(config)
        _plan(config, folder, start, resume)
    else:
        _run(config, folder, resume, start, drift)


def _plan(config: RunConfig, folder: str, start: Start, resume: Path | None) -> None:
    from rods.assemble.outline import Outline

    require(config, "training")
    outline = Outline(config, start, resume=resume)
    try:
        outline.add_memory(folder, resume)
    finally:  # also where the model does not fit
        outline.add_time(resume)
        common.print_results(outline.data, outline.text())


def _own_settings(run: Path, recipe: str, profile: str, more: list[str]) -> tuple[Start, RunConfig]:
    """Return the start of a run and its settings with the changes of this command line.

    If the recipe is named, its file is read again below the overrides of the start.
    """
    made = RunDirectory.open(run)
    made.require_version()
    began = made.start or Start("rods", "", [])
    start = began._replace(overrides=[*began.overrides, *more])
    if not (recipe or profile):
        return start, with_overrides(made.config, more)
    recipe = recipe or began.recipe
    profile = profile_name(recipe, profile) if profile else began.profile
    if (Path(recipe).stem, profile) != (Path(began.recipe).stem, began.profile):
        raise ConfigError(
            f"{run}: this run follows recipe {began.recipe}, profile {began.profile or FULL}, not "
            f"recipe {recipe}, profile {profile or FULL}. A run resumes with its own settings. "
            "Leave --recipe and --profile out, or start a new run."
        )
    return start, load_config(recipe, profile, start.overrides)


def _run(config: RunConfig, folder: str, resume: Path | None, start: Start, drift: bool) -> None:
    started = time.monotonic()
    if config.curriculum == "rods":
        common.say(f"variants are written by: {in_words(config.synthesis)}")
        if config.envtuning.hints:
            common.say("envtuning.hints has no effect: only --curriculum envtuning gives hints")
    from rods.assemble import train as run_training
    from rods.report.build import uses
    from rods.report.results import summary
    from rods.report.run_data import load_run

    run = run_training(config, folder, resume, start, drift=drift)
    found = load_run(run.path)
    common.print_results(results_of(found), summary(run.path))
    whole = ("of them without loading", "from the run's first start to its end, pauses included")
    took = f"{time.monotonic() - started:.0f} s{' since the resume' * bool(resume)}"
    if found.seconds is not None:
        took += f", {found.seconds:.0f} s {whole[resume is not None]}"
    common.say(f"{took}. Report: {run.path / 'report.html'}")
    after = "" if installed("nicegui") else f" (after {install_line('view')})"
    steps = [f"rods view {quoted(run.path)}{after}"]
    steps += [f"{command}  # {what}" for what, command in uses(found)]
    common.say("\n  ".join(["Next: open the report in a browser, or", *steps]))

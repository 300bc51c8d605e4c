"""`rods train`: the closed loop, from nothing or from where a run stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import Drift, Memory, Model, given, out, say, writer_overrides, writers_of
from rods.config import FULL, SMALL, RunConfig, Start, load_config, profile_name, with_overrides
from rods.config.checks import require
from rods.errors import ConfigError, PolicyError


def train(
    context: typer.Context,
    recipe: Annotated[
        str, typer.Option(help="A bundled recipe, or a .toml file. [default: rods]")
    ] = "",
    model: Model = "",
    profile: Annotated[
        str,
        typer.Option(
            help="A profile of the recipe; `small`: its first; `full`: all of it. "
            "[default: small; full with --model]"
        ),
    ] = "",
    curriculum: Annotated[
        str,
        typer.Option(
            help="`rods`; the fixed pool with the same budget: `static`, or with hints `envtuning`."
        ),
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    folder: Annotated[str, typer.Option("--out", help="Folder of the run.")] = "",
    resume: Annotated[
        Path | None, typer.Option(help="A run to go on with, by its own settings.")
    ] = None,
    drift: Drift = False,
    dry_run: Annotated[
        bool, typer.Option(help="Print the settings and what they need of memory and disk; stop.")
    ] = False,
    memory: Memory = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="tensorboard, wandb, mlflow or trackio; may be repeated: track.names."),
    ] = None,
    writer: Annotated[str, typer.Option(help="What writes variants: synthesis.writer.")] = "",
    writer_url: Annotated[str, typer.Option(help="Its chat server: synthesis.llm.url.")] = "",
    writer_model: Annotated[str, typer.Option(help="Its model: synthesis.llm.model.")] = "",
) -> None:
    """Train a policy while its tasks follow it. Any setting: --section.key VALUE."""
    asked = writer_overrides(context.args, writer, writer_url, writer_model)
    if curriculum:  # not as JSON: `rods experiment` gives a text in quotes
        asked.append(f"curriculum={curriculum}")
    named = {"model.name": model, "seed": seed, "track.names": track}
    asked += given({**named, "train.local.memory_gib": memory})
    if drift and resume is None:
        raise ConfigError("--allow-drift: it belongs to --resume RUN, whose settings may differ.")
    if resume is not None:
        start, config = _own_settings(resume, recipe, profile, asked, folder)
    else:
        recipe = recipe or "rods"
        start = Start(recipe, profile_name(recipe, profile or (FULL if model else SMALL)), asked)
        config = load_config(*start)
    if dry_run:
        _plan(config, folder, resume, asked_for=bool(model) or memory is not None)
    else:
        _run(config, folder, resume, start, drift)


def _plan(config: RunConfig, folder: str, resume: Path | None, asked_for: bool) -> None:
    """Print the settings, and what the run would hold; raises `ConfigError` where it cannot fit.

    Where the model's sizes are not known, that is an error if a plan was `asked_for`.
    """
    from rods.assemble.engines import with_engine
    from rods.assemble.refusals import require_named
    from rods.assemble.settled import with_room
    from rods.trainers.loading import load_architecture
    from rods.trainers.memory.machine import GIB, device_of, is_here
    from rods.trainers.memory.plan import plan_of, require_fit, table
    from rods.trainers.memory.shape import require_context, shape_of

    require_named(config)
    require(config, "training")
    out().print_json(config.model_dump_json())
    try:
        shape = shape_of(load_architecture(config.model))
    except PolicyError as error:
        how = "A folder with the model's config.json is enough for a plan."
        said = f"memory was not planned: {str(error).rstrip('.')}. {how}"
        if asked_for:
            raise PolicyError(said) from error
        say(said)
        return
    device = device_of(config, here=False)
    require_context(config, shape.positions)
    config, said = with_engine(config, shape.parameters, device.on_gpu)
    if said:
        say(said)
    for line in table(plan_of(shape, config, device.on_gpu), device):
        say(line)
    if not is_here(device):
        require_fit(shape, config, device)
        say("the GPU is not in this machine: its host's memory and disk were not looked at")
        return
    new = Path(folder or "runs") / "new"  # other runs beside it are not its own
    device = with_room(device, resume or new)
    say(f"{device.disk / GIB:8.2f} GiB  free on disk; {device.host / GIB:.2f} in the host's memory")
    require_fit(shape, config, device)


def _own_settings(
    run: Path, recipe: str, profile: str, asked: list[str], folder: str
) -> tuple[Start, RunConfig]:
    """What a run was started with, and what this command line changes of it.

    Its recipe may be named: then it is read again, under what the run was started with.
    """
    from rods.store import RunDirectory

    if folder and Path(folder).resolve() != run.resolve():
        raise ConfigError(f"--out {folder}: a run goes on in its own folder, {run}. Leave --out.")
    made = RunDirectory.open(run)
    made.require_version()
    began = made.start or Start("rods", "", [])
    start = began._replace(overrides=[*began.overrides, *asked])
    if not (recipe or profile):
        return start, with_overrides(made.config, asked)
    recipe = recipe or began.recipe
    profile = profile_name(recipe, profile) if profile else began.profile
    if (Path(recipe).stem, profile) != (Path(began.recipe).stem, began.profile):
        raise ConfigError(
            f"{run}: this run follows {_words(began.recipe, began.profile)}, not "
            f"{_words(recipe, profile)}. It goes on by its own settings: leave --recipe and "
            "--profile out, or start a new run."
        )
    return start, load_config(recipe, profile, start.overrides)


def _words(recipe: str, profile: str) -> str:
    return f"recipe {recipe}, profile {profile or FULL}"


def _run(config: RunConfig, folder: str, resume: Path | None, start: Start, drift: bool) -> None:
    from rods.assemble import train as run_training
    from rods.report.results import summary

    started = time.monotonic()
    if config.curriculum == "rods":
        say(f"variants are written by: {writers_of(config.synthesis)}")
        if config.envtuning.hints:
            say("no hints: envtuning.hints is at work with --curriculum envtuning alone")
    run = run_training(config, folder, resume, start, drift=drift)
    page = run.path / "report.html"
    out().print(summary(run.path, page))
    say(f"{time.monotonic() - started:.0f} s. Report: {page}")

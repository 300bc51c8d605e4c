"""`rods verl`: train inside verl's trainer on Ray."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import (
    Drift,
    Model,
    Profile,
    Recipe,
    Resume,
    out,
    overrides,
    profile_for,
    resumed,
)
from rods.cli.hosts import left_off, require_meant
from rods.config import load_config
from rods.errors import PrerequisiteError


def verl(
    context: typer.Context,
    recipe: Recipe = "rods",
    model: Model = "",
    profile: Profile = "",
    target: Annotated[
        Path | None, typer.Option("--out", help="Folder for checkpoints. [default: runs/verl]")
    ] = None,
    resume: Resume = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of machines.")] = 1,
    gpus: Annotated[int, typer.Option(min=1, help="Number of GPUs in each machine.")] = 8,
    drift: Drift = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print verl's configuration after verl's checks; stop."),
    ] = False,
) -> None:
    """Train in verl's trainer. Any setting: --section.key VALUE; verl's own: key=value."""
    folder = str(resumed(target, resume, drift) or "runs/verl")
    theirs = [word for word in context.args if not word.startswith("--")]
    asked = overrides([word for word in context.args if word.startswith("--")], model)
    config = load_config(recipe, profile_for(profile, asked), asked)
    from rods.assemble.refusals import require_named
    from rods.integrations.verl.config import compose, for_engine, given_to
    from rods.integrations.verl.start import LATEST, start
    from rods.trainers.loading import load_architecture
    from rods.trainers.memory.shape import positions_of, require_context

    latest = Path(folder) / LATEST
    if not (dry_run or any("trainer.resume_mode=" in word for word in theirs)):
        require_meant(folder, resume is not None, latest.is_file())
    require_named(config)  # here, not minutes later in a process of Ray's
    require_context(config, positions_of(load_architecture(config.model)))
    try:
        cfg = compose(config, folder, theirs, nodes, gpus, drift)
    except PrerequisiteError:
        if dry_run:  # what verl would get beside its own defaults
            out().print_json(data=for_engine(given_to(config, folder, nodes, gpus), theirs))
        raise
    if dry_run:
        text = importlib.import_module("omegaconf").OmegaConf.to_yaml(cfg)
        out().print(text, markup=False, highlight=False)
        return
    from rods.assemble.library import hosted

    try:
        start(cfg, hosted)
    except KeyboardInterrupt as stop:
        raise left_off("verl", folder, latest.is_file()) from stop

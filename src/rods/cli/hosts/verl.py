"""`rods verl`: train inside verl's trainer on Ray."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from rods.cli import common
from rods.cli.hosts import DryRun, left_off, outlined, require_meant, show, started
from rods.config import RunConfig, Start
from rods.config.load import no_setting
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.claims import claimed

NODES, GPUS = "--nodes", "--gpus"
FREE = (NODES, GPUS, "trainer.", "ray_kwargs.", "hydra.", "actor_rollout_ref.rollout.gpu_memory")
"""Beginnings of words that a resume may change: machines, memory, length, places, logs."""
RESUME = "trainer.resume_mode="  # word of verl's that holds for one start, not for a resume of it


def verl(
    context: typer.Context,
    recipe: common.Recipe = "",
    model: common.Model = "",
    profile: common.ModelProfile = "",
    dialect: common.Dialect = "",
    target: Annotated[
        Path | None, typer.Option("--out", help="Folder for checkpoints. [default: runs/verl]")
    ] = None,
    resume: common.Resume = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Machines. [default: 1]")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs per machine. [default: 8]")] = None,
    drift: common.Drift = False,
    dry_run: DryRun = False,
    as_json: common.AsJson = False,
) -> None:
    """Train in verl's trainer.

    Any setting of `rods settings` is an option, such as --seed 1; verl's own: key=value.
    """
    folder = str(common.resumed(target, resume, drift) or "runs/verl")
    theirs = [word for word in context.args if not word.startswith("--")]
    ours = [word for word in context.args if word.startswith("--")]
    asked = common.with_writer(common.overrides(ours, model, dialect))
    for key in (word.partition("=")[0] for word in asked):
        if key.partition(".")[0] not in {*RunConfig.model_fields, *RunConfig.sections()}:
            raise ConfigError(f"{no_setting(key)} Keys of verl have no dashes: {key}=VALUE.")
    once = any(RESUME in word for word in theirs)
    theirs += [f"{key}={n}" for key, n in ((NODES, nodes), (GPUS, gpus)) if n]
    made = started(folder, bool(resume), Start(recipe, profile, asked), theirs, drift, FREE)
    config, words = made.config, [word for word in made.theirs if not word.startswith("--")]
    sizes = dict(word.split("=") for word in made.theirs if word.startswith("--"))
    nodes, gpus = int(sizes.get(NODES, 1)), int(sizes.get(GPUS, 8))
    from rods.integrations.verl.checks import require_known
    from rods.integrations.verl.start import LATEST, start

    latest = Path(folder) / LATEST
    if (resume or not dry_run) and not once:
        require_meant(folder, resume is not None, latest.is_file())
    require_known(config)
    outline = outlined(made)  # here, not minutes later in a process of Ray's
    from rods.integrations.verl.config import compose, for_engine, given_to  # imports torch
    from rods.trainers.loading import load_architecture, positions_of, require_context

    require_context(config, positions_of(load_architecture(config.model)))
    if dry_run:
        outline.add_host("verl", for_engine(given_to(config, folder, nodes, gpus), words))
    try:
        cfg = compose(config, folder, words, nodes, gpus, drift)
    except PrerequisiteError:
        if not dry_run:
            raise
        if words:
            common.say(f"verl is not installed: {' '.join(words)} is neither checked nor applied.")
        common.say("verl is not installed, so its own checks and defaults are missing.")
        return show(outline)
    if dry_run:
        outline.data["verl"] = importlib.import_module("omegaconf").OmegaConf.to_container(cfg)
        return show(outline)
    from rods.assemble.library import hosted

    context.with_resource(claimed(Path(folder), "folder"))
    made._replace(theirs=[word for word in made.theirs if RESUME not in word]).write(folder)
    try:
        start(cfg, hosted)
    except KeyboardInterrupt as stop:
        raise left_off("verl", folder, latest.is_file()) from stop

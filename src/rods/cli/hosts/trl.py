"""`rods trl`: train inside TRL's GRPOTrainer, also with `torchrun` and `accelerate launch`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods.cli import common
from rods.cli.hosts import DryRun, left_off, outlined, require_meant, show, started
from rods.config import RunConfig, Start, with_overrides
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.checkpoints import require_unfinished
from rods.infra.claims import claimed
from rods.infra.dotted import nearest, override

if TYPE_CHECKING:
    from rods.assemble.outline import Outline

TASKS = ("rods.envs.originals", "rods.evaluation.check")  # the first process logs what they skip
OWN = "trl."  # prefix of GRPOConfig's arguments: `--trl.logging_steps 5`
FREE = (
    "max_steps", "per_device_train_batch_size", "gradient_checkpointing", "log", "save_",
    "report_to", "run_name", "project", "trackio", "hub_", "push_to_hub", "dataloader_",
    "disable_tqdm",
)  # fmt: skip
"""Beginnings of arguments that a resume may change: length, speed, places, logs."""


def trl(
    context: typer.Context,
    recipe: common.Recipe = "",
    model: common.Model = "",
    profile: common.ModelProfile = "",
    dialect: common.Dialect = "",
    target: Annotated[
        Path | None, typer.Option("--out", help="TRL's output folder. [default: runs/trl]")
    ] = None,
    resume: common.Resume = None,
    drift: common.Drift = False,
    dry_run: DryRun = False,
    memory: Annotated[
        float | None,
        typer.Option(help="GiB of each device, to plan for. [default: what is free here]"),
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Train in TRL's GRPOTrainer.

    Any setting of `rods settings` is an option, such as --seed 1; TRL's own: --trl.key VALUE.
    """
    first = _first()
    folder = str(common.resumed(target, resume, drift) or "runs/trl")
    saved = _saved(folder)
    if resume or not dry_run:
        require_meant(folder, resume is not None, bool(saved))
    asked = common.with_writer(common.overrides(context.args, model, dialect))
    words = [text.removeprefix(OWN) for text in asked if text.startswith(OWN)]
    ours = [text for text in asked if not text.startswith(OWN)]
    made = started(folder, bool(resume), Start(recipe, profile, ours), words, drift, FREE)
    config, theirs = made.config, _nested(made.theirs)
    from rods.integrations.trl.args import ROWS, TAKEN, given_to, require_known, require_same

    require_known(config, theirs, TAKEN)
    outline = outlined(made)
    given = given_to(config, folder, **theirs)
    sized = with_overrides(config, common.given({"train.local.memory_gib": memory}))
    planned, elsewhere, unfit = _planned(sized, given[ROWS], theirs, here=not dry_run)
    if dry_run:
        _add(outline, given | elsewhere, planned, here=not elsewhere)
    elif unfit:
        raise unfit
    try:
        from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args
    except PrerequisiteError:
        if not dry_run:
            raise
        _say_unchecked(config, folder, theirs)
        return show(outline, unfit)
    args = grpo_args(config, folder, **theirs)
    require_same(config, args)
    if dry_run:
        outline.data["TRL"] = args.to_dict() | elsewhere
        return show(outline, unfit)
    for line in planned:
        common.say(line)
    if saved:
        require_unfinished(Path(folder), max(saved), args.max_steps, config.updates)
    if first:
        context.with_resource(claimed(Path(folder), "folder"))
        made.write(folder)
    from rods.assemble.library import driven

    with driven(config, outline.splits, drift) as run:
        try:
            CurriculumGRPOTrainer(run, args).train(resume_from_checkpoint=bool(resume) or None)
        except KeyboardInterrupt as stop:
            raise left_off("trl", folder, bool(_saved(folder))) from stop
    common.say(f"done. Checkpoints: {folder}")


def _nested(words: Sequence[str]) -> dict[str, Any]:
    """Return TRL's arguments from words `key=value`."""
    found: dict[str, Any] = {}
    for text in words:
        override(found, text)
    return found


def _say_unchecked(config: RunConfig, folder: str, theirs: Mapping[str, object]) -> None:
    """State which arguments of TRL nobody checks where TRL is missing."""
    from rods.integrations.trl.args import ROWS, given_to

    few = {name: theirs[name] for name in theirs.keys() & {ROWS, "max_steps"}}
    ours = given_to(config, folder, **few)
    common.say("TRL is not installed, so only arguments that RODS sets itself are checked.")
    for name in theirs:
        if name not in ours:
            common.say(f"--trl.{name} is not checked.{nearest(name, [*ours])}")


def _first() -> bool:
    """Tell whether this is the first of several processes; the others log nothing of tasks."""
    if os.environ.get("RANK", "0") == "0":
        return True
    for name in TASKS:
        logging.getLogger(name).setLevel(logging.ERROR)
    return False


def _add(outline: Outline, given: Mapping[str, Any], planned: Sequence[str], here: bool) -> None:
    """Add to a dry run what TRL gets, for which machine, and the estimate of memory."""
    outline.add_host("TRL", given)
    outline.add("memory", *planned)
    mine = "this one, which bf16 and use_cpu follow; --memory GIB plans for a GPU elsewhere"
    if given["use_cpu"] or not here:
        outline.add("machine", mine if here else "a GPU elsewhere, which bf16 and use_cpu follow")


def _planned(
    config: RunConfig, rows: int, theirs: Mapping[str, object], here: bool
) -> tuple[list[str], dict[str, bool], ConfigError | None]:
    """Return the estimate of memory, and the error that a dry run raises behind its summary.

    Between them are the arguments of TRL that follow the device, if it is a GPU elsewhere.
    """
    from rods.integrations.trl.args import of_device
    from rods.integrations.trl.memory import trl_memory
    from rods.trainers.loading import load_architecture, positions_of, require_context
    from rods.trainers.memory import device_of, is_here

    require_context(config, positions_of(load_architecture(config.model)))
    device = device_of(config, here)
    elsewhere = {} if is_here(device) else of_device(config.model, on_gpu=True)
    elsewhere |= {name: bool(theirs[name]) for name in elsewhere.keys() & theirs.keys()}
    try:
        return trl_memory(config, rows, device), elsewhere, None
    except ConfigError as error:
        return [], elsewhere, error


def _saved(folder: str) -> list[int]:
    """Return the steps of TRL's checkpoints in a folder."""
    names = [path.name.rpartition("-")[2] for path in Path(folder).glob("checkpoint-*")]
    return [int(name) for name in names if name.isdigit()]

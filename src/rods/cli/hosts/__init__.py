"""Commands that train inside another trainer (docs/guides/other-trainers.md), one file each."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rods.cli.common import print_results, profile_for
from rods.config import RunConfig, Start, load_config, parse_config, with_overrides
from rods.config.drift import require_same, respread
from rods.errors import ConfigError, Interrupted, StoreError
from rods.infra.files import disk, text_of, write_atomic
from rods.infra.text import quoted

if TYPE_CHECKING:
    from rods.assemble.outline import Outline

DryRun = Annotated[
    bool, typer.Option(help="Show settings, tasks and the host's arguments, then stop.")
]
STARTED = "rods.json"  # what a training was started with, in its folder


class Started(NamedTuple):
    """Settings of a training, and the words `key=value` that the host itself gets."""

    config: RunConfig
    theirs: list[str]
    source: Start
    """Recipe, profile and options of the settings; of a resume, only its own options."""

    def write(self, folder: str) -> None:
        """Keep them for a resume."""
        with disk(Path(folder), "making"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        kept = {"config": self.config.model_dump(mode="json"), "theirs": self.theirs}
        write_atomic(Path(folder) / STARTED, json.dumps(kept, indent=2) + "\n")


def started(
    folder: str, resume: bool, asked: Start, theirs: list[str], drift: bool, free: tuple[str, ...]
) -> Started:
    """Return what to train with: a resume takes that of its start, and the command line wins.

    Words of `theirs` that begin with one of `free` may change.

    Raises `ConfigError` for a wrong setting, or a resume that names a recipe or a profile, and
    `StoreError` for a damaged file, or for a setting or a word that must not change.
    """
    path, words = Path(folder) / STARTED, asked.overrides
    if not (resume and path.is_file()):
        recipe, profile = asked.recipe or "rods", profile_for(asked.profile, words)
        source = Start(recipe, profile, words)
        return Started(load_config(*source), _last(theirs), source)
    if asked.recipe or asked.profile:
        raise ConfigError(f"{folder} resumes with its own recipe: omit --recipe and --profile.")
    try:
        kept: dict[str, Any] = json.loads(text_of(path, "a training's settings", StoreError))
        made, before = parse_config(kept["config"], str(path)), [*map(str, kept["theirs"])]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        so = f"Remove it, and repeat your options with --resume {quoted(folder)}."
        raise StoreError(f"{path}: damaged: {error}. {so}") from error
    config = with_overrides(made, words)
    changes = [text for text in _changes(before, theirs) if not text.startswith(free)]
    require_same(folder, [*made.changed(config), *changes], drift)
    for text in respread(made, config):
        logging.getLogger(__name__).warning(text)
    return Started(config, _last([*before, *theirs]), asked)


def outlined(made: Started) -> Outline:
    """Return the summary of a training; raises what settings and tasks alone refuse of it."""
    from rods.assemble.outline import Outline

    return Outline(made.config, made.source, evaluates=False)


def show(outline: Outline, unfit: ConfigError | None = None) -> None:
    """Print the summary of a dry run; raises `unfit`, what the training would end with."""
    print_results(outline.data, outline.text())
    if unfit:
        raise unfit


def _last(words: Sequence[str]) -> list[str]:
    return [*_by_key(words).values()]


def _by_key(words: Sequence[str]) -> dict[str, str]:
    """Return the last word of each key; Hydra marks keys with `+` and `~`."""
    return {word.partition("=")[0].lstrip("+~"): word for word in words}


def _changes(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return words that differ from earlier ones, each as `key: before -> after`."""
    was, words = (
        {key: word.partition("=")[2] for key, word in _by_key(of).items()} for of in (before, now)
    )
    return [f"{k}: {was.get(k, 'not given')} -> {v}" for k, v in words.items() if was.get(k) != v]


def require_meant(folder: str, resume: bool, saved: bool) -> None:
    """Raise `StoreError` unless a folder with checkpoints is resumed, and no other one is."""
    at = quoted(folder)
    if resume and not saved:
        raise StoreError(f"{folder}: there is no checkpoint to resume. Begin with --out {at}.")
    if saved and not resume:
        raise StoreError(
            f"{folder}: a training has checkpoints there. Continue from the last one with --resume "
            f"{at}, or choose another --out."
        )


def left_off(verb: str, folder: str, saved: bool) -> Interrupted:
    """Return what Ctrl-C ends a training with: how it continues."""
    again = f"Continue from the last checkpoint: rods {verb} --resume {quoted(folder)}"
    return Interrupted(f"interrupted. {again if saved else 'There is no checkpoint yet.'}")

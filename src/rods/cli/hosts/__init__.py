"""Verbs that train inside another trainer (docs/guides/other-trainers.md), one file each.

Owns what a training was started with, in a file of its folder, and what a resume takes from there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rods.cli.common import continued, profile_for
from rods.config import RunConfig, Start, load_config, parse_config, profile_name
from rods.config.drift import require_same
from rods.errors import Interrupted, StoreError
from rods.infra.files import text_of, write_atomic

STARTED = "rods.json"
"""What a training was started with, in its folder."""


class Started(NamedTuple):
    """Settings of a training, and the words that the host itself gets."""

    start: Start
    config: RunConfig
    theirs: list[str]
    """The host's own, each `key=value`."""

    def write(self, folder: str) -> None:
        """Keep them for a resume."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        kept = {"start": self.start._asdict(), "config": self.config.model_dump(mode="json")}
        text = json.dumps({**kept, "theirs": self.theirs}, indent=2, ensure_ascii=False)
        write_atomic(Path(folder) / STARTED, text + "\n")


def started(
    folder: str,
    resume: bool,
    recipe: str,
    profile: str,
    asked: list[str],
    theirs: Sequence[str],
    drift: bool,
) -> Started:
    """Return what to train with: a resumed training has what it was started with.

    Args:
        asked: overrides of this command line, which win.
        theirs: the host's own words of this command line, which win likewise.

    Raises:
        ConfigError: a setting is wrong, or the resumed training follows another recipe.
        StoreError: the file is damaged, or a setting must not change.
    """
    path = Path(folder) / STARTED
    if not (resume and path.is_file()):
        recipe = recipe or "rods"
        start = Start(recipe, profile_name(recipe, profile_for(profile, asked)), asked)
        return Started(start, load_config(*start), _last(theirs))
    try:
        kept: dict[str, Any] = json.loads(text_of(path, "a training's settings", StoreError))
        began, before = Start(**kept["start"]), [*map(str, kept["theirs"])]
        made = parse_config(kept["config"], str(path))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: damaged: {error}. Remove it, and repeat your options with --resume {folder}."
        ) from error
    start, config = continued(Path(folder), began, made, recipe, profile, asked)
    require_same(folder, made.changed(config), drift)
    return Started(start, config, _last([*before, *theirs]))


def _last(words: Sequence[str]) -> list[str]:
    """Return the last word of each key; Hydra marks keys with `+` and `~`."""
    return [*{word.partition("=")[0].lstrip("+~"): word for word in words}.values()]


def require_meant(folder: str, resume: bool, saved: bool) -> None:
    """Raise `StoreError` unless a folder with checkpoints is resumed, and no other one is."""
    if resume and not saved:
        raise StoreError(f"{folder}: there is no checkpoint to resume. Begin with --out {folder}.")
    if saved and not resume:
        raise StoreError(
            f"{folder}: a training has checkpoints there. Continue from the last one with --resume "
            f"{folder}, or choose another --out."
        )


def left_off(verb: str, folder: str, saved: bool) -> Interrupted:
    """Return what Ctrl-C ends a training with: how it continues."""
    again = f"Continue from the last checkpoint: rods {verb} --resume {folder}"
    return Interrupted(f"interrupted. {again if saved else 'There is no checkpoint yet.'}")

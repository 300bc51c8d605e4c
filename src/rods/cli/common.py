"""What the verbs share: overrides from the command line, and where words go.

Figures that a script may read go to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console

from rods.errors import ConfigError

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Typer's context settings of verbs that take `--section.key value`."""

FULL = "full"
"""Profile that stands for a recipe's top level."""


def out() -> Console:
    """Console of results."""
    return Console(soft_wrap=True)


def say(text: str) -> None:
    """A line on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)


def overrides(args: Sequence[str]) -> list[str]:
    """`--train.lr 1e-4` or `--train.lr=1e-4` as `train.lr=1e-4`.

    Raises:
        ConfigError: an argument is no setting, or has no value.
    """
    found: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise ConfigError(f"argument {word!r}: expected --section.key value.")
        key, equals, value = word[2:].partition("=")
        if not equals:
            if not rest:
                raise ConfigError(f"option {word}: a value is missing.")
            value = rest.pop(0)
        found.append(f"{key.replace('-', '_')}={value}")
    return found


def profile_of(name: str) -> str:
    """The profile as `load_config` wants it."""
    return "" if name == FULL else name


def writer_overrides(writer: str, url: str, model: str) -> list[str]:
    """The short options `--writer`, `--writer-url`, `--writer-model` as settings."""
    given = {"writer": writer, "url": url, "model": model}
    return [f"synthesis.{key}={json.dumps(value)}" for key, value in given.items() if value]

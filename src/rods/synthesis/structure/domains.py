"""Argument domains of an environment: kinds of parameters and the API's own tables.

Owns the reading of the `domains.toml` that an environment brings (`Knowing`), as data. Never
guesses (`inference.py` does): what the file does not name has no kind and is left as it is.

    domains = domains_of(environment)
    domains.parameter("book_flight", "travel_from")      # "airport"
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rods.env import Environment, knowledge_of
from rods.errors import SynthesisError
from rods.types import Json

_NUMERIC = """
money price shares fuel volume miles meters temperature percent psi volts quantity turnover change
id cvv counter priority lines
"""
FILE = "domains.toml"
NUMERIC = frozenset(_NUMERIC.split())
"""Kinds whose values are numbers."""


@dataclass(frozen=True)
class Domains:
    """What the values of an API mean and which of them exist."""

    parameters: Mapping[str, str]
    configuration: Mapping[str, str]
    keys: Mapping[str, str]
    ranges: Mapping[str, tuple[float, float]]
    seeded: frozenset[str]
    constant: frozenset[str]
    keep: frozenset[str]
    padded_names: frozenset[str]
    defaults: Mapping[str, Mapping[str, Json]]
    companies: Mapping[str, str]
    aliases: Mapping[str, str]
    airports: Mapping[str, str]
    routes: frozenset[tuple[str, str]]
    zips: Mapping[str, str]
    distances: Mapping[tuple[str, str], float]
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Fields of the state that hold what exists for a parameter; one with a dot: below its keys."""
    fresh: Mapping[str, str] = field(default_factory=dict[str, str])
    """How a parameter's new values are made, where its kind does not say it (`fresh.py`)."""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Sentences with slots for parameters that take written texts."""
    inferred: bool = False
    """No file says what values mean: kinds are guessed, values come from where names fit."""

    def parameter(self, function: str, name: str) -> str:
        """Kind of a parameter, empty where it has none."""
        return self.parameters.get(f"{function}.{name}") or self.parameters.get(name, "")

    def leaf(self, owner: str, name: str) -> str:
        """Kind of a leaf of the initial configuration of class `owner`."""
        return self.configuration.get(f"{owner}.{name}") or self.configuration.get(name, "")

    def key(self, owner: str, name: str) -> str:
        """Kind of the keys of a mapping of the initial configuration, empty for plain fields."""
        return self.keys.get(f"{owner}.{name}") or self.keys.get(name, "")


def domains_of(environment: Environment) -> Domains:
    """The domains that an environment brings; empty ones where it brings none.

    Raises:
        SynthesisError: a section of the file is missing or broken.
    """
    folder = knowledge_of(environment)
    known = folder is not None and (folder / FILE).is_file()
    return _load(folder / FILE) if folder and known else NO_DOMAINS


@functools.cache
def _load(path: Path) -> Domains:
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return _domains({**_EMPTY, **data})
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise SynthesisError(f"{path}: section or value missing or broken: {error}.") from error


_TABLES = """
parameters configuration keys ranges defaults companies aliases airports zips distances
"""
_EMPTY: Mapping[str, Any] = {
    **{name: {} for name in _TABLES.split()},
    "seeded": {"classes": []},
    "constant": {"functions": []},
    "keep": {"words": [], "padded_names": []},
    "routes": {"pairs": []},
}


def _domains(data: Mapping[str, Any]) -> Domains:
    return Domains(
        parameters=data["parameters"],
        configuration=data["configuration"],
        keys=data["keys"],
        ranges={kind: (float(low), float(high)) for kind, (low, high) in data["ranges"].items()},
        seeded=frozenset(data["seeded"]["classes"]),
        constant=frozenset(data["constant"]["functions"]),
        keep=frozenset(data["keep"]["words"]),
        padded_names=frozenset(data["keep"]["padded_names"]),
        defaults=data["defaults"],
        companies=data["companies"],
        aliases=data["aliases"],
        airports=data["airports"],
        routes=frozenset(_pair(text) for text in data["routes"]["pairs"]),
        zips=data["zips"],
        distances={_pair(text): float(km) for text, km in data["distances"].items()},
        fields=data.get("fields", {}),
        fresh=data.get("fresh", {}),
        texts=data.get("texts", {}),
    )


def _pair(text: str) -> tuple[str, str]:
    left, _, right = text.partition("-")
    return left, right


NO_DOMAINS = _domains(_EMPTY)
"""Of an environment that brings none."""

"""Names in settings: a short name of ours, or `module:attribute` of anybody's.

Owns how a name becomes an object, for environments, dialects, rewards and writers alike; each room
keeps the table of its own. Nothing is imported before it is asked for.

    DIALECTS = Registry("model.dialect", "dialect", {"hermes": "rods.dialects.jsonic:Hermes"})
    DIALECTS.find("my_module:MyDialect")
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rods.errors import ConfigError
from rods.infra.dotted import nearest


class Registry:
    """Things of one kind, by name."""

    def __init__(self, setting: str, kind: str, names: Mapping[str, str]) -> None:
        """Import nothing yet.

        Args:
            setting: Dotted key where a user names one, for messages.
            kind: What they are, for messages.
            names: `module:attribute` of ours by short name.
        """
        self._setting, self._kind, self._names = setting, kind, names

    def __iter__(self) -> Iterator[str]:
        """Short names, in order."""
        return iter(self._names)

    def address(self, name: str) -> str:
        """`module:attribute` of a name.

        Raises:
            ConfigError: there is none of this name; the message has the nearest one.
        """
        if name in self._names:
            return self._names[name]
        if ":" in name:
            return name
        known = list(self._names)
        raise ConfigError(
            f"{self._setting}: there is no {self._kind} {name!r}.{nearest(name, known)} "
            f"Known: {', '.join(known)}; or module:attribute of your own."
        )

    def find(self, name: str) -> Any:
        """What a name means; raises `ConfigError` if there is no such thing."""
        return load(self._setting, self.address(name))


def load(setting: str, address: str) -> Any:
    """What stands at `module:attribute`; modules of the working directory are found too.

    Raises:
        ConfigError: it cannot be imported.
    """
    module, _, attribute = address.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{setting}: {address!r} cannot be imported: {error}. Modules are looked for in the "
            "working directory too."
        ) from error


def takes(setting: str, name: str, function: Any, *expected: str, **named: object) -> Any:
    """A function that is called with so many arguments.

    Args:
        setting: that names it.
        name: in that setting.
        function: what it means.
        expected: what it is called with, in words.
        named: what it is called with by name, where it has an argument of that name.

    Raises:
        ConfigError: it cannot be called so.
    """
    try:
        signature = inspect.signature(function)
        signature.bind(*expected, **{k: v for k, v in named.items() if k in signature.parameters})
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{setting}: {name!r} is not called with {' and '.join(expected)}: {error}."
        ) from error
    return function


def require(setting: str, name: str, found: object, protocol: type) -> None:
    """Refuse what lacks a part of its protocol, and say which.

    Raises:
        ConfigError: a part is missing.
    """
    public = [part for part in {**vars(protocol), **protocol.__annotations__} if part[0] != "_"]
    missing = sorted(part for part in public if not hasattr(found, part))
    if missing:
        raise ConfigError(
            f"{setting}: {name!r} has no {', '.join(missing)}. Derive it from "
            f"{protocol.__module__}.{protocol.__name__}, which says what is expected."
        )

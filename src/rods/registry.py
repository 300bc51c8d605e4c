"""Names in settings: a short name of ours, or anybody's `module:attribute`, `FILE.py:attribute`.

Owns how a name becomes an object, for environments, dialects, rewards and writers alike; each room
keeps the table of its own. Nothing is imported before it is asked for.

    DIALECTS = Registry("model.dialect", "dialect", {"hermes": "rods.dialects.jsonic:Hermes"})
    DIALECTS.find("my_module:MyDialect")
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
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
            f"Known: {', '.join(known)}; or module:attribute or FILE.py:attribute of your own."
        )

    def find(self, name: str) -> Any:
        """What a name means; raises `ConfigError` if there is no such thing."""
        return load(self._setting, self.address(name))


def load(setting: str, address: str) -> Any:
    """What stands at `module:attribute` or `FILE.py:attribute`.

    Modules of the working directory are found too, and those beside a file.

    Raises:
        ConfigError: it cannot be imported.
    """
    module, _, attribute = address.rpartition(":")
    try:
        found = _of_file(module) if module.endswith(".py") else _of_name(module)
        return getattr(found, attribute)
    except (ImportError, AttributeError, ValueError, OSError, SyntaxError) as error:
        raise ConfigError(
            f"{setting}: {address!r} cannot be imported: {error}. Modules are looked for in the "
            "working directory too; a file is named FILE.py:attribute."
        ) from error


def _of_name(module: str) -> ModuleType:
    _found_in(str(Path.cwd()))
    return importlib.import_module(module)


def _of_file(name: str) -> ModuleType:
    """The module in a file, loaded once; its name is the path, so that it hides no other."""
    path = Path(os.path.expanduser(name)).resolve()
    known = str(path).replace(".", "|")  # a dot would stand for a package
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    _found_in(str(path.parent))
    module = sys.modules[known] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known]
        raise
    return module


def _found_in(folder: str) -> None:
    if folder not in sys.path and (folder != str(Path.cwd()) or "" not in sys.path):
        sys.path.append(folder)


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

"""Names in settings: a short name of RODS, or anybody's `module:attribute`, `FILE.py:attribute`.

Owns how a name becomes an object, for environments, dialects, rewards and writers alike. Each
package keeps the table of its own; the folders of `recipes/` add what is one system's alone, by
`[provides]` in their `recipe.toml`. Nothing is imported before it is asked for.

    shared = {"hermes": "rods.dialects.jsonic:Hermes"}
    DIALECTS = Registry("model.dialect", "dialect", shared, "dialects")
    DIALECTS.find("my_module:MyDialect")
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rods.errors import ConfigError, RodsError
from rods.infra.dotted import nearest
from rods.infra.files import text_of

RECIPES = Path(__file__).parent / "recipes"
"""A folder for each published system, with its `recipe.toml`."""
SECTIONS = {
    "": ("integrations/__init__.py",),
    "env": ("envs/*/__init__.py",),
    "evaluation.suite": ("suites/sections.py",),
    "synthesis": ("synthesis/*/__init__.py", "writers/*/__init__.py"),
}
"""Modules whose `SECTIONS` adds sections to settings, by the dotted key of these settings."""
LOADING: set[str] = set()
"""Names in `sys.modules` of files that are imported just now for something that a setting names."""


class Registry:
    """Things of one kind, by name."""

    def __init__(
        self, setting: str, kind: str, names: Mapping[str, str], provided: str = "", more: str = ""
    ) -> None:
        """Import nothing yet; `setting`, `kind` and `more` (how to have several) are for messages.

        Args:
            names: `module:attribute` of ours by short name.
            provided: Table of `[provides]` in which recipes add names; empty: they add none.
        """
        self._setting, self._kind, self._shared = setting, kind, names
        self._provided, self._more = provided, more

    def __iter__(self) -> Iterator[str]:
        """Short names, in order: the shared ones, then those of the recipes."""
        return iter(self._names)

    @property
    def _names(self) -> dict[str, str]:
        added = {
            name: f"rods.recipes.{recipe}.{address}"
            for recipe, tables in provides().items()
            for name, address in tables.get(self._provided, {}).items()
        }
        return {**self._shared, **added}

    def address(self, name: str, setting: str = "") -> str:
        """`module:attribute` of a name; the `ConfigError` for an unknown one has the nearest.

        `setting`: the key that names it, such as one of a list; empty: that of the table.
        """
        names, setting = self._names, setting or self._setting
        if name in names:
            return names[name]
        if ":" in name:
            return name
        known = list(names)
        if os.path.isfile(name):  # unlike a Path's, it raises nothing for names that are not paths
            raise ConfigError(
                f"{setting}: {name} is a file. Add the name of the {self._kind} in it: {name}:NAME."
            )
        hint = (self._more if "," in name else "") or nearest(name, known, anywhere=True)
        raise ConfigError(
            f"{setting}: there is no {self._kind} {name!r}.{hint} Known: {', '.join(known)}; or "
            "module:attribute or FILE.py:attribute of your own."
        )

    def find(self, name: str, setting: str = "") -> Any:
        """Return the object of a name; raises `ConfigError` if there is none, as `address`."""
        return load(setting or self._setting, self.address(name, setting))


def recipe_file(name: str) -> Path:
    """Return the path of a bundled recipe, if there is one."""
    return RECIPES / name / "recipe.toml"


def recipe_names() -> list[str]:
    """The bundled recipes: the folders of `recipes/` that hold a `recipe.toml`."""
    return sorted(path.parent.name for path in RECIPES.glob("*/recipe.toml"))


def provides() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """`[provides]` of each recipe, by kind and short name; `ConfigError` for a broken file."""
    return _provides(RECIPES)


@functools.cache
def _provides(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    files = sorted(folder.glob("*/recipe.toml"))
    return {path.parent.name: read_recipe(path).get("provides", {}) for path in files}


def published(file: str) -> str:
    """Return what a file is that a recipe names and RODS does not ship; "" for any other."""
    return next((t["data"][file] for t in provides().values() if file in t.get("data", {})), "")


def read_recipe(path: Path) -> dict[str, Any]:
    """A recipe's file as plain data; raises `ConfigError` if it is missing or not TOML."""
    try:
        return tomllib.loads(text_of(path, "settings", ConfigError))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error


@functools.cache
def plugins(place: str) -> dict[str, str]:
    """Modules that add sections to the settings at `place`, by the plug-in's folder."""
    root = Path(__file__).parent
    found = [f for part in SECTIONS.get(place, ()) for f in sorted(root.glob(part))]
    own = [f for f in found if "\nSECTIONS = " in f.read_text(encoding="utf-8")]
    parts = {f.parent.name: f.relative_to(root.parent).with_suffix("").parts for f in own}
    return {name: ".".join(module).removesuffix(".__init__") for name, module in parts.items()}


def declared(place: str, plugin: str | None = None) -> dict[str, Any]:
    """Return the sections that plug-ins add at `place`, or that only `plugin` adds, by name."""
    found = [m for name, m in plugins(place).items() if plugin in (None, name)]
    return {k: v for m in found for k, v in importlib.import_module(m).SECTIONS.items()}


_IMPORTED = (ModuleType, type(annotations))


def load(setting: str, address: str) -> Any:
    """Return the object at `module:attribute` or `FILE.py:attribute`.

    Modules of the working directory and beside a file can be found. Raises `ConfigError`.
    """
    module, _, attribute = address.rpartition(":")
    try:
        found = _of_file(module) if module.endswith(".py") else _of_name(module)
        if not hasattr(found, attribute):
            own = {n: value for n, value in vars(found).items() if not n.startswith("_")}
            there = [name for name, value in own.items() if not isinstance(value, _IMPORTED)]
            near = difflib.get_close_matches(attribute, there, cutoff=0.5) or there[:5]
            names = ", ".join(map(repr, near)) or "no names"
            raise ConfigError(f"{module} has no {attribute!r}. It has {names}.")
        return getattr(found, attribute)
    except (Exception, SystemExit) as error:  # whatever a user's module raises
        problem, where = str(error).removesuffix("."), f"{setting}: {address!r}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{where} cannot be imported: {problem}. Modules are looked for in the working "
                "directory too; a file is named FILE.py:attribute."
            ) from error
        # Without a kind: what the module makes is refused, such as a tool without a type hint.
        kind = "" if isinstance(error, RodsError) else f"{type(error).__name__}{_line(error)}: "
        problem += f": {(error.text or '').strip()}" if isinstance(error, SyntaxError) else ""
        raise ConfigError(f"{where}: {kind}{problem}.") from error


def _line(error: BaseException) -> str:
    """The line of a user's module at which `error` was raised; nothing if none was executed."""
    known = (str(Path(__file__).parent), str(Path(importlib.__file__).parent), "<frozen")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(known)]
    lines = [frame.lineno for frame in own if frame.filename == own[0].filename]
    return f" at {Path(own[0].filename).name}:{lines[-1]}" if own else ""


def _of_name(module: str) -> ModuleType:
    if not all(map(str.isidentifier, module.split("."))):  # importlib speaks of its own arguments
        raise ModuleNotFoundError(f"{module!r} is neither a module nor a .py file", name=module)
    _found_in(str(Path.cwd()))
    return importlib.import_module(module)


def name_of_file(path: Path) -> str:
    """Name in `sys.modules` of the module in a file: its path, so that it hides no other."""
    return str(path).replace(".", "|")  # a dot would stand for a package


def _of_file(name: str) -> ModuleType:
    """The module in a file, loaded once."""
    path = Path(os.path.expanduser(name)).resolve()
    known = name_of_file(path)
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ModuleNotFoundError(f"there is no file {path}", name=name)
    _found_in(str(path.parent))
    module = sys.modules[known] = importlib.util.module_from_spec(spec)
    LOADING.add(known)
    try:
        spec.loader.exec_module(module)
    except BaseException:  # half a module must not be found by the next import
        del sys.modules[known]
        raise
    finally:
        LOADING.remove(known)
    return module


def _found_in(folder: str) -> None:
    if folder not in sys.path and (folder != str(Path.cwd()) or "" not in sys.path):
        sys.path.append(folder)


def takes(
    setting: str, name: str, function: Callable[..., object], *expected: str, **named: object
) -> Any:
    """The function that `name` means in a setting; `ConfigError` where it cannot be called so.

    It is called with what is `expected`, in words, and `named` where it has such an argument.
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
    """Raise `ConfigError` for what lacks a part of its protocol, and say which."""
    public = [part for part in {**vars(protocol), **protocol.__annotations__} if part[0] != "_"]
    missing = sorted(part for part in public if not hasattr(found, part))
    if missing:
        raise ConfigError(
            f"{setting}: {name!r} has no {', '.join(map(repr, missing))}. Derive it from "
            f"{protocol.__module__}.{protocol.__name__}, which documents what is expected."
        )

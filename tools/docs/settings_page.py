"""The page on every setting: default, allowed values and meaning, from the classes of settings.

Each setting is a row with an anchor of its own, which GitHub and the site both follow.

print(page())
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from rods.config import RunConfig, load_config
from rods.config.base import Settings

START = """# Which settings are there?

Every setting with its default, its allowed values and its meaning. Give one as an option
(`--rollout.k 16`), or in a recipe of your own (`k = 16` under `[rollout]`).

The first value is the default of the program. Where the recipe `rods` sets another one, it follows:
`small` is what `rods train` uses, `full` is the paper's size. `rods train --recipe NAME --dry-run >
FILE` writes all values of a run. Constants of a reward and keys of `env.options` are on the pages
of the [recipes](../recipes/index.md) and the [environments](../guides/tools.md) that read them.
"""
PROFILES = ("small", "full")
HEAD = "| setting | default | values | meaning |\n|---|---|---|---|"
KINDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}
BOUNDS = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))


def page() -> str:
    """Return the page as Markdown."""
    blocks = [START.rstrip(), "## General", _table(RunConfig, "")]
    inner = {name: _section(field.annotation) for name, field in RunConfig.model_fields.items()}
    for name, section in {**inner, **RunConfig.sections()}.items():
        if section:
            blocks += [f"## {name}", *_tables(section, name)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _section(annotation: Any) -> type[Settings] | None:
    kinds = (annotation, *get_args(annotation))
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)]
    return found[0] if found else None


def _tables(section: type[Settings], prefix: str) -> Iterator[str]:
    """Yield meaning and settings of the section, then those of the sections in it."""
    prefix += ".N" * (prefix == "stages")
    if "." in prefix:
        yield f"### {prefix}"
    yield inspect.cleandoc(section.__doc__ or "")
    yield _table(section, f"{prefix}.")
    for name, field in section.model_fields.items():
        if inner := _section(field.annotation):
            yield from _tables(inner, f"{prefix}.{name}")
    for name, inner in section.sections().items():
        if name not in section.model_fields:
            yield from _tables(inner, f"{prefix}.{name}")


def _table(section: type[Settings], start: str) -> str:
    """Return a table of the section's own settings; empty if it only has sections."""
    fields = section.model_fields.items()
    rows = [_row(start + name, field) for name, field in fields if not _section(field.annotation)]
    return "\n".join([HEAD, *rows]) if rows else ""


def _row(key: str, field: FieldInfo) -> str:
    default = "" if field.is_required() else _value(field.get_default(call_default_factory=True))
    others = [f"{profile}: `{value}`" for profile, value in _set(key) if value != default]
    shown = "; ".join([f"`{default}`" if default else "none", *others])
    cells = [shown, _kind(field.annotation, field.metadata)]
    meaning = " ".join((field.description or "").split())
    return " | ".join([f'| <a id="{key}"></a>`{key}`', *map(_cell, [*cells, meaning])]) + " |"


def _set(key: str) -> Iterator[tuple[str, str]]:
    """Yield the value of the setting in each profile of the recipe `rods`."""
    for profile in PROFILES:
        value: Any = _settings(profile)
        for name in key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            yield profile, _value(value)


@functools.cache
def _settings(profile: str) -> dict[str, Any]:
    return load_config("rods", profile).model_dump(mode="json")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _value(value: Any) -> str:
    """Return a default as the command line takes it."""
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _kind(annotation: Any, metadata: list[Any]) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0], [*inner[1:], *metadata])
    if origin is Literal:
        return "one of " + _choices(inner)
    if annotation == tuple[()]:
        return "an empty list"
    if origin is tuple and get_origin(inner[0]) is Literal:
        return "any of " + _choices(get_args(inner[0]))
    if origin is tuple:
        many = "list of" if inner[-1] is Ellipsis else f"{len(inner)}"
        return f"{many} {_kind(inner[0], [])}s"
    if origin in (Union, UnionType):
        return " or ".join(_kind(kind, []) for kind in inner if kind is not type(None))
    if origin is dict:
        return "table"
    return ", ".join([KINDS.get(annotation, "any value"), *_bounds(metadata)])


def _choices(values: tuple[Any, ...]) -> str:
    return ", ".join(f"`{json.dumps(value)}`" for value in values)


def _bounds(metadata: list[Any]) -> Iterator[str]:
    for constraint in metadata:
        for name, words in BOUNDS:
            if (bound := getattr(constraint, name, None)) is not None:
                yield f"{words} {bound:g}"

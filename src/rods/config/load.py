"""Reads settings from a recipe, its profile and overrides, and explains a wrong one.

    config = load_config(recipe="rods", profile="small", overrides=["train.lr=1e-4"])

A recipe is a TOML file. Its top-level tables are settings, and `[profile.NAME]` tables override
them. Only the registry reads `[provides]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rods.config.curriculum import StageSettings
from rods.config.run import RunConfig
from rods.config.unread import require_read, without_replaced
from rods.errors import ConfigError
from rods.infra.dotted import flat, merge, nearest, nearest_setting, not_among, override, shown
from rods.registry import declared, plugins, provides, read_recipe, recipe_file, recipe_names

SMALL = "small"
"""Stands for a recipe's first profile, which runs on a laptop."""
FULL = "full"
"""Stands for a recipe's top level."""

_KINDS = {
    "integer, got a number with a fractional part": "whole number", "integer": "whole number",
    "boolean": "truth value (true or false)", "string": "text", "number": "number",
    "tuple": "list", "list": "list", "dictionary": "table",
}  # fmt: skip
"""Pydantic's words for types, and ours."""


class Start(NamedTuple):
    """Sources of a configuration."""

    recipe: str
    profile: str
    overrides: list[str]


def load_config(
    recipe: str | Path = "rods", profile: str = SMALL, overrides: Sequence[str] = ()
) -> RunConfig:
    """Load a recipe's settings, then apply a profile and overrides such as `train.lr=1e-3`.

    Args:
        recipe: short name of a bundled recipe, or path of a TOML file.
        profile: a table `[profile.NAME]` of the recipe. `small` (default) runs on a laptop; a
            recipe without `small` uses its first profile. `full` or empty: the top level, the
            paper's settings.
        overrides: each `section.key=value`, applied in order. The value is in TOML; a bare word
            that is not a TOML value counts as a string.

    Raises:
        ConfigError: a setting is wrong; names file, key, value, what is expected, the nearest key.
    """
    data, where = _read(str(recipe)), f"recipe {recipe}"
    profiles: dict[str, dict[str, Any]] = data.pop("profile", {})
    profile = _named(profiles, profile)
    layers = [set(flat(data))]
    if profile:
        if profile not in profiles:
            known = list(dict.fromkeys([*profiles, FULL]))
            hint = nearest(profile, known, anywhere=profile in recipe_names())
            names = ", ".join(known)
            raise ConfigError(f"{where}: there is no profile {profile!r}.{hint} Known: {names}.")
        layers.append(set(flat(profiles[profile])))
        merge(data, profiles[profile])
    if not overrides:
        return _parse_read(data, layers, where)
    # A recipe without stages has the usual one, of which an option may change a setting.
    whole = {"stages": RunConfig().model_dump(mode="json")["stages"], **deepcopy(data)}
    for text in overrides:
        override(whole, text)
    try:
        return _parse_read(whole, [*layers, _asked(overrides)], "command line")
    except ConfigError:
        _parse_read(data, layers, where)  # a fault of the file must name the file
        raise


def require_config(given: object) -> None:
    """Raise `ConfigError` if settings are something else, such as the name of their recipe."""
    if not isinstance(given, RunConfig):
        raise ConfigError(f"config: {given!r:.60}; expected what rods.load_config(...) returns.")


def _parse_read(
    data: Mapping[str, object], layers: Sequence[Collection[str]], where: str
) -> RunConfig:
    """Validate plain data, and refuse settings without effect."""
    config = parse_config(without_replaced(data, layers), where)
    values, usual = (flat(c.model_dump(mode="json")) for c in (config, RunConfig()))
    require_read(values, usual, layers, where)
    return config


def _asked(overrides: Sequence[str]) -> set[str]:
    return {text.partition("=")[0].strip() for text in overrides}


def profile_name(recipe: str, profile: str) -> str:
    """Return a profile's own name: `small` stands for the recipe's first, `full` for none."""
    return _named(_read(recipe).get("profile", {}), profile)


def _named(profiles: Mapping[str, object], name: str) -> str:
    if name in profiles:
        return name
    return {SMALL: next(iter(profiles), ""), FULL: ""}.get(name, name)


def _read(recipe: str) -> dict[str, Any]:
    path = Path(recipe) if recipe.endswith(".toml") else recipe_file(recipe)
    if not (path.is_file() or recipe.endswith(".toml")):
        known = recipe_names()
        raise ConfigError(
            f"there is no recipe {recipe!r}.{nearest(recipe, known, anywhere=True)} Known: "
            f"{', '.join(known)}; or give the path of a .toml file."
        )
    data = read_recipe(path)
    own = data.pop("provides", {})
    if own and own not in provides().values():  # a copy of a bundled recipe may keep its own
        raise ConfigError(
            f"{path}: only bundled recipes may have [provides]. Remove it, and set your own reward "
            'or dialect by its path: reward = "FILE.py:attribute".'
        )
    tables = data.get("profile", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError(f"{path}: 'profile' must hold tables, as [profile.NAME], got {tables!r}.")
    return data


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return a copy with some settings changed; raises `ConfigError` as `load_config` does."""
    data = config.model_dump(mode="json")
    for text in overrides:
        override(data, text)
    return _parse_read(data, [_asked(overrides)], "overrides")


def parse_config(data: Mapping[str, object], where: str) -> RunConfig:
    """Validate plain data; the `ConfigError` has a line for each fault, with the nearest key."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "\n".join(explained(error))) from error


def explained(error: ValidationError, key: str = "") -> list[str]:
    """Return a sentence for each wrong value, whose key is `key` where pydantic knows none."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for fault in error.errors():
        # Where a value may be of several types, pydantic adds the type to the key.
        parts = [str(p) for p in fault["loc"] if p not in ("str", "int", "float", "bool")]
        name = ".".join(part for part in parts if "[" not in part) or key
        found.setdefault(name, []).append(dict(fault))
    return [_explain(name, faults) for name, faults in found.items()]


def _explain(key: str, faults: Sequence[Mapping[str, Any]]) -> str:
    fault = faults[0]
    if fault["type"] == "value_error":
        text = str(fault["ctx"]["error"])
        got, refused, known = text.partition(" is not one of ")  # typer's words
        if refused:
            return not_among(key, got.strip("'"), re.findall(r"'(.*?)'", known))
        return ": ".join(filter(None, (key, text)))
    if fault["type"] == "extra_forbidden":
        given = flat(fault["input"])
        names = [".".join(filter(None, (key, rest))) for rest in given] or [key]
        place, _, section = key.rpartition(".")
        readers = [name for name in plugins(place) if section in declared(place, name)]
        if readers:
            return (
                f"{', '.join(names)}: no effect, because only {place}.name = "
                f"{' or '.join(map(shown, readers))} reads {key}. Set that, or leave it out."
            )
        values = map(str, given.values()) if given else [""]
        return "\n".join(map(no_setting, names, values))
    if fault["type"] == "model_type":
        section = [k for k in keys() if k.startswith(f"{key}.")]
        named = f"{key}.name" if f"{key}.name" in section else section[0]
        got = f"{key!r} is a section of settings, got {fault['input']!r}."
        return f"{got} Name one of them, such as {named!r}."
    texts = dict.fromkeys(one["msg"].partition(", unable")[0] for one in faults)
    words = " or ".join(text.removeprefix("Input should be ") for text in texts)
    for theirs, ours in _KINDS.items():
        words = words.replace(f"valid {theirs}", ours)
    usual = flat(RunConfig().model_dump(mode="json")).get(key)
    such = f", such as {shown(usual)}" if "a valid" in fault["msg"] and usual else ""
    choices = re.findall(r"'(.*?)'", words)  # are in quotes
    hint = nearest(str(fault["input"]), choices, anywhere=True) if choices else ""
    return f"{key or 'settings'} must be {words}{such}; got {fault['input']!r}.{hint}"


def no_setting(name: str, value: str = "") -> str:
    """Return the sentence about an unknown setting, with the nearest one, or that of its value."""
    hint = nearest_setting(name, value, keys()) or " `rods settings` lists them."
    return f"there is no setting {name!r}.{hint}"


def keys() -> list[str]:
    """Return all dotted keys that can be set: `stages` by its fields, a free table by its name."""
    found = [(at, kind, {*kind.sections(), "stages"}) for at, kind in RunConfig.walk()]
    found.append(("stages.0.", StageSettings, set()))
    return sorted(f"{at}{name}" for at, kind, no in found for name in kind.model_fields.keys() - no)

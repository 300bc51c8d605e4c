"""`rods settings`: every setting with its default, allowed values and meaning.

Owns the words for types, which docs/reference/settings.md has too; pydantic's schema has the rest.

    [row["values"] for row in rows_of("train.", TrainSettings)]
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from rods.cli.common import AsJson, Profile, print_results
from rods.config import SMALL, RunConfig, StageSettings, load_config
from rods.config.base import Settings
from rods.errors import ConfigError
from rods.infra.dotted import flat, nearest, within

KINDS = {
    **{"integer": "whole number", "number": "number", "string": "text"},
    **{"boolean": "true or false", "object": "table"},
}
BOUNDS = {
    **{"minimum": "at least", "exclusiveMinimum": "above"},
    **{"maximum": "at most", "exclusiveMaximum": "below"},
}


def settings(
    name: Annotated[
        str, typer.Argument(help="A section or a setting: train, train.lr. [default: all]")
    ] = "",
    recipe: Annotated[str, typer.Option(help="Show the values of this recipe, too.")] = "",
    profile: Profile = "",
    as_json: AsJson = False,
) -> None:
    """List settings with default, allowed values and meaning."""
    rows = [row for at, kind in places() for row in rows_of(at, kind)]
    asked = re.sub(r"^stages(\.(\d+|N))?", "stages.N", name.replace("-", "_"))
    found = [row for row in rows if not name or within(row["key"], [asked])]
    if not found:
        known = [row["key"] for row in rows] + [at[:-1] for at, _ in places() if at]
        raise ConfigError(f"there is no setting or section {name!r}.{nearest(asked, known)}")
    if recipe or profile:
        config = load_config(recipe or "rods", profile or SMALL)
        given = flat(config.model_dump(mode="json"))
        for row in found:
            form = re.escape(row["key"]).replace("N", r"\d+")  # of each stage
            row["value"] = [value for key, value in given.items() if re.fullmatch(form, key)]
    if len(found) == 1:
        key = found[0]["key"]
        section, _, last = key.rpartition(".")
        place = f"under [{section}]" if section else "at its top"
        found[0]["use"] = f"--{key} VALUE, or in a recipe {last} = VALUE {place}"
    print_results(found, "\n\n".join(map(_text, found)))


def places() -> Iterator[tuple[str, type[Settings]]]:
    """Yield each section with the start of its keys, that of a stage last."""
    yield from RunConfig.walk()
    yield "stages.N.", StageSettings


def rows_of(at: str, section: type[Settings]) -> list[dict[str, Any]]:
    """Return key, default (None: it must be given), values and meaning of a section's settings."""
    inner = {*section.sections(), "stages"}
    schema, usual = section.model_json_schema()["properties"], section.model_construct()
    return [
        {
            "key": at + name,
            "default": getattr(usual, name, None),
            "values": _values(schema[name]),
            "meaning": " ".join((field.description or "").split()),
        }
        for name, field in section.model_fields.items()
        if name not in inner
    ]


def _text(row: dict[str, Any]) -> str:
    default = "none" if row["default"] is None else json.dumps(row["default"])
    first = f"{row['key']} = {default}"
    if "value" in row:
        first += f"; here {', '.join(map(json.dumps, row['value'])) or 'not read'}"
    words = [f"{row['values']}. {row['meaning']}", *([row["use"]] if "use" in row else [])]
    return "\n    ".join([first, *(line for text in words for line in textwrap.wrap(text, 96))])


def _values(field: dict[str, Any]) -> str:
    """Return type and allowed values of a field of a JSON schema, in words."""
    if "enum" in field or "const" in field:
        return "one of " + ", ".join(map(json.dumps, field.get("enum") or [field["const"]]))
    if "anyOf" in field:
        return " or ".join(_values(kind) for kind in field["anyOf"] if kind != {"type": "null"})
    if field.get("type") == "array":
        items = field.get("items") or field.get("prefixItems", [{}])[0]
        number = field.get("maxItems")
        many = "list" if number is None else f"list of {number}"
        return f"{many}, each {_values(items)}" if number != 0 else "empty list"
    bounds = [f"{words} {field[key]:g}" for key, words in BOUNDS.items() if key in field]
    return ", ".join([KINDS.get(field.get("type", ""), "any value"), *bounds])

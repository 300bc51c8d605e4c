"""`rods settings` lists settings with defaults and meaning; `rods recipes` lists recipes.

Owns the words for types, which docs/reference/settings.md has too; pydantic's schema has the rest.
What a recipe teaches, its claim and its commands are read from its README.

    [row["values"] for row in rows_of("train.", TrainSettings)]
"""

from __future__ import annotations

import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from rods.cli.common import RESULTS, AsJson, out, print_results, profile_option, profiles_of
from rods.config import FULL, SMALL, RunConfig, StageSettings, load_config, profile_name
from rods.config.base import Settings
from rods.config.bundled import BUNDLED
from rods.errors import ConfigError
from rods.infra.dotted import flat, nearest, within
from rods.infra.files import text_of
from rods.registry import recipe_file, recipe_names

UNSHOWN = (
    (r" *<!--.*?-->", ""),
    (r"!\[[^\]]*\]\([^)]*\)", ""),
    (r"\s*\(\[[^\]]*\]\((?!http)[^)]*\)\)", ""),
    (r"\[([^\]]*)\]\((?!http)[^)]*\)", r"\1"),
    (r"\[([^\]]*)\]\((http[^)]*)\)", r"\1 (\2)"),
)
"""What a terminal cannot show, and what stands in its place: marks of tests, images, links."""
FILE = r"\[[\w.]+\]\(([\w./]+\.py)\)"  # shown by its place in the installed package
TEACHES = "This recipe teaches "  # begin of the first sentence of a recipe's README
KINDS = {
    "integer": "whole number", "number": "number", "string": "text",
    "boolean": "true or false", "object": "table",
}  # fmt: skip
BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "above",
    "maximum": "at most", "exclusiveMaximum": "below",
}  # fmt: skip


def settings(
    name: Annotated[
        str, typer.Argument(help="A section or a setting: train, train.lr. [default: all]")
    ] = "",
    recipe: Annotated[str, typer.Option(help="Show the values of this recipe, too.")] = "",
    profile: Annotated[str, profile_option("both; with --recipe: small")] = "",
    as_json: AsJson = False,
) -> None:
    """List settings with default, allowed values and meaning."""
    rows = [row for at, kind in places() for row in rows_of(at, kind)]
    asked = re.sub(r"^stages(\.(\d+|N))?", "stages.N", name.replace("-", "_"))
    found = [row for row in rows if not name or within(row["key"], [asked])]
    if not found:
        known = [row["key"] for row in rows] + [at[:-1] for at, _ in places() if at]
        holding = ", ".join([key for key in known if asked in key][:8])
        hint = nearest(asked, known, anywhere=not holding) or (
            f" Settings that contain it: {holding}." if holding else " `rods settings` lists them."
        )
        raise ConfigError(f"there is no setting or section {name!r}.{hint}")
    own = [profile or SMALL] if recipe or profile else []
    for one in own or (SMALL, FULL):
        given = flat(load_config(recipe or "rods", one).model_dump(mode="json"))
        for row in found:
            form = re.escape(row["key"]).replace("N", r"\d+")  # of each stage
            values = [value for key, value in given.items() if re.fullmatch(form, key)]
            row["value" if own else one] = values
    if len(found) == 1:
        key = found[0]["key"]
        section, _, last = key.rpartition(".")
        place = f"under [{section.replace('stages.N', '[stages]')}]" if section else "at its top"
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
    for one in (SMALL, FULL):  # of the recipe `rods`; stages differ from each other
        values = [json.dumps(value) for value in row.get(one, [])]
        if values not in ([], [default]) and row["key"][:7] != "stages.":
            first += f"; {one}: {values[0]}"
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


def recipes(
    name: Annotated[str, typer.Argument(help="Show this recipe. [default: all]")] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes of published systems, or show one."""
    known = recipe_names()
    if name and name not in known:
        hint = nearest(name, known, anywhere=True)
        raise ConfigError(f"there is no recipe {name!r}.{hint} Known: {', '.join(known)}.")
    if name:
        found = _read(name)
        if out().is_terminal and not RESULTS.get():
            _show(found["page"])
        else:
            print_results(found, found["page"])
        return
    rows = [_read(one) for one in known]
    table = Table("recipe", "teaches; dialect and reward", "profiles", box=box.SIMPLE_HEAD)
    for row in rows:
        how = f"{row['dialect']}; {', '.join(row['rewards'])}"
        profiles = [f"{row['cpu_profile']} (CPU)"] * bool(row["cpu_profile"]) + row["profiles"]
        table.add_row(row["name"], escape(f"{row['teaches']}\n{how}"), "\n".join(profiles))
    note = "CPU: minutes on two cores. rods recipes NAME shows claim and commands."
    plain = [{key: row[key] for key in row if key != "page"} for row in rows]
    print_results(plain, table, note)


def _show(page: str) -> None:
    """Print Markdown on a terminal, with commands as they are, so that they can be copied."""
    from rich.markdown import Markdown  # slow to import

    for is_code, blocks in groupby(page.split("\n\n"), lambda block: block.startswith("    ")):
        text = "\n\n".join(blocks)
        if is_code:
            out().print(f"\n{text}\n", markup=False, highlight=False)
        else:
            out().print(Markdown(text), soft_wrap=False)


def _read(name: str) -> dict[str, Any]:
    """Return what a recipe is; `page` is the README up to its curves."""
    readme = text_of(recipe_file(name).with_name("README.md"), "a recipe", ConfigError)
    first, small = readme.split("\n\n")[1], profile_name(name, SMALL)
    page = readme.partition("\n## Curve")[0].strip()
    page = re.sub(FILE, lambda link: posixpath.normpath(f"rods/recipes/{name}/{link[1]}"), page)
    for pattern, kept in UNSHOWN:
        page = re.sub(pattern, kept, page)
    config = load_config(name, FULL)
    on_cpu = load_config(name, SMALL).model.name in BUNDLED
    others = [*profiles_of(name), FULL]
    return {
        "name": name,
        "teaches": " ".join(first.removeprefix(TEACHES).partition(". ")[0].split()),
        "dialect": config.model.dialect,
        "rewards": [*dict.fromkeys(stage.reward for stage in config.stages)],
        "cpu_profile": small if on_cpu else None,
        "profiles": [one for one in others if one != small or not on_cpu],
        "commands": re.findall(r"^ +(rods .+?)(?: +#.*)?$", readme, re.M),
        "page": f"{page}\n\nFolder of this recipe: {recipe_file(name).parent}",
    }

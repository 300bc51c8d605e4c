"""`rods recipes`: the recipes of published systems, from their files and their pages.

Owns the table. What a recipe teaches, its claim and its commands are read from its README.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from rods.cli.common import AsJson, print_results, profiles_of
from rods.config import FULL, SMALL, load_config, profile_name
from rods.config.bundled import BUNDLED
from rods.errors import ConfigError
from rods.infra.dotted import nearest
from rods.infra.files import text_of
from rods.registry import recipe_file, recipe_names

TEACHES = "This recipe teaches "
"""Begin of the first sentence of a recipe's README."""


def recipes(
    name: Annotated[str, typer.Argument(help="Show this recipe. [default: all]")] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes of published systems, or show one."""
    known = recipe_names()
    if name and name not in known:
        hint = nearest(name, known)
        raise ConfigError(f"there is no recipe {name!r}.{hint} Known: {', '.join(known)}.")
    if name:
        found = _read(name)
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


def _read(name: str) -> dict[str, Any]:
    """Return what a recipe is; `page` is the README up to its curves."""
    readme = text_of(recipe_file(name).with_name("README.md"), "a recipe", ConfigError)
    first, small = readme.split("\n\n")[1], profile_name(name, SMALL)
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
        "page": readme.partition("\n## Curve")[0].strip(),
    }

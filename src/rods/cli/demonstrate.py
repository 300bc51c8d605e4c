"""`rods demonstrate`: generated questions answered with a tool, as data for `rods sft`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import say
from rods.errors import ConfigError, StoreError

SEARCH = "search_r1"


def demonstrate(
    target: Annotated[Path, typer.Option("--out", help="JSON lines; must be new.")],
    number: Annotated[int, typer.Option("--n", min=1, help="Demonstrations.")] = 2_000,
    dialect: Annotated[
        str, typer.Option(help="torl, zerotir, retool or artist: programs; search_r1: searches.")
    ] = "retool",
    families: Annotated[
        str, typer.Option(help="Of programs: names with commas; empty: all of ours.")
    ] = "",
    difficulties: Annotated[
        str, typer.Option(help="Levels with commas (search_r1: hops); empty: all.")
    ] = "",
    one: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share with one program, or the necessary searches."),
    ] = 0.6,
    several: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share with several programs, or one search too many."),
    ] = 0.3,
    failing: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share whose first program fails, or one search too few."),
    ] = 0.05,
    useless: Annotated[
        float, typer.Option(min=0, max=1, help="Share with a program or search that does not help.")
    ] = 0.0,
    results: Annotated[int, typer.Option(min=1, help="Documents that one search shows.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of questions and mixture.")] = 0,
) -> None:
    """Write demonstrations of generated questions; the rest of the shares are direct answers."""
    from rods.envs.questions.families import FAMILIES
    from rods.infra.files import write_atomic
    from rods.policies.demonstrations import DIALECTS, Mixture, ProgramPlan, demonstrations
    from rods.policies.searches import BundledWorld, SearchPlan, search_demonstrations

    if dialect not in (*DIALECTS, SEARCH):
        names = ", ".join((*DIALECTS, SEARCH))
        raise ConfigError(f"--dialect {dialect!r}: expected one of {names}.")
    if one + several + failing + useless > 1:
        raise ConfigError("--one, --several, --failing and --useless add up to more than 1.")
    if families and dialect == SEARCH:
        raise ConfigError(f"--families {families!r}: search questions have none; leave it out.")
    if target.exists():
        raise StoreError(f"{target}: exists. Choose another name; nothing was written.")
    try:
        levels = tuple(int(word) for word in difficulties.split(",") if word)
    except ValueError as error:
        raise ConfigError(f"--difficulties {difficulties!r}: expected 1,2,3 or so.") from error
    mixture = Mixture(one, several, failing, useless)
    if dialect == SEARCH:
        searches = SearchPlan(levels, mixture) if levels else SearchPlan(mixture=mixture)
        made = search_demonstrations(BundledWorld(results), searches, seed, range(number))
    else:
        names = tuple(families.split(",")) if families else tuple(FAMILIES)
        made = demonstrations(
            ProgramPlan((dialect,), names, levels or (1, 2, 3, 4, 5), mixture),
            seed,
            range(number),
        )
    rows = [{"task_id": row.task_id, "pieces": row.pieces} for row in made]
    write_atomic(target, "".join(json.dumps(row) + "\n" for row in rows))
    say(f"{len(rows)} demonstrations in {target}")

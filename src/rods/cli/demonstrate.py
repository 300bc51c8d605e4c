"""`rods demonstrate`: generated questions answered with programs, as data for `rods sft`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import say
from rods.errors import ConfigError, StoreError


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("demonstrate")(demonstrate)


def demonstrate(
    target: Annotated[Path, typer.Option("--out", help="JSON lines; must be new.")],
    number: Annotated[int, typer.Option("--n", min=1, help="Demonstrations.")] = 2_000,
    dialect: Annotated[str, typer.Option(help="torl, zerotir or retool.")] = "retool",
    families: Annotated[str, typer.Option(help="Names with commas; empty: all of ours.")] = "",
    difficulties: Annotated[str, typer.Option(help="Levels with commas.")] = "1,2,3,4,5",
    one: Annotated[float, typer.Option(min=0, max=1, help="Share with one program.")] = 0.6,
    several: Annotated[float, typer.Option(min=0, max=1, help="Share with several.")] = 0.3,
    failing: Annotated[
        float, typer.Option(min=0, max=1, help="Share whose first program fails.")
    ] = 0.05,
    useless: Annotated[
        float, typer.Option(min=0, max=1, help="Share with a program that does not help.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of questions and mixture.")] = 0,
) -> None:
    """Write demonstrations of generated questions; the rest of the shares are direct answers."""
    from rods.files import write_atomic
    from rods.policies.demonstrations import DIALECTS, Mixture, Plan, demonstrations

    if dialect not in DIALECTS:
        raise ConfigError(f"--dialect {dialect!r}: expected one of {', '.join(DIALECTS)}.")
    if one + several + failing + useless > 1:
        raise ConfigError("--one, --several, --failing and --useless add up to more than 1.")
    if target.exists():
        raise StoreError(f"{target}: exists. Choose another name; nothing was written.")
    try:
        levels = tuple(int(word) for word in difficulties.split(","))
    except ValueError as error:
        raise ConfigError(f"--difficulties {difficulties!r}: expected 1,2,3 or so.") from error
    plan = Plan((dialect,), difficulties=levels, mixture=Mixture(one, several, failing, useless))
    if families:
        plan = Plan((dialect,), tuple(families.split(",")), levels, plan.mixture)
    rows = [
        {"task_id": made.task_id, "pieces": made.pieces}
        for made in demonstrations(plan, seed, range(number))
    ]
    write_atomic(target, "".join(json.dumps(row) + "\n" for row in rows))
    say(f"{len(rows)} demonstrations in {target}")

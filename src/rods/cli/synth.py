"""`rods synth`: verified variants of seed tasks, without any training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from rods.cli.common import EXTRA, out, overrides, profile_of, say
from rods.config import load_config
from rods.errors import StoreError, SynthesisError


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("synth", context_settings=EXTRA)(synth)


def synth(
    context: typer.Context,
    target: Annotated[Path, typer.Option("--out", help="JSON lines of variants; must be new.")],
    seeds: Annotated[
        Path | None, typer.Option(help="JSON lines of seed tasks; default: the training side.")
    ] = None,
    number: Annotated[int, typer.Option("--n", min=1, help="Variants to make.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    recipe: Annotated[str, typer.Option(help="Where the settings come from.")] = "rods",
    profile: Annotated[str, typer.Option(help="A profile of the recipe.")] = "quick",
) -> None:
    """Make verified variants. Any setting: --section.key VALUE."""
    from rods.cli.assemble import environment_of, sides_of
    from rods.synthesis.gates import Gatekeeper
    from rods.synthesis.pipeline import Statistics, synthesize
    from rods.synthesis.writers import make_writer
    from rods.task import Task, read_tasks, write_tasks

    if target.exists():
        raise StoreError(f"{target}: the file exists. Choose another name; nothing was written.")
    config = load_config(recipe, profile_of(profile), overrides(context.args))
    environment, sides = environment_of(config), sides_of(config)
    chosen = list(read_tasks(seeds)) if seeds else list(sides.train)
    settings = config.synthesis
    writer = make_writer(settings.writer, sides.train, environment, settings.resample_share)
    keeper = Gatekeeper(environment, sides.train, sides.held_out, config.synthesis.max_distance)
    counted, made = Statistics(), dict[str, Task]()
    with Progress(console=Console(stderr=True)) as bar:
        line = bar.add_task("variants", total=number)
        for index in range(20 * number):
            if len(made) == number:
                break
            outcome = synthesize(
                chosen[index % len(chosen)],
                writer,
                keeper,
                rng_seed=seed * 1_000_003 + index,
                attempts=config.synthesis.attempts,
            )
            counted.add(outcome)
            if outcome.variant is not None:
                made[outcome.variant.id] = outcome.variant
            bar.update(line, completed=len(made))
    if not made:
        raise SynthesisError(f"no variant was accepted: {dict(counted.rejected)}.")
    write_tasks(target, made.values())
    out().print(_table(counted))
    say(f"{len(made)} variants in {target}")


def _table(counted: object) -> Table:
    from rods.synthesis.pipeline import Statistics

    assert isinstance(counted, Statistics)
    table = Table("outcome", "count")
    table.add_row("tried", str(counted.tried))
    table.add_row("accepted", str(counted.accepted))
    for (stage, reason), count in counted.rejected.most_common():
        table.add_row(f"{stage}: {reason}", str(count))
    return table

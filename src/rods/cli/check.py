"""`rods check`: replay ground truths, or compare a chat template with its increments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import out


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("check")(check)


def check(
    tasks: Annotated[
        Path | None, typer.Option(help="JSON lines of tasks; default: the benchmark's 800.")
    ] = None,
    wheel: Annotated[str, typer.Option(help="Path of the benchmark's wheel.")] = "",
    template: Annotated[
        str, typer.Option(help="Check the chat template of this model instead (`tiny`, a folder).")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay every task's ground truth in a fresh world; exit 1 if any is at fault."""
    if template:
        _template(template, as_json)
        return
    from rods.envs.bfcl.tasks import load_tasks
    from rods.envs.bfcl.world import BfclEnvironment
    from rods.evaluation.check import check_tasks
    from rods.task import read_tasks

    rows = list(read_tasks(tasks)) if tasks else load_tasks(wheel)
    report = check_tasks(rows, BfclEnvironment(wheel))
    if as_json:
        out().print_json(data=report.to_json())
    else:
        out().print(report.table())
    if report.faulty:
        raise typer.Exit(1)


def _template(name: str, as_json: bool) -> None:
    from rods.config import ModelSettings
    from rods.evaluation.template_check import check_template
    from rods.trainers.loading import load_tokenizer

    report = check_template(load_tokenizer(ModelSettings(name=name)))
    if as_json:
        out().print_json(data=report.to_json())
    else:
        out().print(report.text())
    if not report.ok:
        raise typer.Exit(1)

"""`rods check`: replay ground truths, or check a chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from rods.abilities import unvaried
from rods.cli.common import AsJson, Recipe, overrides_of, print_results, say
from rods.cli.structure import read_rows
from rods.config import ModelSettings, RunConfig, load_config
from rods.config.checks import NONE_HELD_OUT
from rods.envs import make_environment
from rods.envs.originals import original_tasks, own_tasks, require_splits, split_tasks
from rods.errors import ConfigError, EmptySplitError, RodsError
from rods.evaluation.check import CheckReport, check_tasks
from rods.infra.text import counted
from rods.split import untrained_tools
from rods.task import Task


def check(
    context: typer.Context,
    tasks: Annotated[
        Path | None,
        typer.Option(help="Check these seed tasks or variants, unsplit, instead of env.tasks."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="Check this model's chat template instead: a name or a folder.")
    ] = "",
    dialect: Annotated[
        str, typer.Option(help="With --model: syntax of the calls. [default: hermes]")
    ] = "",
    every: Annotated[bool, typer.Option("--every", help="List ambiguous tasks too.")] = False,
    recipe: Recipe = "rods",
    as_json: AsJson = False,
) -> None:
    """Replay every task's ground truth, and list faulty tasks.

    Each task gets a new world. Exit status 1: a task cannot be trained on.

    Your own environment: --env.name FILE.py:attribute --env.tasks FILE.
    """
    if model:
        others = ["--tasks"] * (tasks is not None) + ["--every"] * every + context.args
        others += ["--recipe"] * (recipe != "rods")
        if others:
            raise ConfigError(
                f"--model checks a chat template, not tasks. Leave out {' '.join(others)}."
            )
        _template(model, dialect or "hermes")
        return
    if dialect:
        raise ConfigError("--dialect has no effect without --model MODEL. Leave it out.")
    from rods.assemble.refusals import writers_of

    asked = overrides_of(context.args, "check")
    if tasks and any(text.startswith("env.tasks=") for text in asked):
        raise ConfigError("--tasks is checked in the place of --env.tasks. Give one.")
    config = load_config(recipe, overrides=asked)
    settings = config.env
    environment = make_environment(settings.name, settings.arguments)
    rows = own_tasks(tasks, settings, environment) if tasks else original_tasks(settings)
    report = check_tasks(rows, environment, tools=True)
    numbers = _numbers(rows, [tasks] if tasks else [Path(name) for name in settings.tasks])
    found = [{"number": numbers[row.task], **row._asdict()} for row in report.rows]
    failing = [
        {"tool": tool, "field": field, "count": count, "calls": calls}
        for (tool, field), (count, calls) in report.failing.items()
    ]
    data = {"tasks": report.tasks, **report.counts(), "rows": found, "failure_fields": failing}
    print_results(data, *_shown(report, numbers, every))
    for (tool, field), (count, calls) in report.failing.items():
        say(f"note: {_read_as(tool, field, count, calls)}")
    for call, able, unable in writers_of(rows):
        if unable:
            say(f"note: {', '.join(unable)} cannot write {call}; {', '.join(able)} can.")
    if note := unvaried(environment):
        say(f"note: {note}")
    if tasks is None:  # else they may be variants, or seed tasks beside others
        _say_of_splits(config, report)
    if not report.ok:
        raise typer.Exit(1)


def _say_of_splits(config: RunConfig, report: CheckReport) -> None:
    """Print what training on these tasks would refuse, or could not learn."""
    settings = config.env
    try:
        splits = split_tasks(settings, config.evaluation.files)
        if splits.held_out or settings.held_out:
            require_splits(splits.train, splits.held_out, settings)
        else:  # `rods trl` and `rods verl` train on all tasks
            say(f"note: {NONE_HELD_OUT}")
    except EmptySplitError as error:  # nothing that makes a task unsound
        say(f"note: rods train would refuse these tasks. {error}")
        return
    faulty = {row.task for row in report.rows if row.finding == "unreachable"}  # as in a run
    sound = ([task for task in side if task.id not in faulty] for side in splits[:2])
    if note := untrained_tools(*sound, faults=bool(faulty)):
        say(note)


def _read_as(tool: str, field: str, count: int, calls: int) -> str:
    """Return how writers read a field by which a result says that its call failed."""
    if count == calls:
        what = f"the field {field!r} of {tool} sounds like a failure, but is ignored"
        return f"{what}: every call of {tool} in the tasks has it."
    what = f"in {count} of {calls} calls of {tool}, the field {field!r} sounds like a failure"
    variants = "A variant makes such a call only where its seed task does"
    return f"{what}. {variants} (docs/reference/tool-classes.md)."


def _numbers(tasks: Sequence[Task], files: Sequence[Path]) -> Mapping[str, int]:
    """Return each task's line, as `rods inspect` counts; its place where there is no such file."""
    numbers = {task.id: place for place, task in enumerate(tasks, 1)}
    if len(files) == 1:
        with suppress(RodsError):  # a published data set, which only its environment can read
            numbers |= {row.task.id: row.line for row in read_rows(files[0])}
    return numbers


def _shown(report: CheckReport, lines: Mapping[str, int], every: bool) -> Iterator[RenderableType]:
    table = Table("finding", "task", "turn", "what")
    shown = report.rows if every else [r for r in report.rows if r.finding != "ambiguous"]
    for row in shown:
        turn = "" if row.turn < 0 else str(row.turn + 1)
        name = f"task {lines[row.task]}" if row.origin == row.task else row.origin
        name = "" if row.finding == "undescribed" else name  # of a tool
        table.add_row(row.finding.value, name, turn, escape(row.detail))
    if shown:
        yield table
    counts = ", ".join(f"{name} {count}" for name, count in report.counts().items())
    held = f"{counted(report.tasks, 'task')}, {counted(report.calls // 2, 'call')}"
    found = counts if report.rows else "no fault"
    yield f"{held}, replayed twice in {report.seconds:.1f} s: {found}."
    if not every and report.counts()["ambiguous"]:
        yield "An agent may have to guess in the ambiguous ones; --every lists them."


def _template(name: str, dialect: str) -> None:
    from rods.evaluation.template_check import check_template
    from rods.trainers.loading import load_tokenizer

    report = check_template(load_tokenizer(ModelSettings(name=name)), dialect)
    print_results(report.to_json(), report.text())
    if not report.ok:
        raise typer.Exit(1)

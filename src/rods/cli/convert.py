"""`rods convert`: write tasks in another format, or the trajectories of a run as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from rods.cli import common
from rods.cli.common import overrides_of, print_results, say
from rods.config import load_config
from rods.dialects import structured
from rods.envs import make_environment
from rods.envs.originals import original_tasks, require_splits, split_tasks
from rods.errors import ConfigError
from rods.infra.claims import claimed
from rods.infra.text import counted
from rods.task import Task


def convert(
    context: typer.Context,
    target: Annotated[Path, typer.Option("--out", help="New file or folder.")],
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--tasks",
            help="File, folder of a data set or hf:OWNER/NAME to read; may be repeated: "
            "env.tasks. [default: all originals]",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Write the trajectories of this run, as datasets.")
    ] = None,
    form: common.Format = "jsonl",
    side: Annotated[
        Literal["all", "train", "held_out"],
        typer.Option("--split", help="Tasks to write: all, of training, or held out."),
    ] = "all",
    categories: common.Categories = "",
    dialect: common.PromptDialect = "hermes",
    as_json: common.AsJson = False,
) -> None:
    """Write tasks or trajectories in another format.

    The format of a file is detected from its rows. --env.name names the environment of the tasks
    (bfcl). It decides which published formats can be read: see docs/guides/data-formats.md. Any
    setting of the environment: --env.key VALUE.
    """
    from rods.integrations.formats.exports import FORMATS, export, export_run, require_format

    own = target.is_dir() and form not in FORMATS
    context.with_resource(claimed(target, "folder" if own or form == "datasets" else "file"))
    if run is not None:
        common.refuse_unread(context, ["dialect"], "with --run, whose messages hold its own")
        if files or categories or side != "all" or context.args or form != "datasets":
            raise ConfigError("--run writes all trajectories: give it with --format datasets only.")
        count = export_run(run, target)
        print_results({"out": target, "trajectories": count, "format": form})
        return say(f"{counted(count, 'trajectory')} in {target}")
    asked = overrides_of(context.args, "convert")
    asked += common.given({"env.tasks": [str(file) for file in files or ()]}, asked)
    settings = load_config(overrides=asked).env
    environment = make_environment(settings.name, settings.arguments)
    require_format(form, environment)
    structured(dialect)
    tasks: Sequence[Task]
    apart: Sequence[Task] = ()
    if side == "all" and (files or form != "datasets"):
        tasks = original_tasks(settings)
    else:
        split = split_tasks(settings)
        if side == "held_out" and not split.held_out:
            require_splits(split.train, (), settings)
        tasks = split.held_out if side == "held_out" else split.train
        apart = split.held_out if side == "all" else ()
    tasks, apart = common.of_categories(categories, tasks, apart)
    split = "val" if side == "held_out" else "train"
    export(tasks, target, form, environment, dialect=dialect, split=split, held_out=apart)
    count = len(tasks) + len(apart)
    print_results({"out": target, "tasks": count, "format": form})
    say(f"{counted(count, 'task')} in {target}")

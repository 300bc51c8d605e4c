"""`rods eval`: evaluate a policy on held-out tasks or on a published benchmark.

Owns the output and the file of a suite's trajectories. One function scores saved and new ones.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.cli import common
from rods.config import FULL, SMALL, RunConfig, load_config, parse_config, with_overrides
from rods.config.bundled import BUNDLED, is_missing_path, require_name
from rods.dialects import Dialect, InlineDialect, get_dialect, structured
from rods.errors import ConfigError, StoreError
from rods.evaluation.rules import SuiteRules
from rods.infra.claims import claimed
from rods.infra.text import quoted
from rods.store import MANIFEST, RunDirectory
from rods.suites import make_suite
from rods.task import Task
from rods.trajectory import Group


def evaluate(
    context: typer.Context,
    source: common.Source = "",
    recipe: common.Recipe = "rods",
    profile: common.OwnProfile = SMALL,
    model: common.Policy = "",
    suite: Annotated[str, typer.Option(help="A benchmark of docs/guides/benchmarks.md.")] = "",
    trajectories: Annotated[
        Path | None, typer.Option(help="Score the suite's trajectories in this file; no rollouts.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the suite's trajectories in this Parquet file; the same command resumes."
        ),
    ] = None,
    dialect: common.Dialect = "",
    memory: common.Memory = None,
    as_json: common.AsJson = False,
) -> None:
    """Evaluate a policy on held-out tasks, or on a suite.

    Held-out tasks are originals and variants. Any setting: --section.key VALUE.
    """
    more = {"train.local.memory_gib": memory, "model.dialect": dialect}
    config, run = chosen(context, recipe, profile, (source, model), more)
    if not suite and (trajectories is not None or save is not None):
        raise ConfigError("--trajectories and --save need a suite. Add --suite NAME.")
    if trajectories is not None and (run is not None or save is not None):
        raise ConfigError("--trajectories makes no rollouts. Leave out the run and --save.")
    if save is not None:
        context.with_resource(claimed(save))
    if suite:
        _suite(config, suite, run, trajectories, save)
    else:
        _held_out(config, run)


def chosen(
    context: typer.Context, recipe: str, profile: str, named: tuple[str, str], more: dict[str, Any]
) -> tuple[RunConfig, Path | None]:
    """The settings of a policy, and the run whose last checkpoint it is; None: the model named.

    It is `named` by the argument or by `--model`; `more` options set settings. A checkpoint has the
    settings that it was trained with, unless `--recipe` or `--profile` is named.
    Raises `ConfigError` where the policy is named twice, or a setting is wrong.
    """
    if all(named):
        raise ConfigError("RUN_OR_MODEL and --model: each names the policy. Give one.")
    run, model = located("".join(named))
    picked = common.named_options(context, ["recipe", "profile"])
    if run is not None and picked:
        raise ConfigError(
            f"{', '.join(picked)}: no effect, because {run} has settings of its own. Leave it out; "
            "an option --section.key VALUE changes one."
        )
    asked = common.overrides(context.args, model)
    asked += common.given(more, asked)
    if run is not None:
        return with_overrides(RunDirectory.open(run).config, asked), run
    config = load_config(recipe, profile, asked)
    own = trained_with(Path(config.model.name))
    if own is not None and not picked:
        # Adapters that it trained are part of the model that is named.
        return with_overrides(own, ["model.lora_rank=0", *asked]), None
    made_for, name = load_config(recipe, profile).model.name, config.model.name
    if "--profile" not in picked and made_for in BUNDLED and name not in BUNDLED:
        common.say(
            f"profile {profile} is made for the bundled policy {made_for} (model.dialect = "
            f'"{config.model.dialect}"). For another model, --profile {FULL} may fit better.'
        )
    return config, None


def conversing(config: RunConfig, run: Path | None) -> Dialect:
    """Return the dialect of a policy that answers a conversation; else raise `ConfigError`."""
    if run is not None and isinstance(get_dialect(config.model.dialect), InlineDialect):
        raise ConfigError(
            f"{run}: this run answers single questions, but a conversation has several messages. "
            f"To see its trajectories: rods view {quoted(run)}."
        )
    return structured(config.model.dialect)


def trained_with(model: Path) -> RunConfig | None:
    """Return the settings that made a checkpoint of a run or of TRL; None: another model."""
    if (model / "rods.pt").is_file():
        from rods.trainers.hosted import read_state

        return parse_config(json.loads(read_state(model)["config"]), str(model))
    run = model.parent.parent.parent  # RUN/checkpoint/step-N/policy
    ours = model.name == "policy" and (run / MANIFEST).is_file()
    return RunDirectory.open(run).config if ours else None


def located(name: str) -> tuple[Path | None, str]:
    """Return the run whose last checkpoint is evaluated, or else the name of a model."""
    folder = Path(os.path.expanduser(name))
    if not (name and folder.is_dir()):
        if is_missing_path(name):
            raise StoreError(f"{name}: there is no such file, run or folder of a model.")
        require_name(name)
        return None, name
    # A model, one of our checkpoints, or TRL's last one; all else is a run of RODS.
    if any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        return None, str(folder.absolute())  # no bundled model of the same name
    if (folder / "policy").is_dir():
        return None, str(folder / "policy")
    last = last_of_trl(folder)
    return (folder, "") if (folder / MANIFEST).is_file() else (None, last or name)


def last_of_trl(folder: Path) -> str:
    """Return the last checkpoint in an output folder of TRL's; empty: it is none."""
    saved = [p for p in folder.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit()]
    if not saved or any((folder / name).is_file() for name in (MANIFEST, "config.json")):
        return ""
    return str(max(saved, key=lambda p: int(p.name.removeprefix("checkpoint-"))))


def _held_out(config: RunConfig, run: Path | None) -> None:
    from rods.assemble.evaluated import evaluation_of
    from rods.report.results import evaluation_table
    from rods.report.run_data import evaluation_of as evaluation_from

    with ExitStack() as stack:
        with common.progress("preparing model and held-out tasks", None):
            work = stack.enter_context(evaluation_of(config, run))
        common.say(f"evaluating {run or config.model.name} on held-out tasks of {config.env.name}")
        with common.progress("held-out trajectories", None) as show:
            rows = work(lambda done, total: show(done, "", total))
    common.print_results(rows, evaluation_table(evaluation_from("after", rows)))


def _suite(
    config: RunConfig, name: str, run: Path | None, trajectories: Path | None, save: Path | None
) -> None:
    from rods.evaluation.suites import accuracies, chosen_tasks, saved_groups, suite_rows
    from rods.report.results import suite_table

    rules = make_suite(name, config)
    tasks = chosen_tasks(rules, config.evaluation.suite, rollouts=trajectories is None)
    if trajectories is not None:
        groups = saved_groups(rules, tasks, trajectories)
        if missing := len(tasks) - len(groups):
            common.say(f"{trajectories}: no trajectory of {missing} of {len(tasks)} tasks.")
    else:
        groups = asyncio.run(_rolled_out(config, rules, tasks, run, save))
    rows = suite_rows(rules, groups)
    common.print_results(rows, suite_table(rules.name, accuracies(rules, rows), rows))


async def _rolled_out(
    config: RunConfig, rules: SuiteRules, tasks: list[Task], run: Path | None, save: Path | None
) -> list[Group]:
    """Roll out a suite's tasks greedily, `evaluation.suite.repeats` times each."""
    dialect = conversing(config, run)  # refused before anything heavy is imported
    from rods.assemble.evaluated import ready_policy, weights_of
    from rods.evaluation.suites import Kept, roll_out_suite

    kept = None if save is None else Kept(save, config, rules.name, weights_of(run))
    if kept is not None and (there := sum(len(kept.of(task.id)) for task in tasks)):
        common.say(f"{save}: resumes after {there} trajectories of an interrupted command.")
    with common.progress("trajectories", None) as show, closing(rules.environment) as environment:
        environment.warm_up()
        async with ready_policy(config, run) as (policy, template):
            how = (dialect, template, config.rollout, config.evaluation.suite.repeats)
            groups = await roll_out_suite(
                rules, tasks, policy, *how, lambda done, total: show(done, total=total), kept
            )
    if kept is not None:
        kept.finish(t for group in groups for t in group.trajectories)
    return groups

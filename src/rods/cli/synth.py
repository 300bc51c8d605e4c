"""`rods synth`: verified variants of seed tasks, without any training."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from rods.cli.common import (
    EXTRA,
    out,
    overrides,
    say,
    writer_overrides,
    writers_of,
)
from rods.config import SMALL, RunConfig, load_config
from rods.errors import ConfigError, Interrupted, RodsError, StoreError, SynthesisError, TaskError
from rods.infra.dotted import flat

if TYPE_CHECKING:
    from rods.env import Environment
    from rods.synthesis.dataset.journal import DatasetMaker
    from rods.synthesis.dataset.seeds import SeedChoice
    from rods.task import Task
    from rods.types import Json

QUIET = 15.0
"""Seconds between two lines of progress where no bar can be drawn."""
NOT_DECIDING = {
    "llm": {"url", "concurrency", "timeout", "price_in", "price_out"},
    "drain_seconds": True,
}
"""Settings of synthesis that do not change what comes out."""


class Sources(NamedTuple):
    """Where variants come from."""

    environment: Environment
    training: Sequence[Task]
    """They may give words and turns."""
    held_out: Sequence[Task]
    """No variant may overlap them."""
    given: Sequence[Task]
    """Tasks that may be seeds."""


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("synth", context_settings=EXTRA)(synth)


def synth(
    context: typer.Context,
    target: Annotated[Path, typer.Option("--out", help="Where the variants go; must be new.")],
    seeds: Annotated[
        Path | None, typer.Option(help="JSON lines of seed tasks; default: the training side.")
    ] = None,
    number: Annotated[int, typer.Option("--n", min=1, help="Variants to make.")] = 100,
    writer: Annotated[
        str, typer.Option(help="resample, graph, llm or module:attribute (synthesis.writer).")
    ] = "",
    writer_url: Annotated[str, typer.Option(help="Its chat server (synthesis.llm.url).")] = "",
    writer_model: Annotated[str, typer.Option(help="Its model (synthesis.llm.model).")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it stopped.")] = False,
    form: Annotated[
        str, typer.Option("--format", help="jsonl, parquet (verl rows) or bfcl (a folder).")
    ] = "jsonl",
    dialect: Annotated[
        str, typer.Option(help="How prompts of Parquet rows ask for calls.")
    ] = "hermes",
    log: Annotated[
        Path | None,
        typer.Option(
            "--from-trajectories", help="Rollouts with rewards (or a run): seeds on the boundary."
        ),
    ] = None,
    task_key: Annotated[str, typer.Option(help="Its column of task ids.")] = "",
    reward_key: Annotated[str, typer.Option(help="Its column of rewards.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    recipe: Annotated[str, typer.Option(help="Where the settings come from.")] = "rods",
    profile: Annotated[str, typer.Option(help="A profile of the recipe.")] = SMALL,
) -> None:
    """Make verified variants. Any setting: --section.key VALUE."""
    from rods.dialects import get_dialect
    from rods.synthesis.dataset.exports import FORMATS, export

    if form not in FORMATS:
        raise ConfigError(f"--format {form!r}: expected one of {', '.join(FORMATS)}.")
    get_dialect(dialect)
    journal_path = _free(target, resume)
    asked = writer_overrides(overrides(context.args), writer, writer_url, writer_model)
    config = load_config(recipe, profile, asked)
    say(f"variants are written by: {writers_of(config.synthesis)}")
    sources = _sources(config, seeds)
    chosen = sources.given
    if seeds is None:  # the benchmark's order is by category: a small data set would miss some
        chosen = random.Random(f"{seed}/order").sample(chosen, len(chosen))
    if log is not None:
        chosen = _boundary_seeds(log, task_key, reward_key, sources.given, config, seed)
    chosen = _not_held_out(chosen, sources)
    made = _make(config, sources, chosen, number, seed, journal_path, target)
    export(made, target, form, sources.environment, dialect=dialect)
    journal_path.unlink(missing_ok=True)
    say(f"{len(made)} variants in {target}")


def _free(target: Path, resume: bool) -> Path:
    """The journal's path, once it is sure that nothing is overwritten."""
    journal = target.with_name(target.name + ".journal")
    if not target.parent.is_dir():
        raise StoreError(f"{target}: there is no folder {target.parent}. Make it first.")
    if target.exists() and not (resume and journal.exists()):
        raise StoreError(f"{target}: exists. Choose another name; nothing was written.")
    if journal.exists() and not resume:
        raise StoreError(
            f"{journal}: an unfinished data set of this name is here. Go on with --resume, or "
            "remove it."
        )
    return journal


def _sources(config: RunConfig, seeds: Path | None) -> Sources:
    from rods.env import make_environment
    from rods.envs.originals import GENERATED, parted_tasks
    from rods.evaluation.check import without_broken
    from rods.task import read_tasks

    environment = make_environment(config.env.name, config.env.arguments)
    given = None if seeds is None else list(read_tasks(seeds))
    if given is not None and not given:
        raise TaskError(f"{seeds}: holds no task.")
    if given:
        given = without_broken(given, environment, str(seeds)).tasks
    if given and config.env.name not in ("bfcl", *GENERATED) and not config.env.tasks:
        return Sources(environment, given, (), given)
    sides = parted_tasks(config.env, config.evaluation.files)
    train = sides.train
    if config.env.tasks:
        train = without_broken(train, environment, "env.tasks, training side").tasks
    return Sources(environment, train, sides.held_out, given or train)


def _boundary_seeds(
    log: Path, task_key: str, reward_key: str, tasks: Sequence[Task], config: RunConfig, seed: int
) -> list[Task]:
    from rods.synthesis.dataset.seeds import choose_seeds, read_rewards

    rewards = read_rewards(log, task_key, reward_key)
    if log.is_dir():  # a run trains on variants of its own too
        known = {task.id for task in tasks}
        rows, rewards = rewards, [row for row in rewards if row.task in known]
        if len(rewards) < len(rows):
            others = len({row.task for row in rows} - known)
            say(f"{log}: {others} tasks are not among the seeds (variants); they are left out.")
        if not rewards:
            raise TaskError(f"{log}: no task of this run is among the seeds. Name them: --seeds.")
    choice = choose_seeds(rewards, tasks, config.boundary, seed)
    out().print(_regions(choice))
    if not choice.seeds:
        low, high = config.boundary.low, config.boundary.high
        raise SynthesisError(
            f"{log}: none of {len(choice.judgements)} tasks is on the boundary (mean reward from "
            f"{low} to {high}), so there is no seed. Change --boundary.low or --boundary.high."
        )
    return choice.seeds


def _regions(choice: SeedChoice) -> Table:
    found = Counter((j.category, j.region) for j in choice.judgements)
    chosen = Counter(task.category for task in choice.seeds)
    unjudged = Counter(task.category for task in choice.unjudged)
    table = Table("category", "tasks", "hard", "boundary", "mastered", "unjudged", "chosen")
    categories = sorted({c for c, _ in found} | set(unjudged))
    for category in [*categories, "all"]:
        mine = categories if category == "all" else [category]
        regions = [sum(found[c, r] for c in mine) for r in ("hard", "boundary", "mastered")]
        others = [sum(count[c] for c in mine) for count in (unjudged, chosen)]
        tasks = sum(regions) + others[0]
        table.add_row(category, str(tasks), *map(str, regions), *map(str, others))
    return table


def _not_held_out(chosen: Sequence[Task], sources: Sources) -> Sequence[Task]:
    """Seeds that the gates could ever accept a variant of."""
    ours = {task.provenance.scenario for task in sources.training}
    theirs = {task.provenance.scenario for task in sources.held_out} - ours
    free = [task for task in chosen if task.provenance.scenario not in theirs]
    if not free:
        raise TaskError(
            f"all {len(chosen)} seeds are of held-out scenarios (first: task {chosen[0].id}, "
            f"{chosen[0].provenance.scenario}); no variant may overlap those."
        )
    if len(free) < len(chosen):
        say(f"{len(chosen) - len(free)} of {len(chosen)} seeds are held out and left alone.")
    return free


def _make(
    config: RunConfig,
    sources: Sources,
    chosen: Sequence[Task],
    number: int,
    seed: int,
    journal_path: Path,
    target: Path,
) -> list[Task]:
    from rods.synthesis.dataset.journal import DatasetMaker, Journal, Plan, SharedGatekeeper
    from rods.synthesis.writers import make_writer

    settings = config.synthesis
    writer = make_writer(
        settings.writer,
        sources.training,
        sources.environment,
        settings.resample.share,
        settings,
        target.with_name(target.name + ".answers") if settings.writer == "llm" else None,
    )
    keeper = SharedGatekeeper(
        sources.environment, sources.training, sources.held_out, settings.max_distance
    )
    plan = Plan(chosen, number, seed, settings.attempts, settings.llm.concurrency)
    _free(target, resume=journal_path.exists())  # another process may have finished meanwhile
    journal = Journal.open(journal_path, _deciding(config, sources, plan))
    maker = DatasetMaker(plan, writer, keeper, journal)
    try:
        _run(maker, target)
    finally:
        getattr(writer, "close", lambda: None)()
        if maker.accepted or target.exists():
            journal.close()
        else:
            journal.remove()  # a failed start must not block the next one
    out().print(_table(maker))
    if not maker.accepted:
        raise SynthesisError(
            f"no variant was accepted in {maker.statistics.tried} proposals; the table says why."
        )
    if len(maker.accepted) < number:
        say(f"only {len(maker.accepted)} of {number}: the seeds gave no more in so many proposals.")
    return maker.accepted


def _deciding(config: RunConfig, sources: Sources, plan: object) -> dict[str, Json]:
    """Everything on which the variants depend; `--resume` compares it."""
    from rods.synthesis.dataset.journal import Plan

    assert isinstance(plan, Plan)
    sides = {"seeds": plan.seeds, "training": sources.training, "held_out": sources.held_out}
    plain = flat(config.synthesis.model_dump(mode="json", exclude=NOT_DECIDING))
    return {
        "n": plan.n,
        "seed": plan.rng_seed,
        "env": config.env.name,
        **{f"synthesis.{key}": value for key, value in plain.items()},
        **{name: _ids(tasks) for name, tasks in sides.items()},
    }


def _ids(tasks: Sequence[Task]) -> str:
    digest = hashlib.sha256("\n".join(task.id for task in tasks).encode()).hexdigest()[:16]
    return f"{len(tasks)} tasks {digest}"


def _run(maker: DatasetMaker, target: Path) -> None:
    kept = maker.taken_over
    if kept:
        say(f"{kept} variants are there already.")
    if target.exists() and not maker.finished:
        raise StoreError(f"{target}: exists, but the data set of its journal is unfinished.")
    try:
        with _display(maker) as report:
            maker.run(report)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted; {_kept(maker)}") from stop
    except RodsError as error:
        say(_kept(maker))
        raise error


def _kept(maker: DatasetMaker) -> str:
    if not maker.accepted:
        return "no variant was made yet; nothing is kept."
    return f"{len(maker.accepted)} variants are kept. Go on with the same command and --resume."


@contextmanager
def _display(maker: DatasetMaker) -> Generator[_Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Report(bar, maker)


class _Report:
    """Draws the bar; where there is no terminal, says a line now and then."""

    def __init__(self, bar: Progress, maker: DatasetMaker):
        self._bar, self._started, self._said = bar, time.monotonic(), time.monotonic()
        self._before, self._pause = maker.taken_over, ""
        self._line = bar.add_task(
            "variants", total=maker.plan.n, completed=maker.taken_over, note=""
        )

    def __call__(self, maker: DatasetMaker) -> None:
        """After each outcome, and now and then while one is waited for."""
        now = time.monotonic()
        if maker.suspended != self._pause:
            self._pause = maker.suspended
            if self._pause:
                say(self._pause)
        note = _note(maker, now - self._started, self._before)
        self._bar.update(self._line, completed=len(maker.accepted), note=note)
        if not self._bar.console.is_terminal and now - self._said >= QUIET:
            self._said = now
            say(f"{len(maker.accepted)} of {maker.plan.n} variants, {note}")


def _note(maker: DatasetMaker, seconds: float, before: int) -> str:
    """Speed, yield, what turns proposals down, and what a variant costs."""
    counted = maker.statistics
    rate = (len(maker.accepted) - before) / max(seconds, 1e-9)
    parts = [f"{rate:.1f}/s, yield {counted.accepted / max(counted.tried, 1):.0%}"]
    stages = Counter[str]()
    for (stage, _), count in counted.rejected.items():
        stages[stage] += count
    if stages:
        parts.append("rejected " + ", ".join(f"{s} {n}" for s, n in stages.most_common()))
    if counted.accepted:
        figures = ("prompt_tokens", "completion_tokens")
        tokens = sum(n for (_, figure), n in maker.spent.items() if figure in figures)
        each = f"{tokens / counted.accepted:,.0f} tokens and " if tokens else ""
        parts.append(f"{each}{counted.seconds / counted.accepted:.2g} s a variant")
    return "; ".join(parts)


def _table(maker: DatasetMaker) -> Table:
    counted = maker.statistics
    accepted = max(counted.accepted, 1)
    table = Table("outcome", "count", "share")
    tried = max(counted.tried, 1)
    table.add_row("proposals", str(counted.tried), "")
    table.add_row("accepted", str(counted.accepted), f"{counted.accepted / tried:.1%}")
    for (stage, reason), count in counted.rejected.most_common():
        table.add_row(f"{stage}: {reason}", str(count), f"{count / tried:.1%}")
    table.add_row("seconds per accepted", f"{counted.seconds / accepted:.3f}", "")
    if counted.distances:
        middle = sorted(counted.distances)[len(counted.distances) // 2]
        table.add_row("median profile distance", f"{middle:.3f}", "")
    for (stage, figure), amount in sorted(maker.spent.items()):
        what = f"{stage}: {figure.replace('_', ' ')} per accepted"
        table.add_row(what, f"{amount / accepted:.4g}", "")
    return table

"""`rods synth`: make verified variants of seed tasks, without training."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rods.abilities import initial_state, unvaried
from rods.cli import common
from rods.cli.synth.outcomes import never_called, say_low_yields, shown, table, why_none
from rods.config import SMALL, RunConfig, load_config
from rods.dialects import structured
from rods.env import Environment
from rods.envs import make_environment
from rods.envs.originals import brings_tasks, own_tasks, split_tasks
from rods.errors import ConfigError, Interrupted, RodsError, StoreError, SynthesisError, TaskError
from rods.evaluation.check import without_broken
from rods.infra.claims import claimed
from rods.infra.files import disk
from rods.infra.text import counted as plural
from rods.infra.text import quoted
from rods.split import Split, given_split, untrained_tools
from rods.synthesis.chat import LlmWriterSettings, split_address
from rods.synthesis.stages import stages_of
from rods.task import Task
from rods.writers import LOCAL, VARYING, in_words, make_writer

if TYPE_CHECKING:
    from rods.synthesis.collect import Collection
    from rods.synthesis.pipeline import Statistics
    from rods.synthesis.yields import SeedYield

QUEUE, ANSWERS = "synthesis.sqlite", "answers.sqlite"  # files beside an unfinished data set
VARIANTS, SEEDS = "variants", "seed tasks"  # what is made
STATES = "Give worlds with records: --states FILE (docs/guides/seed-tasks.md)."
READ = "env.", "evaluation.files="  # settings that a command needs to read them


def synth(
    context: typer.Context,
    target: Annotated[Path | None, typer.Option("--out", help="New file or folder.")] = None,
    tasks: Annotated[
        Path | None, typer.Option(help="JSON lines of seed tasks. [default: the training split]")
    ] = None,
    number: Annotated[int, typer.Option("--n", min=1, help="Number of variants.")] = 100,
    scratch: Annotated[
        int | None,
        typer.Option("--from-scratch", min=1, help="Number of seed tasks made without examples."),
    ] = None,
    states: Annotated[
        Path | None,
        typer.Option(help="With --from-scratch: JSON lines of worlds. [default: those of tasks]"),
    ] = None,
    writer: Annotated[
        str,
        typer.Option(help="resample, graph, llm, family or module:attribute: synthesis.writer."),
    ] = "",
    writer_url: common.WriterUrl = "",
    writer_model: common.WriterModel = "",
    resume: common.Resume = None,
    form: common.Format = "jsonl",
    categories: common.Categories = "",
    dialect: common.PromptDialect = "hermes",
    log: Annotated[
        Path | None,
        typer.Option("--from-trajectories", help="Seed tasks: boundary tasks of this log or run."),
    ] = None,
    task_key: common.TaskKey = "",
    reward_key: common.RewardKey = "",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    recipe: common.Recipe = "rods",
    profile: common.Profile = SMALL,
    as_json: common.AsJson = False,
) -> None:
    """Make verified variants, or seed tasks from nothing.

    Any setting: --section.key VALUE.
    """
    from rods.integrations.formats.exports import export

    structured(dialect)
    if (target := common.resumed(target, resume)) is None:
        raise ConfigError("rods synth needs --out FILE, or --resume FILE.")
    context.with_resource(claimed(target, *(("file", "folder") if resume else ())))
    folder = _free(target, resume is not None)
    what = VARIANTS if scratch is None else SEEDS
    _require_alone(context, scratch, states, log)
    own = writer, writer_url, writer_model
    config = _config(context.args, recipe, profile, own, from_scratch=scratch is not None)
    common.say(f"{what} are written by: {in_words(config.synthesis)}")
    environment, splits, given = _sources(config, tasks, states, stages=scratch is not None)
    if log is not None:
        given = _boundary_seeds(log, task_key, reward_key, given, config, seed)
    order = seed if tasks is None and log is None else None
    free = _chosen(given, categories, order, splits)
    with _folder(folder):
        export(free, target, form, environment, dialect=dialect, dry=True)  # variants are like them
        usable = _say_limits(
            config.synthesis.writer, splits, environment, free, scratch is not None
        )
        made, counted, yields = _make(config, splits, free, (scratch or number, what), seed, target)
        if scratch is not None and (uncalled := never_called(usable, made)):
            common.say(f"tools that no seed task calls: {', '.join(uncalled)}")
        export(made, target, form, environment, dialect=dialect)
        _clear(folder)
    named = None if form != "jsonl" else _reading(context.args, what, recipe, profile, tasks)
    _tell(target, what, len(made), (counted, yields), named)


def _reading(
    args: Sequence[str], what: str, recipe: str, profile: str, tasks: Path | None
) -> list[str]:
    """Return the options with which another command reads what was written."""
    named = [f"--{text}" for text in common.overrides(args) if text.startswith(READ)]
    named += ["--recipe", recipe] * (recipe != "rods")
    if what == VARIANTS:
        named += ["--tasks", str(tasks)] * (tasks is not None)
        named += ["--profile", profile] * (profile != SMALL)
    return named


def _say_limits(
    writer: str, splits: Split, environment: Environment, stages: Sequence[Task], from_scratch: bool
) -> set[str]:
    """Print why nothing can vary, and why some tools are in no seed task; return the others.

    Raises `ConfigError` where none is left.
    """
    if note := unvaried(environment):
        common.say(note)
    states = [own for s in stages for own in initial_state(environment, s).values.values()]
    kept = [v for own in states if isinstance(own, dict) for v in own.values()]
    if from_scratch and kept and not any(v for v in kept if isinstance(v, dict | list)):
        common.say(f"each class starts without records, of which tasks could speak. {STATES}")
    if not from_scratch or writer not in LOCAL:
        return set()
    tools = make_writer(writer, splits.train, environment).unusable(stages)
    if left := [f"  {tool}: {reason}" for tool, reason in sorted(tools.items()) if reason]:
        head = f"{len(left)} of {len(tools)} tools are not used, for these reasons:"
        common.say("\n".join((head, *left)))
        if len(left) == len(tools):
            raise ConfigError("no tool is left of which a seed task could be made.")
    return {tool for tool, reason in tools.items() if not reason}


def _chosen(
    given: Sequence[Task], categories: str, order: int | None, splits: Split
) -> Sequence[Task]:
    """Return the tasks of some categories that are not held out, shuffled by the seed `order`.

    Bundled tasks are listed by category, so a small data set would miss some.
    """
    from rods.synthesis.collect import not_held_out

    kind = "task" if order is None else "training task"  # those of a file may be held out
    [chosen] = common.of_categories(categories, given, kind=kind)
    if order is not None:
        chosen = random.Random(f"{order}/order").sample(chosen, len(chosen))
    free = not_held_out(chosen, splits.train, splits.held_out)
    if len(free) < len(chosen):
        common.say(f"{len(chosen) - len(free)} of {len(chosen)} seeds are held out and not used.")
    return free


def _require_alone(
    context: typer.Context, scratch: int | None, states: Path | None, log: Path | None
) -> None:
    """Refuse options that contradict each other, or have no effect; raises `ConfigError`."""
    if log is None:
        common.refuse_unread(context, ["task_key", "reward_key"], "without --from-trajectories LOG")
    if states is not None and scratch is None:
        raise ConfigError("--states has no effect without --from-scratch N. Leave it out.")
    if scratch is not None:
        seeds = ["tasks", "categories", "log", "number"]
        common.refuse_unread(context, seeds, "with --from-scratch N")


def _config(
    words: Sequence[str],
    recipe: str,
    profile: str,
    writer: tuple[str, str, str],
    from_scratch: bool,
) -> RunConfig:
    """Return the settings; seed tasks from nothing are by `graph` if no writer is named.

    Raises `ConfigError` for a writer that cannot begin, before anything is made.
    """
    named = writer[0] or any(word.startswith("--synthesis.writer=") for word in words)
    ours = ("graph", *writer[1:]) if from_scratch and not named else writer
    config = load_config(recipe, profile, common.writer_overrides(words, *ours))
    if from_scratch and config.synthesis.writer in VARYING:
        raise ConfigError("--from-scratch needs a writer of tasks: --writer graph or --writer llm.")
    if config.synthesis.writer == "llm":
        split_address(config.synthesis.section(LlmWriterSettings).url)
    return config


def _tell(
    target: Path,
    what: str,
    made: int,
    outcomes: tuple[Statistics, Sequence[SeedYield]],
    named: Sequence[str] | None,
) -> None:
    """Print the results; `named` are the options of a command that reads them, if one can."""
    counted, yields = outcomes
    rejected = [{"stage": s, "reason": r, "count": n} for (s, r), n in counted.rejected.items()]
    data = {"out": target, what.replace(" ", "_"): made, "candidates": counted.tried}
    data |= {"rejected": rejected, "by_seed": [row.to_json() for row in yields]}
    common.print_results({**data, "seconds": counted.seconds})
    common.say(f"{made} {what.removesuffix('s' * (made == 1))} in {target}")
    if named is not None:
        verb = "Accept, edit or reject them: rods view --tasks"
        verb = verb if what == SEEDS else "Read them: rods inspect"
        common.say(f"{verb} {' '.join(map(quoted, [target, *named]))}")


def queue_of(target: Path) -> Path:
    """Return the path of the queue of a data set, which exists while it is unfinished."""
    return target.with_name(target.name + ".synthesis") / QUEUE


def _free(target: Path, resume: bool) -> Path:
    """Return the folder of the queue; raises `StoreError` if something would be overwritten."""
    folder = queue_of(target).parent
    begun = queue_of(target).exists()
    if target.exists() and not begun:
        raise StoreError(f"{target}: exists. Choose another name; nothing was written.")
    if begun and not resume:
        raise StoreError(
            f"{folder}: an unfinished data set of this name is here. Continue it with "
            f"--resume {quoted(target)}, or remove it."
        )
    if resume and not begun:
        at = quoted(target)
        raise StoreError(f"{target}: there is nothing to resume. Begin with --out {at}.")
    return folder


@contextmanager
def _folder(path: Path) -> Generator[None]:
    """Make the folder of the queue; nothing of it is left if nothing is in it at the end."""
    with disk(path, "making"):
        path.mkdir(exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # something is in it
            path.rmdir()


def _clear(folder: Path) -> int:
    """Remove the queue and its files, but no server's answers; return the number of answers."""
    from rods.synthesis.chat.replies import ResponseCache

    answers = 0
    if (folder / ANSWERS).exists():
        with closing(ResponseCache(folder / ANSWERS)) as cache:
            answers = cache.count()
    for name in [QUEUE] if answers else [QUEUE, ANSWERS]:
        for path in folder.glob(f"{Path(name).stem}*"):
            path.unlink(missing_ok=True)  # SQLite removes some itself
    return answers


def _sources(
    config: RunConfig, seeds: Path | None, states: Path | None, *, stages: bool
) -> tuple[Environment, Split, Sequence[Task]]:
    """Return the environment, its sides, and the tasks that may be seeds.

    The training split gives words and turns, and no variant may overlap the held-out one. `stages`:
    worlds in the place of tasks, for tasks from nothing.
    """
    environment = make_environment(config.env.name, config.env.arguments)
    given: Sequence[Task] = ()
    if seeds is not None:
        own = own_tasks(seeds, config.env, environment)
        given, _ = without_broken(own, environment, str(seeds))
    if given and not brings_tasks(config.env, environment):
        return environment, given_split(given, ()), given
    brings = not stages or brings_tasks(config.env, environment)
    splits = split_tasks(config.env, config.evaluation.files) if brings else given_split((), ())
    train = splits.train
    if stages:
        found = stages_of(environment, train, states)
        return environment, given_split(found, splits.held_out), found
    if config.env.tasks:
        train, faults = without_broken(train, environment, "env.tasks, training split")
        sound, _ = without_broken(splits.held_out, environment, "env.tasks, held-out split")
        if note := untrained_tools(train, sound, bool(faults)):
            common.say(note)
    return environment, given_split(train, splits.held_out), given or train


def _boundary_seeds(
    log: Path, task_key: str, reward_key: str, tasks: Sequence[Task], config: RunConfig, seed: int
) -> list[Task]:
    from rods.integrations.formats.logged import PROMPT, LogFormat, read_rewards
    from rods.integrations.observe import choose_seeds

    rewards = read_rewards(log, LogFormat(task_key, reward_key))
    if log.is_dir():  # a run trains on variants of its own too
        known = {name for task in tasks for name in (task.id, task.provenance.origin)}
        others = {row.task for row in rewards} - known
        rewards = [row for row in rewards if row.task in known]
        prompts = sum(name.startswith(PROMPT) for name in others)
        if prompts:
            common.say(f"{log}: {prompts} prompts have no task id and are left out.")
        if len(others) > prompts:
            what = f"{len(others) - prompts} tasks are variants of the run, not among the seeds,"
            common.say(f"{log}: {what} and are left out.")
        if not rewards:
            how = "Log ids and name their column: --task-key" if prompts else "Name them: --tasks"
            raise TaskError(f"{log}: none of its tasks is among the seeds. {how}.")
    choice = choose_seeds(rewards, tasks, config.boundary, seed)
    found = Counter(j.region for j in choice.judgements)
    counts = [f"{found[region]} {region}" for region in ("hard", "boundary", "mastered")]
    unjudged = len(choice.unjudged)
    common.say(f"tasks: {', '.join(counts)}, {unjudged} unjudged; seeds: {len(choice.seeds)}")
    if not choice.seeds:
        low, high = config.boundary.low, config.boundary.high
        raise SynthesisError(
            f"{log}: none of {len(choice.judgements)} tasks is on the boundary (mean reward from "
            f"{low} to {high}), so there is no seed. Change --boundary.low or --boundary.high."
        )
    return choice.seeds


def _make(
    config: RunConfig,
    splits: Split,
    chosen: Sequence[Task],
    asked: tuple[int, str],
    seed: int,
    target: Path,
) -> tuple[list[Task], Statistics, list[SeedYield]]:
    from rods.synthesis.collect import Collection
    from rods.synthesis.worker.client import SynthesisWorker
    from rods.synthesis.worker.settings import ids
    from rods.writers.assembly import worker_settings

    settings = replace(worker_settings(config, splits.train, splits.held_out), rng_seed=seed)
    (number, what), folder = asked, queue_of(target).parent
    keep = (folder / QUEUE).exists()
    try:
        with SynthesisWorker(folder / QUEUE, settings, {"seeds": ids(chosen)}) as worker:
            collection = Collection(worker, chosen, number)
            try:
                _run(collection, target, what)
            finally:
                keep = bool(collection.accepted)
            common.out().print(table(collection, what))
            counted, yields = collection.statistics(), collection.yields()
    finally:
        # A failed start must not block the next one.
        if not keep and (answers := _clear(folder)):
            common.say(f"{answers} answers of the server are kept in {folder / ANSWERS}.")
    made = {name for task in collection.accepted for name in task.provenance.ancestors}
    if keep and (len(collection.accepted) < number or any(row.is_low for row in yields)):
        kept = len(collection.accepted)
        common.say(f"{kept} of {number} {what} from {plural(counted.tried, 'candidate')}.")
    if made or not keep:  # a seed task from nothing has no ancestors
        say_low_yields(yields, target, "world" if what == SEEDS else "seed task")
    if not keep:
        why = why_none(counted, STATES[:-1] if what == SEEDS else "")
        raise SynthesisError(f"none of {counted.tried} candidates was accepted; {why}.")
    seeds = {call.name for task in collection.tried for call in task.calls} if made else set()
    if uncalled := never_called(seeds, collection.accepted):
        common.say(f"tools of the training tasks that no variant calls: {', '.join(uncalled)}")
    return collection.accepted, counted, yields


def _run(collection: Collection, target: Path, what: str) -> None:
    kept = collection.taken_over
    if kept:
        common.say(f"{kept} {what} exist already.")
    if target.exists() and not collection.finished:
        raise StoreError(f"{target}: exists, but the data set of its queue is unfinished.")
    try:
        with common.progress(what, collection.n, kept) as show:
            collection.run(shown(show, what))
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted. {_kept(collection, target, what)}") from stop
    except RodsError:
        common.say(_kept(collection, target, what))
        raise


def _kept(collection: Collection, target: Path, what: str) -> str:
    kept = f"{len(collection.accepted)} {what} are kept. Continue with --resume {quoted(target)}."
    return kept if collection.accepted else f"No {what.removesuffix('s')} was made yet."

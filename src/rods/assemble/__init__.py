"""From settings to components: the one place where names become objects.

Nothing here decides anything during training. torch is imported when all that settings and files of
tasks alone refuse is refused.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from rods.abilities import CallBound, ability
from rods.assemble.refusals import startable
from rods.assemble.tasks import Splits, held_out_tasks, splits_of, with_objects
from rods.components import Components, GroupFilter
from rods.config import RunConfig, Start, TrainSettings
from rods.config.bundled import require_name
from rods.config.checks import require
from rods.config.drift import respread
from rods.curriculum.draws import stage_tasks
from rods.curriculum.requests import first_variants
from rods.dialects import get_dialect
from rods.engines import require_trainable
from rods.env import Environment
from rods.envs.hints import hinted
from rods.envs.remote.processes import environment_of
from rods.errors import ConfigError, Interrupted, PolicyError, RewardError, RodsError, StoreError
from rods.evaluation.suite import Progress, evaluate_tasks
from rods.evaluation.tool_metrics import step_metrics
from rods.infra.text import counted, quoted
from rods.infra.waiting import waiting
from rods.integrations.trackers import tracking
from rods.loop import train as run_loop
from rods.policy import Engine
from rods.report.build import build_report
from rods.report.live import TrainDisplay
from rods.rewards import rewards_of
from rods.rewards.filters import filter_of
from rods.rollout.episode import RolloutContext
from rods.rollout.template import ChatTemplate
from rods.split import untrained_tools
from rods.store import RunDirectory, new_run_dir, require_free
from rods.synthesis.worker.client import SynthesisWorker
from rods.task import Task
from rods.types import Json
from rods.writers.assembly import worker_settings

_LOG = logging.getLogger(__name__)
ENOUGH = 4
"""Held-out scenarios below which a difference rarely shows: with 2, 3 and 4 of them, Student's t
multiplies the standard error by 12.7, 4.3 and 3.2."""


def train(
    config: RunConfig,
    folder: str | Path = "",
    resume: str | Path | None = None,
    start: Start | None = None,
    *,
    drift: bool = False,
    environment: Environment | None = None,
    tasks: Sequence[Task] | None = None,
) -> RunDirectory:
    """Train to the end, as `rods train` does, and return the run; `report.html` is in `run.path`.

    Args:
        config: settings of the run; `load_config` makes them.
        folder: folder of the run, which must not hold a run yet. Empty: `runs/DATE-TIME`.
        resume: folder of a run to continue; its other settings must be the same. None: a new run.
        start: recipe, profile and options that the settings came from, for the report.
        drift: a resume may change settings of learning, such as `train.lr` (`--allow-drift`).
        environment: an environment to use instead of `env.name`. It must be a module-level
            variable, because other processes import it.
        tasks: original tasks to use instead of `env.tasks`. RODS saves them to a file in `runs`.

    Raises:
        ConfigError: a setting names something that does not exist, or leaves nothing to train on.
        StoreError: the folder has a run already, or `resume` cannot continue.
        Interrupted: Ctrl-C was pressed; the message states how to resume.
    """
    with waiting("reading settings and tasks") as begin:
        if folder and not resume:
            _require_new(Path(folder))
        config = with_objects(config, environment, tasks)
        require(config, "training")
        former = RunDirectory.open(Path(resume)) if resume else None
        before = former.config if former else config
        kept = RunDirectory.resume(Path(resume), config, start, drift=drift) if resume else None
        for text in respread(before, config):
            _LOG.warning(text)
        with _unless_refused(kept, former):
            splits = startable(kept.config if kept else config)
            require_name(config.model.name)
        begin("importing torch and the trainer")
        run = kept or start_run(config, str(folder), start)
    pipelined = run.config.rollout.schedule == "pipelined"
    display = TrainDisplay(run.path.resolve().name, run.config.updates, pipelined=pipelined)
    try:
        with ExitStack() as opened:
            opened.enter_context(_unless_refused(kept, former))
            with waiting("preparing the trainer") as begin:
                components = opened.enter_context(assemble(run.config, run, begin, splits, drift))
            opened.enter_context(display)
            display.message(f"run {run.path}: {run.config.curriculum}, seed {run.config.seed}")
            display.resume(run.metrics())
            with tracking(run, display.message):
                run_loop(components, run, display)
    except Interrupted as stop:
        build_report(run.path)
        raise Interrupted(f"{stop} Continue: rods train --resume {quoted(run.path)}") from stop
    except BaseException as error:  # a bug or Ctrl-C: raised again
        if resume is None:  # a start that failed must not block the next one
            run.abandon(refused=isinstance(error, ConfigError | PolicyError | RewardError))
        if isinstance(error, KeyboardInterrupt) and run.path.exists():
            how = f"Continue from the last checkpoint: rods train --resume {quoted(run.path)}"
            raise Interrupted(f"stopped at once. {how}") from error
        raise
    build_report(run.path)
    return run


@contextmanager
def _unless_refused(run: RunDirectory | None, former: RunDirectory | None) -> Generator[None]:
    """Give a resumed run its former manifest back where an error comes before the first record.

    Otherwise the next resume, which need not repeat these settings, would be refused for them.
    """
    logged: list[Mapping[str, Json]] = []
    if run is not None:
        run.watchers.append(logged.append)
    try:
        yield
    except RodsError as error:
        if run and former and not (logged or isinstance(error, Interrupted)):
            # What was its final evaluation counts as one between updates now.
            run.manifest = {**former.manifest, "finished": run.manifest["finished"]}
            run.update_manifest()
        raise


def start_run(config: RunConfig, folder: str, start: Start | None = None) -> RunDirectory:
    """A new run directory with its manifest; see `train`."""
    from rods.trainers.loading import load_tokenizer

    template = ChatTemplate(load_tokenizer(config.model))
    splits = splits_of(config)
    path = new_run_dir(Path(folder).parent, Path(folder).name) if folder else new_run_dir()
    return RunDirectory.create(
        path, config, template_hash=template.digest(), split_hash=splits.digest, start=start
    )


def _require_new(folder: Path) -> None:
    """Raise `StoreError` where a run cannot begin, before tasks are read and torch is imported."""
    if not folder.name:  # the working directory, which a failed start would remove
        raise StoreError(f"{folder}: a folder that exists. Choose a name; nothing was written.")
    require_free(folder)


@contextmanager
def assemble(
    config: RunConfig,
    run: RunDirectory,
    begin: Callable[[str], object] = str,
    splits: Splits | None = None,
    drift: bool = False,
) -> Generator[Components]:
    """Everything that the loop drives; the worker is stopped at the end.

    `begin` is called with what begins now, in words; `splits` are `startable`'s, if it was called.
    `drift`: variants from now on may be of other settings than earlier ones.
    """
    splits = splits or startable(config)
    from rods.assemble.engines import engine_within, settle, template_of
    from rods.engines.threads import set_threads
    from rods.trainers.loading import load_model
    from rods.trainers.local import LocalTrainer

    set_threads(config.model.threads)
    environment = environment_of(config)
    run.update_manifest(skipped=[dict(row._asdict()) for row in splits.skipped])
    begin("planning the memory")
    config, cache = settle(config, run)
    begin(f"loading the model {config.model.name}")
    model, tokenizer = load_model(config.model)
    dialect, template = get_dialect(config.model.dialect), template_of(model, tokenizer)
    how = (config.train, config.model, total_steps(config, splits.originals), config.seed)
    trainer = LocalTrainer(model, tokenizer, *how, config.rollout.generated_tokens)
    policy = engine_within(config, trainer.model, template, cache)
    require_trainable(config, policy)
    begin("writing held-out variants")
    held_out = held_out_tasks(config, environment, splits)

    async def evaluate(policy: Engine, progress: Progress) -> Sequence[Mapping[str, Json]]:
        context = RolloutContext(environment, policy, dialect, template, config.rollout)
        return await evaluate_tasks(held_out, config.evaluation, context, progress)

    bound = ability(environment, CallBound)
    begin("starting the synthesis worker")
    with closing(environment), worker_of(config, splits, run.path, drift=drift) as synthesis:
        yield Components(
            environment=environment,
            originals=splits.originals,
            policy=policy,
            trainer=trainer,
            dialect=dialect,
            template=template,
            synthesis=synthesis,
            evaluate=evaluate,
            rewards=rewards_of(config.rewards),
            hints=hinted,
            metrics=partial(step_metrics, needed=bound.calls_needed if bound else None),
            filter=_filter(config.train),
        )


def total_steps(config: RunConfig, originals: Sequence[Task], hosted: bool = False) -> int:
    """Updates of the whole run, for the learning rate's schedule; 0 if nothing says.

    A pool that does not grow says by its size how many updates the stages have.
    """
    if config.grows:
        return config.updates
    steps = sum(stage_updates(config, originals, hosted))
    return min(steps, config.updates or steps)


def stage_updates(config: RunConfig, originals: Sequence[Task], hosted: bool = False) -> list[int]:
    """Updates of each stage, if the pool stays as it is.

    The next epoch or stage fills an update; one of two stages is counted in the first. `hosted`:
    inside another trainer, which takes as many small epochs as it needs, as a pipelined run does.
    """
    pools, size = pool_sizes(config, originals), config.rollout.tasks_per_step
    if hosted or config.rollout.schedule == "pipelined":
        draws = (s.epochs * n for s, n in zip(config.stages, pools, strict=True))
        ends = [0, *(math.ceil(drawn / size) for drawn in accumulate(draws))]
        return [end - begin for begin, end in pairwise(ends)]
    counts, left = list[int](), 0  # `left`: draws of the epoch before, fewer than an update needs
    for stage, n in zip(config.stages, pools, strict=True):
        counts.append(0)
        if left:
            counts[-2:] = [counts[-2] + 1, -1]
        for _ in range(stage.epochs):
            whole, rest = divmod(left + n, size)
            counts[-1] += max(whole, 1)
            left = rest if whole else 0
    counts[-1] += left > 0
    return counts


def pool_sizes(config: RunConfig, originals: Sequence[Task]) -> list[int]:
    """Tasks that an epoch of each stage draws, if the pool stays as it is."""
    stages = enumerate(config.stages)
    return [len(stage_tasks(config, n, originals)[: s.slice or None]) for n, s in stages]


def stage_lines(config: RunConfig, originals: Sequence[Task], hosted: bool = False) -> list[str]:
    """Describe each stage: its reward, and its length, if there are tasks and its pool stays."""
    updates = stage_updates(config, originals, hosted) if originals else [0] * len(config.stages)
    lines, begin, most = list[str](), 0, config.updates or math.inf
    for stage, n in zip(config.stages, updates, strict=True):
        length = f", {counted(n, 'update')}" if originals else ""
        if originals and not n:
            length = ", in the last update of the stage before"
        elif n and most <= begin:
            length = f", not reached with updates = {most}"
        elif stage.expand and config.grows:
            length = ", makes variants"
        elif most < begin + n:
            length = " or until the updates end"
        lines.append(
            f"{stage.name}: reward {stage.reward}, {counted(stage.epochs, 'epoch')}{length}"
        )
        begin += n
    return lines


def growth(config: RunConfig, originals: Sequence[Task], hosted: bool = False) -> str:
    """When a run makes variants, and the update from which on it can draw them."""
    growing, stage = next((i, stage) for i, stage in enumerate(config.stages) if stage.expand)
    begin = sum(stage_updates(config, originals, hosted)[:growing])
    when = f"after {counted(begin, 'update')}" if begin else "with the first update"
    text = f"Variants are made in the stage {stage.name} (stages.{growing}), which begins {when}. "
    ahead = hosted or config.rollout.schedule == "pipelined"
    if not (first := first_variants(config, originals, ahead)):
        return f"{text}None can enter: too few tasks or epochs. Raise them or replay.inject."
    text += f"No variant is drawn before update {first}."
    if 0 < config.updates < first:
        text += f" So with updates = {config.updates} no variant can enter: use at least {first}, "
        text += "or shorten the stages."
    return text


def outlook(config: RunConfig, splits: Splits, hosted: bool = False) -> str:
    """Summary of a run's tasks: how many it trains on, and when variants enter."""
    scenarios = len({task.provenance.scenario for task in splits.held_out})
    steps = stage_updates(config, splits.originals, hosted)
    text = f"Training tasks: {len(splits.originals)}. Held-out tasks: {len(splits.held_out)}"
    text += f" ({counted(scenarios, 'scenario')})" * (scenarios < len(splits.held_out))
    part = 0 < config.evaluation.tasks < len(splits.held_out)
    text += f", {config.evaluation.tasks} of them for evaluation. " if part else ". "
    if config.grows:
        text += f"At most {counted(config.updates, 'update')}. " if config.updates else ""
        text += f"{growth(config, splits.originals, hosted)} "
    else:
        most = min(sum(steps), config.updates or sum(steps))
        text += f"At most {counted(most, 'update')}, no variants. "
    if not scenarios:
        text += "rods eval needs evaluation.files, because env.held_out is 0. "
    elif scenarios < ENOUGH and not config.evaluation.files:
        text += f"Fewer than {ENOUGH} held-out scenarios rarely show a difference: write more "
        text += "tasks, or raise env.held_out. "
    if config.env.tasks:  # those of a bundled environment are not the reader's to add
        text += untrained_tools(splits.originals, splits.held_out, bool(splits.skipped))
    return text.rstrip()


def _warn(config: RunConfig, splits: Splits, hosted: bool) -> None:
    """Log what is easily overlooked: rewards that differ by stage, an end before `updates`."""
    rewards = {stage.name: stage.reward for stage in config.stages}
    if len({*rewards.values()}) > 1 and any(":" in reward for reward in rewards.values()):
        _LOG.warning("the stages have different rewards (stages.N.reward): %s", rewards)
    if config.env.tasks:
        _LOG.warning(outlook(config, splits, hosted))
    elif config.grows:
        _LOG.warning(growth(config, splits.originals, hosted))
    steps = 0 if config.grows else total_steps(config, splits.originals, hosted)
    if not config.grows and steps < config.updates:
        _LOG.warning(
            f"the stages of this fixed pool end after at most {counted(steps, 'update')}, updates "
            f"= {config.updates}: to train as long, raise stages.{len(config.stages) - 1}.epochs"
        )


def _filter(train: TrainSettings) -> GroupFilter | None:
    """Filter of the groups of an update; None: every group counts."""
    chosen = filter_of(train)
    return None if chosen is None else lambda scores: chosen.group_fault(scores) is None


def worker_of(
    config: RunConfig, splits: Splits, folder: Path, hosted: bool = False, drift: bool = False
) -> AbstractContextManager[SynthesisWorker | None]:
    """The synthesis worker, whose queue stands in a folder; None where the pool does not grow."""
    _warn(config, splits, hosted)  # here, because only the process that draws has a worker
    if not config.grows:
        return nullcontext()
    settings = worker_settings(config, splits.train, splits.held_out)
    return SynthesisWorker(folder / "synthesis.sqlite", settings, drift=drift)

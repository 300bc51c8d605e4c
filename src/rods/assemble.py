"""From settings to parts: the one place where names become objects.

Owns which environment, tasks, policy, trainer, worker and evaluation a configuration means. Nothing
here decides anything during training.

    run = rods.train(load_config("rods", "quick"))           # all of it, as `rods train` does
    with assemble(config, start_run(config, folder="")) as parts: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rods.config import EnvSettings, ModelSettings, RunConfig, Start, SynthesisSettings
from rods.curriculum.stages import stage_tasks
from rods.dialects import InlineDialect, get_dialect
from rods.engines import engine_factory, make_engine
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.engines.threads import set_threads
from rods.envs import ENVIRONMENTS, make_environment
from rods.envs.elsewhere.processes import ProcessEnvironment
from rods.envs.hints import hinted
from rods.envs.originals import parted_tasks, tasks_of_files
from rods.errors import ConfigError, Interrupted, PolicyError, RewardError, StoreError
from rods.evaluation.check import CheckRow, without_broken
from rods.evaluation.suite import Suite, stratified
from rods.evaluation.tool_metrics import meters
from rods.loop import train as play
from rods.parts import Parts, every_group
from rods.policy import Engine, Policy
from rods.report.build import build_report
from rods.report.live import TrainDisplay
from rods.report.trackers import packages_of, tracking
from rods.reward import Score
from rods.rewards import get_reward, rewards_of
from rods.rewards.filters import group_fault, has_variance
from rods.rollout.template import ChatTemplate
from rods.settings.synthesis import ResampleSettings
from rods.store import RunDirectory, new_run_dir
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.settings import WorkerSettings
from rods.synthesis.writers import writer_factory
from rods.task import Task
from rods.trainers.checkpoint import ADAPTER, ModelWeights
from rods.trainers.loading import (
    load_model,
    load_stops,
    load_tokenizer,
    pick_device,
    uses_bfloat16,
)
from rods.trainers.local import LocalTrainer
from rods.trainers.memory.engine import with_engine
from rods.trainers.memory.machine import at_hand
from rods.trainers.memory.plan import updates_beside
from rods.trainers.memory.settled import settle
from rods.trainers.prepare import load_adapters

EVALUATION_SEED = 0
"""Chooses the held-out tasks; the same for every run, so that runs can be compared."""
EVALUATION_SHARE = 0.25
"""Held-out variants that `resample` proposes beside `graph`, whatever this run's own writer is."""


class Sides(NamedTuple):
    """Original tasks of both sides of the split."""

    train: Sequence[Task]
    """All of the training side: words and turns of variants may come from here."""
    originals: Sequence[Task]
    """Those of them that this run trains on."""
    held_out: Sequence[Task]
    digest: str
    skipped: Sequence[CheckRow] = ()
    """Tasks of `env.tasks` that are on no side: their ground truth does not replay."""


def train(
    config: RunConfig, folder: str = "", resume: Path | None = None, start: Start | None = None
) -> RunDirectory:
    """Train to the end, as `rods train` does, and write `report.html` into the run's folder.

    Args:
        config: settings.
        folder: where the run goes; empty: a new folder under `runs`.
        resume: a run to go on with; settings that decide what it does must be its own.
        start: what the settings were read from.

    Raises:
        Interrupted: Ctrl-C; the message says how to go on.
    """
    require_named(config)
    run = RunDirectory.resume(resume, config, start) if resume else start_run(config, folder, start)
    try:
        with assemble(run.config, run) as parts, TrainDisplay() as display:
            display.message(f"run {run.path}: {run.config.curriculum}, seed {run.config.seed}")
            with tracking(run, display.message):
                play(parts, run, display)
    except Interrupted as stop:
        build_report(run.path)
        raise Interrupted(f"{stop} Go on with: rods train --resume {run.path}") from stop
    except BaseException as error:
        if resume is None:  # a start that failed must not block the next one
            run.abandon(refused=isinstance(error, ConfigError | PolicyError | RewardError))
        raise
    build_report(run.path)
    return run


def require_named(config: RunConfig) -> None:
    """Find what settings name before anything is made; raises `ConfigError`."""
    if config.engine.name != "auto":
        engine_factory(config.engine.name)
    dialect = get_dialect(config.model.dialect)
    if config.curriculum == "envtuning" and isinstance(dialect, InlineDialect):
        raise ConfigError(
            f'curriculum = "envtuning": the programs of model.dialect = "{config.model.dialect}" '
            'are written inside one response and get no hints. Take curriculum = "static".'
        )
    ENVIRONMENTS.address(config.env.name)
    for stage in config.stages:
        get_reward(stage.reward)
    if _grows(config):
        writer_factory(config.synthesis.writer)
        _require_variants(config.env)
    packages_of(config.track.names)


def _require_variants(settings: EnvSettings) -> None:
    if not make_environment(settings.name, settings.arguments).varies:
        raise ConfigError(
            f'curriculum = "rods": there is no writer of variants for env.name {settings.name!r}. '
            "Train with --curriculum static; a pool may grow before the run (rods synth, then "
            "env.tasks)."
        )


def environment_of(config: RunConfig) -> Any:
    """The environment that `env.name` means, warmed up where that takes long.

    Raises:
        ConfigError: it is not a bundled environment and cannot be imported.
    """
    environment = make_environment(config.env.name, config.env.arguments)
    worlds = config.rollout.worlds
    if worlds.processes:
        environment = ProcessEnvironment(
            environment,
            config.env.name,
            config.env.arguments,
            worlds.processes,
            worlds.call_seconds or config.rollout.seconds,
        )
    environment.warm_up()  # here, not within a trajectory's deadline
    return environment


def sides_of(config: RunConfig, environment: Any = None) -> Sides:
    """The original tasks, parted.

    Args:
        config: settings.
        environment: replays the tasks of `env.tasks`; those that do not are left out, counted.
    """
    parted = parted_tasks(config.env, config.evaluation.files)
    train, held_out = parted.train, parted.held_out
    skipped: list[CheckRow] = []
    if environment is not None and config.env.tasks:
        train, broken = without_broken(train, environment, "env.tasks, training side")
        held_out, others = without_broken(held_out, environment, "env.tasks, held-out side")
        skipped = [*broken, *others]
    originals = stratified(train, config.env.train_tasks, config.seed)
    if config.static.variants:
        originals = [*originals, *_made_before(config, held_out)]
    return Sides(train, originals, held_out, parted.digest, skipped)


def _made_before(config: RunConfig, held_out: Sequence[Task]) -> list[Task]:
    """The variants of `static.variants`.

    Raises:
        ConfigError: one of them is of a held-out scenario.
    """
    variants = tasks_of_files(config.env, config.static.variants, "static.variants")
    theirs = {task.provenance.scenario for task in held_out}
    for task in variants:
        if task.provenance.scenario in theirs:
            raise ConfigError(
                f"static.variants: task {task.id} is of scenario {task.provenance.scenario}, which "
                "is held out. Make variants of the training side: rods synth."
            )
    return variants


def start_run(config: RunConfig, folder: str, start: Start | None = None) -> RunDirectory:
    """A new run directory with its manifest.

    Args:
        config: settings.
        folder: where; empty: a new one under `runs`.
        start: what the settings were read from.
    """
    template = ChatTemplate(load_tokenizer(config.model))
    sides = sides_of(config)
    where = Path(folder)
    path = new_run_dir(where.parent, where.name) if folder else new_run_dir()
    return RunDirectory.create(
        path, config, template_hash=template.digest(), split_hash=sides.digest, start=start
    )


def held_out_tasks(config: RunConfig, environment: Any, sides: Sides) -> list[Task]:
    """Original held-out tasks and variants of them, the same for every run."""
    settings = config.evaluation
    originals = stratified(sides.held_out, settings.tasks, EVALUATION_SEED)
    if not settings.variants:
        return originals
    # Without a model, so that every run is evaluated on the same tasks.
    made_with = SynthesisSettings(
        writer="resample" if config.synthesis.writer == "resample" else "graph",
        resample=ResampleSettings(share=EVALUATION_SHARE),
        max_distance=config.synthesis.max_distance,
    )
    pipeline = Pipeline.of(made_with, environment, sides.held_out, sides.train)
    seeds = stratified(sides.held_out, settings.variants, EVALUATION_SEED + 1)
    variants: list[Task] = []
    for number in range(4 * settings.variants):
        if len(variants) == settings.variants:
            break
        seed = seeds[number % len(seeds)]
        made = pipeline.make(seed, EVALUATION_SEED + number).variant
        if made is not None and made not in variants:
            variants.append(made)
    return [*originals, *variants]


@contextmanager
def assemble(config: RunConfig, run: RunDirectory) -> Generator[Parts]:
    """Everything that the loop drives; the worker is stopped at the end."""
    set_threads(config.model.threads)
    environment = environment_of(config)
    sides = sides_of(config, environment)
    run.update_manifest(skipped=[dict(row._asdict()) for row in sides.skipped])
    config, cache = settle(config, run)
    model, tokenizer = load_model(config.model)
    dialect, template = get_dialect(config.model.dialect), template_of(model, tokenizer)
    trainer = LocalTrainer(
        model,
        tokenizer,
        config.train,
        config.model,
        total_steps(config, sides.originals),
        config.seed,
        config.rollout.generated_tokens,
    )
    policy = _engine(config, trainer.model, template, cache)
    _require_trainable(config, policy)
    suite = Suite(held_out_tasks(config, environment, sides), config.evaluation)

    async def evaluate(
        policy: Policy, progress: Callable[[int, int], None]
    ) -> list[dict[str, Any]]:
        return await suite.run(environment, policy, dialect, template, config.rollout, progress)

    with _worker(config, run, sides) as synthesis:
        yield Parts(
            environment=environment,
            originals=sides.originals,
            policy=policy,
            trainer=trainer,
            dialect=dialect,
            template=template,
            synthesis=synthesis,
            evaluate=evaluate,
            rewards=rewards_of(config.rewards.model_dump()),
            hints=hinted,
            meters=partial(meters, needed=environment.calls_needed),
            trains=_filter(config),
        )


def evaluation_of(
    config: RunConfig, run: Path | None
) -> Callable[[Callable[[int, int], None]], Coroutine[Any, Any, list[dict[str, Any]]]]:
    """The held-out evaluation of a model, or of a run's last checkpoint.

    Raises:
        StoreError: the run has no checkpoint.
        ConfigError: the engine cannot be given the run's weights.
    """
    set_threads(config.model.threads)
    environment = environment_of(config)
    sides = sides_of(config, environment)
    model, template = _evaluated(config, run)
    dialect = get_dialect(config.model.dialect)
    suite = Suite(held_out_tasks(config, environment, sides), config.evaluation)
    policy = engine_of(config, model, template)

    async def play(progress: Callable[[int, int], None]) -> list[dict[str, Any]]:
        try:
            await policy.start()
            if model is not None:
                await policy.sync(ModelWeights(model), version=0)
            return await suite.run(environment, policy, dialect, template, config.rollout, progress)
        finally:
            await policy.close()

    return play


def _evaluated(config: RunConfig, run: Path | None) -> tuple[Any, ChatTemplate]:
    """What is evaluated, None for what a server has by itself, and its chat template."""
    settings, engine = config.model, config.engine
    if run is None and engine.name == "openai":
        return None, ChatTemplate(load_tokenizer(settings), load_stops(settings))
    if engine.name == "openai" and engine.weights in ("", "fixed"):
        raise ConfigError(
            f"engine.url {engine.url}: the server's weights are fixed, so it cannot play those of "
            f'{run}. Set engine.weights, or engine.name = "hf".'
        )
    model, tokenizer = load_model(settings) if run is None else _checkpointed(settings, run)
    return model, template_of(model, tokenizer)


def _checkpointed(settings: ModelSettings, run: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a run's last checkpoint."""
    checkpoint = RunDirectory.open(run).latest_checkpoint()
    if checkpoint is None:
        raise StoreError(f"{run}: the run has no checkpoint yet.")
    folder = checkpoint.path / "policy"
    if not (folder / ADAPTER).is_file():
        return load_model(settings.model_copy(update={"name": str(folder)}))
    model, tokenizer = load_model(settings)
    return load_adapters(model, folder), tokenizer


def template_of(model: Any, tokenizer: Any) -> ChatTemplate:
    """The chat template, with all ids at which the model ends a generation."""
    return ChatTemplate(tokenizer, generation_stops(model))


def engine_of(config: RunConfig, model: Any, template: ChatTemplate) -> Engine:
    """The engine that the settings name, whose cache may take nine tenths of what is free.

    Args:
        config: settings.
        model: the trainer's; None where none is loaded, because a server has its own.
        template: says how texts are decoded, and at which ids the model ends.
    """
    if model is not None:
        on_gpu = pick_device(config.model).type == "cuda"
        config, _ = with_engine(config, model.num_parameters(), on_gpu)
    return _engine(config, model, template, int(0.9 * at_hand(pick_device(config.model))))


def _engine(config: RunConfig, model: Any, template: ChatTemplate, cache: int | None) -> Engine:
    device = pick_device(config.model)
    half = uses_bfloat16(config.model, device)
    share = not updates_beside(config)
    return make_engine(EngineOptions(config, template, model, str(device), half, cache, share))


def _require_trainable(config: RunConfig, engine: Engine) -> None:
    """Raises `ConfigError` for an engine from which nothing can be learned."""
    if engine.capabilities.weights == "fixed":
        raise ConfigError(
            f'engine.name = "{config.engine.name}": its weights never change, so it can only be '
            "evaluated (rods eval). To train, set engine.weights to a way that its server has: "
            "docs/engines.md."
        )
    if config.rollout.top_p < 1 and not engine.capabilities.top_p:
        raise ConfigError(
            f"rollout.top_p = {config.rollout.top_p:g}: the log-probabilities of "
            f'engine.name = "{config.engine.name}" are then those within the nucleus, with which '
            "a trainer cannot compare its own. Set it to 1 for training."
        )


def total_steps(config: RunConfig, originals: Sequence[Task]) -> int:
    """Updates of the whole run, for the learning rate's schedule; 0 if nothing says.

    A pool that stays as it is says by its size how many updates the stages have; one that grows
    does not.
    """
    if _grows(config):
        return config.updates
    pools = [len(stage_tasks(s, originals, config.seed)) for s in config.stages]
    epochs = [math.ceil(pool / config.rollout.tasks_per_step) for pool in pools]
    steps = sum(s.epochs * n for s, n in zip(config.stages, epochs, strict=True))
    return min(steps, config.updates or steps)


def _grows(config: RunConfig) -> bool:
    """Whether variants join the pool of tasks."""
    return config.curriculum == "rods" and any(s.expand for s in config.stages)


def _filter(config: RunConfig) -> Callable[[Sequence[Score]], bool]:
    """Whether a group trains under the run's filter."""
    if config.train.filter == "none":
        return every_group
    if config.train.filter == "dapo":
        return has_variance
    return lambda scores: group_fault(scores, config.train.filtering.window) is None


@contextmanager
def _worker(
    config: RunConfig, run: RunDirectory, sides: Sides
) -> Generator[SynthesisWorker | None]:
    if not _grows(config):
        yield None
        return
    worker = SynthesisWorker(
        run.path / "synthesis.sqlite",
        WorkerSettings.of(
            config, ENVIRONMENTS.address(config.env.name), sides.train, sides.held_out
        ),
    )
    try:
        yield worker
    finally:
        worker.stop()

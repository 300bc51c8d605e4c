"""A model, or a run's last checkpoint, on the held-out split or a suite, without any training.

Owns which weights are evaluated and by which engine; how is `rods.evaluation`'s business. torch is
imported when the tasks were read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from rods.assemble.refusals import require_known_tools, require_whole
from rods.assemble.tasks import held_out_tasks, splits_of
from rods.config import RunConfig
from rods.config.bundled import require_name
from rods.dialects import get_dialect
from rods.envs.remote.processes import environment_of
from rods.errors import ConfigError, StoreError
from rods.evaluation.suite import Progress, evaluate_tasks
from rods.infra.interrupt import run_to_end
from rods.policy import Engine
from rods.report.run_data import load_run
from rods.rollout.episode import RolloutContext
from rods.rollout.template import ChatTemplate
from rods.store import MANIFEST, RunDirectory
from rods.task import Task


@contextmanager
def evaluation_of(
    config: RunConfig, run: Path | None
) -> Generator[Callable[[Progress], list[dict[str, Any]]]]:
    """Yield the held-out evaluation of a model, or of a run's last checkpoint.

    Raises `StoreError` without a checkpoint, `ConfigError` if the engine cannot take its weights.
    """
    with closing(environment_of(config)) as environment:
        splits = splits_of(config, environment)
        require_known_tools(config, environment, splits.held_out)
        require_name(config.model.name)
        from rods.trainers.loading import require_found

        require_found(config.model.name)
        what = (held_out_tasks(config, environment, splits), config.evaluation)
        _warn_of_trained(config, run, what[0])
        dialect = get_dialect(config.model.dialect)

        async def evaluate(progress: Progress) -> list[dict[str, Any]]:
            async with ready_policy(config, run) as (policy, template):
                context = RolloutContext(environment, policy, dialect, template, config.rollout)
                return await evaluate_tasks(*what, context, progress)

        yield lambda progress: run_to_end(evaluate(progress))


def _warn_of_trained(config: RunConfig, run: Path | None, tasks: Sequence[Task]) -> None:
    """Log how many of these tasks the run that made the weights has trained on."""
    homes = [run] if run else Path(config.model.name).parents[2:3]  # RUN/checkpoint/STEP/policy
    made = [load_run(home) for home in homes if (home / MANIFEST).is_file()]
    trained = {judged.task_id for one in made for _, judged in one.judgements}
    if known := sum(task.id in trained for task in tasks):
        why = f"{known} of the {len(tasks)} evaluated tasks were trained on: tasks, their split or"
        logging.getLogger(__name__).warning("%s: %s evaluation.files differ.", homes[0], why)


@asynccontextmanager
async def ready_policy(
    config: RunConfig, run: Path | None
) -> AsyncGenerator[tuple[Engine, ChatTemplate]]:
    """Yield the engine of a model or of a run's last checkpoint, and its chat template."""
    from rods.assemble.engines import engine_of
    from rods.trainers.checkpoint import ModelWeights

    model, template = _evaluated(config, run)
    policy = engine_of(config, model, template)
    try:
        await policy.start()
        if model is not None:  # else its server has one
            await policy.sync(ModelWeights(model, hasattr(model, "get_base_model")), version=0)
        yield policy, template
    finally:
        await policy.close()


def _evaluated(config: RunConfig, run: Path | None) -> tuple[Any, ChatTemplate]:
    """Model to evaluate, None for what a server has by itself, and its chat template."""
    from rods.assemble.engines import template_of
    from rods.trainers import loading
    from rods.trainers.adapters import load_adapters
    from rods.trainers.checkpoint import ADAPTER

    settings, engine = config.model, config.engine
    fixed = engine.way(settings.lora_rank) == "fixed"
    there = engine.traits.server and not engine.traits.started
    if run is None and there:
        return None, ChatTemplate(loading.load_tokenizer(settings), loading.load_stops(settings))
    if there and fixed:
        raise ConfigError(
            f"engine.url {engine.url}: the server's weights are fixed, so it cannot use those of "
            f'{run}. Set engine.weights, or engine.name = "hf".'
        )
    folder = None if run is None else Path(weights_of(run)) / "policy"
    adapted = folder is not None and (folder / ADAPTER).is_file()
    if fixed and adapted:  # it serves a checkpoint of all weights
        raise ConfigError(
            f'engine.weights = "{engine.weights}", model.lora_rank = {settings.lora_rank}: {run} '
            "learned adapters, and vLLM would use the model without them. Set model.lora_rank to "
            'theirs and engine.weights = "lora".'
        )
    require_whole(config)
    if folder and not adapted:
        settings = settings.model_copy(update={"name": str(folder)})
    model, tokenizer = loading.load_model(settings, merge=folder is not None)
    if folder and adapted:
        model = load_adapters(model, folder)
    loading.require_context(config, loading.positions_of(model.config))
    return model, template_of(model, tokenizer)


def weights_of(run: Path | None) -> str:
    """The last checkpoint of a run, empty without a run; raises `StoreError` where it has none."""
    checkpoint = None if run is None else RunDirectory.open(run).latest_checkpoint()
    if run is not None and checkpoint is None:
        raise StoreError(f"{run}: the run has no checkpoint yet.")
    return str(checkpoint.path) if checkpoint else ""

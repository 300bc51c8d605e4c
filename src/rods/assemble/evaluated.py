"""The held-out evaluation of a model, or of a run's last checkpoint, without any training.

Owns which weights are evaluated and by which engine; how is `rods.evaluation`'s business.

    rows = asyncio.run(evaluation_of(config, run)(progress))
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rods.assemble.engines import engine_of, template_of
from rods.assemble.tasks import environment_of, held_out_tasks, sides_of
from rods.config import ModelSettings, RunConfig
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.errors import ConfigError, StoreError
from rods.evaluation.suite import Suite
from rods.rollout.template import ChatTemplate
from rods.store import RunDirectory
from rods.trainers.checkpoint import ADAPTER, ModelWeights
from rods.trainers.loading import (
    load_model,
    load_stops,
    load_tokenizer,
)
from rods.trainers.prepare import load_adapters


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

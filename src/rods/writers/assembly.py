"""Environment, writer and gates put together as the settings of synthesis mean it.

The worker comes here by address: `rods.synthesis` knows no writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rods.config import RunConfig, SynthesisSettings
from rods.env import Environment
from rods.envs import ENVIRONMENTS
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.worker.settings import WorkerSettings
from rods.task import Task
from rods.writers import make_writer
from rods.writers.resample import ResampleSettings
from rods.writers.templates.reading import TemplateLanguage

PIPELINE = "rods.writers.assembly:make_pipeline"  # For a worker's settings


def worker_settings(
    config: RunConfig, training: Sequence[Task], held_out: Sequence[Task]
) -> WorkerSettings:
    """Tasks, settings and seed by which a synthesis worker makes variants."""
    made = ENVIRONMENTS.address(config.env.name), PIPELINE, config.env.arguments
    return WorkerSettings(training, held_out, *made, config.synthesis, config.ray, config.seed)


def keeper_of(
    environment: Environment, training: Sequence[Task], held_out: Sequence[Task] = ()
) -> Gatekeeper:
    """The gates, which read messages of the environment's templates back."""
    return Gatekeeper(environment, training, held_out, language=TemplateLanguage(environment))


def make_pipeline(
    settings: SynthesisSettings,
    environment: Environment,
    training: Sequence[Task],
    held_out: Sequence[Task],
    cache: Path | None = None,
) -> Pipeline:
    """What the settings mean; `cache`: file of a chat server's answers.

    Raises `ConfigError` where there is no such writer, or it has no server.
    """
    share = settings.section(ResampleSettings).share
    writer = make_writer(settings.writer, training, environment, share, settings, cache)
    keeper = keeper_of(environment, training, held_out)
    return Pipeline(environment, writer, keeper, settings.attempts)

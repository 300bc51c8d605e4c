"""Functions for a notebook or a script: evaluate, synthesize variants, train in a host.

`rods.train` is in this package's `__init__`. Nothing here prints.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rods.assemble import worker_of
from rods.assemble.evaluated import evaluation_of
from rods.assemble.refusals import require_named, startable
from rods.assemble.tasks import Splits, require_task_objects, splits_of, with_objects
from rods.config import RunConfig
from rods.engines.threads import set_threads
from rods.env import Environment
from rods.envs.hints import hinted as hints
from rods.envs.remote.processes import environment_of
from rods.evaluation.suite import Progress
from rods.synthesis.collect import Collection, not_held_out
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.settings import ids
from rods.task import Task
from rods.trainers.hosted import HostedRun
from rods.types import Json
from rods.writers.assembly import worker_settings


def evaluate(
    config: RunConfig,
    run: str | Path | None = None,
    progress: Progress = lambda done, total: None,
    *,
    environment: Environment | None = None,
    tasks: Sequence[Task] | None = None,
) -> Sequence[Mapping[str, Json]]:
    """Evaluate a model, or a run's last checkpoint, on the held-out tasks.

    Args:
        config: settings of the run; their section `evaluation` limits tasks and samples.
        run: folder of a run, whose last checkpoint is evaluated. None: the model of the settings.
        progress: a function that is called with two counts: finished trajectories, and all.
        environment: an environment to use instead of `env.name`. It must be a module-level
            variable, because other processes import it.
        tasks: original tasks to use instead of `env.tasks`. RODS saves them to a file in `runs`.

    Returns:
        One row for each task. `greedy_progress` and `progress` (sampled) list the progress of each
            rollout, 0 to 1.

    Raises:
        StoreError: the run has no checkpoint.
        ConfigError: a setting names something that does not exist.
    """
    config = with_objects(config, environment, tasks)
    require_named(config)
    with evaluation_of(config, None if run is None else Path(run)) as evaluate:
        return evaluate(progress)


def synthesize(
    config: RunConfig,
    n: int,
    seeds: Sequence[Task] | None = None,
    seed: int = 0,
    *,
    environment: Environment | None = None,
    tasks: Sequence[Task] | None = None,
) -> list[Task]:
    """Make verified variants of seed tasks, by the writer of the settings.

    Args:
        config: settings of the run; `synthesis.writer` names the writer.
        n: largest number of variants.
        seeds: seed tasks. None: the training tasks in random order.
        seed: random seed. The same seed gives the same variants.
        environment: an environment to use instead of `env.name`. It must be a module-level
            variable, because other processes import it.
        tasks: original tasks to use instead of `env.tasks`. RODS saves them to a file in `runs`.

    Returns:
        At most `n` accepted variants. There are fewer if the seed tasks give no more.

    Raises:
        TaskError: every seed task is of a held-out scenario.
        SynthesisError: the writer cannot work; the message states why.
        ConfigError: a setting names something that does not exist.
    """
    require_task_objects(seeds or (), "seeds")
    config = with_objects(config, environment, tasks)
    require_named(config)
    with closing(environment_of(config)) as environment:
        splits = splits_of(config, environment)
    chosen = list(splits.train if seeds is None else seeds)
    if seeds is None:
        random.Random(f"{seed}/order").shuffle(chosen)
    free = not_held_out(chosen, splits.train, splits.held_out)
    settings = replace(worker_settings(config, splits.train, splits.held_out), rng_seed=seed)
    with TemporaryDirectory() as folder:
        queue = Path(folder) / "synthesis.sqlite"
        with SynthesisWorker(queue, settings, {"seeds": ids(free)}) as worker:
            collection = Collection(worker, free, n)
            collection.run(lambda _: None)
            return list(collection.accepted)


def hosted(config: RunConfig, drift: bool = False) -> HostedRun:
    """Make a run that another trainer drives; call this once in each of its processes.

    Args:
        config: settings of the run. Your trainer decides which settings of `train` it uses.
        drift: accept a state with other training settings in `open` (`--allow-drift`).

    Returns:
        The run; the end of `with rods.hosted(config) as run:` closes it.

    Raises:
        ConfigError: a setting names something that does not exist, or leaves nothing to train on.
        PolicyError: a bundled policy does not know a task's tools.
        RewardError: a single-step reward could not score a task.
    """
    return driven(config, None, drift)


def driven(config: RunConfig, splits: Splits | None, drift: bool) -> HostedRun:
    """Make the run of `hosted` with tasks that `startable` returned already; None: it did not."""
    splits = splits or startable(with_objects(config, None, None), evaluates=False)
    if config.model.threads:  # else the host's own number holds
        set_threads(config.model.threads)
    worker = partial(worker_of, config, splits, hosted=True, drift=drift)
    return HostedRun(
        config, partial(environment_of, config), splits.originals, worker, hints, drift
    )

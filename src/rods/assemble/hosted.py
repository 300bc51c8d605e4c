"""From settings to what a host trainer drives (docs/hosts.md).

Owns the way from a configuration to a `HostedRun`. It loads no model: the host has one.

    with hosted(load_config("rods", "quick")) as run:
        CurriculumGRPOTrainer(run, grpo_args(run.config, "out")).train()
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from rods.assemble import worker_of
from rods.assemble.refusals import require_named, require_tasks
from rods.assemble.tasks import sides_of
from rods.config import RunConfig
from rods.engines.threads import set_threads
from rods.envs import make_environment
from rods.envs.hints import hinted as hints
from rods.envs.opening import environment_of
from rods.trainers.hosted import HostedRun


@contextmanager
def hosted(config: RunConfig, drift: bool = False) -> Generator[HostedRun]:
    """What a host trainer drives of a run; each of its processes makes one.

    Args:
        config: settings. Those of the update hold where the host takes them over.
        drift: a checkpoint of other settings may go on under these (`--allow-drift`), but for
            those that its state is made of.

    Raises:
        ConfigError: they name something that there is not, or leave nothing to train on.
        RewardError: a single-step reward could not score a task.
    """
    require_named(config)
    if config.model.threads:  # else the host's own number holds
        set_threads(config.model.threads)
    environment = make_environment(config.env.name, config.env.arguments)
    sides = sides_of(config, environment)
    require_tasks(config, environment, sides.originals)
    worker, worlds = partial(worker_of, config, sides), partial(environment_of, config)
    with HostedRun(config, worlds, sides.originals, worker, hints, drift) as run:
        yield run

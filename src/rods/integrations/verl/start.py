"""Starts verl's trainer on Ray with our curriculum in its task runner.

Owns the way from a composed configuration to verl's `run_ppo`. The curriculum, its database and the
synthesis worker live in the process of verl's task runner; agent workers and servers are verl's.

    start(compose(config, "runs/verl", []), hosted)
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rods.config import RunConfig, parse_config
from rods.errors import ConfigError, PrerequisiteError, RodsError
from rods.infra.checkpoints import require_unfinished
from rods.integrations.verl.checks import SEPARATE

Hosted = Callable[[RunConfig, bool], AbstractContextManager[Any]]
"""Makes what a host drives of a run: `rods.assemble.library.hosted`."""
KINDS = {"cuda": "GPU", "npu": "NPU"}  # Ray's names of verl's devices
LATEST = "latest_checkpointed_iteration.txt"  # verl's file with the number of its last checkpoint
WITH_VALUES = "AutoModelForCausalLMWithValueHead"
"""A class that TRL once had; verl's workers import it wherever there is a TRL."""


def start(cfg: Any, hosted: Hosted) -> None:
    """Train to the end; verl goes on from the last checkpoint in its folder, if there is one.

    Raises:
        PrerequisiteError: a TRL is installed that verl fails beside.
        StoreError: the training in its folder is finished.
        RodsError: as it was raised there.
    """
    _require_more(cfg.trainer)
    require_trl_of_verl()
    main: Any = importlib.import_module("verl.trainer.main_ppo")
    ray: Any = importlib.import_module("ray")
    try:
        main.run_ppo(cfg, task_runner_class=_runner(hosted))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RodsError):
            raise error.cause from error
        raise
    finally:
        ray.shutdown()


def _require_more(trainer: Any) -> None:
    """Raises `StoreError` where verl would go on from the checkpoint that is its last."""
    folder = Path(trainer.default_local_dir)
    latest = folder / LATEST
    if trainer.resume_mode == "auto" and latest.is_file():
        total = int(trainer.total_training_steps)
        require_unfinished(folder, int(latest.read_text(encoding="ascii")), total, total)


class Pool(NamedTuple):
    """Machines that verl places, GPUs of each, and CPUs that it sets aside for each GPU."""

    machines: int
    gpus: int
    cpus: int = 3  # of verl's ResourcePoolManager


def pools_of(cfg: Any) -> list[Pool]:
    """Return the pools of the trainer, and of servers apart from it."""
    pools = [Pool(int(cfg.trainer.nnodes), int(cfg.trainer.n_gpus_per_node))]
    rollout = cfg.actor_rollout_ref.rollout
    if cfg.trainer.v1.trainer_mode == SEPARATE:
        pools.append(Pool(int(rollout.nnodes), int(rollout.n_gpus_per_node), 2))
    return pools


def require_gpus(
    nodes: Mapping[str, Mapping[str, float]], pools: Sequence[Pool], kind: str = "GPU"
) -> None:
    """Refuse pools that a Ray could never place: it would wait for ever.

    `nodes` has the resources of each machine as Ray states them in total, `kind` is Ray's name of
    the device. Raises `ConfigError` where there are too few machines with so many GPUs and CPUs.
    """
    left = [(int(found.get(kind, 0)), int(found.get("CPU", 0))) for found in nodes.values()]
    there = ", ".join(f"{gpus} {kind}s and {cpus} CPUs" for gpus, cpus in sorted(left)[::-1])
    for machines, gpus, cpus in sorted(pools, key=lambda pool: -pool.gpus):
        for _ in range(machines):
            left.sort(reverse=True)
            fits = [g >= gpus and c >= gpus * cpus for g, c in left]
            if not any(fits):
                what = " and ".join(f"{n} x {g} ({g * c} CPUs)" for n, g, c in pools)
                raise ConfigError(
                    f"verl asks for {what} (machines x {kind}s, with CPUs of each machine), and "
                    f"this Ray has {len(nodes)} machines with {there or 'none'}: it would wait for "
                    "ever. Set --nodes and --gpus to what is there, or join more by `ray start`."
                )
            place = fits.index(True)
            left[place] = left[place][0] - gpus, left[place][1] - gpus * cpus


def require_trl_of_verl() -> None:
    """Raise `PrerequisiteError` for a TRL without the class that verl's workers patch there."""
    if importlib.util.find_spec("trl") is None:
        return
    for home in ("trl.experimental.ppo", "trl"):
        with suppress(ImportError):
            if hasattr(importlib.import_module(home), WITH_VALUES):
                return
    raise PrerequisiteError(
        f"verl cannot run beside the TRL that is installed here, which has no {WITH_VALUES}: "
        "`pip uninstall trl`, or give each its own environment."
    )


def _runner(hosted: Hosted) -> Any:
    """verl's task runner, in whose process the curriculum lives."""
    main: Any = importlib.import_module("verl.trainer.main_ppo")
    ray: Any = importlib.import_module("ray")
    base: Any = main.TaskRunnerV1.__ray_actor_class__

    class CurriculumRunner(base):
        def run(self, config: Any) -> None:
            registry: Any = importlib.import_module("verl.trainer.ppo.v1.trainer_base")
            trainers = importlib.import_module(f"{__package__}.trainer")
            mode = str(config.trainer.v1.trainer_mode)
            settings = parse_config(json.loads(config.rods.settings), "rods.settings")
            # The synthesis worker is a process of its own: what it finds by itself is any Ray.
            os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
            if (kind := KINDS.get(str(config.trainer.device))) is not None:
                alive = [node for node in ray.nodes() if node["Alive"]]
                found = {node["NodeID"]: dict(node["Resources"]) for node in alive}
                found[ray.get_runtime_context().get_node_id()]["CPU"] -= 1  # of this runner
                require_gpus(found, pools_of(config), kind)
            with hosted(settings, bool(config.rods.drift)) as run:
                # By its own name: verl asks for its modes by their words in many places.
                trainer = trainers.trainer_over(mode)
                registry.TRAINER_REGISTRY[mode] = partial(trainer, run)
                super().run(config)

    return ray.remote(num_cpus=1)(CurriculumRunner)

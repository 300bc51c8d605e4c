"""Tasks that a configuration trains on, is evaluated on and has demonstrated.

A program's own environment and tasks become settings here: other processes import the environment
by its name, and a resumed run reads the tasks from their file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rods.abilities import in_process
from rods.config import RunConfig, SynthesisSettings, require_config, with_overrides
from rods.dialects import structured
from rods.env import Environment
from rods.envs.originals import require_splits, split_tasks, tasks_of_files
from rods.envs.remote.processes import environment_of
from rods.errors import ConfigError
from rods.evaluation.check import CheckRow, without_broken
from rods.evaluation.suite import stratified
from rods.infra.files import disk
from rods.infra.text import json_text
from rods.policies.ground_truth import DemonstrationPlan, Demonstrations
from rods.registry import LOADING, name_of_file
from rods.rollout.template import ChatTemplate
from rods.split import of_held_out
from rods.task import Task, write_tasks
from rods.writers.assembly import make_pipeline
from rods.writers.resample import ResampleSettings

EVALUATION_SEED = 0
"""Chooses the held-out tasks; the same for every run, so that runs can be compared."""
EVALUATION_SHARE = 0.25
"""Held-out variants that `resample` proposes beside `graph`, whatever this run's own writer is."""


class Splits(NamedTuple):
    """Original tasks of both splits."""

    train: Sequence[Task]
    """All of the training split: words and turns of variants may come from here."""
    originals: Sequence[Task]
    """Original tasks that this run trains on, and `static.variants`."""
    held_out: Sequence[Task]
    digest: str
    skipped: Sequence[CheckRow] = ()
    """Tasks of `env.tasks` that are on no side: their ground truth does not replay."""


def with_objects(
    config: RunConfig, environment: Environment | None, tasks: Sequence[Task] | None
) -> RunConfig:
    """Return settings whose `env.name` and `env.tasks` mean these objects (see `rods.train`).

    Raises `ConfigError` if no module has the environment, or if another process imports the call.
    """
    require_config(config)
    words: list[str] = []
    if environment is not None:
        words.append(f"env.name={json.dumps(_address(environment))}")
    if tasks is not None:
        require_task_objects(tasks, "tasks")
        text = "".join(json_text(task.to_json()) for task in tasks)
        path = Path("runs") / f"tasks-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
        with disk(path.parent, "making"):
            path.parent.mkdir(exist_ok=True)
        write_tasks(path, tasks)
        words.append(f"env.tasks={json.dumps([str(path)])}")
    return with_overrides(config, words) if words else config


def require_task_objects(given: object, name: str) -> None:
    """Raise `ConfigError` if an argument holds anything but tasks, such as the path of a file."""
    if not isinstance(given, Sequence) or not all(isinstance(row, Task) for row in given):
        way = "expected a list of rods.Task; for a file, list(rods.task.read_tasks(FILE))"
        raise ConfigError(f"{name}: {given!r:.60}; {way}.")


def _address(environment: object) -> str:
    """`FILE.py:attribute`, or `module:attribute` of what is in a package or a notebook."""
    if not isinstance(environment, Environment):
        raise ConfigError(f"environment: {environment!r:.60}; a name goes into env.name.")
    # Last the script or notebook, which may have imported it: others would run it, or cannot.
    for name, module in sorted(sys.modules.items(), key=lambda named: named[0] == "__main__"):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is not environment:
                continue
            file = getattr(module, "__file__", None)
            if name in LOADING:
                raise ConfigError(
                    f"{file} calls rods while another process imports it for its environment. "
                    'Put the call under: if __name__ == "__main__":'
                )
            if "." in name or not file:
                return f"{name}:{attribute}"
            path = Path(file).resolve()
            sys.modules[name_of_file(path)] = module  # here the object itself, elsewhere a copy
            return f"{path}:{attribute}"
    raise ConfigError(
        f"environment: this {type(environment).__name__} is not at the top of a module, so other "
        "processes cannot import it. Assign it to a name there."
    )


def splits_of(config: RunConfig, environment: Environment | None = None) -> Splits:
    """Split the original tasks; those that `environment` cannot replay are left out and counted."""
    split = split_tasks(config.env, config.evaluation.files)
    train, held_out = split.train, split.held_out
    skipped: list[CheckRow] = []
    if environment is not None and config.env.tasks:
        train, broken = without_broken(train, environment, "env.tasks, training split")
        held_out, others = without_broken(held_out, environment, "env.tasks, held-out split")
        skipped = [*broken, *others]
    originals = stratified(train, config.env.train_tasks, config.seed)
    if config.static.variants:
        variants = tasks_of_files(config.env, config.static.variants, "static.variants")
        if wrong := of_held_out(variants, train, held_out):
            raise ConfigError(
                f"static.variants: task {wrong[0].id} ({wrong[0].provenance.origin}) is made "
                "of what this run holds out. Make the variants again with the run's own recipe and "
                "env.held_out: `rods synth`."
            )
        originals = [*originals, *variants]
    return Splits(train, originals, held_out, split.digest, skipped)


def held_out_tasks(config: RunConfig, environment: Environment, splits: Splits) -> list[Task]:
    """Original held-out tasks and variants of them, the same for every run."""
    settings = config.evaluation
    if not splits.held_out:  # an evaluation needs no training split
        require_splits(splits.train, (), config.env)
    originals = stratified(splits.held_out, settings.tasks, EVALUATION_SEED)
    if not settings.variants:
        return originals
    # Without a model, so that every run is evaluated on the same tasks.
    writer = "resample" if config.synthesis.writer == "resample" else "graph"
    made_with = SynthesisSettings.model_validate(
        {"writer": writer, "resample": {"share": EVALUATION_SHARE}}
    )
    pipeline = make_pipeline(made_with, in_process(environment), splits.held_out, splits.train)
    seeds = stratified(splits.held_out, settings.variants, EVALUATION_SEED + 1)
    variants: list[Task] = []
    for number in range(4 * settings.variants):
        if len(variants) == settings.variants:
            break
        made = pipeline.make(seeds[number % len(seeds)], EVALUATION_SEED + number).variant
        if made is not None and made not in variants:
            variants.append(made)
    return [*originals, *variants]


def demonstrations_of(
    config: RunConfig, writers: Sequence[str], variants: int, originals: float, several: float
) -> tuple[Demonstrations, str]:
    """Demonstrations of the tasks that a run trains on, and the digest of their chat template.

    Without `writers`, by name, they are of originals alone; the numbers are `DemonstrationPlan`'s.
    Raises `ConfigError` for an inline dialect, or where there is no such writer.
    """
    dialect = structured(config.model.dialect)
    environment = environment_of(config)
    splits = splits_of(config, environment)
    from rods.trainers.loading import load_stops, load_tokenizer  # torch, behind the refusals

    template = ChatTemplate(load_tokenizer(config.model), load_stops(config.model))
    alone = {"resample": ResampleSettings()}
    what = (in_process(environment), splits.train, splits.held_out)
    made = {
        name: make_pipeline(config.synthesis.model_copy(update={"writer": name, **alone}), *what)
        for name in dict.fromkeys(writers)
    }
    writing, mixture = [made[name] for name in writers], (variants, originals, several)
    plan = DemonstrationPlan(splits.originals, dialect, config.rollout, writing, *mixture)
    return Demonstrations(environment, template, plan, config.seed), template.digest()

"""Where a policy stands before training, by temperature: progress, boundary, groups that differ.

    python benchmarks/policy_start.py [--policy FOLDER] [--temperatures 0.7 1.0] [--tasks 32]

Plays K rollouts of original training tasks, of variants of training scenarios, and of variants of
held-out scenarios (by writer), with the quick profile's budgets.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence

from rods.assemble.engines import engine_of
from rods.assemble.tasks import held_out_tasks, sides_of
from rods.config import RunConfig, load_config
from rods.curriculum.boundary import Judgement, judge
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.envs.opening import environment_of
from rods.evaluation.suite import stratified
from rods.reward import score_group
from rods.rewards import get_reward
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.synthesis.writers import make_writer
from rods.task import Task
from rods.trainers.loading import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="tiny")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.7, 1.0])
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    set_threads(options.threads)
    config = load_config(
        "rods",
        "quick",
        [
            f"model.name={options.policy}",
            f"evaluation.variants={options.tasks}",
            f"evaluation.tasks={options.tasks}",
        ],
    )
    sets = task_sets(config, options.tasks)
    for temperature in options.temperatures:
        for name, tasks in sets.items():
            print(
                f"T={temperature} {name:24} {play(config, tasks, temperature, options.k)}",
                flush=True,
            )


def task_sets(config: RunConfig, count: int) -> dict[str, list[Task]]:
    environment, sides = environment_of(config), sides_of(config)
    rng = random.Random(3)
    writer = make_writer("graph", sides.train, environment, 0.0)
    seeds = stratified(sides.train, count, 3)
    variants = [v for s in seeds if isinstance(v := writer.propose(s, rng), Task)]
    held = held_out_tasks(config, environment, sides)
    sets = {"train originals": seeds, "train graph variants": variants}
    for task in held:
        kind = task.provenance.recipe.partition(":")[0] or "originals"
        sets.setdefault(f"held out {kind}", []).append(task)
    return sets


def play(config: RunConfig, tasks: Sequence[Task], temperature: float, k: int) -> str:
    model, tokenizer = load_model(config.model)
    template, dialect = ChatTemplate(tokenizer), get_dialect(config.model.dialect)
    policy = engine_of(config, model, template)

    async def run() -> list[Judgement]:
        groups = run_groups(
            tasks,
            environment_of(config),
            policy,
            dialect,
            template,
            config.rollout,
            seed=1,
            temperature=temperature,
            k=k,
        )
        reward = get_reward("progress")
        return [
            found
            async for g in groups
            if (found := judge(g, score_group(reward, g), config.boundary, 0)) is not None
        ]

    rows = asyncio.run(run())
    mixed = sum(row.variance > 0 for row in rows) / len(rows)
    boundary = sum(row.region == "boundary" for row in rows) / len(rows)
    mean = sum(row.rbar for row in rows) / len(rows)
    return f"n={len(rows):3} progress {mean:.3f}  boundary {boundary:.2f}  differing {mixed:.2f}"


if __name__ == "__main__":
    main()

"""Held-out evaluation: originals and variants of scenarios that training never sees.

Owns which tasks are evaluated and how trajectories become a row. Each task is rolled out
greedily and sampled, both at once: what a policy does when it is used, and what training sees of
it. The same seed gives the same tasks and noise before and after, so differences are paired.

    how = EvaluationSettings(samples=4)
    rows = await evaluate_tasks(tasks, how, RolloutContext(environment, policy, dialect, ...))
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

from rods.config import EvaluationSettings
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json

NOISE = 90_001
"""Seed of the evaluation's sampling noise, apart from every training seed."""
GREEDY = "greedy_"
"""Before the names of values that were measured greedily."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of finished trajectories and of all."""


def stratified(tasks: Sequence[Task], most: int, seed: int) -> list[Task]:
    """At most `most` tasks, as even over categories as they allow, at random; 0: all."""
    if not most or most >= len(tasks):
        return list(tasks)
    rng = random.Random(f"rods-stratified-{seed}")
    piles: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        piles[task.category].append(task)
    for name in sorted(piles):
        rng.shuffle(piles[name])
    chosen: list[Task] = []
    while len(chosen) < most:
        for name in sorted(piles):
            if piles[name] and len(chosen) < most:
                chosen.append(piles[name].pop())
    return chosen


async def evaluate_tasks(
    tasks: Sequence[Task],
    settings: EvaluationSettings,
    context: RolloutContext,
    progress: Progress = lambda done, total: None,
) -> list[dict[str, Json]]:
    """One row a task, greedy and sampled values; see `row_of`.

    Raises:
        EnvError: too many trajectories failed for reasons of infrastructure.
    """
    done, total = 0, (1 + settings.samples) * len(tasks)
    progress(0, total)  # the first trajectory may take minutes

    def count(_: Trajectory) -> None:
        nonlocal done
        done += 1
        progress(done, total)

    async def roll_out(temperature: float, k: int) -> list[Group]:
        how = context.settings.model_copy(update={"temperature": temperature, "k": k})
        # The noise is that of all evaluations, or nothing is paired.
        mine = replace(context, settings=how, seed=NOISE, noise_version=0)
        return [group async for group in run_groups(mine, tasks if k else [], count)]

    # Side by side, so that the engine has one large batch and computes each prompt once.
    passes = [
        asyncio.create_task(roll_out(0.0, 1)),
        asyncio.create_task(roll_out(settings.temperature, settings.samples)),
    ]
    try:
        greedy, sampled = await asyncio.gather(*passes)
    finally:
        for running in passes:
            running.cancel()
        await asyncio.gather(*passes, return_exceptions=True)
    return [row_of(one, many) for one, many in zip_longest(greedy, sampled)]


def row_of(greedy: Group, sampled: Group | None) -> dict[str, Json]:
    """One task of the evaluation: a value for each valid trajectory.

    `progress`, `solved` and `official` are those of the samples, `greedy_progress` and so on those
    of the greedy trajectory. Without samples their keys are missing.
    """
    groups = [greedy, *([sampled] if sampled else [])]
    task = greedy.task
    verdicts = [v for group in groups for t in group.trajectories for v in t.verdicts]
    # A world that judges answers has no benchmark to agree with, nor has one that it cut.
    judged = any(verdict.correct is not None for verdict in verdicts)
    return {
        "task_id": task.id,
        "category": task.category,
        "scenario": task.provenance.scenario,
        "set": "original" if task.is_original else "variant",
        "recipe": task.provenance.recipe,
        **{f"{GREEDY}{name}": v for name, v in _values(greedy, judged).items()},
        **(_values(sampled, judged) if sampled else {}),
        "invalid": sum(not t.valid for group in groups for t in group.trajectories),
    }


def _values(group: Group, judged: bool) -> dict[str, Json]:
    valid = [t for t in group.trajectories if t.valid]
    return {
        "progress": [t.progress for t in valid],
        "solved": [t.solved for t in valid],
        "official": [] if judged else [t.official for t in valid],
    }

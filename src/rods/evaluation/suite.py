"""Held-out evaluation: originals and variants of scenarios that training never sees.

Owns which tasks are evaluated and how a trajectory becomes a row. The same seed gives the same
tasks and the same noise before and after, so differences are paired.

    suite = Suite(tasks, samples=4, temperature=1.0)
    rows = await suite.run(environment, policy, dialect, template, settings)
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rods.config import EvaluationSettings, RolloutSettings
from rods.dialects import AnyDialect
from rods.env import Environment
from rods.policy import Policy
from rods.rollout import run_groups
from rods.task import Task
from rods.template import ChatTemplate
from rods.trajectory import Group, Trajectory
from rods.types import Json

NOISE = 90_001
"""Seed of the evaluation's sampling noise, apart from every training seed."""


def stratified(tasks: Sequence[Task], most: int, seed: int) -> list[Task]:
    """At most `most` tasks, as even over categories as they allow, at random; 0: all.

    One scenario gives its category at most one task more than another does.
    """
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


@dataclass(frozen=True)
class Suite:
    """What is evaluated and how."""

    tasks: Sequence[Task]
    settings: EvaluationSettings

    async def run(
        self,
        environment: Environment,
        policy: Policy,
        dialect: AnyDialect,
        template: ChatTemplate,
        rollout: RolloutSettings,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[dict[str, Json]]:
        """One row a task: progress, solved and parity of each valid sample.

        Raises:
            EnvError: too many trajectories failed for reasons of infrastructure.
        """
        samples, done = self.settings.samples, 0
        total = samples * len(self.tasks)

        def count(_: Trajectory) -> None:
            nonlocal done
            done += 1
            progress(done, total)

        # The noise must not depend on how often the weights changed, or nothing would be paired.
        version, policy.version = policy.version, 0
        try:
            groups = run_groups(
                self.tasks,
                environment,
                policy,
                dialect,
                template,
                rollout,
                seed=NOISE,
                temperature=self.settings.temperature,
                k=samples,
                on_trajectory=count,
            )
            return [row_of(group) async for group in groups]
        finally:
            policy.version = version


def row_of(group: Group) -> dict[str, Json]:
    """One task of the evaluation: a value for each valid sample."""
    valid = [t for t in group.trajectories if t.valid]
    return {
        "task_id": group.task.id,
        "category": group.task.category,
        "scenario": group.task.provenance.scenario,
        "set": "original" if group.task.is_original else "variant",
        "recipe": group.task.provenance.recipe,
        "progress": [sum(v.solved for v in t.verdicts) / t.n_turns for t in valid],
        "solved": [t.solved for t in valid],
        # A world that judges answers has no benchmark to agree with.
        "parity": [t.parity for t in valid if all(v.correct is None for v in t.verdicts)],
        "invalid": len(group.trajectories) - len(valid),
    }

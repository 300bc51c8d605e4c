"""Shared by the tests of suites: texts played under a suite's rules, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rods.dialects import get_dialect, structured
from rods.evaluation.rules import SuiteRules
from rods.evaluation.suites import Kept, roll_out_suite
from rods.policy import Policy
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rollout_cases import TEMPLATE, script, settings


def play(
    rules: SuiteRules,
    tasks: Sequence[Task],
    policy: Policy,
    repeats: int = 1,
    kept: Kept | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **changes: object,
) -> list[Group]:
    """Tasks under a suite's rules, by a policy that writes the pythonic dialect."""
    rollout = settings(**{"context_tokens": 1_000_000, "step_tokens": 20_000, **changes})
    dialect = structured(get_dialect("pythonic"))
    playing = roll_out_suite(
        rules, tasks, policy, dialect, TEMPLATE, rollout, repeats, progress, kept
    )
    return asyncio.run(playing)


def told(rules: SuiteRules, task: Task, *texts: str, **changes: object) -> Trajectory:
    """One task by a policy that says these texts."""
    return play(rules, [task], script(*texts), **changes)[0].trajectories[0]

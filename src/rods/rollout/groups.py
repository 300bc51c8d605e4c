"""Rollout: K trajectories of each task, concurrently, in the order of the tasks.

Owns concurrency, retries, the share of invalid trajectories, and the order of groups; one
trajectory is played in `episode.py`, or for inline dialects in `inline.py`. Never scores, never
updates.

A failure of infrastructure (`EnvError`, `PolicyError`, an operating-system error, the deadline)
makes a trajectory invalid; it is not worth 0. It is tried once more in a fresh world, except after
the deadline. Any other exception is a bug and stops the run, with the task's id noted on it.

    async for group in run_groups(tasks, env, policy, dialect, template, settings, seed=0):
        group.trajectories
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from rods.config import RolloutSettings
from rods.dialects import AnyDialect, InlineDialect
from rods.env import Environment
from rods.errors import EnvError
from rods.policy import Policy
from rods.rollout.episode import Episode, RolloutContext
from rods.rollout.inline import InlineEpisode
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

_LOG = logging.getLogger(__name__)


async def run_episode(
    task: Task,
    environment: Environment,
    policy: Policy,
    dialect: AnyDialect,
    template: ChatTemplate,
    settings: RolloutSettings,
    seed: int = 0,
    member: int = 0,
    temperature: float | None = None,
) -> Trajectory:
    """Play one task once.

    Args:
        task: what is played.
        environment: opens the task's world.
        policy: what is sampled.
        dialect: how the policy writes calls.
        template: how messages become ids.
        settings: budgets.
        seed: the run's seed; the noise depends on it, the task, the member and the policy version.
        member: index within the group.
        temperature: 0 is greedy; None: that of the settings.

    Returns:
        A trajectory; an invalid one says so by its `failure`.

    Raises:
        TaskError: the task's world cannot be loaded.
    """
    degrees = settings.temperature if temperature is None else temperature
    context = RolloutContext(environment, policy, dialect, template, settings, seed, degrees)
    return await _episode(context, task, member, member)


async def run_groups(
    tasks: Sequence[Task],
    environment: Environment,
    policy: Policy,
    dialect: AnyDialect,
    template: ChatTemplate,
    settings: RolloutSettings,
    seed: int = 0,
    temperature: float | None = None,
    k: int | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    noise_version: int | None = None,
) -> AsyncIterator[Group]:
    """K trajectories of each task, concurrently, given back in the order of the tasks.

    Args:
        tasks: one group each; a task that stands twice gets different noise the second time.
        environment: opens the tasks' worlds.
        policy: what is sampled.
        dialect: how the policy writes calls.
        template: how messages become ids.
        settings: budgets, concurrency and the largest share of invalid trajectories.
        seed: the run's seed.
        temperature: 0 is greedy; None: that of the settings.
        k: size of a group; None: that of the settings.
        on_trajectory: called once for each finished trajectory, in the order of finishing.
        noise_version: policy version of which the noise is made; None: the policy's own.

    Raises:
        EnvError: more than `rollout.max_invalid` of the trajectories are invalid.
        TaskError: a task's world cannot be loaded.
    """
    size = settings.k if k is None else k
    degrees = settings.temperature if temperature is None else temperature
    context = RolloutContext(
        environment, policy, dialect, template, settings, seed, degrees, noise_version
    )
    gate = asyncio.Semaphore(settings.concurrency)
    invalid = _Invalid(settings.max_invalid, len(tasks) * size)
    visits: Counter[str] = Counter()
    version = policy.version

    async def one(task: Task, member: int, noise: int) -> Trajectory:
        async with gate:
            trajectory = await _episode(context, task, member, noise)
        invalid.count(trajectory)
        if on_trajectory is not None:
            on_trajectory(trajectory)
        return trajectory

    members: list[list[asyncio.Task[Trajectory]]] = []
    for task in tasks:
        first = visits[task.id] * size
        visits[task.id] += 1
        members.append([asyncio.create_task(one(task, m, first + m)) for m in range(size)])
    running = _TaskGroup([t for group in members for t in group])
    try:
        for task, group in zip(tasks, members, strict=True):
            yield Group(task, tuple(await running.results(group)), version)
    finally:
        await running.stop()


class _TaskGroup:
    """Concurrent trajectories of a step; the first exception of any of them is raised at once."""

    def __init__(self, running: Sequence[asyncio.Task[Trajectory]]) -> None:
        self._running = running
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for task in running:
            task.add_done_callback(self._watch)

    def _watch(self, task: asyncio.Task[Trajectory]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._crash.done():
            self._crash.set_result(None)

    async def results(self, group: Sequence[asyncio.Task[Trajectory]]) -> list[Trajectory]:
        waiting = set(group)
        while waiting:
            done, _ = await asyncio.wait(
                {*waiting, self._crash}, return_when=asyncio.FIRST_COMPLETED
            )
            waiting -= done  # type: ignore[arg-type]
            if self._crash.done():
                for task in self._running:
                    if task.done() and not task.cancelled() and (error := task.exception()):
                        raise error
        return [task.result() for task in group]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._crash.cancel()


class _Invalid:
    """Counts invalid trajectories of a step and stops it when they are too many."""

    def __init__(self, share: float, total: int) -> None:
        self._share, self._total = share, total
        self._reasons: Counter[str] = Counter()

    def count(self, trajectory: Trajectory) -> None:
        if trajectory.failure is None:
            return
        self._reasons[trajectory.failure] += 1
        failed = self._reasons.total()
        if failed > self._share * self._total:
            reason, times = self._reasons.most_common(1)[0]
            raise EnvError(
                f"{failed} of the {self._total} trajectories of this step are invalid, more than "
                f"rollout.max_invalid = {self._share} allows. Most often ({times}): {reason} "
                f"(last task {trajectory.task_id}). Mend the cause; such trajectories are never "
                "trained on."
            )


async def _episode(context: RolloutContext, task: Task, member: int, noise: int) -> Trajectory:
    """One trajectory, tried once more in a fresh world if infrastructure failed."""
    form = InlineEpisode if isinstance(context.dialect, InlineDialect) else Episode
    try:
        trajectory = await form(context, task, member, noise).play()
        if trajectory.stop is StopReason.FAILURE:
            _LOG.warning("task %s, member %d: %s; once more", task.id, member, trajectory.failure)
            trajectory = await form(context, task, member, noise).play()
    except Exception as error:  # raised again; whatever it is, people need to know the task
        error.add_note(f"in task {task.id} ({task.provenance.origin}), member {member}")
        raise
    return trajectory

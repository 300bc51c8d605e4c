"""Rollout: K trajectories of each task, concurrently, in the order of the tasks.

Owns concurrency, retries, the share of invalid trajectories, and the order of groups; one
trajectory is rolled out in `episode.py`, or for inline dialects in `inline.py`. Never scores, never
updates.

A failure of infrastructure (`EnvError`, `PolicyError`, an operating-system error, the deadline)
makes a trajectory invalid; it is not worth 0. It is tried once more in a fresh world, except after
the deadline of a turn or of the whole trajectory. Of what a call raises only `EnvError` counts as
one; all else is a failed call (`rods.env.called`). Any other exception is a bug and stops the run,
with the task's id noted on it.

    context = RolloutContext(environment, policy, dialect, template, settings)
    async for group in run_groups(context, tasks):
        group.trajectories
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from rods.abilities import Bounded, ability
from rods.dialects import InlineDialect
from rods.env import Environment, Wrapper
from rods.errors import EnvError, PolicyError
from rods.rollout.episode import Episode, RolloutContext
from rods.rollout.inline import InlineEpisode
from rods.rollout.lockstep import StagePlaces
from rods.split import EDGE
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import ParseVerdict, StopReason

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


async def run_episode(
    context: RolloutContext, task: Task, member: int = 0, noise: int | None = None
) -> Trajectory:
    """Roll one task out once, and once more in a fresh world if infrastructure failed.

    An invalid trajectory says so by its `failure`. The noise depends on the seed, the task, `noise`
    (by default `member`, the index within the group) and the policy version.

    Raises:
        TaskError: the task's world cannot be loaded.
    """
    form = InlineEpisode if isinstance(context.dialect, InlineDialect) else Episode
    chosen = member if noise is None else noise
    try:
        trajectory = await form(context, task, member, chosen).run()
        if trajectory.stop is StopReason.FAILURE:
            _LOG.warning("task %s, member %d: %s; once more", task.id, member, trajectory.failure)
            trajectory = await form(context, task, member, chosen).run()
    except Exception as error:  # raised again; whatever it is, people need to know the task
        error.add_note(f"in task {task.id} ({task.provenance.origin}), member {member}")
        raise
    return trajectory


async def run_groups(
    context: RolloutContext,
    tasks: Sequence[Task],
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> AsyncIterator[Group]:
    """`rollout.k` trajectories of each task, concurrently, given back in the order of the tasks.

    Args:
        tasks: one group each; a task that stands twice gets different noise the second time.
        on_trajectory: called once for each finished trajectory, in the order of finishing.

    Raises:
        EnvError: more than `rollout.max_invalid` of the trajectories are invalid.
        TaskError: a task's world cannot be loaded.
    """
    runner = RolloutRunner(context, len(tasks) * context.settings.k, on_trajectory)
    visits: Counter[str] = Counter()
    running: list[asyncio.Task[Group]] = []
    for task in tasks:
        running.append(asyncio.create_task(runner.group(task, visits[task.id])))
        visits[task.id] += 1
    async with _cancelled(running) as every:
        for group in running:
            await asyncio.wait({group, every}, return_when=asyncio.FIRST_COMPLETED)
            if every.done():
                every.result()  # of any group: its exception is raised at once
            yield group.result()


def in_rounds(show: Callable[[int, int], None], total: int) -> Callable[[Trajectory], None]:
    """Count finished trajectories from 1 to `total`, again and again, and show the count."""
    counted = itertools.cycle(range(1, total + 1))
    return lambda _: show(next(counted), total)


async def together(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Results of concurrent work, in order; where one part fails the others are cancelled."""
    async with _cancelled([asyncio.create_task(part) for part in work]) as every:
        return await every


@asynccontextmanager
async def _cancelled(running: Sequence[asyncio.Task[T]]) -> AsyncGenerator[asyncio.Future[list[T]]]:
    """All results, or the first exception of any; what still runs after the block is cancelled."""
    every = asyncio.gather(*running)
    try:
        yield every
    finally:
        for part in running:
            part.cancel()
        await asyncio.gather(every, *running, return_exceptions=True)


class RolloutRunner:
    """Rolls out groups; those in flight together share a bound and a share of failures."""

    def __init__(
        self,
        context: RolloutContext,
        window: int,
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> None:
        """Roll out nothing yet.

        Args:
            window: the last trajectories among which `rollout.max_invalid` counts.
            on_trajectory: called once for each finished trajectory, in the order of finishing.
        """
        if context.stages is None:
            context = replace(context, stages=StagePlaces(context.settings.worlds))
        self._context, self._size = context, context.settings.k
        self._gate = asyncio.Semaphore(context.settings.concurrency)
        self._invalid = InvalidShare(context.settings.max_invalid, window)
        self._on_trajectory = on_trajectory

    @property
    def version(self) -> int:
        """Policy version that is rolled out."""
        return self._context.policy.version

    async def group(self, task: Task, visit: int = 0, wrapper: Wrapper | None = None) -> Group:
        """A group of a task, its worlds in a wrapper.

        `visit` makes other noise for a task that is rolled out again by the same policy version.

        Raises:
            EnvError: too many of the last trajectories are invalid.
            TaskError: the task's world cannot be loaded.
        """
        rolled = await together(self.member(task, m, visit, wrapper) for m in range(self._size))
        versions = [t.policy_version for t in rolled]
        return Group(task, tuple(rolled), min(versions, default=self.version))

    async def member(
        self, task: Task, member: int, visit: int = 0, wrapper: Wrapper | None = None
    ) -> Trajectory:
        """One trajectory of a `group`; the others may be made elsewhere. Raises as `group`."""
        context = replace(self._context, wrapper=wrapper)
        async with self._gate, _place(context.environment):
            trajectory = await run_episode(context, task, member, visit * self._size + member)
        self._invalid.count(trajectory)
        if self._on_trajectory is not None:
            self._on_trajectory(trajectory)
        return trajectory


_places: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[int, tuple[Environment, asyncio.Semaphore]]
] = WeakKeyDictionary()
"""Places of each loop, by environments, which are held so that their ids stay theirs."""


def _place(environment: Environment) -> AbstractAsyncContextManager[None]:
    """A world's place in an environment that has so many, first come, first served.

    All who roll out in it share them: where an evaluation meets training's groups in flight, or its
    own two passes each other, an episode waits here, where waiting is not its world's time.
    """
    bounded = ability(environment, Bounded)
    if bounded is None:
        return nullcontext()
    mine = _places.setdefault(asyncio.get_running_loop(), {})
    if id(environment) not in mine:
        mine[id(environment)] = environment, asyncio.Semaphore(bounded.capacity)
    return mine[id(environment)][1]


class InvalidShare:
    """Counts invalid ones among the last trajectories and stops the run when they are too many."""

    def __init__(self, share: float, total: int) -> None:
        """Count none yet; at most a `share` of the last `total` may be invalid."""
        self._share, self._total = share, total
        self._last: deque[str | None] = deque(maxlen=total)

    def count(self, trajectory: Trajectory) -> None:
        """Take one more in; raises `EnvError` where it is one too many."""
        self._last.append(trajectory.failure)
        if trajectory.failure is None:
            return
        reasons = Counter(reason for reason in self._last if reason is not None)
        failed = reasons.total()
        if failed > self._share * self._total + EDGE:
            reason, times = reasons.most_common(1)[0]
            raise EnvError(
                f"{failed} of the {self._total} trajectories of this step are invalid, more than "
                f"rollout.max_invalid = {self._share} allows. Most often ({times}): {reason} "
                f"(last task {trajectory.task_id}). Fix the cause; such trajectories are never "
                "trained on."
            )


def preflight(groups: Sequence[Group]) -> None:
    """Refuse to train a policy whose calls nobody understands.

    Raises:
        PolicyError: not one call was parsed in the first step; the message shows what was read.
    """
    valid = [t for g in groups for t in g.trajectories if t.valid]
    if any(v.correct is not None for t in valid for v in t.verdicts):
        return  # questions: a policy may answer them without a call
    steps = [s for t in valid for s in t.steps]
    verdicts = {s.verdict for s in steps}
    if ParseVerdict.CALLS not in verdicts:
        one = next((s for s in steps if s.verdict.is_error), steps[0] if steps else None)
        what = f"{one.text[:200]!r} was read as {one.verdict}" if one else "nothing was sampled"
        way = "Is model.dialect the one of this model? `rods check --model` compares its template."
        if verdicts & {ParseVerdict.UNKNOWN_TOOL, ParseVerdict.BAD_ARGS}:
            way = "Its calls are read, but not one is right: begin with a cold start (`rods sft`)."
        raise PolicyError(
            f"not one tool call was parsed in the {len(steps)} generations of the first step; "
            f"{what}. {way}"
        )

"""Schedules: how many groups are rolled out at once, and which of them meet in an update.

Owns the order of groups, the bound on their age, and the metrics of both sides. It never draws,
scores or updates: the loop does, and tells the schedule. One of three, `rollout.schedule`:

* `synchronous`: all generate, then all tools run one by one; for comparison (`lockstep.py`).
* `asynchronous`: each trajectory continues by itself; an update waits for the whole step, and what
  a filter dropped is drawn again in rounds.
* `pipelined`: what was dropped is drawn again at once, the more at once the fewer pass; and with
  `rollout.pipeline.staleness` above 0 the next groups are rolled out while an update runs.

Groups meet in updates in the order in which they were drawn, so slow ones are trained on like
quick ones, and are scored in that order. Update number u (from 0) takes groups that were begun no
earlier than after update u - 1 - staleness: groups are only begun when they can be taken in time,
and an update waits for those that no later one may take.

    schedule = Schedule(runner, SchedulePlan.of(config), step=trainer.step)
    schedule.roll_out(await draw(schedule.wanted))
    while (rollout := schedule.finished()) is not None:
        schedule.add(ScoredGroup(rollout.drawn, rollout.group, scores, trains))
    batch = schedule.take()
    unused = await schedule.close()
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from rods.config import RunConfig
from rods.env import Wrapper
from rods.errors import ConfigError
from rods.policy import Engine
from rods.reward import Score
from rods.rollout.clock import BusyClock
from rods.rollout.groups import RolloutRunner
from rods.rollout.owner import hanging
from rods.split import EDGE
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json

REMEMBERED = 4
"""Acceptance is that of so many updates' groups."""


class DrawnTask(NamedTuple):
    """A task to be rolled out, as the loop drew it."""

    task: Task
    epoch: int
    """The epoch that drew it."""
    wrapper: Wrapper | None = None
    """Wraps its worlds; None: they are used as they are."""


class ScoredGroup(NamedTuple):
    """A group, where it comes from, and its scores."""

    drawn: DrawnTask
    group: Group
    scores: Sequence[Score]
    trains: bool
    """True if it passes the filter."""


class Unused(NamedTuple):
    """Groups that were begun and are in no update."""

    finished: int = 0
    """Rolled out to their end."""
    in_flight: int = 0
    """Still in flight, and cancelled."""


@dataclass(frozen=True)
class SchedulePlan:
    """Sizes and bounds of a schedule."""

    groups: int
    """Groups of an update that pass the filter."""
    redraw: int = 0
    """An update takes `groups * (1 + redraw)` groups at most; with 0 those that a filter drops
    count as well."""
    rounds: bool = True
    """Draw again only when nothing is out."""
    staleness: int = 0
    """Updates that may happen between a group's start and its own."""
    most: int = 0
    """Groups that may be out at once where few pass; 0: no more than without a filter."""
    last: int = 0
    """Number of updates of the run; 0: not known."""

    @classmethod
    def of(cls, config: RunConfig) -> SchedulePlan:
        """Read sizes and bounds from a configuration."""
        rollout, pipeline = config.rollout, config.rollout.pipeline
        pipelined = rollout.schedule == "pipelined"
        return cls(
            groups=rollout.tasks_per_step,
            redraw=config.train.filtering.redraw,
            rounds=not pipelined,
            staleness=pipeline.staleness if pipelined else 0,
            most=math.ceil(rollout.concurrency / rollout.k) if pipelined else 0,
            last=config.updates,
        )

    @property
    def limit(self) -> int:
        """Groups of one update at most."""
        return self.groups * (1 + self.redraw)

    def require(self, engine: Engine) -> None:
        """Raise `ConfigError` where groups are rolled out during updates and the engine cannot."""
        if self.staleness and not engine.capabilities.beside_updates:
            raise ConfigError(
                'rollout.schedule = "pipelined": this engine computes with the weights that the '
                "update changes, so it cannot sample while an update runs. Set "
                "rollout.pipeline.staleness = 0, or take an engine with its own copy (vllm, "
                "or an architecture that the engine in this process supports)."
            )


@dataclass
class RolloutBatch:
    """The groups of one update."""

    scored: list[ScoredGroup]
    rewards_state: Json = None
    """State of the rewards after its last group was scored, for a checkpoint."""
    metrics: dict[str, Json] = field(default_factory=dict[str, Json])
    seconds: float = 0.0
    """Seconds in which groups were rolled out; beside updates, those since the last batch."""

    @property
    def groups(self) -> list[Group]:
        """In the order of the draws."""
        return [s.group for s in self.scored]

    @property
    def scores(self) -> list[Sequence[Score]]:
        """Scores of each group, one a member."""
        return [s.scores for s in self.scored]


@dataclass(eq=False)
class Rollout:
    """A group that is rolled out or waits to be scored."""

    drawn: DrawnTask
    begun: int
    """Updates whose weights the engine had when it was begun."""
    future: asyncio.Future[Group]

    @property
    def group(self) -> Group:
        """The group, once it is finished."""
        return self.future.result()


class Schedule:
    """Says how many groups to begin, and makes batches of those that are finished."""

    def __init__(
        self,
        runner: RolloutRunner,
        plan: SchedulePlan,
        step: int = 0,
        rewards_state: Callable[[], Json] = lambda: None,
    ) -> None:
        """Begin nothing yet, after `step` updates that were made before.

        The state of the rewards is asked for whenever a batch is complete.
        """
        self._runner, self._plan, self._rewards_state = runner, plan, rewards_state
        self._handed, self._formed = step, step
        """Updates whose weights the engine has; number of the batch that is being formed."""
        self._visits: Counter[str] = Counter()
        """Groups of a task that were begun since the engine got its weights."""
        self._out: deque[Rollout] = deque()
        self._taken: list[ScoredGroup] = []
        self._ready: deque[RolloutBatch] = deque()
        self._passed: deque[bool] = deque(maxlen=REMEMBERED * plan.groups)
        self._rounds = 0
        """Draws for the batch that is being formed."""
        self._asked = self._dry = False
        self._changed = asyncio.Event()
        self._rolling, self._training = BusyClock(), BusyClock()
        self._looked = time.perf_counter()

    @property
    def beside(self) -> bool:
        """True if groups are rolled out while an update runs."""
        return self._plan.staleness > 0

    # -- begin ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Measure from now on."""
        self._looked = time.perf_counter()

    def ask(self) -> None:
        """Allow groups for the next batch: without staleness none begins before."""
        self._asked, self._dry = True, False

    @property
    def wanted(self) -> int:
        """Number of groups to be begun now."""
        plan = self._plan
        if self._dry or not (plan.staleness or self._asked):
            return 0
        if plan.rounds and (self._out or self._rounds > plan.redraw):
            return 0
        end = self._handed + plan.staleness + 1
        batches = (min(end, plan.last) if plan.last else end) - self._formed
        if batches < 1:
            return 0
        passing = self._acceptance
        missing = batches * plan.groups - self._counted - passing * len(self._out)
        room = max(batches * plan.groups, plan.most)
        left = batches * plan.limit - len(self._taken)
        return max(0, min(math.ceil(missing / passing - EDGE), min(room, left) - len(self._out)))

    @property
    def _acceptance(self) -> float:
        """Share of groups that will pass, judging by the last ones; 1 where that is not adapted."""
        if not (self._plan.most and self._plan.redraw):
            return 1.0
        return (sum(self._passed) + 1) / (len(self._passed) + 1)

    @property
    def _counted(self) -> int:
        """Groups taken so far that count for the batch."""
        if not self._plan.redraw:
            return len(self._taken)
        return sum(scored.trains for scored in self._taken)

    def roll_out(self, tasks: Sequence[DrawnTask]) -> None:
        """Begin a group of each task; none means that no task is left before the next batch."""
        self._rounds += 1
        self._dry = not tasks
        for drawn in tasks:
            # A task that comes twice under the same weights gets other noise the second time.
            visit = self._visits[drawn.task.id]
            self._visits[drawn.task.id] += 1
            future = asyncio.ensure_future(self._runner.group(drawn.task, visit, drawn.wrapper))
            self._rolling.enter()
            future.add_done_callback(self._ended)
            self._out.append(Rollout(drawn, self._handed, future))

    def _ended(self, future: asyncio.Future[Group]) -> None:
        self._rolling.leave()
        self._changed.set()

    # -- finish -----------------------------------------------------------------------------

    def finished(self) -> Rollout | None:
        """The next group in the order of the draws, if it is finished; add it with its scores.

        Raises:
            Exception: what ended a group, whichever it is.
        """
        for rollout in self._out:
            if rollout.future.done():
                rollout.future.result()
        if self._full:
            self._ready.append(RolloutBatch(self._taken, self._rewards_state()))
            self._taken, self._rounds = [], 0
            self._formed += 1
        if not (self._out and self._out[0].future.done()):
            return None
        return self._out.popleft()

    def add(self, scored: ScoredGroup) -> None:
        """Take a finished group into the batch that is being formed."""
        self._passed.append(scored.trains)
        self._taken.append(scored)

    @property
    def _full(self) -> bool:
        """True if the batch is whole: enough pass or no more may come, and no group must join."""
        plan = self._plan
        if not self._taken or (self._out and self._out[0].begun + plan.staleness <= self._formed):
            return False
        spent = self._rounds > plan.redraw if plan.rounds else len(self._taken) >= plan.limit
        return self._counted >= plan.groups or spent or (self._dry and not self._out)

    @property
    def ready(self) -> bool:
        """True if a batch can be taken, or none will come."""
        over = 0 < self._plan.last <= self._formed
        return bool(self._ready) or over or (self._dry and not (self._out or self._taken))

    def take(self) -> RolloutBatch | None:
        """The groups of the next update, once `ready`; None: no task is left."""
        self._asked = False
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._measure(batch)
        return batch

    async def changed(self) -> None:
        """Wait until a group is finished, or `wake` is called."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """Make `changed` return: something else happened."""
        self._changed.set()

    async def close(self) -> Unused:
        """Cancel what is in flight; how many groups were begun and not used."""
        futures = [rollout.future for rollout in self._out]
        ended = sum(task.done() for task in futures)
        for task in futures:
            task.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        finished = ended + len(self._taken) + sum(len(b.scored) for b in self._ready)
        self._out.clear()
        return Unused(finished, len(futures) - ended)

    # -- updates and metrics ----------------------------------------------------------------

    @contextmanager
    def updating(self) -> Generator[None]:
        """An update runs, and ends when the engine has its weights."""
        self._training.enter()
        try:
            yield
        finally:
            self._training.leave()
        self._handed += 1
        # A group that is out may begin only now, under these weights: its visit stays its own.
        out = {rollout.drawn.task.id for rollout in self._out}
        self._visits = Counter({task: n for task, n in self._visits.items() if task in out})

    @contextmanager
    def unmeasured(self) -> Generator[None]:
        """Something else runs, such as an evaluation: its time is in no metric.

        Groups that are in flight continue; none is begun.
        """
        began = time.perf_counter()
        for clock in (self._rolling, self._training):
            clock.stop(True)
        try:
            yield
        finally:
            for clock in (self._rolling, self._training):
                clock.stop(False)
            self._looked += time.perf_counter() - began

    def _measure(self, batch: RolloutBatch) -> None:
        """Metrics since the last batch; shares are of the seconds that passed."""
        now = time.perf_counter()
        passed, self._looked = max(now - self._looked, EDGE), now
        rolled, trained = self._rolling.take(), self._training.take()
        ages = [self._runner.version - group.policy_version for group in batch.groups]
        finished = sum(rollout.future.done() for rollout in self._out)
        later = sum(len(b.scored) for b in self._ready) + len(self._taken)
        batch.seconds = passed if self.beside else rolled
        batch.metrics = {
            "groups_queued": finished + later,
            "groups_in_rollout": len(self._out) - finished,
            "acceptance": sum(s.trains for s in batch.scored) / len(batch.scored),
            "staleness_mean": sum(ages) / len(ages),
            "staleness_max": max(ages),
            "idle_rollout": max(0.0, 1 - rolled / passed),
            "idle_update": max(0.0, 1 - trained / passed),
            "worlds_hanging": hanging(),
        }

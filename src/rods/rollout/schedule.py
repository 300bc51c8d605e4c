"""Schedules: when groups are drawn and played, and which of them meet in an update.

Owns the order of groups, the bound on their age, how many are out at once, and the meters of both
sides. Never scores, updates or draws by itself: the loop lends it these. One of three schedules,
`rollout.schedule`:

* `synchronous`: all generate, then all tools run one by one; for comparison (`lockstep.py`).
* `asynchronous`: each trajectory goes on by itself; an update waits for the whole step, and what a
  filter dropped is drawn anew in rounds.
* `pipelined`: what was dropped is drawn anew at once, the more at once the fewer pass; and with
  `rollout.pipeline.staleness` above 0 the next groups are played while an update runs.

Groups meet in updates in the order in which they were drawn, so slow ones are trained on like
quick ones, and are scored in that order, so rewards that remember see what they always saw.
Update number u (from 0) takes groups that were begun no earlier than after update u - 1 -
staleness: groups are only begun when they can be taken in time, and an update waits for those that
no later one may take.

    schedule = Schedule(source, player, policy, step=trainer.step)
    batch = await schedule.batch()
    report = await schedule.update(lambda: trainer.update(...), hand_over)
    unused = await schedule.close()
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from rods.env import Layer
from rods.errors import ConfigError
from rods.policy import Engine
from rods.rollout.groups import Player
from rods.rollout.owner import hanging
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T", covariant=True)

REMEMBERED = 4
"""Acceptance is that of so many updates' groups."""
EDGE = 1e-9


class Drawn(NamedTuple):
    """A task to be played, as the loop drew it."""

    task: Task
    epoch: int
    layer: Layer | None = None
    """What its worlds are played under; None: they are played as they are."""


@dataclass(frozen=True, slots=True)
class Played(Generic[S]):
    """A group, where it comes from, and what the loop made of it."""

    drawn: Drawn
    group: Group
    scores: S
    trains: bool
    """Whether it passes the filter."""


class Unused(NamedTuple):
    """Groups that were begun and are in no update."""

    played: int = 0
    """To their end."""
    playing: int = 0
    """Still in flight, and broken off."""


class Source(Protocol[T]):
    """What the loop lends: where tasks come from and what groups are worth."""

    async def draw(self, n: int) -> Sequence[Drawn]:
        """The next tasks, at most `n`; none: there are none before the next update, or at all."""
        ...

    def score(self, drawn: Drawn, group: Group) -> tuple[T, bool]:
        """A group's scores, and whether it passes the filter; called in the order of the draws."""
        ...

    def remembered(self) -> Json:
        """What scoring has changed so far, for a checkpoint."""
        ...


@dataclass(frozen=True)
class Plan:
    """How a schedule goes on: sizes and bounds."""

    groups: int
    """Groups of an update that pass the filter."""
    redraw: int = 0
    """An update takes `groups * (1 + redraw)` groups at most; with 0 those that a filter drops
    count as well."""
    rounds: bool = True
    """Draw anew only when nothing is out."""
    staleness: int = 0
    """Updates that may happen between a group's start and its own."""
    adaptive: bool = False
    """Whether more groups are out at once where fewer pass."""
    most: int = 0
    """Groups out at once that the adaptive depth may reach."""
    last: int = 0
    """Number of updates of the run; 0: not known."""

    @property
    def limit(self) -> int:
        """Groups of one update at most."""
        return self.groups * (1 + self.redraw)


def require_beside(engine: Engine, plan: Plan) -> None:
    """Raises `ConfigError` where groups are to be played while updates run, and it cannot."""
    if plan.staleness and not engine.capabilities.beside_updates:
        raise ConfigError(
            'rollout.schedule = "pipelined": this engine computes with the weights that the update '
            "changes, so it cannot play while an update runs. Set rollout.pipeline.staleness = 0, "
            "or take an engine with a copy of its own (vllm, or an architecture that the engine "
            "in this process knows)."
        )


@dataclass
class Batch(Generic[S]):
    """The groups of one update."""

    played: list[Played[S]]
    remembered: Json
    """`Source.remembered` after its last group was scored."""
    meters: dict[str, Json] = field(default_factory=dict[str, Json])
    seconds: float = 0.0
    """Those in which it was played; where that goes on beside updates, those since the last one."""


@dataclass(eq=False)
class _Out:
    """A group that is played or waits to be taken."""

    drawn: Drawn
    begun: int
    """Updates that had been handed over when it was begun."""
    playing: asyncio.Future[Group]


class _Clock:
    """Seconds in which a side was busy since it was last asked."""

    def __init__(self) -> None:
        self._busy, self._spent, self._since = 0, 0.0, 0.0
        self._stopped = False

    def enter(self) -> None:
        self._count()
        self._busy += 1

    def leave(self) -> None:
        self._count()
        self._busy -= 1

    def stop(self, stopped: bool) -> None:
        self._count()
        self._stopped = stopped

    def take(self) -> float:
        self._count()
        spent, self._spent = self._spent, 0.0
        return spent

    def _count(self) -> None:
        now = time.perf_counter()
        if self._busy and not self._stopped:
            self._spent += now - self._since
        self._since = now


class Schedule(Generic[S]):
    """Keeps groups coming, and makes updates of them."""

    def __init__(self, source: Source[S], player: Player, plan: Plan, step: int = 0) -> None:
        """Begin nothing yet; `step` updates were made before."""
        self._source, self._player, self._plan = source, player, plan
        self._handed, self._formed = step, step
        """Updates whose weights the engine has; number of the batch that is being formed."""
        self._visits: Counter[str] = Counter()
        """Groups of a task that were begun since the engine got its weights."""
        self._out: deque[_Out] = deque()
        self._taken: list[Played[S]] = []
        self._ready: deque[Batch[S]] = deque()
        self._passed: deque[bool] = deque(maxlen=REMEMBERED * plan.groups)
        self._rounds = 0
        """Draws for the batch that is being formed."""
        self._asked = self._dry = False
        self._changed = asyncio.Event()
        self._play, self._train = _Clock(), _Clock()
        self._looked = time.perf_counter()

    # -- the loop's side --------------------------------------------------------------------

    @property
    def beside(self) -> bool:
        """Whether groups are played while an update runs."""
        return self._plan.staleness > 0

    async def batch(self) -> Batch[S] | None:
        """The groups of the next update, once the last of them is played; None: none are left."""
        self._asked, self._dry = True, False
        await self._go_on(lambda: bool(self._ready) or self._over)
        self._asked = False
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._measure(batch)
        return batch

    async def update(self, work: Callable[[], R], hand_over: Callable[[], Awaitable[None]]) -> R:
        """Make an update, `work`, and give the engine its weights."""
        self._train.enter()
        try:
            result = await self._threaded(work) if self.beside else work()
            await hand_over()
        finally:
            self._train.leave()
        self._handed += 1
        self._visits.clear()
        return result

    async def _threaded(self, work: Callable[[], R]) -> R:
        update = asyncio.ensure_future(asyncio.to_thread(work))
        update.add_done_callback(lambda _: self._changed.set())
        try:
            await self._go_on(update.done)
        finally:
            await asyncio.wait({update})  # a thread cannot be stopped half way
        return update.result()

    @contextmanager
    def unmeasured(self) -> Generator[None]:
        """Something else is done, such as an evaluation: its time is in no meter.

        Groups that are in flight are played on; none is begun.
        """
        began = time.perf_counter()
        for clock in (self._play, self._train):
            clock.stop(True)
        try:
            yield
        finally:
            for clock in (self._play, self._train):
                clock.stop(False)
            self._looked += time.perf_counter() - began

    async def close(self) -> Unused:
        """End what is played; how many groups were begun and not used."""
        playing = [out.playing for out in self._out]
        ended = sum(task.done() for task in playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        played = ended + len(self._taken) + sum(len(b.played) for b in self._ready)
        self._out.clear()
        return Unused(played, len(playing) - ended)

    # -- what goes on meanwhile -------------------------------------------------------------

    async def _go_on(self, until: Callable[[], bool]) -> None:
        """Take what is played, begin what is wanted, until something is the case."""
        while True:
            self._changed.clear()
            self._take()
            wanted = self._wanted()
            if wanted:
                drawn = await self._source.draw(wanted)
                self._rounds += 1
                self._dry = not drawn
                for one in drawn:
                    self._begin(one)
            elif until():
                return
            else:
                await self._changed.wait()

    @property
    def _over(self) -> bool:
        ended = 0 < self._plan.last <= self._formed
        return ended or (self._dry and not (self._out or self._taken))

    def _begin(self, drawn: Drawn) -> None:
        # A task that comes twice under the same weights gets other noise the second time.
        visit = self._visits[drawn.task.id]
        self._visits[drawn.task.id] += 1
        playing = asyncio.ensure_future(self._player.group(drawn.task, visit, drawn.layer))
        self._play.enter()
        playing.add_done_callback(self._ended)
        self._out.append(_Out(drawn, self._handed, playing))

    def _ended(self, playing: asyncio.Future[Group]) -> None:
        self._play.leave()
        self._changed.set()

    # -- how many are out -------------------------------------------------------------------

    def _wanted(self) -> int:
        """Groups to be begun now."""
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
        missing = batches * plan.groups - self._count() - passing * len(self._out)
        room = max(batches * plan.groups, plan.most if plan.adaptive else 0)
        left = batches * plan.limit - len(self._taken)
        return max(0, min(math.ceil(missing / passing - EDGE), min(room, left) - len(self._out)))

    @property
    def _acceptance(self) -> float:
        """Share of groups that will pass, as the last ones say; 1 where it is not looked at."""
        if not (self._plan.adaptive and self._plan.redraw):
            return 1.0
        return (sum(self._passed) + 1) / (len(self._passed) + 1)

    def _count(self) -> int:
        """Groups taken so far that count for the batch."""
        if not self._plan.redraw:
            return len(self._taken)
        return sum(played.trains for played in self._taken)

    # -- what meets in an update ------------------------------------------------------------

    def _take(self) -> None:
        """Score what was played, in the order of the draws, and part it into batches."""
        for out in self._out:
            if out.playing.done():
                out.playing.result()  # an error is raised here, whoever's turn it is
        while True:
            if self._full:
                self._ready.append(Batch(self._taken, self._source.remembered()))
                self._taken, self._rounds = [], 0
                self._formed += 1
            if not (self._out and self._out[0].playing.done()):
                return
            out = self._out.popleft()
            group = out.playing.result()
            scores, trains = self._source.score(out.drawn, group)
            self._passed.append(trains)
            self._taken.append(Played(out.drawn, group, scores, trains))

    @property
    def _full(self) -> bool:
        """Whether the batch is whole: enough pass or no more may come, and nobody must join."""
        plan = self._plan
        if not self._taken or (self._out and self._out[0].begun + plan.staleness <= self._formed):
            return False
        spent = self._rounds > plan.redraw if plan.rounds else len(self._taken) >= plan.limit
        return self._count() >= plan.groups or spent or (self._dry and not self._out)

    # -- meters -----------------------------------------------------------------------------

    def _measure(self, batch: Batch[S]) -> None:
        """What was seen since the last batch; shares are of the seconds that passed."""
        now = time.perf_counter()
        passed, self._looked = max(now - self._looked, EDGE), now
        played, trained = self._play.take(), self._train.take()
        ages = [self._player.version - p.group.policy_version for p in batch.played]
        finished = sum(out.playing.done() for out in self._out)
        later = sum(len(b.played) for b in self._ready) + len(self._taken)
        batch.seconds = passed if self.beside else played
        batch.meters = {
            "groups_queued": finished + later,
            "groups_playing": len(self._out) - finished,
            "acceptance": sum(p.trains for p in batch.played) / len(batch.played),
            "staleness_mean": sum(ages) / len(ages),
            "staleness_max": max(ages),
            "idle_rollout": max(0.0, 1 - played / passed),
            "idle_update": max(0.0, 1 - trained / passed),
            "worlds_hanging": hanging(),
        }

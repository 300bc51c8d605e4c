"""Synchronous, asynchronous and pipelined schedules side by side, by a clock that jumps.

Episodes, schedules and owners of worlds are the real ones; the policy is scripted, and only time is
played: decode steps, tools, updates and hand-overs take what is written here, Python's own seconds
do not count. So the figures are those of the schedules alone, and nearly the same on every machine.
`schedules_real.py` has the bundled policy, BFCL and slow tools on the clock of the wall.

Tools take log-normal times, 50 ms at the median and 2 s at the 99th percentile; a decode step takes
10 ms and 0.02 ms more for each context in the batch.

`max(G / q, T) + W`: G is how long the groups of one update take alone, T the update, W the
hand-over of the weights, q the share of groups that pass; the mean over updates, since G differs
from one to the next as its slowest tool does. Where groups are dropped nobody waits for the slowest
of a batch, so the model is shown with another G as well: seconds an update where updates take none
and the pipeline is always full.

`recursion` follows the groups one by one, by the seconds that each takes alone where as many are
out: a group is begun when the one that stands so many places before it was taken, and no earlier
than after update u - 1 - staleness; groups are taken in order; update u starts when its groups are
taken and u - 1 is handed over. How many groups an update took is what it did take. The tail of the
tools' times is long, so a thousand groups are played alone, and the model is shown by the seconds
of the very groups of the run as well.

    python benchmarks/schedules.py                      # ten minutes of processor time
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
import selectors
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shared import Options

from fake_tokenizer import FakeTokenizer
from rods.config import RolloutSettings
from rods.dialects import get_dialect
from rods.loop import keep_rolling, while_rolling
from rods.policy import Capabilities, Completion, Engine, Weights
from rods.rollout import owner
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import DrawnTask, Rollout, Schedule, SchedulePlan, ScoredGroup
from rods.rollout.template import ChatTemplate
from rods.trajectory import Group
from rods.types import FinishReason, ToolCall
from worlds import NotesEnvironment, notes_task

MEDIAN, P99 = 0.05, 2.0
SPREAD = math.log(P99 / MEDIAN) / 2.3263
K = 8
TOKENS = 24
"""Mean of a generation's tokens."""
CALLS = 3
STEP, ROW = 0.010, 0.00002
WARM = 2
"""Updates before those that are timed."""


# -- a clock that jumps --------------------------------------------------------------------------


class Jumping(selectors.DefaultSelector):
    """Waits for nothing: the loop's time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("nothing is left that could happen")
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time is that of `Jumping`; what is sent to a thread is done at once, and lasts."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        self._spent: list[float] | None = None
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def spend(self, seconds: float) -> None:
        """What takes time: it holds up the loop, unless it is done in a thread."""
        if self._spent is None:
            self._jumping.now += seconds
        else:
            self._spent.append(seconds)

    def timed(self, function: Callable[[], Any]) -> tuple[Any, float]:
        outer, self._spent = self._spent, []
        try:
            return function(), sum(self._spent)
        finally:
            self._spent = outer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        value, seconds = self.timed(lambda: func(*args))
        done = self.create_future()
        self.call_later(seconds, lambda: done.cancelled() or done.set_result(value))
        return done


class JumpingThread:
    """In the place of a world's own thread."""

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        loop: Any = asyncio.get_running_loop()
        value, seconds = loop.timed(function)
        done: Future[Any] = Future()
        loop.call_later(seconds, done.set_result, value)
        return done

    def end(self) -> None:
        pass


# -- what takes time -----------------------------------------------------------------------------


class Simulated(Engine):
    """Continuous batching: all who generate get a token a step; hand-overs stop it."""

    capabilities = Capabilities("handed", beside_updates=True)
    version = 0

    def __init__(self, template: ChatTemplate, hand_over: float) -> None:
        self._template, self._hand_over = template, hand_over
        self._going: list[tuple[int, int, asyncio.Future[None]]] = []
        self._step = self._number = 0
        self._driver: asyncio.Task[None] | None = None
        self._free = asyncio.Event()
        self._free.set()

    async def sync(self, weights: Weights, version: int) -> None:
        self._free.clear()
        await asyncio.sleep(self._hand_over)
        self.version = version
        self._free.set()

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Any:
        return _Session(self, random.Random(seed))

    async def take(self, tokens: int) -> None:
        done = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._going, (self._step + tokens, self._number, done))
        if self._driver is None or self._driver.done():
            self._driver = asyncio.ensure_future(self._drive())
        await done

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.cancel()

    async def _drive(self) -> None:
        while self._going:
            await self._free.wait()
            await asyncio.sleep(STEP + ROW * len(self._going))
            self._step += 1
            while self._going and self._going[0][0] <= self._step:
                done = heapq.heappop(self._going)[2]
                done.cancelled() or done.set_result(None)


class _Session:
    def __init__(self, engine: Simulated, rng: random.Random) -> None:
        self._engine, self._rng, self._said = engine, rng, 0

    async def generate(self, *args: Any, **options: Any) -> Completion:
        version = self._engine.version
        await self._engine.take(max(4, round(self._rng.gauss(TOKENS, TOKENS / 3))))
        self._said += 1
        template = self._engine._template
        text = "[add(amount=1)]" if self._said <= CALLS else "ok"
        ids = (*template.encode(text), template.end_id)
        return Completion(ids, (-0.5,) * len(ids), FinishReason.STOP, version)

    def close(self) -> None:
        pass


def slow_environment() -> NotesEnvironment:
    rng = random.Random(7)

    def broken(task: object, number: int) -> None:
        loop: Any = asyncio.get_running_loop()
        loop.spend(rng.lognormvariate(math.log(MEDIAN), SPREAD))

    return NotesEnvironment(broken, blocking=True)  # type: ignore[arg-type]


@dataclass
class Source:
    """Tasks without end; groups pass by a chance of their own."""

    share: float
    number: int = 0
    begun: list[float] = field(default_factory=list)

    async def draw(self, n: int) -> list[DrawnTask]:
        first, self.number = self.number, self.number + n
        add = [ToolCall("add", {"amount": 1})]
        return [DrawnTask(notes_task([(f"add {i}", add)]), 0) for i in range(first, first + n)]

    def score(self, rollout: Rollout) -> ScoredGroup:
        passes = random.Random(rollout.drawn.task.id).random() < self.share
        return ScoredGroup(rollout.drawn, rollout.group, [], passes)


# -- measuring -----------------------------------------------------------------------------------


@dataclass
class Timed:
    """Seconds of an update all told, and of each one's rollout."""

    period: float
    rollouts: list[float]
    """Waiting for a batch."""
    members: list[float]
    """Of each group, from its start to its end."""
    groups: float
    """Groups that an update took."""
    whole: float
    """Those that passed, in groups that were asked for: more than 1 where what is beyond them is
    trained on too. `period` is divided by it."""

    @property
    def rollout(self) -> float:
        return statistics.fmean(self.rollouts)


def simple(rollouts: Sequence[float], t: float, w: float) -> float:
    """max(G, T) + W, the mean over updates."""
    return statistics.fmean(max(g, t) for g in rollouts) + w


def recursion(
    alone: Timed, t: float, w: float, staleness: int = 1, groups: float = 0.0, out: int = 0
) -> float:
    """Seconds of an update, group by group.

    Args:
        alone: groups played alone.
        t: seconds of an update.
        w: seconds of a hand-over.
        staleness: updates between a group's start and its own, at most.
        groups: that an update takes; 0: those of `alone`.
        out: groups that may be out at once; 0: those of 1 + staleness updates.
    """
    groups = groups or alone.groups
    out = out or int((1 + staleness) * groups)
    endless = itertools.cycle(alone.members)
    handed, taken = [0.0] * (staleness + 1), [0.0]
    for number in range(1, 1 + int(8 * len(alone.members) / groups)):
        while len(taken) <= int(number * groups):
            free = taken[-out] if len(taken) > out else 0.0
            begun = max(handed[-1 - staleness], free)
            taken.append(max(taken[-1], begun + next(endless)))
        handed.append(max(handed[-1], taken[-1]) + t + w)
    half = len(handed) // 2
    return (handed[-1] - handed[half]) / (len(handed) - 1 - half)


class Watched(RolloutRunner):
    """Notes how long each group takes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.took: list[float] = []

    async def group(self, *args: Any) -> Group:
        loop = asyncio.get_running_loop()
        began, place = loop.time(), len(self.took)
        self.took.append(0.0)  # in the order in which they begin
        try:
            return await super().group(*args)
        finally:
            self.took[place] = loop.time() - began


def run(
    mode: str,
    episodes: int,
    update: float = 0.0,
    hand_over: float = 0.0,
    share: float = 1.0,
    adaptive: bool = True,
    updates: int = 10,
    staleness: int = 1,
    ahead: int = 2,
) -> Timed:
    """Mean seconds of the updates after the first ones, on the clock that jumps.

    At most `ahead` times `episodes` are played at once; only the adaptive depth goes beyond two.
    """
    groups = episodes // K
    redraw = 0 if share == 1 else 1000
    plan = SchedulePlan(groups, redraw) if mode != "pipelined" else SchedulePlan(
        groups, redraw, rounds=False, staleness=staleness, most=groups * ahead * adaptive
    )  # fmt: skip
    settings = RolloutSettings(
        k=K, tasks_per_step=groups, concurrency=ahead * episodes, seconds=1e6
    )
    template = ChatTemplate(FakeTokenizer())

    async def play() -> Timed:
        loop: Any = asyncio.get_running_loop()
        engine, source = Simulated(template, hand_over), Source(share)
        context = RolloutContext(
            slow_environment(), engine, get_dialect("pythonic"), template, settings,
            lockstep=Lockstep() if mode == "synchronous" else None,
        )  # fmt: skip
        player = Watched(context, episodes)
        schedule = Schedule(player, plan)

        async def roll_out(n: int) -> None:
            schedule.roll_out(await source.draw(n))

        marks: list[float] = []
        waits: list[float] = []
        passed = taken = 0
        for number in range(WARM + updates):
            asked = loop.time()
            schedule.ask()
            await keep_rolling(schedule, roll_out, source.score, lambda: schedule.ready)
            batch = schedule.take()
            assert batch is not None
            waits.append(loop.time() - asked)
            if number >= WARM:
                passed += sum(scored.trains for scored in batch.scored)
                taken += len(batch.scored)
            with schedule.updating():
                if schedule.beside:
                    work = partial(loop.spend, update)
                    await while_rolling(schedule, roll_out, source.score, work)
                else:
                    loop.spend(update)
                await engine.sync(None, number + 1)  # type: ignore[arg-type]
            marks.append(loop.time())
        await schedule.close()
        engine.stop()
        # What is beyond the groups that were asked for is trained on too: seconds of a whole batch.
        whole = passed / (updates * groups)
        period = (marks[-1] - marks[WARM - 1]) / updates / whole
        return Timed(period, waits[WARM:], player.took, taken / updates, whole)

    loop = JumpingLoop()
    try:
        return loop.run_until_complete(play())
    finally:
        loop.close()


def sizes(every: Sequence[int]) -> None:
    print("Generation and update take equal time, the hand-over a twentieth; seconds an update")
    print(
        "episodes      G  synchronous  asynchronous  pipelined  staleness 2   rollouts  "
        "whole: async:sync  piped:async  2:async  max(G,T)+W  recursion"
    )
    for episodes in every:
        updates = max(6, 1280 // episodes)
        alone = run("asynchronous", episodes, updates=updates)
        g, t = alone.rollout, alone.rollout
        w = 0.05 * g
        sync = run("synchronous", episodes, t, w, updates=2)
        one = run("asynchronous", episodes, t, w, updates=updates)
        two = run("pipelined", episodes, t, w, updates=updates)
        three = run("pipelined", episodes, t, w, updates=updates, staleness=2)
        print(
            f"{episodes:8} {g:6.2f} {sync.period:12.1f} {one.period:13.2f} {two.period:10.2f} "
            f"{three.period:12.2f} {sync.rollout / g:9.1f}x {sync.period / one.period:17.1f}x "
            f"{one.period / two.period:11.2f}x {one.period / three.period:7.2f}x "
            f"{two.period / simple(alone.rollouts, t, w) - 1:+10.1%} "
            f"{two.period / recursion(alone, t, w) - 1:+10.1%}",
            flush=True,
        )


def bounded(size: int) -> None:
    alone = run("asynchronous", size, updates=20)
    g = alone.rollout
    print(f"\nNo more at once than the asynchronous schedule has, {size} episodes")
    print("   T / G  asynchronous  pipelined  piped:async")
    for ratio in (0.02, 0.5, 1.0):
        t, w = ratio * g, 0.05 * g
        one, two = (run(m, size, t, w, ahead=1).period for m in ("asynchronous", "pipelined"))
        print(f"{ratio:8} {one:13.2f} {two:10.2f} {one / two:11.2f}x", flush=True)


def ratios(size: int) -> None:
    alone = run("asynchronous", size, updates=20)
    g = alone.rollout
    print(f"\nThe update takes so many times what generation takes, {size} episodes")
    print("   T / G  asynchronous  pipelined  piped:async  max(G,T)+W  recursion")
    for ratio in (0.02, 0.25, 0.5, 1.0, 2.0, 4.0):
        t, w = ratio * g, 0.05 * g
        one, two = (run(m, size, t, w).period for m in ("asynchronous", "pipelined"))
        print(
            f"{ratio:8} {one:13.2f} {two:10.2f} {one / two:11.2f}x "
            f"{two / simple(alone.rollouts, t, w) - 1:+10.1%} "
            f"{two / recursion(alone, t, w) - 1:+10.1%}",
            flush=True,
        )


def acceptance(size: int) -> None:
    alone = run("asynchronous", size, updates=20)
    wide = run("asynchronous", 2 * size, updates=60)
    full = run("pipelined", size, updates=40)
    g = alone.rollout
    print(f"\nThe share of groups that pass falls, T = G = {g:.2f}, {size} episodes; ", end="")
    print(f"G of a full pipeline {full.period:.2f}")
    print("       q  asynchronous  fixed depth  adaptive  fixed:async  adaptive:async", end="")
    print("  adaptive:fixed  max(G/q,T)+W  of a full one  recursion  by its own groups", end="")
    print("  twice the room  to fixed")
    for share in (1.0, 0.5, 0.2, 0.1):
        t, w = g, 0.05 * g
        one = run("asynchronous", size, t, w, share, updates=20).period
        two = run("pipelined", size, t, w, share, adaptive=False, updates=20).period
        deep = run("pipelined", size, t, w, share, updates=20)
        room = run("pipelined", size, t, w, share, updates=20, ahead=4).period
        plain = simple([x / share for x in alone.rollouts], t, w)
        known, own = (
            recursion(of, t, w, 1, deep.groups, 2 * size // K) / deep.whole for of in (wide, deep)
        )
        print(
            f"{share:8} {one:13.2f} {two:12.2f} {deep.period:9.2f} {one / two:11.2f}x "
            f"{one / deep.period:14.2f}x {two / deep.period:14.2f}x "
            f"{deep.period / plain - 1:+12.1%} "
            f"{deep.period / simple([full.period / share], t, w) - 1:+13.1%} "
            f"{deep.period / known - 1:+10.1%} {deep.period / own - 1:+14.1%} "
            f"{room:14.2f} {two / room:8.2f}x",
            flush=True,
        )


TABLES = {"bounded": bounded, "ratios": ratios, "acceptance": acceptance}
"""Of one size."""


def main() -> None:
    """Parse, run, print."""
    parser = Options(__doc__, {"sizes": [8], "size": 8, "tables": []})
    parser.add_argument("--sizes", type=int, nargs="*", default=[64, 256, 1024])
    parser.add_argument("--size", type=int, default=64, help="of the second and third table")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=[*TABLES])
    options = parser.parse_args()
    started = time.process_time()
    owner._Thread = JumpingThread  # type: ignore[misc, assignment]
    sizes(options.sizes)
    for name in options.tables:
        TABLES[name](options.size)
    print(f"\n{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()

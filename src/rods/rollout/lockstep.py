"""Where trajectories wait for each other: in lockstep, or for a place in a stage.

Owns whose turn it is. It never counts trajectories in flight: `rollout.concurrency` does.

    lockstep = Lockstep()
    async with lockstep.member():         # works with its world, alone
        await lockstep.generating()       # waits until nobody works any more
        await lockstep.working()          # waits until all have generated, then for its place

    passage = Passage(StagePlaces(config.rollout.worlds))
    await passage.to("starting")
    await passage.to("running")           # gives up its place among those who start
    passage.leave()
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from rods.config.rollout import WorldSettings


class Lockstep:
    """All generate, then all tools run one by one, then all generate again.

    The schedule that asynchronous rollouts are compared with (`rollout.schedule = "synchronous"`).
    An episode asks before it generates and before it works with its world.
    """

    def __init__(self) -> None:
        self._generate: deque[asyncio.Future[None]] = deque()
        self._work: deque[asyncio.Future[None]] = deque()
        self._going = 0
        """Episodes that wait for nothing."""

    @asynccontextmanager
    async def member(self) -> AsyncGenerator[None]:
        """An episode, which begins by working with its world."""
        self._going += 1
        try:
            await self.working()
            yield
        finally:
            self._going -= 1
            self._next()

    async def generating(self) -> None:
        """Wait until all episodes want to generate."""
        await self._wait(self._generate)

    async def working(self) -> None:
        """Wait until nobody generates and it is this one's place among those who work."""
        await self._wait(self._work)

    async def _wait(self, queue: deque[asyncio.Future[None]]) -> None:
        mine = asyncio.get_running_loop().create_future()
        queue.append(mine)
        self._going -= 1
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine in queue:
                queue.remove(mine)
                self._going += 1
            raise

    def _next(self) -> None:
        # Those who begin at the same moment join before anybody goes on.
        asyncio.get_running_loop().call_soon(self._release)

    def _release(self) -> None:
        """When nobody is at work: the next one's tools, or everybody's generation."""
        if self._going:
            return
        everybody = len(self._generate)
        for queue, most in ((self._work, 1), (self._generate, everybody)):
            for _ in range(min(most, len(queue))):
                self._going += 1
                mine = queue.popleft()
                if mine.done():
                    continue  # cancelled: its own end counts it out
                mine.set_result(None)
            if self._going:
                return


Stage = Literal["starting", "running", "judging"]


class StagePlaces:
    """Places of each stage; 0: as many as come. The three queues of SkyRL-v0."""

    def __init__(self, settings: WorldSettings) -> None:
        bounds: dict[Stage, int] = {
            "starting": settings.starting,
            "running": settings.running,
            "judging": settings.judging,
        }
        self.gates = {name: asyncio.Semaphore(most) for name, most in bounds.items() if most}


class Passage:
    """One trajectory's way through the stages.

    One that has started keeps its place there until it is rolled out, so that no more worlds lie
    ready than start at once. One that waits to be judged holds no place: others generate.
    """

    def __init__(self, stages: StagePlaces | None) -> None:
        """Be in no stage yet; None: there are no bounds."""
        self._gates = {} if stages is None else stages.gates
        self._stage: Stage | None = None
        self._held: asyncio.Semaphore | None = None

    async def to(self, stage: Stage) -> None:
        """Enter a stage, as soon as there is a place."""
        if self._stage == stage:
            return
        if self._stage != "starting":
            self.leave()
        gate = self._gates.get(stage)
        if gate is not None:
            await gate.acquire()
        self.leave()
        self._stage, self._held = stage, gate

    def leave(self) -> None:
        """Give up the place, if there is one."""
        held, self._held, self._stage = self._held, None, None
        if held is not None:
            held.release()

"""Lockstep: all generate, then all tools run one by one, then all generate again.

The schedule that asynchronous rollouts are compared with (`rollout.schedule = "synchronous"`). Owns
whose turn it is; an episode asks before it generates and before it works with its world.

    lockstep = Lockstep()
    async with lockstep.member():         # works with its world, alone
        await lockstep.generating()       # waits until nobody works any more
        await lockstep.working()          # waits until all have generated, then for its place
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Lockstep:
    """Whose turn it is among the episodes of one step."""

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

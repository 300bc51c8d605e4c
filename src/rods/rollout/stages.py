"""Three stages of a trajectory, each for so many at once: its world starts, it is played, judged.

The three queues of SkyRL-v0. Owns who may be in which stage. A trajectory that has started keeps
its place there until it is played, so that no more worlds lie ready than start at once; one that
waits to be judged holds no place, so the policy goes on with others. Never counts trajectories in
flight: `rollout.concurrency` does.

    stages = StagePlaces(starting=4, running=16, judging=4)
    passage = Passage(stages)
    await passage.to("starting")
    await passage.to("running")         # gives up its place among those who start
    passage.leave()
"""

from __future__ import annotations

import asyncio
from typing import Literal, Self

from rods.config.rollout import WorldSettings

Stage = Literal["starting", "running", "judging"]


class StagePlaces:
    """Places of each stage; 0: as many as come."""

    def __init__(self, starting: int = 0, running: int = 0, judging: int = 0) -> None:
        bounds: dict[Stage, int] = {"starting": starting, "running": running, "judging": judging}
        self.gates = {name: asyncio.Semaphore(most) for name, most in bounds.items() if most}

    @classmethod
    def of(cls, settings: WorldSettings) -> Self:
        """The stages of a configuration."""
        return cls(settings.starting, settings.running, settings.judging)


class Passage:
    """One trajectory's way through the stages."""

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

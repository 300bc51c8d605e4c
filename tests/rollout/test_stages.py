"""Three bounded stages: worlds start and are judged while the policy goes on with others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from rods.config.rollout import WorldSettings
from rods.env import TurnVerdict
from rods.errors import EnvError
from rods.policy import Completion
from rods.rollout.lockstep import Passage, StagePlaces
from rods.task import Task
from rods.types import ToolCall
from rollout_cases import NoisyPolicy, NoisySession, play_groups
from worlds import NotesEnvironment, NotesWorld, notes_task

ONE_EACH = WorldSettings(starting=1, running=1, judging=1)
BOUNDS = {"starting": 2, "running": 3, "judging": 1}


@dataclass
class SlowEnvironment(NotesEnvironment):
    """Worlds that take a while to start and to be judged, and say how many do at once."""

    blocking: bool = True
    seconds: float = 0.004
    at: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def within(self, stage: str) -> Iterator[None]:
        with self.lock:
            self.at[stage] += 1
            self.most[stage] = max(self.most[stage], self.at[stage])
        time.sleep(self.seconds)
        yield
        with self.lock:
            self.at[stage] -= 1

    def open(self, task: Task) -> NotesWorld:
        with self.within("starting"):
            world = SlowWorld(self, task, self.opened[task.id])
            self.opened[task.id] += 1
            return world


class SlowWorld(NotesWorld):
    def end_turn(self) -> TurnVerdict:
        with self._environment.within("judging"):  # type: ignore[attr-defined]
            return super().end_turn()


class CountingPolicy(NoisyPolicy):
    """Says how many play at once: between a turn's first and last generation."""

    def __init__(self) -> None:
        super().__init__(waits=1)
        self.now = self.most = 0

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> NoisySession:
        session = super().open(seed, shared_prompt)
        generate = session.generate

        async def counted(*args: object) -> Completion:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(0.001)
                return await generate(*args)  # type: ignore[arg-type]
            finally:
                self.now -= 1

        session.generate = counted  # type: ignore[method-assign]
        return session


def some_tasks(n: int) -> list[Task]:
    turns = [("add two", [ToolCall("add", {"amount": 2})]), ("total?", [ToolCall("total", {})])]
    return [notes_task(turns, origin=f"notes_{i}", count=i) for i in range(n)]


@pytest.mark.slow
def test_no_stage_has_more_than_it_may() -> None:
    environment, policy = SlowEnvironment(), CountingPolicy()
    groups = play_groups(some_tasks(4), policy, environment, worlds=BOUNDS)
    assert sum(len(g.trajectories) for g in groups) == 16
    assert all(t.failure is None and t.verdicts for g in groups for t in g.trajectories)
    assert environment.most == {"starting": 2, "judging": 1} and environment.at.total() == 0
    assert 2 <= policy.most <= 3


@pytest.mark.slow
def test_bounds_change_no_trajectory() -> None:
    def played(**bounds: int) -> list[object]:
        policy = NoisyPolicy(waits=1)
        groups = play_groups(some_tasks(3), policy, SlowEnvironment(seconds=0.0), worlds=bounds)
        return [(t.seed, t.messages, t.verdicts, t.stop) for g in groups for t in g.trajectories]

    free = played()
    assert played(**BOUNDS) == free
    assert played(starting=1, running=1, judging=1) == free


def test_a_world_that_breaks_gives_its_place_back() -> None:
    def broken(task: Task, number: int) -> None:
        raise EnvError("broken")

    environment = SlowEnvironment(seconds=0.0, broken=broken)
    groups = play_groups(some_tasks(2), NoisyPolicy(), environment, worlds=dict.fromkeys(BOUNDS, 1))
    played = [t for g in groups for t in g.trajectories]
    assert len(played) == 8 and any(t.failure for t in played)


def test_the_policy_goes_on_while_worlds_start_and_are_judged() -> None:
    """With one place a stage a batch of n takes n + 2 spans of time, not 3 n."""

    async def line(stages: StagePlaces, span: float) -> None:
        passage = Passage(stages)
        for stage in ("starting", "running", "judging"):
            await passage.to(stage)
            await asyncio.sleep(span)
        passage.leave()

    async def all_of(stages: StagePlaces, n: int, span: float) -> float:
        started = time.perf_counter()
        await asyncio.gather(*(line(stages, span) for _ in range(n)))
        return time.perf_counter() - started

    taken = asyncio.run(all_of(StagePlaces(ONE_EACH), 8, 0.02))
    assert 10 * 0.02 <= taken < 18 * 0.02
    assert asyncio.run(all_of(StagePlaces(WorldSettings()), 8, 0.02)) < 8 * 0.02


def test_who_has_started_keeps_its_place_until_it_is_played() -> None:
    async def run() -> None:
        stages = StagePlaces(WorldSettings(starting=1, running=1))
        first, second, third = (Passage(stages) for _ in range(3))
        await first.to("starting")
        await first.to("running")
        await second.to("starting")
        waiting = asyncio.create_task(second.to("running"))
        starting = asyncio.create_task(third.to("starting"))
        await asyncio.sleep(0.01)
        assert not waiting.done() and not starting.done()
        await first.to("judging")
        await waiting
        await starting
        for passage in (first, second, third):
            passage.leave()
        assert all(not gate.locked() for gate in stages.gates.values())

    asyncio.run(run())


@pytest.mark.parametrize("stage", ["running", "judging"])
def test_who_is_cancelled_leaves_no_place_taken(stage: str) -> None:
    async def run() -> None:
        stages = StagePlaces(ONE_EACH)
        taken, passage = Passage(stages), Passage(stages)
        await taken.to(stage)  # type: ignore[arg-type]
        await passage.to("starting")
        if stage == "judging":
            await passage.to("running")
        waiting = asyncio.create_task(passage.to(stage))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        passage.leave()
        taken.leave()
        assert all(not gate.locked() for gate in stages.gates.values())

    asyncio.run(run())

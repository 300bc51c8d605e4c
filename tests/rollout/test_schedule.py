"""Schedules: what is drawn when, who meets in an update, and how old a group may be."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rods.env import Wrapper
from rods.errors import EnvError
from rods.loop import keep_rolling, while_rolling
from rods.reward import Score
from rods.rollout.lockstep import Lockstep
from rods.rollout.schedule import (
    DrawnTask,
    Rollout,
    RolloutBatch,
    Schedule,
    SchedulePlan,
    ScoredGroup,
)
from rods.task import Task
from rods.trajectory import Group
from worlds import notes_task

Plan = SchedulePlan
TASKS = [notes_task([(f"task {i}", [])]) for i in range(400)]
NUMBER = {task.id: i for i, task in enumerate(TASKS)}


class Acted:
    """A player, a source and a trainer of which the test says how long and how good they are."""

    def __init__(
        self,
        plan: Plan,
        passes: Callable[[int], bool] = lambda i: True,
        takes: Callable[[int], float] = lambda i: 0.0,
        tasks: int = len(TASKS),
        update: float = 0.0,
    ) -> None:
        self.plan, self.passes, self.takes, self.update = plan, passes, takes, update
        self.version = 0
        self.asked: list[int] = []
        self.began: dict[int, int] = {}
        self.scored: list[int] = []
        self.playing = self.most_playing = 0
        self.beside = 0
        """Groups that ended while an update ran."""
        self.updating = False
        self._left = iter(range(tasks))
        self.schedule = Schedule(self, plan, 0, lambda: list(self.scored))  # type: ignore[arg-type]

    async def group(self, task: Task, visit: int = 0, wrapper: Wrapper | None = None) -> Group:
        number, version = NUMBER[task.id], self.version
        self.began[number] = version
        self.playing += 1
        self.most_playing = max(self.most_playing, self.playing)
        await asyncio.sleep(self.takes(number))
        self.playing -= 1
        self.beside += self.updating
        return Group(task, (), version)

    async def draw(self, n: int) -> Sequence[DrawnTask]:
        self.asked.append(n)
        return [DrawnTask(TASKS[i], 0) for i in itertools.islice(self._left, n)]

    async def start(self, n: int) -> None:
        self.schedule.roll_out(await self.draw(n))

    def score(self, rollout: Rollout) -> ScoredGroup:
        number = NUMBER[rollout.drawn.task.id]
        self.scored.append(number)
        score = Score(float(number))
        return ScoredGroup(rollout.drawn, rollout.group, [score], self.passes(number))

    def work(self) -> None:
        self.updating = True
        time.sleep(self.update)
        self.updating = False

    async def batch(self) -> RolloutBatch | None:
        self.schedule.ask()
        await keep_rolling(self.schedule, self.start, self.score, lambda: self.schedule.ready)
        return self.schedule.take()

    async def train(self) -> None:
        with self.schedule.updating():
            if self.schedule.beside:
                await while_rolling(self.schedule, self.start, self.score, self.work)
            else:
                self.work()
            self.version += 1

    async def play(self, updates: int) -> list[RolloutBatch]:
        batches: list[RolloutBatch] = []
        while len(batches) < updates:
            batch = await self.batch()
            if batch is None:
                break
            batches.append(batch)
            await self.train()
        self.unused = sum(await self.schedule.close())
        return batches


def played(acted: Acted, updates: int = 99) -> list[list[int]]:
    batches = asyncio.run(acted.play(updates))
    return [[int(row[0].value) for row in batch.scores] for batch in batches]


@pytest.mark.parametrize(("rounds", "asked"), [(0, [4]), (1, [4, 2]), (5, [4, 2, 1])])
def test_groups_that_a_filter_drops_are_drawn_anew(rounds: int, asked: list[int]) -> None:
    trains = [False, True, False, True, True, False, True]  # by the order of being drawn
    acted = Acted(Plan(4, redraw=rounds), trains.__getitem__)
    assert played(acted, 1) == [list(range(sum(asked)))]
    assert acted.asked == asked


@pytest.mark.parametrize("plan", [Plan(1, redraw=3), Plan(1, redraw=3, rounds=False)])
def test_a_task_that_comes_again_under_the_same_weights_gets_other_noise(
    plan: Plan,
) -> None:
    class Again(Acted):
        """One task for ever, which the filter drops."""

        noise: list[tuple[int, int]]

        async def draw(self, n: int) -> Sequence[DrawnTask]:
            return [DrawnTask(TASKS[0], 0)] * n

        async def group(self, task: Task, visit: int = 0, wrapper: Wrapper | None = None) -> Group:
            self.noise.append((self.version, visit))
            return await super().group(task, visit)

    acted = Again(plan, lambda i: False)
    acted.noise = []
    assert [len(batch) for batch in played(acted, 2)] == [4, 4]
    assert len(set(acted.noise)) == len(acted.noise) >= 8
    assert (0, 0) in acted.noise and (1, 0) in acted.noise


def test_a_group_that_is_out_over_an_update_shares_its_noise_with_none() -> None:
    """It may begin only then, under the same weights as the next group of its task."""
    visits = list[int]()

    class Waits(Acted):
        async def group(self, task: Task, visit: int = 0, wrapper: Wrapper | None = None) -> Group:
            visits.append(visit)
            return await asyncio.get_running_loop().create_future()

    async def go() -> None:
        schedule = Waits(Plan(1, staleness=1)).schedule
        for number in (0, 0, 1):
            schedule.roll_out([DrawnTask(TASKS[number], 0)])
            await asyncio.sleep(0)
            with schedule.updating():
                pass
        await schedule.close()

    asyncio.run(go())
    assert visits == [0, 1, 0]


def chance(share: float) -> Callable[[int], bool]:
    drawn = random.Random(share)
    fixed = [drawn.random() < share for _ in TASKS]
    return fixed.__getitem__


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_on_policy_pipelines_make_the_batches_of_rounds(share: float) -> None:
    """Without more depth than is needed; with it, more that pass join, and none is older."""

    def takes(number: int) -> float:
        return 0.001 * (number * 7 % 5)

    rounds = played(Acted(Plan(4, redraw=99), chance(share), takes), 6)
    streamed = Acted(Plan(4, redraw=99, rounds=False), chance(share), takes)
    assert played(streamed, 6) == rounds
    assert [sum(map(chance(share), batch)) for batch in rounds] == [4] * 6
    deep = Acted(Plan(4, 99, rounds=False, most=64), chance(share), takes)
    batches = played(deep, 6)
    assert list(itertools.chain(*batches)) == list(range(sum(map(len, batches))))
    assert all(sum(map(chance(share), batch)) >= 4 for batch in batches)
    assert all(deep.began[i] == number for number, batch in enumerate(batches) for i in batch)


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize(("share", "redraw"), [(1.0, 0), (0.6, 0), (0.6, 9), (0.15, 30)])
def test_no_group_is_older_than_allowed_nor_overtaken_nor_lost(
    staleness: int, share: float, redraw: int
) -> None:
    rng = random.Random(staleness)
    seconds = [rng.expovariate(1000) for _ in TASKS]
    plan = Plan(3, redraw, rounds=False, staleness=staleness, most=40, last=9)
    acted = Acted(plan, chance(share), seconds.__getitem__, update=0.002)
    batches = played(acted, 9)
    assert len(batches) == 9
    flat = list(itertools.chain(*batches))
    assert flat == list(range(len(flat))) == acted.scored[: len(flat)]
    for number, batch in enumerate(batches):
        assert all(0 <= number - acted.began[i] <= staleness for i in batch)
        counted = sum(map(chance(share), batch)) if redraw else len(batch)
        assert counted >= 3 or len(batch) >= plan.limit
    assert len(acted.began) == len(flat) + acted.unused
    if redraw == 0:
        assert [len(batch) for batch in batches] == [3] * 9 and acted.unused == 0


@pytest.mark.slow
def test_groups_are_played_while_an_update_runs_only_with_staleness() -> None:
    for staleness in (0, 1):
        plan = Plan(4, rounds=False, staleness=staleness, last=6)
        acted = Acted(plan, takes=lambda i: 0.01, update=0.03)
        started = time.perf_counter()
        played(acted)
        spent = time.perf_counter() - started
        assert (acted.beside > 0) is (staleness > 0)
        assert spent > (0.19 if staleness else 0.24) - 0.01


def test_the_depth_follows_the_acceptance() -> None:
    """Off: as many as a step asks for. On: so many that enough of them will pass."""
    most: dict[bool, int] = {}
    for adaptive in (False, True):
        plan = Plan(4, 40, rounds=False, staleness=1, most=64 * adaptive, last=6)
        acted = Acted(plan, chance(0.1), lambda i: 0.002)
        played(acted)
        most[adaptive] = acted.most_playing
    assert most[False] == 8 and 32 <= most[True] <= 64


def test_tasks_may_run_out() -> None:
    for staleness in (0, 2):
        acted = Acted(Plan(4, rounds=False, staleness=staleness), tasks=10)
        assert [len(batch) for batch in played(acted)] == [4, 4, 2]
        assert acted.unused == 0


def test_what_is_remembered_is_what_was_scored_up_to_the_batch() -> None:
    acted = Acted(Plan(4, rounds=False, staleness=2, last=4), update=0.01)
    batches = asyncio.run(acted.play(4))
    assert [batch.rewards_state for batch in batches] == [list(range(4 * n)) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("staleness", [0, 1])
def test_an_error_of_any_group_is_raised_at_once(staleness: int) -> None:
    class Broken(Acted):
        async def group(self, task: Task, visit: int = 0, wrapper: Wrapper | None = None) -> Group:
            if NUMBER[task.id] == 6:
                raise EnvError("away")
            return await super().group(task, visit)

    acted = Broken(Plan(4, rounds=False, staleness=staleness), takes=lambda i: 300.0 * (i == 4))
    started = time.perf_counter()
    with pytest.raises(EnvError, match="away"):
        asyncio.run(acted.play(9))
    assert time.perf_counter() - started < 60


def test_an_error_of_the_update_is_raised_and_nothing_hangs() -> None:
    class Broken(Acted):
        def work(self) -> None:
            raise ValueError("not finite")

    acted = Broken(Plan(4, rounds=False, staleness=1), takes=lambda i: 0.01)

    async def run() -> None:
        with pytest.raises(ValueError, match="not finite"):
            await acted.play(3)
        await acted.schedule.close()
        assert acted.playing == 0 or len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.slow
def test_the_meters_say_who_waits() -> None:
    def shares(takes: float, update: float) -> tuple[float, float]:
        plan = Plan(4, rounds=False, staleness=1, last=5)
        batches = asyncio.run(Acted(plan, takes=lambda i: takes, update=update).play(5))
        last: dict[str, Any] = batches[-1].metrics
        assert last["staleness_max"] == 1 and last["acceptance"] == 1.0
        return last["idle_rollout"], last["idle_update"]

    rollout, update = shares(0.001, 0.25)
    assert rollout > 0.7 and update < 0.3
    rollout, update = shares(0.25, 0.001)
    assert rollout < 0.3 and update > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1])
def test_an_evaluation_between_updates_is_in_no_meter(staleness: int) -> None:
    plan = Plan(4, rounds=False, staleness=staleness, last=2)
    acted = Acted(plan, takes=lambda i: 0.2, update=0.001)

    async def play() -> list[RolloutBatch]:
        batches: list[RolloutBatch] = []
        for _ in range(2):
            with acted.schedule.unmeasured():
                await asyncio.sleep(4.0)  # groups in flight end meanwhile
            batch = await acted.batch()
            assert batch is not None
            batches.append(batch)
            await acted.train()
        await acted.schedule.close()
        return batches

    for batch in asyncio.run(play()):
        meters: dict[str, Any] = batch.metrics
        assert batch.seconds < 3.6
        assert staleness or meters["idle_rollout"] < 0.5


def test_in_lockstep_all_generate_and_then_tools_run_one_by_one() -> None:
    did: list[tuple[str, int]] = []
    lockstep = Lockstep()

    async def episode(number: int) -> None:
        async with lockstep.member():
            did.append(("open", number))
            for _ in range(1 + number):
                await lockstep.generating()
                did.append(("generate", number))
                await asyncio.sleep(0.001 * (3 - number))
                await lockstep.working()
                did.append(("work", number))
                await asyncio.sleep(0.001)
                did.append(("worked", number))

    async def all_of_them() -> None:
        await asyncio.gather(*map(episode, range(3)))

    asyncio.run(all_of_them())
    words = [what for what, _ in did]
    assert words[:3] == ["open"] * 3
    rest = [what for what, _ in did[3:]]
    for count in (3, 2, 1):
        assert rest[: 3 * count] == ["generate"] * count + ["work", "worked"] * count
        rest = rest[3 * count :]
    assert not rest


def test_an_episode_that_is_cancelled_holds_nobody_up() -> None:
    async def run() -> int:
        lockstep, ended = Lockstep(), 0

        async def episode(number: int) -> None:
            nonlocal ended
            async with lockstep.member():
                await lockstep.generating()
                await asyncio.sleep(0.001)
                await lockstep.working()
                if number == 0:
                    working.set()
                    await asyncio.Event().wait()
                await asyncio.sleep(0.001)
            ended += 1

        tasks, working = [asyncio.create_task(episode(i)) for i in range(6)], asyncio.Event()
        await working.wait()
        for task in (tasks[0], tasks[3]):  # one that works, one that waits
            task.cancel()
        await asyncio.wait(tasks, timeout=60)
        return ended

    assert asyncio.run(run()) == 4

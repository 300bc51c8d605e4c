"""Deadlines of worlds, and worlds that hang."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

import pytest

from rods.assemble.refusals import require_interruptible
from rods.config import EvaluationSettings, load_config
from rods.envs import make_environment
from rods.errors import ConfigError, EnvError
from rods.evaluation.suite import evaluate_tasks
from rods.policy import Completion
from rods.rollout import owner
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.owner import Late, Owner, hanging
from rods.task import Task
from rods.trajectory import Group
from rods.types import Json, StopReason, ToolCall
from rollout_cases import DIALECT, TEMPLATE, play, play_groups, script, settings
from waits import until
from worlds import NotesEnvironment, NotesWorld, notes_task

TASK = notes_task([("add two", [ToolCall("add", {"amount": 2})]), ("and more", [])])


class Hanging(NotesEnvironment):
    """The first worlds hang in a call until they are let go."""

    def __init__(self, first: int) -> None:
        self.let_go = threading.Event()

        def broken(task: object, number: int) -> None:
            if number < first:
                self.let_go.wait(120)

        super().__init__(broken, blocking=True)  # type: ignore[arg-type]


def test_a_call_that_hangs_is_given_up_and_tried_in_a_fresh_world() -> None:
    environment = Hanging(1)
    started, before = time.perf_counter(), hanging()
    trajectory = play(
        TASK, script("[add(amount=2)]", "ok", "ok"), environment, worlds={"call_seconds": 0.5}
    )
    assert time.perf_counter() - started < 60
    assert trajectory.stop is StopReason.DONE and trajectory.valid
    assert environment.opened[TASK.id] == 2 and hanging() == before + 1
    environment.let_go.set()
    until(lambda: hanging() == before)  # a call that ends is not counted any more
    until(lambda: environment.worlds[0].closed == 1)  # its world is closed by its own thread


class Opened:
    """A world that only counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        assert not self.closed.is_set()
        self.closed.set()


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_world_that_opens_when_nobody_waits_any_more_is_closed(cancelled: bool) -> None:
    go, world = threading.Event(), Opened()

    def open_late() -> Any:
        go.wait(120)
        return world

    async def give_up() -> None:
        mine = Owner(True, math.inf if cancelled else 0.05)
        opening = asyncio.create_task(mine.opening(open_late))
        if cancelled:
            await asyncio.sleep(0.05)
            opening.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else Late):
            await opening
        mine.close(None)

    asyncio.run(give_up())
    assert not world.closed.is_set()
    go.set()
    assert world.closed.wait(120)


def test_worlds_that_hang_hold_up_neither_the_others_nor_the_end() -> None:
    environment = Hanging(6)
    policy = script("[add(amount=2)]", "ok", "ok")
    started = time.perf_counter()
    [group] = play_groups([TASK], policy, environment, k=8, worlds={"call_seconds": 1.0})
    assert time.perf_counter() - started < 60
    assert all(t.valid for t in group.trajectories)  # all were tried again
    environment.let_go.set()


def test_a_call_that_hangs_twice_is_invalid_and_says_so() -> None:
    environment = Hanging(2)
    trajectory = play(TASK, script("[total()]"), environment, worlds={"call_seconds": 0.05})
    assert (trajectory.stop, trajectory.valid) == (StopReason.FAILURE, False)
    assert "rollout.worlds.call_seconds = 0.05" in str(trajectory.failure)
    environment.let_go.set()


def test_too_many_that_hang_stop_the_run(monkeypatch: Any) -> None:
    environment = Hanging(2)
    monkeypatch.setattr(owner, "MOST_HANGING", 1)
    monkeypatch.setattr(owner, "_hanging", set())
    with pytest.raises(EnvError, match=r"rollout\.worlds\.processes"):
        play(TASK, script("[total()]"), environment, worlds={"call_seconds": 0.05})
    environment.let_go.set()


@pytest.mark.slow
def test_a_call_that_hangs_does_not_hold_up_the_end_of_the_program() -> None:
    code = """
import asyncio, time
from rods.envs import make_environment
from rods.errors import ConfigError, EnvError
from rods.rollout.owner import Late, Owner

async def run():
    owner = Owner(True, 0.1)
    try:
        await owner(time.sleep, 60)
    except Late:
        print("late")
    owner.close(None)

asyncio.run(run())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "late\n"


def test_a_judge_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "LONGEST_REPLY", 0.1)
    let_go = threading.Event()

    async def ask() -> None:
        world = Owner(True, 9.0)
        assert await world.unhurried(lambda: "well") == "well"
        try:
            with pytest.raises(EnvError, match=r"the user model has not answered after 0\.1 s"):
                await world.unhurried(let_go.wait)
            assert world.spent == 0
        finally:
            let_go.set()
            world.close(None)

    asyncio.run(ask())


def test_to_open_a_world_is_no_call() -> None:
    class Starting(NotesEnvironment):
        def open(self, task: Any) -> Any:
            time.sleep(0.6)
            return super().open(task)

    trajectory = play(
        TASK, script("[add(amount=2)]", "ok", "ok"), Starting(blocking=True),
        worlds={"call_seconds": 0.5},
    )  # fmt: skip
    assert trajectory.valid


class Few(NotesEnvironment):
    """Two worlds at once; who wants a third waits for one, as for a process."""

    capacity = 2

    def __init__(self) -> None:
        super().__init__(blocking=True)
        self.free: SimpleQueue[None] = SimpleQueue()
        for _ in range(2):
            self.free.put(None)

    def open(self, task: Task) -> NotesWorld:
        self.free.get()
        world = FewWorld(self, task, self.opened[task.id])
        world.free = self.free
        return world


class FewWorld(NotesWorld):
    free: SimpleQueue[None]

    def close(self) -> None:
        super().close()
        if self.closed == 1:
            self.free.put(None)


class Slow:
    """Answers at once, after a while."""

    version = 0

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Any:
        session = script("ok", "ok").open(seed)
        generate = session.generate

        async def later(*arguments: Any, **options: Any) -> Completion:
            await asyncio.sleep(0.1)
            return await generate(*arguments, **options)

        session.generate = later  # type: ignore[method-assign]
        return session


@pytest.mark.slow
def test_an_evaluation_beside_groups_in_flight_takes_no_worlds_seconds() -> None:
    """16 episodes of 0.2 s want two worlds: to wait for one is not a world's time."""
    environment, policy = Few(), Slow()
    rollout = settings(k=4, seconds=0.25)

    async def both() -> tuple[list[Group], list[dict[str, Json]], bool]:
        context = RolloutContext(environment, policy, DIALECT, TEMPLATE, rollout)
        player = RolloutRunner(context, 4)
        training = [asyncio.create_task(player.group(TASK, visit)) for visit in range(2)]
        await asyncio.sleep(0)
        rows = await evaluate_tasks([TASK], EvaluationSettings(samples=7), context)
        first = all(task.done() for task in training)
        return [await task for task in training], rows, first

    groups, [row], first = asyncio.run(both())
    assert [t.failure for group in groups for t in group.trajectories] == [None] * 8
    assert row["invalid"] == 0
    assert first, "who came first was served first"


def test_errors_of_a_world_are_its_callers() -> None:
    async def run() -> None:
        world = Owner(True, 9.0)
        with pytest.raises(ZeroDivisionError):
            await world(divmod, 1, 0)
        assert await world(divmod, 7, 2) == (3, 1)
        world.close(None)

    asyncio.run(run())


def test_a_deadline_that_could_end_no_call_is_refused() -> None:
    config = load_config("rods", "small", ["rollout.worlds.call_seconds=2"])
    blocking = NotesEnvironment()
    blocking.blocking = True
    require_interruptible(config, blocking)
    require_interruptible(load_config("rods", "small"), NotesEnvironment())
    with pytest.raises(ConfigError, match=r"rollout\.worlds\.call_seconds = 2 has no effect"):
        require_interruptible(config, NotesEnvironment())


@pytest.mark.parametrize(("seconds", "refused"), [(2.0, True), (1.5, False)])
@pytest.mark.parametrize("name", ["python_tool", "repo"])
def test_a_deadline_that_a_policy_could_miss_by_sleeping_is_refused(
    name: str, seconds: float, refused: bool
) -> None:
    config = load_config("rods", "small", ["rollout.worlds.call_seconds=2"])
    environment = make_environment(name, {"seconds": seconds})
    if not refused:
        require_interruptible(config, environment)
        return
    with pytest.raises(ConfigError, match="a program of the policy may run for 2 s"):
        require_interruptible(config, environment)

"""Groups that are played ahead of the updates of a host, in a thread of their own.

Owns that thread and what passes between it and the host's: batches one way, weights the other.
Which groups meet in an update and how old they may be is `rods.rollout.schedule`'s business; they
are judged when the host takes them, so that a checkpoint knows of nothing that was not trained on.
Never updates, and knows no host.

    ahead = Ahead(run, plan, step=0)
    ahead.hand_over(weights)                  # those to begin with
    ahead.start()
    batch = ahead.take(timeout=5.0)           # an update's groups
    ahead.hand_over(weights)                  # after the update
    ahead.stop()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Queue
from typing import NamedTuple

from rods.errors import TrainError
from rods.policy import Weights
from rods.reward import Score
from rods.rollout.schedule import Batch, Drawn, Plan, Schedule, require_beside
from rods.trainers.hosted import Dealt, HostedRun
from rods.trajectory import Group
from rods.types import Json

_Played = Batch[None]


class Judged(NamedTuple):
    """The groups of one update."""

    groups: list[Group]
    scores: list[list[Score]]
    meters: dict[str, Json]
    """What the schedule saw since the last one."""


class _Stopped(Exception):
    """The host wants no more."""


class Ahead:
    """Plays what a host will train on next while it trains."""

    def __init__(self, run: HostedRun, plan: Plan, step: int) -> None:
        """Play nothing yet; `step` updates were made before.

        Raises:
            ConfigError: the engine cannot play while an update runs, and the plan wants it.
        """
        require_beside(run.engine, plan)
        self._run, self._version = run, step
        self._schedule = Schedule(_Feed(run), run.player(plan.groups), plan, step)
        self._batches: Queue[_Played | None] = Queue()
        """None: there are no more."""
        self._next: _Played | None = None
        """Was looked at and not taken."""
        self._offered: Queue[Weights | None] = Queue()
        """None: the host wants no more."""
        self._received: Queue[bool] = Queue()
        """Whether weights that were offered are the engine's now."""
        self._failed: BaseException | None = None
        self._stopping = False
        self._weights: Weights | None = None
        self._playing: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    # -- the host's thread ------------------------------------------------------------------

    def start(self) -> None:
        """Begin to play; the engine has its weights."""
        self._thread = threading.Thread(target=self._main, name="rods-ahead", daemon=True)
        self._thread.start()

    def take(self, timeout: float | None = None) -> Judged:
        """The groups of the next update, judged now.

        Raises:
            queue.Empty: they are not played yet.
            TrainError: all stages are played.
        """
        batch = self._next or self._batches.get(timeout=timeout)
        self._next = None
        if batch is None:
            self._batches.put(None)
            self.require_alive()
            raise TrainError("all stages are played: there is no task left to draw.")
        drawn = [played.drawn for played in batch.played]
        dealt = [Dealt(d.task, d.epoch, 0, d.layer is not None) for d in drawn]
        groups = [played.group for played in batch.played]
        return Judged(groups, self._run.judge(dealt, groups), batch.meters)

    def hand_over(self, weights: Weights) -> None:
        """Give the engine weights: those to begin with, then once after each update.

        Returns when they are not read any more. What is in flight goes on under them.
        """
        if self._thread is None:
            self._run.drive(self._run.hand_over(weights, self._version))
            return
        self._offered.put(weights)
        if not self._received.get():
            self._received.put(False)
            self.require_alive()

    @property
    def over(self) -> bool:
        """Whether no update follows; known at once but after the last draw of all stages."""
        if self._next is None and self._run.over:
            self._next = self._batches.get()
            if self._next is None:
                self._batches.put(None)
                return self._failed is None
        return False

    def require_alive(self) -> None:
        """Raise what stopped the playing, if anything did."""
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """End what is played. May be called more than once."""
        if self._thread is None:
            return
        self._stopping = True
        self._offered.put(None)
        playing = self._playing
        if playing is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has ended by itself
                playing.get_loop().call_soon_threadsafe(playing.cancel)
        self._thread.join()

    # -- the thread that plays --------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._run.drive(self._play())
        except _Stopped:
            pass
        except asyncio.CancelledError as error:
            self._failed = None if self._stopping else error
        except BaseException as error:  # noqa: BLE001 (raised again in the host's thread)
            self._failed = error
        finally:
            self._batches.put(None)
            self._received.put(False)

    async def _play(self) -> None:
        self._playing = asyncio.current_task()
        try:
            while (batch := await self._schedule.batch()) is not None:
                if not self._schedule.beside:
                    await self._run.engine.sleep()
                self._batches.put(batch)
                await self._schedule.update(self._wait, self._hand_over)
        finally:
            await self._schedule.close()

    def _wait(self) -> None:
        """The update: it is the host's, and ends with its weights."""
        self._weights = self._offered.get()

    async def _hand_over(self) -> None:
        if self._weights is None:
            raise _Stopped
        self._version += 1
        await self._run.hand_over(self._weights, self._version)
        self._received.put(True)


class _Feed:
    """What the schedule asks of the run."""

    def __init__(self, run: HostedRun) -> None:
        self._run = run

    async def draw(self, n: int) -> Sequence[Drawn]:
        """The next tasks of the curriculum."""
        if self._run.over:
            return []
        # An epoch's start may wait for synthesis, which must not hold up what is played.
        dealt = await asyncio.to_thread(self._run.deal, n, 0)
        return [Drawn(d.task, d.epoch, self._run.layer(d)) for d in dealt]

    def score(self, drawn: Drawn, group: Group) -> tuple[None, bool]:
        """Nothing: `Ahead.take` judges."""
        return None, True

    def remembered(self) -> Json:
        """Nothing: the run remembers what was judged."""
        return None

"""Callers of a world: inline, or the one thread that owns it. Deadlines and what hangs.

Owns the seconds that a world takes, the deadlines of call, turn and episode, and the threads of
worlds that block. A thread that waits cannot be ended: one whose call goes on after its deadline is
left alone, counted, and gone when the call ends. It never holds up other worlds nor the end of the
program. Worlds in processes of their own are ended instead (`rollout.worlds.processes`).

    owner = Owner(environment.blocking, seconds=600.0)
    world = await owner.opening(lambda: environment.open(task))
    owner.close(world)
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from rods.abilities import ability
from rods.env import World
from rods.errors import EnvError
from rods.infra.interrupt import shown, unless_ctrl_c

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound=World)

MOST_HANGING = 1024
"""Threads that may be left alone in calls that do not end; one more stops the run."""

LONGEST_REPLY = 1800.0
"""Seconds after which a judge or a simulated user is taken to hang. Clients of servers have
deadlines of their own, which are shorter; this one holds for any code."""


class Late(Exception):
    """The world has used up its seconds in a call that goes on."""


@runtime_checkable
class Cancels(Protocol):
    """A world whose running call can be cancelled from another thread."""

    def cancel(self) -> None:
        """Cancel the call that runs."""


class _Thread:
    """Runs functions in order on one thread, which holds up nothing at the program's end."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="world", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._work.put((function, future))
        return future

    def interrupt(self) -> None:
        """Raise SystemExit in the Python code that runs; a call into C first returns."""
        ident = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))

    def end(self) -> None:
        """End after what was submitted."""
        self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            function, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 (a world's; the waiting call raises it)
                future.set_exception(error)
            del item, function, future  # a world must not outlive its trajectory here


def _contained(method: Callable[[], T]) -> T:
    """Call a world; its code may end itself, but not the program."""
    try:
        return method()
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        unless_ctrl_c(error)
        raise EnvError(f"its world raised {shown(error)}") from error


_hanging: set[Future[Any]] = set()


def hanging() -> int:
    """Calls of worlds that nobody waits for any more and that have not ended."""
    return len(_hanging)


class Owner:
    """Calls into one world and counts their seconds."""

    def __init__(
        self,
        blocking: bool,
        seconds: float,
        call_seconds: float = math.inf,
        computes: bool = False,
        limit: str = "rollout.worlds.call_seconds",
    ) -> None:
        """Make the thread of a world that blocks.

        Args:
            blocking: whether the world waits for something; the deadlines hold only then.
            seconds: of all calls together.
            call_seconds: of one call.
            computes: a late call is ended.
            limit: where people set `call_seconds`.

        Raises:
            EnvError: too many worlds hang already.
        """
        if blocking and len(_hanging) >= MOST_HANGING:
            raise EnvError(
                f"{len(_hanging)} calls of worlds hang and cannot be ended, because they run in "
                "threads of this process. Give the environment's own calls a timeout, or run its "
                "worlds in processes, which are ended: rollout.worlds.processes."
            )
        self._thread = _Thread() if blocking else None
        self._seconds, self._call_seconds, self._computes = seconds, call_seconds, computes
        self._limit = limit
        self.spent = 0.0
        """Seconds that ended calls took."""

    async def __call__(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Result of a call.

        Raises:
            EnvError: the call took longer than one may.
            Late: the episode has no seconds left, and the call goes on.
        """
        return await self._within(self._call_seconds, partial(method, *args, **kwargs))

    async def opening(self, method: Callable[[], W]) -> W:
        """Run what makes the world, which is not a call: a process may have to start.

        A world that is made after nobody waits for it any more is closed at once.
        """

        def close(opened: Future[W]) -> None:
            if opened.exception() is None:
                opened.result().close()

        return await self._within(math.inf, method, close)

    async def _within(
        self,
        most: float,
        method: Callable[[], T],
        unwanted: Callable[[Future[T]], None] | None = None,
    ) -> T:

        def timed() -> T:
            started = time.perf_counter()
            try:
                return _contained(method)
            finally:
                self.spent += time.perf_counter() - started

        if self._thread is None:
            return timed()
        left = self._seconds - self.spent
        try:
            return await self._ended(self._thread.submit(timed), min(left, most), unwanted)
        except Late:
            if left <= most:
                raise
        raise EnvError(f"a call of its world took more than {self._limit} = {most:g} seconds")

    async def _ended(
        self, call: Future[T], seconds: float, unwanted: Callable[[Future[T]], None] | None = None
    ) -> T:
        """Result of a call; raises Late, and leaves it alone, where it takes longer."""
        done = asyncio.wrap_future(call)
        try:
            # `asyncio.timeout` would cancel a call that ended while the engine held the loop.
            await asyncio.wait({done}, timeout=max(0.0, seconds))
            if done.done():
                return done.result()
        finally:
            if not done.done() or done.cancelled():
                done.cancel()
                if not call.cancel():  # nobody waits for it any more; it is counted until it ends
                    _hanging.add(call)
                    call.add_done_callback(_hanging.discard)
                    if self._thread and self._computes:  # others may hold locks or connections
                        self._thread.interrupt()
                    if unwanted is not None:
                        call.add_done_callback(unwanted)
        raise Late

    async def unhurried(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method uncounted: this world is not at fault where others keep a judge busy.

        Raises:
            EnvError: it took so long that it hangs.
        """
        work = partial(_contained, partial(method, *args, **kwargs))
        if self._thread is None:
            return work()
        try:
            return await self._ended(self._thread.submit(work), LONGEST_REPLY)
        except Late:
            raise EnvError(
                f"the judge or the user model has not answered after {LONGEST_REPLY:g} seconds"
            ) from None

    def close(self, world: World | None) -> None:
        """Cancel a call that hangs, if it can be, and close the world without waiting for it."""
        if cancels := ability(world, Cancels):
            cancels.cancel()
        close = world.close if world is not None else lambda: None
        if self._thread is None:
            return close()
        self._thread.submit(close)
        self._thread.end()

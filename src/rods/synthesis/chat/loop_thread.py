"""An event loop in a thread of its own, so that any thread can hand it work.

Owns the thread and its end; nothing that was handed in outlives it. Knows nothing of the work.

    loop = LoopThread("worker")
    loop.wait(coroutine())
    loop.close()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Starts with the first work; after `close` all work counts as cancelled."""

    def __init__(self, name: str) -> None:
        """Remember the thread's name."""
        self.closed = False
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start work; its future is cancelled where the loop is closed."""
        with self._lock:
            if self.closed:
                work.close()
                future: concurrent.futures.Future[T] = concurrent.futures.Future()
                future.cancel()
                return future
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work and wait for it; raises what it raises, `CancelledError` where it was cut off."""
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()  # Ctrl-C must not leave the work running

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel all work, do the last of it, end the thread. May be called twice."""
        with self._lock:
            closed, self.closed = self.closed, True
        if closed or self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(_finish(last), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _finish(last: Callable[[], Awaitable[None]] | None) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if last:
        await last()

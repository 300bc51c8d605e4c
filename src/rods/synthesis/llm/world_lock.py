"""One thread at a time works in worlds; while it waits for a server, another one may.

The benchmark's classes share state in their libraries, so worlds must not run in two threads at
once. Owns that rule. Never starts a thread.

    with lock:
        ...                       # worlds at work
        with lock.released():
            reply = server()      # others work meanwhile
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class WorldLock:
    """A lock that knows its holder, so that the holder can release it while it waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> WorldLock:
        self._lock.acquire()
        self._holder = threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()

    @contextmanager
    def released(self) -> Generator[None]:
        """Give it up until the block ends; nothing happens in a thread that does not hold it."""
        if self._holder != threading.get_ident():
            yield
            return
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

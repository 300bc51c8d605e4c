"""Turns among threads: so many at once, and whoever came first is next.

A semaphore of the standard library lets a thread that gives its place back take it again before
those who wait; on a busy machine some wait for most of a minute.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Self


class FairPlaces:
    """`count` places; a place that becomes free is handed to the first who waits."""

    def __init__(self, count: int) -> None:
        self._lock, self._free = threading.Lock(), count
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> Self:
        mine = threading.Lock()
        with self._lock:
            if self._free:
                self._free -= 1
                return self
            mine.acquire()
            self._waiting.append(mine)
        handed = False
        try:
            handed = mine.acquire()
        finally:
            if not handed:  # Ctrl-C while it waited
                self._leave(mine)
        return self

    def _leave(self, mine: threading.Lock) -> None:
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

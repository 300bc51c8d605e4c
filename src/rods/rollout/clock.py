"""A clock of one side of a schedule: how long rollouts, or updates, were busy.

clock.enter()
clock.leave()
clock.take()                    # seconds
"""

from __future__ import annotations

import time


class BusyClock:
    """Seconds in which a side was busy."""

    def __init__(self) -> None:
        self._busy, self._spent, self._since = 0, 0.0, 0.0
        self._stopped = False

    def enter(self) -> None:
        """Count one more that is busy."""
        self._count()
        self._busy += 1

    def leave(self) -> None:
        """Count one less."""
        self._count()
        self._busy -= 1

    def stop(self, stopped: bool) -> None:
        """Stop or continue the clock, even if trainer or engine is busy."""
        self._count()
        self._stopped = stopped

    def take(self) -> float:
        """Seconds since the last call in which somebody was busy."""
        self._count()
        spent, self._spent = self._spent, 0.0
        return spent

    def _count(self) -> None:
        now = time.perf_counter()
        if self._busy and not self._stopped:
            self._spent += now - self._since
        self._since = now

"""Waits for what a busy machine does later: until it holds, never for a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    """Return as soon as it holds; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it does not hold after {seconds:g} seconds"
        time.sleep(0.005)


def running(function: str) -> bool:
    """True if a thread of this process runs a function of this name."""
    return any(thread.name.endswith(f" ({function})") for thread in threading.enumerate())

"""Ctrl-C that waits for a safe place. Owns the signal while a loop runs, and gives it back.

with ctrl_c() as stopped:
    while not stopped(): ...
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ctrl_c() -> Generator[Any]:
    """The first Ctrl-C asks for a stop at the step boundary, the second one stops at once."""
    pressed: list[int] = []

    def note(number: int, _frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    former = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, former)

"""Lines about what takes long, on standard error, where nothing else shows that work goes on.

with waiting("loading the model") as begin:
    ...
    begin("starting the worker")
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rods.infra.text import wrapped

QUIET = 15.0
"""Seconds after which a command without a terminal states what it does."""


@contextmanager
def waiting(what: str) -> Generator[Callable[[str], None]]:
    """State every `QUIET` seconds what goes on; yields a function that changes the text."""
    now, left, began = [what], threading.Event(), time.monotonic()

    def watch() -> None:
        while not left.wait(QUIET):
            sys.stderr.write(wrapped(f"{now[0]}, {time.monotonic() - began:.0f} s so far") + "\n")

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield lambda text: now.__setitem__(0, text)
    finally:
        left.set()

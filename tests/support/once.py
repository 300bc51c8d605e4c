"""A folder that one worker makes, and that the tests of every other worker read.

    folder = made_once(tmp_path_factory, "site", build)

It never changes a folder that is complete: who needs another one copies it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` of this session, which `make` fills; after an error it is made again."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    complete = base / f"{name}.complete"
    with (base / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            folder = base / name
            folder.mkdir(exist_ok=True)
            make(folder)
            complete.touch()
    return base / name

"""Calls as a cell of a notebook makes them: an event loop runs in this thread already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_cell(work: Callable[[], T]) -> T:
    """Return what a function returns within a running loop."""

    async def cell() -> T:
        return work()

    return asyncio.run(cell())

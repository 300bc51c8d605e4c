"""Results of `async def` tools."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import Any

from rods.infra.interrupt import run_to_end


class Awaiting:
    """Runs what `async def` methods give to their end, in an event loop of its own for each."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def result(self, given: object) -> Any:
        """Result of a method, awaited where it can be; what it leaves running is cancelled."""
        if not inspect.isawaitable(given):
            return given

        async def main() -> Any:
            self._task = asyncio.current_task()
            return await given

        return run_to_end(main())

    def cancel(self) -> None:
        """Cancel what is awaited, from any thread."""
        if self._task is not None and not self._task.done():
            with suppress(RuntimeError):  # its loop has ended meanwhile
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

"""How far the building of an index is: phase, share, documents a second, time left.

Owns the bar and what makes a library's loop tell where it is. Never changes what is built.

    progress = bar(Path("wiki.jsonl"), size)
    progress("reading", 0.5, 10_000)
    progress("done", 1.0, 20_000)
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PASSES = 3
"""How often bm25s goes over all documents: lengths, frequencies, scores."""
READING = 0.5
"""Share of the work that is reading and splitting into words."""


class ProgressCallback(Protocol):
    """Hears how far it is."""

    def __call__(self, phase: str, share: float, documents: int) -> None:
        """`phase`: reading, scoring, writing or done; `share`: of that phase, 0 to 1."""
        ...


def silent(phase: str, share: float, documents: int) -> None:
    """Tells nobody."""


class ReportingList(list["array[int]"]):
    """A list that tells how far those are who go through it."""

    def __init__(self, items: list[array[int]], progress: ProgressCallback):
        super().__init__(items)
        self._progress, self._passes = progress, 0

    def __iter__(self) -> Iterator[array[int]]:
        done, total = min(self._passes, PASSES - 1), PASSES * len(self)
        self._passes += 1
        for number, item in enumerate(super().__iter__()):
            if not number % 1000:
                self._progress("scoring", (done * len(self) + number) / total, len(self))
            yield item


class _Bar:
    def __init__(self, corpus: Path, size: int):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        words = f"index of {corpus.name} ({size / 2**20:,.0f} MiB)"
        self._name, self._began = words, time.monotonic()
        self._task = self._progress.add_task(words, total=1.0, rate="")
        self._progress.start()

    def __call__(self, phase: str, share: float, documents: int) -> None:
        whole = {"reading": READING * share, "scoring": READING + (1 - READING) * share}
        rate = documents / max(1e-9, time.monotonic() - self._began)
        self._progress.update(
            self._task,
            completed=whole.get(phase, 1.0),
            description=f"{self._name}, {phase}",
            rate=f"{documents:,} documents, {rate:,.0f}/s",
        )
        if phase == "done":
            self._progress.stop()


def bar(corpus: Path, size: int) -> ProgressCallback:
    """A bar on standard error until it hears of the phase "done"."""
    return _Bar(corpus, size)

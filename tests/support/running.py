"""Processes of this machine, any of which may end while a test looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process, as /proc describes it."""

    words: list[str]
    """Its command; empty for a zombie."""
    state: str
    """A letter: `Z` is a zombie."""
    parent: int


def process(pid: int) -> Process | None:
    """A process, if it still runs."""
    folder = Path(f"/proc/{pid}")
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace")
        state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:  # no such file, or no such process
        return None
    return Process(words.split("\0"), state, int(parent))


def processes() -> dict[int, Process]:
    """All that run, by their numbers."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return {pid: found for pid in pids if (found := process(pid))}

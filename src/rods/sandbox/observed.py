"""Observation of a command while it runs: what it writes, whom it started, what they hold.

Owns reading that. Never ends anything, and knows no limit but that of a text; standard library
only, since `keeper` runs by itself.

    output = Output(descriptor, most=65_536)
    sum(map(memory, descendants(os.getpid(), 64)))
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""State in /proc of a process that has just ended."""
PIPE, OTHER = 16 * os.sysconf("SC_PAGE_SIZE"), 32 << 10
"""Bytes of a full pipe; bytes that count for an epoll, eventfd and the like."""
MAPPING = 4  # Bytes of the kernel's that count for a byte of the list of mappings


class Output:
    """Output of a command, up to a bound."""

    def __init__(self, descriptor: int, most: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor, self._most = descriptor, most
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """True if it wrote more than the bound."""
        return self._size > self._most

    @property
    def text(self) -> str:
        """Bytes that were read, cut at the bound."""
        return b"".join(self._parts)[: self._most].decode(errors="replace")

    def take(self) -> bool:
        """Read what is there; False at the end."""
        try:
            return self._read()
        except BlockingIOError:
            return True

    def drain(self) -> None:
        """Read what is left of those who have ended, or wait: less than so many reads take."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(32):
                if not self._read():
                    return

    def _read(self) -> bool:
        part = os.read(self.descriptor, 1 << 16)
        if not self.full:
            self._parts.append(part)
        self._size += len(part)
        return bool(part)


def descendants(pid: int, most: int) -> list[int]:
    """Processes that a process started, and those that they did; not all of more than `most`.

    A program that starts others without end would do so faster than they are read.
    """
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) <= most:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    children = [int(n) for n in file.read().split()]
                found += children
                waiting += children
    return found


def _threads(pid: int) -> list[str]:
    """Folders of a process's threads: its first one may have ended before the others."""
    try:
        return [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except GONE:
        return []


def memory(pid: int) -> int:
    """Bytes that a process has in memory, its page tables included."""
    for thread in _threads(pid):
        with contextlib.suppress(*GONE), open(f"{thread}/status") as file:
            rows = [row.split() for row in file if row.startswith(("VmRSS:", "VmPTE:"))]
            if rows:
                return sum(int(row[1]) for row in rows) << 10
    return 0  # it has just ended


def kernel(pids: Iterable[int]) -> int:
    """Bytes that the kernel may hold for what processes opened and mapped, at most.

    What lies in the buffer of a socket or pipe is nobody's memory in `/proc`, and nobody without
    privileges can ask how much it is: each counts as if it were full. Mappings count by the length
    of their list, of which a line has 50 bytes or more.
    """
    size, known = 0, set[str]()
    for pid in pids:
        mapped = 0
        for thread in _threads(pid):
            with contextlib.suppress(*GONE):
                for name in os.listdir(f"{thread}/fd"):
                    with contextlib.suppress(*GONE):
                        known.add(os.readlink(f"{thread}/fd/{name}"))
            if not mapped:
                with contextlib.suppress(*GONE), open(f"{thread}/maps", "rb") as maps:
                    mapped = len(maps.read())
        size += MAPPING * mapped
    return size + sum(_buffers(target) for target in known)


def _buffers(target: str) -> int:
    if target.startswith("socket:"):
        return 2 * SEND
    if target.startswith("pipe:"):
        return PIPE
    return OTHER if target.startswith("anon_inode:") else 0


def _send() -> int:
    """Bytes that wait in a socket until a sender must wait; one more message goes in."""
    try:
        with open("/proc/sys/net/core/wmem_default") as file:
            return int(file.read())
    except OSError:
        return 212_992


SEND = _send()

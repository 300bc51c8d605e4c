"""What can be seen of a command while it runs: what it writes, whom it started, what they hold.

Owns reading that. Never ends anything, and knows no limit but that of a text; standard library
only, since `keeper` runs by itself.

    output = Output(descriptor, most=65_536)
    sum(map(memory, descendants(os.getpid())))
"""

from __future__ import annotations

import contextlib
import os
import select

PAGE = os.sysconf("SC_PAGE_SIZE")


class Output:
    """What a command writes, up to a bound."""

    def __init__(self, descriptor: int, most: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor, self._most = descriptor, most
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether it wrote more than the bound."""
        return self._size > self._most

    @property
    def text(self) -> str:
        """What was read, cut at the bound."""
        return b"".join(self._parts)[: self._most].decode(errors="replace")

    def take(self) -> bool:
        """Read what is there; False at the end."""
        try:
            part = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not self.full:
            self._parts.append(part)
        self._size += len(part)
        return bool(part)

    def drain(self) -> None:
        """Read what is left of those who have ended."""
        while self.take() and not self.full:
            if not select.select([self.descriptor], [], [], 0)[0]:
                return


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they did."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    children = [int(n) for n in file.read().split()]
                found += children
                waiting += children
    return found


def memory(pid: int) -> int:
    """Bytes in memory that a process has."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return 0  # it has just ended

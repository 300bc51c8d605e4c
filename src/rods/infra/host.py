"""Free memory of this machine.

host_memory() / 2**30        # GiB that processes may still take
"""

from __future__ import annotations

import os
from pathlib import Path


def host_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that the host may still give to processes, within the limit of its control group."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # all there is
    free = _counts(meminfo).get("MemAvailable:", free >> 10) << 10
    limit, used = group / "memory.max", group / "memory.current"
    if not (limit.is_file() and used.is_file()) or limit.read_text().strip() == "max":
        return free
    # What counts as used but is given back when it is needed: file cache that is idle, slabs.
    given = _counts(group / "memory.stat")
    idle = given.get("inactive_file", 0) + given.get("slab_reclaimable", 0)
    return min(free, int(limit.read_text()) - int(used.read_text()) + idle)


def _counts(path: Path) -> dict[str, int]:
    rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    return {name: int(count) for name, count, *_ in rows}

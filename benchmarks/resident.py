"""Peak of the memory that a command and all its processes hold, by kind of process.

Resident sets are added up, so libraries that processes share count in each; sampled every second.

    python benchmarks/resident.py rods train --updates 6
    ONEDNN_PRIMITIVE_CACHE_CAPACITY=1024 python benchmarks/resident.py rods train --updates 6
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter

import psutil
from shared import Options

KINDS = ("replica", "worker")
"""Modules of `rods` that run as processes of their own; anything else is the program."""


def held(root: psutil.Process) -> Counter[str]:
    """MiB by kind now; what has just ended counts no more."""
    found: Counter[str] = Counter()
    for process in (root, *root.children(recursive=True)):
        try:
            words = " ".join(process.cmdline())
            kind = next((kind for kind in KINDS if kind in words), "program")
            found[kind] += process.memory_info().rss // 2**20
        except psutil.NoSuchProcess:
            continue
    return found


QUICK = [sys.executable, "-c", "import rods.config, time; time.sleep(2)"]
"""The command of a quick run."""


def main() -> int:
    """Run the command of the command line and print."""
    parser = Options(__doc__, {})
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = options.command or (
        [sys.executable, "-c", "import rods.config, time; time.sleep(2)"] if options.quick else []
    )
    if not words:
        parser.error("name a command")
    started = time.perf_counter()
    command = subprocess.Popen(words)
    root, most = psutil.Process(command.pid), Counter[str]()
    while command.poll() is None:
        try:
            now = held(root)
        except psutil.NoSuchProcess:
            break
        most = max(most, now, key=lambda counts: counts.total())
        time.sleep(1)
    parts = ", ".join(f"{kind} {size}" for kind, size in most.items())
    print(f"{time.perf_counter() - started:.0f} s, at most {most.total()} MiB at once ({parts})")
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())

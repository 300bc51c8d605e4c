"""Memory that a process holds."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

HELD = """
import os
from pathlib import Path
from rods.infra.host import give_back

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

blocks = [b"x" * (64 << 10) for _ in range(3_000)]  # in the heap, which shrinks from its end alone
for block in range(len(blocks) - 1):
    blocks[block] = b""
before = held()
give_back()
kept = held()
give_back(least=0)
print(before, kept, held())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not glibc")
def test_what_the_c_library_keeps_of_freed_memory_is_given_back() -> None:
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, env=environment
    )
    before, kept, after = map(int, done.stdout.split())
    assert before > 180 and after < before - 150
    assert kept > before - 20, "so little stays, because an update takes it again"

"""Freed memory goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from rods.infra.heap import SIZE, return_blocks

BLOCKS, BYTES = 100, 2 * SIZE
PROGRAM = f"""
import os
import sys
from pathlib import Path
from rods.infra.heap import return_blocks
if sys.argv[1] == "yes":
    assert return_blocks()
bytearray({BYTES} + 4096)  # freed: glibc takes this size from its heap from now on
blocks = [bytearray(b"x" * {BYTES}) for _ in range({BLOCKS})]
last = bytearray(b"x" * {BYTES})  # above all the others: no end of the heap can be cut off
blocks.clear()
pages = Path("/proc/self/statm").read_text().split()[1]
print(int(pages) * os.sysconf("SC_PAGE_SIZE"))
"""


def _resident(returned: str) -> int:
    command = [sys.executable, "-c", PROGRAM, returned]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_blocks_go_back_to_the_system() -> None:
    kept, returned = _resident("no"), _resident("yes")
    assert kept - returned > BLOCKS * BYTES / 2


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not return_blocks()

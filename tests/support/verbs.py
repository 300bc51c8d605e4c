"""The program within this process: `rods WORDS`, and the status with which it would exit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rods.cli import main as program

HOLD = """
import sys
from pathlib import Path
from rods.infra.claims import claimed
with claimed(Path(sys.argv[1]), "file", "folder"):
    print("held", flush=True)
    sys.stdin.read()
"""


def rods(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Exit status of `rods WORDS`."""
    monkeypatch.setattr(sys, "argv", ["rods", *words])
    try:
        program.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes a path."""
    words, pipe = [sys.executable, "-c", HOLD, str(path)], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.stdin.close()

"""A program that does not outlive the one that started it, however that one ends.

What starts it holds one end of a pipe, which the kernel closes even
after a SIGKILL; this file runs as a small program at the other end, and then ends its whole
session: SIGTERM, `GRACE` seconds, SIGKILL. It imports nothing from RODS, so it starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

GRACE = 10.0  # seconds between asking and ending


def leashed(command: Sequence[str]) -> list[str]:
    """The command under a leash: start it with a pipe as its input, in a session of its own.

    It ends with the exit status of `command`; 128 and the signal's number where one ended that.
    """
    return [sys.executable, "-I", "-S", __file__, *command]


def main() -> int:
    """Run the command of the command line until it ends, or until the input does."""
    # A handler, not SIG_IGN, which the command would inherit: the signal is meant for it.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    cut = threading.Event()
    threading.Thread(target=_watch, args=(cut,), daemon=True).start()
    code = child.wait()
    if cut.is_set():
        os.killpg(0, signal.SIGKILL)  # what it started may be left
    return code if code >= 0 else 128 - code


def _watch(cut: threading.Event) -> None:
    """When nobody holds the other end any more, end all that runs here."""
    while os.read(0, 1024):
        pass
    cut.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

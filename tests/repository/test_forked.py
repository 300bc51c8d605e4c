"""The helper that forks programs for tests: one that is interrupted spoils no later one."""

from __future__ import annotations

import functools
import os
import signal
import threading
from pathlib import Path

import pytest

import forked


class Interrupted(BaseException):
    """As `pytest-timeout` raises it, from a signal's handler."""


@pytest.mark.slow
def test_a_program_that_a_timeout_interrupts_gives_no_answer_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "IMPORTED", "import sys")  # the usual ones take ten seconds
    monkeypatch.setattr(forked, "_server", functools.cache(forked._start))
    (tmp_path / "long.py").write_text("import time\ntime.sleep(5)\n")
    (tmp_path / "short.py").write_text("import sys\nprint('mine')\nsys.exit(3)\n")

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)  # pytest-timeout has the alarm
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Interrupted):
            forked.run([str(tmp_path / "long.py")], tmp_path)
    finally:
        signal.signal(signal.SIGUSR1, before)
    done = forked.run([str(tmp_path / "short.py")], tmp_path)
    assert (done.returncode, done.stdout) == (3, "mine\n")

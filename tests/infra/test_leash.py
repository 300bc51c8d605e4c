"""A program on a leash ends with the one that started it, SIGKILL included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rods.infra import leash

STUBBORN = """
import os, signal, sys, time
from pathlib import Path
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(60)
"""
"""A server and a helper of it that hears no SIGTERM; both leave their number in a folder."""
STARTS = """
import subprocess, sys, time
from rods.infra.leash import leashed
subprocess.Popen(leashed(sys.argv[1:]), stdin=subprocess.PIPE, start_new_session=True)
time.sleep(60)
"""


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def lives(number: str) -> bool:
    """Whether a process of this number runs; one that nobody has asked for its end does not."""
    try:
        stat = Path("/proc", number, "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", STARTS, sys.executable, "-c", STUBBORN, str(tmp_path)]
    starter = subprocess.Popen(words)
    try:
        assert until(lambda: len(os.listdir(tmp_path)) == 2)
        both = os.listdir(tmp_path)
        assert all(map(lives, both))
        starter.send_signal(signal.SIGKILL)
        assert until(lambda: not any(map(lives, both)), leash.GRACE + 10)
    finally:
        starter.kill()
        starter.wait()


@pytest.mark.parametrize(("program", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_status_is_the_programs_own(program: str, status: int) -> None:
    words = leash.leashed(["sh", "-c", program])
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert process.wait(20) == status


def test_a_signal_to_the_session_is_the_programs(tmp_path: Path) -> None:
    """As the engine ends its server: the program may tidy up."""
    program = f"trap 'touch {tmp_path}/tidy; exit 0' TERM; touch {tmp_path}/up; sleep 60 & wait"
    words = leash.leashed(["sh", "-c", program])
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert until((tmp_path / "up").exists)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(20) == 0 and (tmp_path / "tidy").exists()

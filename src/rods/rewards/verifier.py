r"""math-verify, asked in processes of its own, so that no answer can stop or slow down a training.

Owns how many such processes there are, when they start and end, and what becomes of a question that
exceeds their bounds (`verifier_process.py` keeps these). Never judges by itself.

    ask("x^2+x", "x(x+1)")                              # "right"
    ask("1", r"\binom{999999}{500000}")                 # "time": given up after two seconds

Safe from any number of threads. Processes start at the first question, end with the program, and
are not shared with a process that forks. Verdicts do not depend on where they were found.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from functools import cache
from multiprocessing.connection import wait
from typing import Literal, cast

from rods.errors import EnvError, PrerequisiteError
from rods.infra.install import install_line
from rods.infra.turns import FairPlaces
from rods.rewards import verifier_process

Verdict = Literal["right", "wrong", "time", "memory", "length", "died"]
"""The last four: the judge gave up, which counts as wrong, and is counted apart."""
Kind = Literal["boxed", "bare"]
"""What stands around the texts when they are read: a box, or nothing."""

SECONDS = 2.0
"""Processor time of one judgement. Usual ones take milliseconds."""
WALL_SECONDS = 60.0
"""Wall-clock time of one judgement, for a machine so busy that it gets little of a processor."""
MEMORY = 1 << 30
"""Address space of a process that judges."""
LONGEST = 1000
"""Characters of a text that is read as mathematics; a longer one is not."""
SIZE = max(1, min(4, os.cpu_count() or 1))
"""Processes at most."""
START_SECONDS = 120.0
PATIENCE = 30.0
"""Seconds beyond the wall-clock time until a process that does not answer is given up."""


@cache
def require_math_verify() -> None:
    """Refuse to go on without the package, because what is installed must not change a reward.

    Raises:
        PrerequisiteError: it is not installed; the message holds the command.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise PrerequisiteError(
            "these questions are answered by mathematics, which math-verify judges, and it is not "
            f"installed: {install_line('math')}"
        )


def ask(gold: str, answer: str, kind: Kind = "boxed") -> Verdict:
    """What math-verify says of an answer; the order of the two texts can matter to it.

    Raises:
        PrerequisiteError: math-verify is not installed.
        EnvError: its process cannot be started, or ends before it reads a question.
    """
    require_math_verify()
    if max(len(gold), len(answer)) > LONGEST:
        return "length"
    deaths = 0
    with _slots:
        # A process that was killed while it waited has read no question. One that dies over it may
        # have been killed, too: what a question does to its judge, it does twice.
        for _ in range(2 * SIZE + 2):  # more than can have waited
            try:
                process = _idle.pop()
            except IndexError:
                process = _Process()
            verdict = process.ask(gold, answer, kind)
            if process.alive:
                _idle.append(process)
            deaths += verdict == "died"
            if verdict and (verdict != "died" or deaths > 1):
                return verdict
    raise EnvError("the processes that judge answers end before they read a question")


class _Process:
    """One process, owned by the thread that has taken it."""

    def __init__(self) -> None:
        bounds = (SECONDS, WALL_SECONDS, MEMORY)
        self._popen = subprocess.Popen(
            # -P: the folder of the script is not a place to import from
            [sys.executable, "-P", verifier_process.__file__, *map(str, bounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # select sees nothing of what a buffer holds
            env={**os.environ, "PYTHONHASHSEED": "0"},  # else sets have another order every time
            start_new_session=True,  # Ctrl-C is the trainer's
        )
        self.alive = True
        self._number = 0
        ready = self._reply(0, START_SECONDS) == "ready"
        errors = self._popen.stderr
        assert errors is not None
        with errors:
            lines = [] if ready else errors.read().decode(errors="replace").strip().splitlines()
        if not ready:
            raise EnvError(
                f"the process that judges answers did not start: {(lines or ['no reason'])[-1]}. "
                "Try: python -c 'import math_verify'"
            )

    def ask(self, gold: str, answer: str, kind: Kind) -> Verdict | None:
        self._number += 1
        asked = {"id": self._number, "kind": kind, "gold": gold, "answer": answer}
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(asked).encode() + b"\n")
        except OSError:  # it was killed from outside since the last question
            self.end()
            return None
        return cast("Verdict", self._reply(self._number, WALL_SECONDS + PATIENCE))

    def _reply(self, number: int, seconds: float) -> str:
        """The verdict on this question; others are of one that was answered already."""
        out = self._popen.stdout
        assert out is not None
        while True:
            ready = wait([out.fileno()], seconds)
            line = out.readline() if ready else b""
            if not line:
                self.end()
                return "died" if ready else "time"
            reply = json.loads(line)
            if reply["id"] == number:
                return str(reply["verdict"])

    def end(self) -> None:
        """End it and all that it started."""
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self.forget()

    def forget(self) -> None:
        """Let go of it, and leave it to the process that started it."""
        self._popen.returncode = self._popen.returncode or 0  # else it warns that it still runs
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()


_slots = FairPlaces(SIZE)
_idle: list[_Process] = []


def close() -> None:
    """End all processes that nobody is using; the next question starts another."""
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    global _slots
    while _idle:
        _idle.pop().forget()
    _slots = FairPlaces(SIZE)


atexit.register(close)
os.register_at_fork(after_in_child=_forget)

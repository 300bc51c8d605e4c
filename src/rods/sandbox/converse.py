"""One execution seen from outside: feeds the child, reads it, watches the clock, says what it was.

Owns the limits that are kept from outside (wall clock, output) and the classification. What a
child says is trusted for its own result only. No program can say "the sandbox failed": that is
decided by the byte that is written before the program is read.

    execution = converse(child, "print(1)", "", limits)
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from dataclasses import dataclass, field

from rods.sandbox.execution import Execution, Limit, SandboxLimits, Status, last_line
from rods.sandbox.handle import ForkedChild, ZygoteLost
from rods.sandbox.observed import Output
from rods.sandbox.runner import DISK, HEADER, MEMORY, OK
from rods.sandbox.zygote import ENDED, FAILED, LOCKED

LOCK_SECONDS, KILL_SECONDS, LOOK_SECONDS = 30.0, 10.0, 0.1
CHUNK = 1 << 16
WORDS: dict[Limit, str] = {
    "time": "it ran for more than {0.seconds:g} s",
    "cpu": "it used more than {0.cpu:g} s of CPU time",
    "memory": "it used more than {0.memory} bytes of memory",
    "output": "it printed more than {0.output} bytes",
    "disk": "it filled its folder: {0.disk} bytes or {0.entries} files",
}


@dataclass(slots=True)
class Dialogue:
    """State of an execution so far."""

    child: ForkedChild
    limits: SandboxLimits
    outgoing: memoryview
    out: Output
    err: Output
    locked: bool = False
    began: float = field(default_factory=time.monotonic)
    killed: Limit = ""
    """The limit that was met."""
    failure: str = ""
    """Why the locks failed."""
    end: tuple[int, float, float, bool] | None = None
    """Wait status, user and system seconds, whether it held too many files: the zygote's word."""
    over: bool = False

    @property
    def deadline(self) -> float:
        """When patience ends: for the locks, for the program, or for its death."""
        allowed = self.limits.seconds if self.locked else LOCK_SECONDS
        return self.began + allowed + (KILL_SECONDS if self.killed else 0)

    def kill(self, why: Limit) -> None:
        """End the child; what it prints from now on is still read, and thrown away."""
        if not self.killed:
            self.killed = why
            self.child.zygote.kill(self.child)


def converse(child: ForkedChild, code: str, stdin: str, limits: SandboxLimits) -> Execution:
    """Run a program in a child and wait for its end."""
    body = json.dumps([code, stdin]).encode()
    message = memoryview(HEADER.pack(len(body)) + body)
    out, err = Output(child.out, limits.output), Output(child.err, limits.output)
    talk = Dialogue(child, limits, message, out, err)
    poll = select.poll()
    for descriptor in (child.out, child.err, child.status, child.ended):
        poll.register(descriptor, select.POLLIN)
    poll.register(child.request, select.POLLOUT)
    while not talk.over:
        for descriptor, _ in poll.poll(1000 * LOOK_SECONDS):
            if not _attend(talk, descriptor):
                poll.unregister(descriptor)
        if time.monotonic() > talk.deadline:
            _out_of_patience(talk)
    if talk.end is None and not talk.failure:
        raise ZygoteLost(f"the zygote died: {child.zygote.last_words()}")
    return _classify(talk, time.monotonic() - talk.began)


def _out_of_patience(talk: Dialogue) -> None:
    if talk.killed:
        raise ZygoteLost(f"a killed child did not end within {KILL_SECONDS:g} s")
    if not talk.locked:
        raise ZygoteLost(f"a child was not locked within {LOCK_SECONDS:g} s")
    talk.kill("time")


def _attend(talk: Dialogue, descriptor: int) -> bool:
    """One descriptor is ready; False when no more is to be expected of it."""
    child = talk.child
    if descriptor == child.request:
        return _feed(talk)
    if descriptor == child.status:
        return _hear(talk)
    if descriptor == child.ended:
        data = os.read(descriptor, ENDED.size)
        talk.end = ENDED.unpack(data) if len(data) == ENDED.size else None
        child.gone = talk.over = True
        for output in (talk.out, talk.err):  # what the pipes still hold
            output.drain()
            if output.full and not talk.killed:
                talk.killed = "output"
        return False
    output = talk.out if descriptor == child.out else talk.err
    more = output.take()
    if output.full:
        talk.kill("output")
    return more


def _feed(talk: Dialogue) -> bool:
    try:
        sent = os.write(talk.child.request, talk.outgoing)
    except BlockingIOError:
        return True
    except BrokenPipeError:
        return False  # it ended before it had read all; its end will be reported
    talk.outgoing = talk.outgoing[sent:]
    return bool(talk.outgoing)


def _hear(talk: Dialogue) -> bool:
    data = os.read(talk.child.status, CHUNK)
    if not talk.locked:
        if data[:1] == LOCKED:
            talk.locked, talk.began = True, time.monotonic()
            data = data[1:]
        elif data:
            talk.failure = data.removeprefix(FAILED).decode(errors="replace")
            talk.over = talk.child.gone = data.startswith(FAILED + b"fork")
    return bool(data)


def _classify(talk: Dialogue, seconds: float) -> Execution:
    stdout, stderr = talk.out.text, talk.err.text
    wait, user, system, full = talk.end or (0, 0.0, 0.0, False)
    code = os.waitstatus_to_exitcode(wait)
    if not talk.locked:
        why = talk.failure or f"a child ended before it was locked (exit status {code})"
        return Execution(stdout, stderr, "sandbox", seconds, detail=why, returncode=code)
    found: Limit = "disk" if full else ""
    limit = talk.killed or found or _limit_of(code, user + system, talk.limits)
    status: Status = "limit" if limit else "ok" if code == OK else "error"
    detail = ""
    if limit:
        detail = WORDS[limit].format(talk.limits)
    elif code < 0:
        name = next((s.name for s in signal.Signals if s == -code), f"signal {-code}")
        detail = f"the program was ended by {name}"  # not every signal has a name
    elif code:
        detail = last_line(stderr) or f"the program ended with exit status {code}"
    return Execution(stdout, stderr, status, seconds, limit, detail, code, user + system)


def _limit_of(code: int, cpu: float, limits: SandboxLimits) -> Limit:
    if code in (MEMORY, DISK):
        return "memory" if code == MEMORY else "disk"
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= limits.cpu):
        return "cpu"
    return ""

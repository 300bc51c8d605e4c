"""The sandbox of this machine: a pool that runs programs in locked children of a zygote.

Owns the zygote's life (start, proof that the locks hold, restart), how many programs run at once,
what is run again, and sessions that keep their variables. It never runs a program that is not
locked: where the locks cannot be put on, `SandboxPool` raises PrerequisiteError.

    with SandboxPool(size=2) as pool:
        pool.execute("print(6 * 7)").stdout            # from any thread, which waits
        with pool.session() as session:                # variables are kept
            session.execute("x = 6")
            session.execute("print(x * 7)")
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from rods.errors import ConfigError, EnvError, PrerequisiteError
from rods.infra.turns import FairPlaces
from rods.sandbox.converse import Ended, converse, has_ended
from rods.sandbox.execution import Closing, Execution, SandboxLimits
from rods.sandbox.handle import ForkedChild, Wrap, ZygoteHandle, ZygoteLost

PROOF = """
import mmap, os, socket
def refused(action):
    try:
        action()
    except PermissionError:
        return True
checks = {
    "reading outside of its folder": lambda: os.listdir("/"),
    "writing outside of its folder": lambda: open("../proof", "w"),
    "the network": lambda: socket.socket(),
    "a signal to the parent": lambda: os.kill(os.getppid(), 0),
    "running another program": lambda: os.execv("/bin/true", ["true"]),
    "a new process": lambda: os.fork() or os._exit(0),
    "memory that no limit counts": lambda: mmap.mmap(-1, 4096),
}
print(", ".join(name for name, action in checks.items() if not refused(action)), end="")
"""
"""Tries what must be refused, and prints what was not."""
PROOF_SECONDS = 30.0


class SandboxPool(Closing):
    """Runs up to `size` programs at once, each in a child of its own; more callers wait their turn.

    Args:
        size: Programs at once; the number of processors if 0.
        limits: What one program may use.
        preload: Packages that programs find loaded, where they are installed.
        seed: What `random` and NumPy's global generator start from in every child, so that a run
            can be repeated; None for fresh entropy.
        retries: How often a program is run again when the sandbox failed.
        wrap: Whether bubblewrap goes around it: "auto" where it works, "on", "off".
        python: The interpreter; the one that runs us by default.
        sessions: Sessions that may lie idle at once. Beyond that the one that has lain longest
            ends; and when all that lie hold more than `size` times `limits.memory`, the largest.
    """

    def __init__(
        self,
        size: int = 0,
        limits: SandboxLimits | None = None,
        preload: Sequence[str] = ("numpy", "sympy"),
        seed: int | None = 0,
        retries: int = 2,
        wrap: Wrap = "auto",
        python: str | None = None,
        sessions: int = 256,
    ) -> None:
        if min(size, retries, sessions) < 0:
            raise ConfigError(
                f"a sandbox of size {size} with {retries} retries and {sessions} sessions: "
                "expected >= 0"
            )
        self.size = size or os.cpu_count() or 1
        self.limits = limits or SandboxLimits()
        self.restarts = 0
        """How often a broken zygote was replaced."""
        self._wrap: Wrap = wrap
        self._python = python or sys.executable
        more = {"preload": list(preload), "seed": seed, "size": self.size, "sessions": sessions}
        self._config = asdict(self.limits) | {"cpu": math.ceil(self.limits.cpu)} | more
        self._retries = retries
        self._closed = False
        self._lock = threading.Lock()
        self.turns = FairPlaces(self.size)
        """One is held while a program runs."""
        self._handle: ZygoteHandle | None = self._start()

    def _start(self) -> ZygoteHandle:
        """A zygote whose locks were seen to hold."""
        handle = ZygoteHandle(self._config, self._wrap, self._python)
        try:
            with handle.fork(stateful=False) as child:
                limits = replace(self.limits, seconds=PROOF_SECONDS, output=1 << 16)
                proof = converse(child, PROOF, "", limits, False)
            if proof.status == "sandbox" or proof.stdout:
                what = f"it still allowed {proof.stdout}" if proof.stdout else proof.detail
                raise PrerequisiteError(
                    f"the code sandbox cannot lock itself, so it runs nothing: {what}. Use a "
                    "machine without an outer sandbox, or a remote sandbox (docs/guides/sandbox.md)"
                )
            if not proof.ok:
                raise EnvError(
                    f"the code sandbox cannot run even its own check: {proof.detail}. "
                    "Raise its limits (memory, cpu, files)"
                )
        except (OSError, EnvError, PrerequisiteError):
            handle.close()
            raise
        return handle

    @property
    def loaded(self) -> list[str]:
        """Packages that programs find loaded."""
        return self._current().loaded

    @property
    def isolation(self) -> str:
        """The locks in words, for a report."""
        handle = self._current()
        folders = "sized folders" if handle.sized else "watched folders"
        around = ", bubblewrap" if handle.wrapper else ""
        return f"rlimits, Landlock version {handle.landlock}, seccomp, {folders}{around}"

    def _current(self) -> ZygoteHandle:
        with self._lock:
            if self._closed:
                raise EnvError("the sandbox pool is closed; make another")
            if self._handle is None or not self._handle.alive:
                if self._handle is not None:
                    self._handle.close()
                self._handle = None
                self.restarts += 1
                self._handle = self._start()
            return self._handle

    def _discard(self, handle: ZygoteHandle) -> None:
        with self._lock:
            if self._handle is handle:
                handle.close()
                self._handle = None

    def fork(self, stateful: bool) -> ForkedChild:
        """A child of a living zygote, for `SandboxSession`."""
        return self._current().fork(stateful)

    def execute(self, code: str, stdin: str = "") -> Execution:
        """Run a program to its end; blocks until it is its turn and while it runs."""

        def once() -> Execution:
            with self.fork(stateful=False) as child:
                return converse(child, code, stdin, self.limits, False)

        with self.turns:
            return self.persist(once)

    def persist(self, once: Callable[[], Execution]) -> Execution:
        """Run something again while the sandbox fails; the caller holds a turn."""
        reason = ""
        for attempt in range(1, self._retries + 2):
            if attempt > 1:
                time.sleep(0.01 * 4**attempt)
            handle = self._handle
            try:
                execution = once()
            except ZygoteLost as error:
                reason = str(error)
                if handle is not None:
                    self._discard(handle)
            except OSError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                reason = execution.detail
                if execution.status != "sandbox":
                    return replace(execution, attempts=attempt)
        attempts = self._retries + 1
        return Execution("", "", "sandbox", 0.0, detail=reason, returncode=1, attempts=attempts)

    def session(self) -> SandboxSession:
        """An interpreter that keeps its variables, for one trajectory."""
        return SandboxSession(self)

    def close(self) -> None:
        """End the zygote and everything that runs in it."""
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()


class SandboxSession(Closing):
    """A child that lives from one execution to the next; between them it is stopped.

    A limit, `os._exit`, the idle limit or too much that all sessions hold at rest ends it; the next
    execution then begins a new one, and says so by `fresh`.
    """

    def __init__(self, pool: SandboxPool) -> None:
        self.pool = pool
        self._child: ForkedChild | None = None
        self._lock = threading.Lock()

    def execute(self, code: str, stdin: str = "") -> Execution:
        """Run one more piece of the program."""
        with self._lock, self.pool.turns:
            return self.pool.persist(lambda: self._once(code, stdin))

    def _once(self, code: str, stdin: str) -> Execution:
        if self._child is not None and has_ended(self._child):
            self._forget()
        fresh = self._child is None
        child = self._child = self._child or self.pool.fork(stateful=True)
        try:
            if not fresh:
                child.zygote.tell(child, "resume")
            done = converse(child, code, stdin, self.pool.limits, True, not fresh)
            if not child.gone:
                child.zygote.tell(child, "stop")
        except Ended:
            self._forget()
            return self._once(code, stdin)
        except (OSError, EnvError):
            self._forget()
            raise
        if child.gone:
            self._forget()
        return replace(done, fresh=fresh)

    def _forget(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def close(self) -> None:
        """End the interpreter."""
        with self._lock:
            self._forget()

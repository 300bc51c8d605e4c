"""The sandbox of this machine: a pool that runs programs in locked children of a zygote.

Owns the zygote's life (start, proof that the locks hold, restart), how many programs run at once
and what is run again. It never runs a program that is not locked: where the locks cannot be put on,
`SandboxPool` raises PrerequisiteError.

    with SandboxPool(size=2) as pool:
        pool.execute("print(6 * 7)").stdout            # from any thread, which waits
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from rods.errors import ConfigError, EnvError, PrerequisiteError
from rods.infra.turns import FairPlaces
from rods.sandbox.converse import converse
from rods.sandbox.execution import Closing, Execution, SandboxLimits
from rods.sandbox.handle import Wrap, ZygoteHandle, ZygoteLost

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
    ) -> None:
        if min(size, retries) < 0:
            raise ConfigError(f"a sandbox of size {size} with {retries} retries: expected >= 0")
        self.size = size or os.cpu_count() or 1
        self.limits = limits or SandboxLimits()
        self.restarts = 0
        """Number of broken zygotes that were replaced."""
        self._wrap: Wrap = wrap
        self._python = python or sys.executable
        more = {"preload": list(preload), "seed": seed, "size": self.size}
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
            with handle.fork() as child:
                limits = replace(self.limits, seconds=PROOF_SECONDS, output=1 << 16)
                proof = converse(child, PROOF, "", limits)
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
        return self._current().ready["loaded"]

    @property
    def isolation(self) -> str:
        """The locks in words, for a report."""
        handle = self._current()
        folders = "sized folders" if handle.sized else "watched folders"
        around = ", bubblewrap" if handle.wrapper else ""
        return f"rlimits, Landlock version {handle.ready['landlock']}, seccomp, {folders}{around}"

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

    def execute(self, code: str, stdin: str = "") -> Execution:
        """Run a program to its end; blocks until it is its turn and while it runs.

        It is run again while the sandbox fails.
        """
        reason, attempts = "", self._retries + 1
        with self.turns:
            for attempt in range(1, attempts + 1):
                if attempt > 1:
                    time.sleep(0.01 * 4**attempt)
                handle = self._handle
                try:
                    with self._current().fork() as child:
                        execution = converse(child, code, stdin, self.limits)
                except ZygoteLost as error:
                    reason = str(error)
                    with self._lock:
                        if handle is not None and self._handle is handle:
                            handle.close()
                            self._handle = None
                except OSError as error:
                    reason = f"{type(error).__name__}: {error}"
                else:
                    reason = execution.detail
                    if execution.status != "sandbox":
                        return replace(execution, attempts=attempt)
        return Execution("", "", "sandbox", 0.0, detail=reason, returncode=1, attempts=attempts)

    def close(self) -> None:
        """End the zygote and everything that runs in it."""
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

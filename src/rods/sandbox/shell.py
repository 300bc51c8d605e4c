"""A workplace: a folder where commands run one by one, each locked, nothing of which stays behind.

Owns our side of a keeper: starts it, asks it, ends it. Commands may start programs (`bash`, `git`,
the interpreter), unlike those of `SandboxPool`; what they start ends with them. A folder of the
keeper's own is all they can write; the system's programs and libraries are all they can read.

    with Shell() as shell:
        shell.put({"a.py": "print(6 * 7)"})
        shell.run(["python", "a.py"]).output         # "42\\n"
"""

from __future__ import annotations

import functools
import json
import math
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rods.errors import EnvError
from rods.sandbox.execution import MIB, require_positive
from rods.sandbox.handle import SOURCE, START_SECONDS, LockedProcess, Wrap, wrapping
from rods.sandbox.keeper import receive, send

BOOT = (  # The package without its public face, whose imports would take half of the start
    "import sys; rods = type(sys)('rods'); rods.__path__ = [sys.argv.pop() + '/rods']; "
    "sys.modules['rods'] = rods; from rods.sandbox.keeper import main; main()"
)
GRACE = 30.0  # Seconds beyond a command's own until its keeper counts as lost
_wrapping = functools.cache(wrapping)


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Limits of one command, and of all that it starts."""

    seconds: float = 30.0
    """Wall-clock seconds."""
    memory: int = 1024 * MIB
    """Bytes of address space of one process, and of memory of all together, as looked at ten times
    a second."""
    processes: int = 64
    """Processes and threads at once."""
    output: int = 64 * 1024
    """Bytes that it may write; one that writes more is ended."""
    disk: int = 64 * MIB
    """Bytes of all files of the workplace."""
    entries: int = 5000
    """Files and folders of the workplace."""
    file: int = 16 * MIB
    """Bytes of one file."""
    files: int = 128
    """Open files of one process."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing can run under."""
        require_positive(self, "shell")


@dataclass(frozen=True, slots=True)
class ShellResult:
    """Result of a command."""

    output: str
    """Standard output and error as they came; the workplace's own path is shown as `.`."""
    code: int
    """Exit status; minus a signal's number if one ended it."""
    limit: str = ""
    """Which limit was met: time, memory, processes, disk or output; empty: none."""

    @property
    def ok(self) -> bool:
        """True if it ended by itself and well."""
        return self.code == 0 and not self.limit


class Shell(LockedProcess):
    """One workplace and its keeper; owned by one thread."""

    cannot = (
        "a workplace cannot be locked, so nothing runs in it: {}. It needs Linux with Landlock and "
        "seccomp, and bubblewrap or Linux 6.12; without them run the environment on another "
        "machine (docs/guides/sandbox.md)"
    )

    def __init__(
        self,
        limits: ShellLimits | None = None,
        wrap: Wrap = "auto",
        python: str = sys.executable,
        interpreter: str = "",
    ) -> None:
        """Start the keeper.

        Args:
            limits: of each command.
            wrap: whether bubblewrap goes around it.
            python: what the keeper runs on.
            interpreter: `python` for commands; by default the one that is not of any environment.

        Raises:
            EnvError: the keeper did not start.
            PrerequisiteError: it cannot lock itself on this machine.
        """
        self._limits = limits or ShellLimits()
        base: str = interpreter or getattr(sys, "_base_executable", python)
        config: dict[str, object] = {  # a `keeper.KeeperConfig`
            **asdict(self._limits),
            "cpu": math.ceil(self._limits.seconds) * 2,
            "source": str(SOURCE),
            "processes_space": os.readlink("/proc/self/ns/pid"),
            "python": os.path.realpath(base),
        }
        command, env = [*_wrapping(wrap, python), python], {"LC_ALL": "C.UTF-8"}
        try:
            super().__init__(command, BOOT, config, socket.SOCK_STREAM, env)
        except OSError as error:
            raise EnvError(f"a workplace's keeper did not start: {error}") from error
        kind = "sized" if self.sized else "watched"
        self.isolation = f"{'bubblewrap, ' if self.wrapper else ''}{kind} folder"
        """The locks, in words."""

    def _ready(self) -> dict[str, Any]:
        return self._receive(START_SECONDS)

    def put(self, files: Mapping[str, str]) -> None:
        """Write texts of RODS by path; to be called before any command has run."""
        for path in files:
            if path.startswith("/") or ".." in path.split("/"):
                raise EnvError(f"{path!r} is not a path within a workplace.")
        self._ask({"op": "put", "files": dict(files)}, START_SECONDS)

    def run(
        self, argv: Sequence[str], stdin: str = "", seconds: float | None = None
    ) -> ShellResult:
        """Run a program in the workplace, with all that it starts, until it ends.

        Its seconds are wall clock; None: those of the limits.

        Raises:
            EnvError: the keeper was lost.
        """
        return self._work({"op": "run", "argv": list(argv), "stdin": stdin}, seconds)

    def edit(self, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """The editor does one command: what the agent reads, and if it failed; raises as `run`."""
        done = self._work({"op": "edit", "arguments": dict(arguments)}, None)
        if not done.ok:
            return f"Error: the editor met a limit ({done.limit or done.code}).", True
        text, failed = json.loads(done.output)
        return str(text), bool(failed)

    def _work(self, message: dict[str, object], seconds: float | None) -> ShellResult:
        most = self._limits.seconds if seconds is None else seconds
        message |= {"seconds": most, "output": self._limits.output}
        answer = self._ask(message, most + GRACE)
        return ShellResult(str(answer["output"]), int(answer["code"]), str(answer["limit"]))

    def _ask(self, message: dict[str, object], seconds: float) -> dict[str, Any]:
        if self._closed:
            raise EnvError("this workplace is closed.")
        try:
            self._socket.settimeout(START_SECONDS)
            send(self._socket, message)
        except OSError as error:
            raise EnvError(f"a workplace's keeper was lost: {error}") from error
        return self._receive(seconds)

    def _receive(self, seconds: float) -> dict[str, Any]:
        self._socket.settimeout(seconds)
        try:
            return receive(self._socket)
        except EOFError as error:
            raise EnvError(f"a workplace's keeper ended: {self.last_words()}") from error
        except OSError as error:
            raise EnvError(f"a workplace's keeper gave no answer: {error}") from error

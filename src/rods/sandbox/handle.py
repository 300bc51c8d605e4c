"""Our side of a process that locks itself up: starts it, ends it; asks a zygote for children.

Owns the process, its socket, and the pipes of a child until they are closed. It never restarts
anything: `ZygoteLost` says that this zygote is of no use any more, and the pool makes another.

    handle = ZygoteHandle(config, "auto", sys.executable)
    with handle.fork() as child:
        child.request, child.out, child.err, child.status, child.ended   # our ends of the pipes
    handle.close()
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, ClassVar, Literal

from rods.errors import EnvError, PrerequisiteError
from rods.sandbox.execution import Closing
from rods.sandbox.lockdown import PLACE
from rods.sandbox.scratch import remove_tree

Wrap = Literal["auto", "on", "off"]  # bubblewrap around the zygote: if it works, always, never

START_SECONDS, SEND_SECONDS, END_SECONDS = 120.0, 10.0, 10.0
SOURCE = Path(__file__).parents[2]
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop()); from rods.sandbox.zygote import main; main()"
)
ENVIRONMENT = {  # All that the zygote gets; the programs get nothing
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}

CREDENTIALS = struct.Struct("iii")  # Process, user and group of a sender, as the kernel tells them


class ZygoteLost(EnvError):
    """The zygote does not answer or has ended."""


@dataclass(slots=True)
class ForkedChild(Closing):
    """A forked child: our ends of its pipes."""

    id: int
    zygote: ZygoteHandle
    request: int
    out: int
    err: int
    status: int
    ended: int
    gone: bool = False
    """True if the process is known to have ended."""
    closed: bool = False

    def close(self) -> None:
        """Kill the process if it lives, and close the pipes; the zygote empties its folder."""
        if self.closed:
            return
        self.closed = True
        try:
            if not self.gone:
                self.zygote.kill(self)
                wait([self.ended], END_SECONDS)
        except ZygoteLost:
            return  # then the process ends with the zygote
        finally:
            for descriptor in (self.request, self.out, self.err, self.status, self.ended):
                os.close(descriptor)


def end_of(process: subprocess.Popen[bytes], seconds: float, root: str | None, inner: int) -> None:
    """Wait for a process whose socket was closed, which ends it, and clear up after one that hangs.

    Args:
        seconds: until it is killed.
        root: its folder, which one that was killed could not remove; None: it has none.
        inner: process id of what it wraps, to be killed first, or its own.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(inner, signal.SIGKILL)
        process.kill()
        process.wait()
    if root:
        remove_tree(root)


def wrapping(wrap: Wrap, python: str) -> list[str]:
    """The bubblewrap command if it is wanted and works here, else nothing or PrerequisiteError.

    It goes before the zygote's: new namespaces, everything read-only.
    """
    found, why = shutil.which("bwrap"), "bwrap is not installed"
    if wrap == "off" or (wrap == "auto" and found is None):
        return []
    if found is not None:
        command = [found, "--unshare-all", "--ro-bind", "/", "/"]
        command += ["--dev", "/dev", "--proc", "/proc", "--"]
        trial = [*command, python, "-S", "-c", "open('/proc/self/statm').read()"]
        done = subprocess.run(trial, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return command
        why = done.stderr.strip() or f"it ended with {done.returncode}"
    if wrap == "auto":
        return []
    raise PrerequisiteError(
        f"the sandbox was asked to run in bubblewrap, and bubblewrap does not work here: {why}. "
        'Install it (Debian: apt install bubblewrap), or set wrap="auto"'
    )


class LockedProcess(Closing):
    """An interpreter that locks itself up and serves us over a socket, which is its descriptor 0.

    It has a session of its own, and ends when the socket is closed.
    """

    cannot: ClassVar[str]
    """Consequence of a missing lock, with a place for which one."""

    def __init__(
        self,
        command: Sequence[str],
        boot: str,
        config: Mapping[str, object],
        kind: socket.SocketKind,
        env: Mapping[str, str],
    ) -> None:
        """Start it and wait until it is locked.

        Args:
            command: bubblewrap's, if it goes around, and the interpreter.
            boot: what it runs; it is given `config` as JSON and the folder of RODS.
            config: what it needs to know; `parent`, the place of its folders, is added.
            kind: of the socket.
            env: all of its environment.

        Raises:
            EnvError: it did not start.
            OSError: there is no such command.
            PrerequisiteError: it cannot lock itself on this machine.
        """
        self.wrapper = command[:-1]
        config = {**config, "parent": PLACE if self.wrapper else plain_parent()}
        self._closed = False
        self.root: str | None = None  # Where its folders lie, if they can be seen from outside
        self._stderr = os.memfd_create("stderr")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self.process = subprocess.Popen(
                [*command, "-s", "-P", "-B", "-c", boot, json.dumps(config), str(SOURCE)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=env,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._socket.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()
        self.pid = self.process.pid
        """Number of the sandbox's process as we see it; `process` may be bubblewrap's."""
        try:
            ready = self._ready()
            if "missing" in ready:
                raise PrerequisiteError(self.cannot.format(ready["missing"]))
        except (EnvError, PrerequisiteError):
            self.close()
            raise
        self.ready = ready
        self.sized: bool = ready["sized"]
        """True if the kernel bounds its folders; else the process looks at them."""
        if not self.sized and not self.wrapper:
            self.root = str(ready["root"])

    @abstractmethod
    def _ready(self) -> dict[str, Any]:
        """Read the first message: `missing`, or `sized` and `root`; raises `EnvError`."""

    def last_words(self) -> str:
        """The end of what it wrote to its standard error, else how it ended."""
        if self._closed:
            return "it was ended"
        with contextlib.suppress(subprocess.TimeoutExpired):  # its socket closes before it ends
            self.process.wait(END_SECONDS)
        start = max(0, os.fstat(self._stderr).st_size - 2000)
        text = os.pread(self._stderr, 2000, start).decode(errors="replace").strip()
        return text or f"no message, status {self.process.poll()}"

    def close(self) -> None:
        """End the process, all that runs in it, and its folders."""
        if self._closed:
            return
        self._closed = True
        self._socket.close()
        end_of(self.process, END_SECONDS, self.root, self.pid)
        os.close(self._stderr)


class ZygoteHandle(LockedProcess):
    """One zygote process."""

    cannot = (
        "the code sandbox cannot lock itself, so it runs nothing: {}. It needs Linux 5.13 or later "
        "with Landlock and seccomp; without them use a remote sandbox (docs/guides/sandbox.md)"
    )

    def __init__(self, config: Mapping[str, object], wrap: Wrap, python: str) -> None:
        """Start it; `config` is a `zygote.ZygoteConfig` that lacks `parent`."""
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        command = [*wrapping(wrap, python), python]
        super().__init__(command, BOOT, config, socket.SOCK_SEQPACKET, ENVIRONMENT)

    def _ready(self) -> dict[str, Any]:
        self._socket.settimeout(START_SECONDS)
        try:
            data, sender, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
        except OSError as error:
            raise EnvError(f"the sandbox's zygote did not start: {error}") from error
        if not data:
            raise EnvError(f"the sandbox's zygote did not start: {self.last_words()}")
        self._socket.settimeout(SEND_SECONDS)
        self.pid = CREDENTIALS.unpack(sender[0][2])[0]
        return json.loads(data)

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self.process.poll() is None

    def fork(self) -> ForkedChild:
        """A new child, not yet locked."""
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for from_us in (True, False, False, False, False):
                read, write = os.pipe()
                ours.append(write if from_us else read)
                theirs.append(read if from_us else write)
            for descriptor in ours:
                os.set_blocking(descriptor, False)
            number = next(self._ids)
            self._send({"op": "fork", "id": number}, theirs)
        except OSError:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        request, out, err, status, ended = ours
        return ForkedChild(number, self, request, out, err, status, ended)

    def kill(self, child: ForkedChild) -> None:
        """Kill a child; nothing happens if it has ended."""
        self._send({"op": "kill", "id": child.id}, [])

    def _send(self, message: dict[str, object], descriptors: list[int]) -> None:
        data = json.dumps(message).encode()
        try:
            with self._lock:
                if descriptors:
                    socket.send_fds(self._socket, [data], descriptors)
                else:
                    self._socket.send(data)
        except OSError as error:
            raise ZygoteLost(f"the sandbox's zygote does not answer: {error}") from error


def plain_parent() -> str:
    """Where scratch folders go that no file system of their own holds: memory, if we may."""
    return PLACE if os.access(PLACE, os.W_OK | os.X_OK) else tempfile.gettempdir()

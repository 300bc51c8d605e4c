"""The zygote: an interpreter with packages loaded that forks a locked child for every execution.

Owns its children and their folders: forks, kills and reaps them, ends those that hold too much, and
tells how each ended. It never sees a program or what it prints; those go between the pool
and the child through pipes, so a child finds nothing of another's in the memory that it inherits.
It confines itself before the first fork. Runs as a process of its own, started by
`handle.ZygoteHandle`, and uses the standard library only.

    python -c "...; from rods.sandbox.zygote import main; main()" '{"preload": ["numpy"], ...}'

Messages come over a socket as descriptor 0, one JSON object each:

    {"op": "fork", "id": 7}                                    with five descriptors
    {"op": "kill", "id": 7}
"""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import NoReturn, TypedDict, cast

from rods.sandbox import lockdown, runner, syscalls
from rods.sandbox.readable import anyone_may_read, coarse, lies_in, load
from rods.sandbox.scratch import Boxes, can_look

ENDED = struct.Struct("<idd?")
"""Message to the exit pipe: wait status, user and system seconds, whether it was `full`."""
LOCKED, FAILED = b"L", b"F"
"""First byte of the status pipe: the locks are on, or (with a reason) they are not."""
LOOK_SECONDS = 0.05  # Seconds between two looks at folders that no file system of their own holds


class ZygoteConfig(TypedDict):
    """Configuration that the pool sends at the start."""

    preload: list[str]
    parent: str
    """Where the scratch folders go if the kernel gives us no place of our own."""
    size: int
    memory: int
    cpu: int
    file: int
    disk: int
    entries: int
    files: int
    seed: int | None


@dataclass(slots=True)
class ForkedProcess:
    """A process that was forked and not reaped."""

    id: int
    pid: int
    box: int
    """Folder of the program."""
    watch: int
    """A pidfd: readable when the process has ended."""
    ended: int
    """Where its end is reported."""
    full: bool = False
    """True if it held more files than it may, and was ended for that."""


class Zygote:
    """The loop that serves the pool until its end of the socket closes."""

    def __init__(
        self, control: socket.socket, config: ZygoteConfig, outer: list[str], boxes: Boxes
    ) -> None:
        self.control, self.config, self.boxes = control, config, boxes
        self.outer = [os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder in outer]
        self.filter = lockdown.SyscallFilter(syscalls.for_program())
        self.children: dict[int, ForkedProcess] = {}
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        with open("/proc/self/statm") as file:
            space = int(file.read().split()[0]) * resource.getpagesize()  # of this process
        self.memory = space + config["memory"]
        self.me = os.getpid()
        self.looked = 0.0

    def serve(self) -> None:
        """Until the pool is gone; then no child is left."""
        open_ = True
        while open_:
            looks = self.children and not self.boxes.sized  # though nobody calls
            for descriptor, _ in self.poll.poll(1000 * LOOK_SECONDS if looks else None):
                if descriptor == self.control.fileno():
                    open_ = self._message()
                elif descriptor in self.children:
                    self._reap(descriptor)
            self._look()
        for child in self.children.values():
            signal.pidfd_send_signal(child.watch, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        self.boxes.remove()

    def _message(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.control, 4096, 8)
        if not data:
            return False
        message = json.loads(data)
        if message["op"] == "fork":
            self._fork(message, descriptors)
            return True
        child = next((c for c in self.children.values() if c.id == message["id"]), None)
        if child is not None and not child.full:
            signal.pidfd_send_signal(child.watch, signal.SIGKILL)
        return True

    def _look(self) -> None:
        """End children that hold more files than they may, where no file system refuses them."""
        if self.boxes.sized or time.monotonic() < self.looked + LOOK_SECONDS:
            return
        for child in self.children.values():
            if not child.full:
                used = self.boxes.used(child.box, child.pid, self.config["file"])
                if used is None or used > self.config["disk"]:
                    signal.pidfd_send_signal(child.watch, signal.SIGKILL)
                    child.full = True
        self.looked = time.monotonic()

    def _box(self) -> int:
        """A free folder, if need be that of a child which has been ended and is not yet reaped."""
        for child in list(self.children.values()):
            if child.full and (box := self.boxes.take()) is not None:
                return box
            if child.full:
                self._reap(child.watch)
        box = self.boxes.take()
        if box is None:
            raise OSError("every scratch folder is taken")
        return box

    def _fork(self, message: dict[str, str | int], descriptors: list[int]) -> None:
        *own, ended = descriptors
        pid, box = -1, None
        try:
            box = self._box()
            pid = os.fork()
            if pid == 0:
                self._become(box, own)
            watch = os.pidfd_open(pid)
            self.children[watch] = ForkedProcess(int(message["id"]), pid, box, watch, ended)
            self.poll.register(watch, select.POLLIN)
        except OSError as error:
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if box is not None:
                self.boxes.give_back(box)
            os.write(own[3], FAILED + f"fork: {error}".encode())
            os.close(ended)
        finally:
            for descriptor in own:
                os.close(descriptor)

    def _reap(self, watch: int) -> None:
        child = self.children.pop(watch)
        _, status, used = os.wait4(child.pid, 0)
        self.poll.unregister(watch)
        os.close(watch)
        self.boxes.give_back(child.box)
        try:
            os.write(child.ended, ENDED.pack(status, used.ru_utime, used.ru_stime, child.full))
        except BrokenPipeError:
            pass  # the caller no longer waits
        finally:
            os.close(child.ended)

    def _become(self, box: int, descriptors: list[int]) -> NoReturn:
        """In the child: lock up, say so, run. Every way out of here ends the process."""
        status = descriptors[3]
        try:
            scratch = self.boxes.rename(box)
            lockdown.die_with_parent(self.me)
            os.chdir(scratch)
            os.umask(0o077)
            lockdown.restrict_files(self.outer, [scratch, os.devnull])
            request, status = self._arrange(descriptors)
            most = self.config
            lockdown.limit(most["cpu"], self.memory, most["file"], most["files"])
            self.filter.install()
            os.write(status, LOCKED)
            gc.enable()
            runner.serve(request, status, self.config["seed"])
        except (OSError, ValueError, MemoryError) as error:
            os.write(status, FAILED + str(error).encode())
        finally:
            os._exit(runner.ERROR)

    def _arrange(self, descriptors: list[int]) -> tuple[int, int]:
        """0 to 2 the standard streams, 3 the request, 4 the status; all others are closed.

        Both numbers were the zygote's own, so what came from the pool lies above them.
        """
        request, out, err, status = descriptors
        os.dup2(out, 1)
        os.dup2(err, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(request, 3)
        os.dup2(status, 4)
        os.closerange(5, 1 << 16)
        return 3, 4


def main() -> None:
    """Load, lock, tell the pool, serve."""
    control = socket.socket(fileno=os.dup(0))
    config: ZygoteConfig = json.loads(sys.argv[1])
    try:
        lacks = lockdown.missing()
        if lacks:
            raise lockdown.LockError("; ".join(lacks))
        sized = lockdown.separate_mounts()
        present, readable = load(config["preload"])
        outer = coarse(readable)
        place = lockdown.PLACE if sized else config["parent"]
        if lies_in(place, outer):
            raise lockdown.LockError(f"the scratch folders' place {place} lies in {outer}")
        nobody = os.geteuid() == 0 and all(anyone_may_read(folder) for folder in outer)
        nobody = nobody and lockdown.could(lambda: lockdown.give_up_privileges(lockdown.NOBODY))
        owner = lockdown.NOBODY if nobody else os.geteuid()
        count = 2 * config["size"]  # one that was killed may not have ended when the next begins
        boxes = Boxes(place, count, config["disk"], config["entries"], sized, owner)
        os.environ.clear()
        for stream in (sys.stdout, sys.stderr):  # these become the programs'
            cast(io.TextIOWrapper, stream).reconfigure(errors="backslashreplace")
        for name in [n for n in sys.modules if n == "rods" or n.startswith("rods.")]:
            del sys.modules[name]  # programs need not find us
        gc.collect()
        gc.disable()
        gc.freeze()
        zygote = Zygote(control, config, outer, boxes)
        lockdown.give_up_privileges(lockdown.NOBODY if nobody else None)
        if not can_look():
            raise lockdown.LockError("/proc does not show what our own children hold")
        lockdown.restrict_files(
            [*readable, "/proc"], [boxes.root, os.devnull], thin=[] if sized else [place]
        )
        lockdown.SyscallFilter(syscalls.for_zygote()).install()
    except lockdown.LockError as error:
        control.send(json.dumps({"missing": str(error)}).encode())
        return
    ready = {"loaded": present, "landlock": lockdown.landlock_version()}
    ready |= {"sized": sized, "root": boxes.root}
    control.send(json.dumps(ready).encode())
    zygote.serve()

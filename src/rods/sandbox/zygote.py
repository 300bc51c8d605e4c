"""The zygote: an interpreter with packages loaded that forks a locked child for every execution.

Owns its children: forks, stops, kills and reaps them, and tells how each ended. It never sees a
program or what it prints; those go between the pool and the child through pipes, so a child finds
nothing of another's in the memory that it inherits. It confines itself before the first fork. Runs
as a process of its own, started by `handle.ZygoteHandle`, and uses the standard library only.

    python -c "...; from rods.sandbox.zygote import main; main()" '{"preload": ["numpy"], ...}'

Messages come over a socket as descriptor 0, one JSON object each:

    {"op": "fork", "id": 7, "scratch": "/dev/shm/.../7", "stateful": false}   with five descriptors
    {"op": "kill" | "stop" | "resume", "id": 7}
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import io
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import sysconfig
import time
from collections.abc import Iterable
from typing import NoReturn, TypedDict, cast

from rods.sandbox import lockdown, runner, syscalls

ENDED = struct.Struct("<iddq")
"""What the exit pipe gets: wait status, user and system seconds, largest resident set in KiB."""
LOCKED, FAILED = b"L", b"F"
"""First byte of the status pipe: the locks are on, or (with a reason) they are not."""
ALWAYS = [
    "bisect",
    "cmath",
    "collections",
    "copy",
    "datetime",
    "decimal",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "typing",
]
"""Modules that programs often want."""
WARM = {
    "numpy": "import numpy as n; n.linalg.solve(n.eye(2), n.ones(2)); n.random.seed(0)",
    "sympy": "import sympy as s; x = s.Symbol('x'); s.solve(x**2 - 1, x); s.simplify(x + x)",
}
"""What a package loads only when it is first used."""


class Config(TypedDict):
    """What the pool says at the start."""

    preload: list[str]
    root: str
    """Where the scratch folders are."""
    memory: int
    cpu: int
    file: int
    files: int
    idle: float
    seed: int | None


class Child:
    """A process that was forked and not reaped."""

    __slots__ = ("ended", "id", "idle_since", "pid", "watch")

    def __init__(self, id: int, pid: int, watch: int, ended: int) -> None:
        self.id, self.pid = id, pid
        self.watch = watch
        """A pidfd: readable when the process has ended."""
        self.ended = ended
        """Where its end is told."""
        self.idle_since: float | None = None
        """When it was stopped."""


def libraries() -> list[str]:
    """Shared libraries that a module may load late; whole folders where no packages are."""
    multiarch: str = getattr(sys.implementation, "_multiarch", "")
    whole = [f"/lib/{multiarch}", f"/usr/lib/{multiarch}"] if multiarch else []
    shared = ["/lib64", "/usr/lib64", "/usr/local/lib", f"{sys.base_prefix}/lib"]
    files = [path for folder in dict.fromkeys(shared) for path in inside(folder) if ".so" in path]
    return [*whole, *files]


def inside(folder: str) -> list[str]:
    """Paths of what is in a folder, packages of other people left out."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{n}" for n in names if n not in ("site-packages", "dist-packages")]


def standard_library() -> list[str]:
    """Paths of the standard library, without the packages that some systems keep below it."""
    paths = sysconfig.get_paths()
    folders = dict.fromkeys([paths["stdlib"], paths["platstdlib"]])
    listed = [f"{lockdown.LISTED}{folder}" for folder in folders]
    return listed + [path for folder in folders for path in inside(folder)]


def packages(before: set[str]) -> list[str]:
    """Folders of the packages that were loaded since, and of the libraries beside them."""
    found: list[str] = []
    for name in sorted(set(sys.modules) - before):
        spec = getattr(sys.modules[name], "__spec__", None)
        origin = spec.origin if spec and "." not in name else None
        if not origin or "-packages" not in origin:
            continue
        if spec and spec.submodule_search_locations:
            folder = os.path.dirname(origin)
            found += [folder, f"{os.path.dirname(folder)}/{name}.libs"]
        else:
            found.append(origin)
    return found


def load(preload: list[str]) -> tuple[list[str], list[str]]:
    """Import what is installed of this; its names, and the paths that may be read from now on."""
    before = set(sys.modules)
    present = [name for name in preload if importlib.util.find_spec(name)]
    for name in [*ALWAYS, *present]:
        importlib.import_module(name)
        if name in WARM:
            exec(WARM[name], {})
    etc = ["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"]
    standard = standard_library()
    names = {path.removeprefix(lockdown.LISTED) for path in standard}
    sys.path[:] = ["", *[path for path in sys.path if path in names]]
    return present, [*standard, *packages(before), *libraries(), *etc]


def coarse(readable: list[str]) -> list[str]:
    """A few folders that hold all of `readable`; a child's second lock takes nothing else away."""
    tops = {os.path.dirname(path.removeprefix(lockdown.LISTED)) for path in readable}
    return sorted(top for top in tops if not lies_in(os.path.dirname(top), tops))


def lies_in(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def anyone_may_read(path: str) -> bool:
    """Whether a user without rights can reach a folder."""
    while os.stat(path).st_mode & 0o005 == 0o005:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def address_space() -> int:
    """Bytes of address space that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


class Zygote:
    """The loop that serves the pool until its end of the socket closes."""

    def __init__(self, control: socket.socket, config: Config, outer: list[str]) -> None:
        self.control, self.config = control, config
        self.outer = [os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder in outer]
        self.filter = lockdown.SyscallFilter(syscalls.for_program())
        self.children: dict[int, Child] = {}
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        in_use = address_space()
        self.memory = in_use + config["memory"]
        self.me = os.getpid()

    def serve(self) -> None:
        """Until the pool is gone; then no child is left."""
        open_ = True
        while open_:
            patience = 1000 if any(c.idle_since for c in self.children.values()) else None
            for descriptor, _ in self.poll.poll(patience):
                if descriptor == self.control.fileno():
                    open_ = self._message()
                else:
                    self._reap(descriptor)
            self._end_idle()
        for child in self.children.values():
            signal.pidfd_send_signal(child.watch, signal.SIGKILL)
            os.waitpid(child.pid, 0)

    def _message(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.control, 4096, 8)
        if not data:
            return False
        message = json.loads(data)
        if message["op"] == "fork":
            self._fork(message, descriptors)
            return True
        child = next((c for c in self.children.values() if c.id == message["id"]), None)
        if child is not None:
            self._signal(child, message["op"])
        return True

    def _signal(self, child: Child, op: str) -> None:
        wanted = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "resume": signal.SIGCONT}[op]
        child.idle_since = time.monotonic() if op == "stop" else None
        signal.pidfd_send_signal(child.watch, wanted)

    def _fork(self, message: dict[str, str | int], descriptors: list[int]) -> None:
        *own, ended = descriptors
        pid = -1
        try:
            pid = os.fork()
            if pid == 0:
                self._become(str(message["scratch"]), bool(message["stateful"]), own)
            watch = os.pidfd_open(pid)
            self.children[watch] = Child(int(message["id"]), pid, watch, ended)
            self.poll.register(watch, select.POLLIN)
        except OSError as error:
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
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
        try:
            os.write(child.ended, ENDED.pack(status, used.ru_utime, used.ru_stime, used.ru_maxrss))
        except BrokenPipeError:
            pass  # whoever asked no longer waits
        finally:
            os.close(child.ended)

    def _end_idle(self) -> None:
        latest = time.monotonic() - self.config["idle"]
        for child in self.children.values():
            if child.idle_since is not None and child.idle_since < latest:
                self._signal(child, "kill")

    def _become(self, scratch: str, stateful: bool, descriptors: list[int]) -> NoReturn:
        """In the child: lock up, say so, run. Every way out of here ends the process."""
        status = descriptors[3]
        try:
            self._lock_files(scratch)
            request, status = self._arrange(descriptors)
            self._lock_calls(None if stateful else self.config["cpu"])
            os.write(status, LOCKED)
            gc.enable()
            runner.serve(request, status, stateful, self.config["cpu"], self.config["seed"])
        except (OSError, ValueError, MemoryError) as error:
            os.write(status, FAILED + str(error).encode())
        finally:
            os._exit(runner.ERROR)

    def _arrange(self, descriptors: list[int]) -> tuple[int, int]:
        """Standard streams, the request, the status; every other descriptor is closed."""
        request, out, err, status = descriptors
        os.dup2(out, 1)
        os.dup2(err, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        low, high = sorted((request, status))
        os.closerange(3, low)
        os.closerange(low + 1, high)
        os.closerange(high + 1, 1 << 16)
        return request, status

    def _lock_files(self, scratch: str) -> None:
        lockdown.die_with_parent(self.me)
        os.chdir(scratch)
        os.umask(0o077)
        lockdown.restrict_files(self.outer, [scratch, os.devnull])

    def _lock_calls(self, cpu: int | None) -> None:
        lockdown.limit(cpu, self.memory, self.config["file"], self.config["files"])
        self.filter.install()


def main() -> None:
    """Load, lock, tell the pool, serve."""
    control = socket.socket(fileno=os.dup(0))
    config = cast(Config, json.loads(sys.argv[1]))
    try:
        lacks = lockdown.missing()
        if lacks:
            raise lockdown.LockError("; ".join(lacks))
        present, readable = load(config["preload"])
        outer = coarse(readable)
        if lies_in(config["root"], outer):
            raise lockdown.LockError(f"the scratch folder {config['root']} lies in {outer}")
        os.environ.clear()
        for stream in (sys.stdout, sys.stderr):  # these become the programs'
            cast(io.TextIOWrapper, stream).reconfigure(errors="backslashreplace")
        for name in [n for n in sys.modules if n == "rods" or n.startswith("rods.")]:
            del sys.modules[name]  # programs need not find us
        gc.collect()
        gc.disable()
        gc.freeze()
        zygote = Zygote(control, config, outer)
        nobody = all(anyone_may_read(folder) for folder in outer)
        lockdown.give_up_privileges(become_nobody=nobody)
        lockdown.restrict_files(readable, [config["root"], os.devnull])
        lockdown.SyscallFilter(syscalls.for_zygote()).install()
    except lockdown.LockError as error:
        control.send(json.dumps({"missing": str(error)}).encode())
        return
    ready = {"uid": os.geteuid(), "loaded": present, "landlock": lockdown.landlock_version()}
    control.send(json.dumps(ready).encode())
    zygote.serve()

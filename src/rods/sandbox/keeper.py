"""The keeper of one workplace: runs commands in it, one by one, and ends all that they started.

Owns one folder and what runs in it. It confines itself, adopts whatever its commands leave behind,
and after each command kills every process within its confinement until it has no child. Its folder
is gone with it. Runs as a process of its own, started by `shell.Shell`; standard library only.

    python -c "...; from rods.sandbox.keeper import main; main()" '{"memory": ..., ...}'

Messages come over a socket as descriptor 0, eight bytes of length and a JSON object each; each is
answered by one:

    {"op": "put", "files": {"a.py": "text"}}         files of the one who asks
    {"op": "run", "argv": ["bash", "-c", "ls"], "stdin": "", "seconds": 30, "output": 65536}
    {"op": "edit", "arguments": {...}, "seconds": 30, "output": 65536}      `editor.edit`
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypedDict

from rods.sandbox import lockdown, syscalls
from rods.sandbox.editor import edit
from rods.sandbox.observed import Output, descendants, kernel, memory
from rods.sandbox.readable import anyone_may_read, coarse, libraries, lies_in, standard_library
from rods.sandbox.scratch import Boxes, unnamed

HEADER = struct.Struct("<Q")
TOOLS = ("/usr/bin", "/bin", "/usr/lib/git-core", "/usr/libexec/git-core", "/usr/share/git-core")
"""Folders that commands may run and read besides the interpreter."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
LOOK_SECONDS = 0.1  # Seconds between two looks at what a command holds
USERS = (1 << 20, 1 << 30)  # Where root takes a user from that nobody else is


class KeeperConfig(TypedDict):
    """Configuration that `Shell` sends at the start."""

    source: str
    """Folder of RODS itself, which no command may read."""
    parent: str
    """Where the folder goes if the kernel gives us no place of our own."""
    processes_space: str
    """The name space of processes of the one who asks."""
    python: str
    memory: int
    cpu: int
    processes: int
    file: int
    disk: int
    entries: int
    files: int


def send(line: socket.socket, message: Mapping[str, object]) -> None:
    """Send one message."""
    data = json.dumps(message).encode()
    line.sendall(HEADER.pack(len(data)) + data)


def receive(line: socket.socket) -> dict[str, Any]:
    """Wait for one message; raises `EOFError` if the other side is gone."""
    return json.loads(_exactly(line, HEADER.unpack(_exactly(line, HEADER.size))[0]))


def _exactly(line: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = line.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Keeper:
    """The loop that serves until the other end of the socket closes."""

    def __init__(self, control: socket.socket, config: KeeperConfig) -> None:
        """Lock up.

        Raises:
            LockError: a lock cannot be put on; nothing may run.
        """
        self._control, self._config = control, config
        lacks = lockdown.missing()
        if lacks:
            raise lockdown.LockError("; ".join(lacks))
        apart = os.readlink("/proc/self/ns/pid") != config["processes_space"]
        sized = lockdown.separate_mounts()
        library = [*standard_library(), *libraries(), "/etc/ld.so.cache", "/etc/localtime"]
        library += ["/usr/lib/locale"]
        tools = [*(os.path.realpath(tool) for tool in TOOLS), os.path.realpath(config["python"])]
        outer = [path for path in [*coarse(library), *dict.fromkeys(tools)] if os.path.exists(path)]
        place = lockdown.PLACE if sized else config["parent"]
        for secret in (place, config["source"]):
            if lies_in(secret, [path.removeprefix(lockdown.LISTED) for path in library + tools]):
                raise lockdown.LockError(f"{secret} lies in what commands may read: {outer}")
        user = self._user(outer)
        owner = os.geteuid() if user is None else user
        self.boxes = Boxes(place, 1, config["disk"], config["entries"], sized, owner)
        self._outer = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in outer]
        lockdown.adopt_orphans()
        lockdown.give_up_privileges(user)
        self._number = self.boxes.take() or 0
        self.box = self.boxes.rename(self._number)
        run = [*library, *tools]
        write = [self.boxes.root, *DEVICES]
        lockdown.restrict_files([*DEVICES, "/proc"], write, [] if sized else [place], run)
        if not (apart or _is_scoped()):
            raise lockdown.LockError(
                "processes: neither a name space of their own (bubblewrap) nor Landlock of "
                "version 6 (Linux 6.12) keeps their signals in"
            )
        lockdown.SyscallFilter(syscalls.for_shell()).install()
        self._filter = lockdown.SyscallFilter(syscalls.for_command())
        self._me = os.getpid()
        for name in ("repo", "home", "bin"):
            os.mkdir(f"{self.box}/{name}", 0o700)
        for name in ("python", "python3"):
            os.symlink(os.path.realpath(config["python"]), f"{self.box}/bin/{name}")
        self.root = f"{self.box}/repo"

    @staticmethod
    def _user(outer: list[str]) -> int | None:
        """A user of its own, whose processes and files are no other's; None: the one it is."""
        if os.geteuid() != 0 or not all(anyone_may_read(path) for path in outer):
            return None
        user = random.SystemRandom().randrange(*USERS)
        return user if lockdown.could(lambda: lockdown.give_up_privileges(user)) else None

    # -- what it is asked -------------------------------------------------------------------

    def serve(self) -> None:
        """Until nobody asks any more; then nothing is left."""
        try:
            while True:
                self._answer(self._do(receive(self._control)))
        except EOFError:
            pass
        finally:
            self._end_all()
            with contextlib.suppress(OSError):  # a folder that is closed to us: `Shell` removes it
                self.boxes.give_back(self._number)
                self.boxes.remove()

    def _answer(self, message: Mapping[str, object]) -> None:
        try:
            send(self._control, message)
        except OSError as error:
            raise EOFError from error

    def _do(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["op"] == "put":
            for path, text in message["files"].items():
                place = f"{self.root}/{path}"
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "w", encoding="utf-8") as file:
                    file.write(text)
            return {}
        if message["op"] == "run":
            argv: list[str] = message["argv"]
            return self._watch(lambda: self._execute(argv), message)
        arguments: dict[str, object] = message["arguments"]
        return self._watch(lambda: _write_result(arguments), message)

    # -- one command ------------------------------------------------------------------------

    def _watch(self, work: Callable[[], None], message: dict[str, Any]) -> dict[str, Any]:
        """Run a child until it ends or has used up what it may, then end all it started."""
        given = str(message.get("stdin", "")).encode("utf-8", "replace")
        place = f"{self.box}/{os.urandom(16).hex()}"
        stdin = unnamed(place, given) if given else os.open(os.devnull, os.O_RDONLY)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(work, stdin, write)
        os.close(write)
        os.close(stdin)
        watch = os.pidfd_open(pid)
        output = Output(read, message["output"])
        try:
            limit = self._until_end(watch, output, time.monotonic() + message["seconds"])
        finally:
            status = self._end_all(pid)
            os.close(watch)
            output.drain()
            os.close(read)
        limit = "output" if output.full else limit
        code = os.waitstatus_to_exitcode(status)
        text = output.text.replace(self.root, ".").replace(self.box, "..")
        return {"output": text, "code": code, "limit": limit}

    def _until_end(self, watch: int, output: Output, deadline: float) -> str:
        """Which limit was met; nothing if the command ended by itself."""
        poll = select.poll()
        for descriptor in (watch, output.descriptor, self._control.fileno()):
            poll.register(descriptor, select.POLLIN)
        look = 0.0
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "time"
            ready = [d for d, _ in poll.poll(1000 * min(LOOK_SECONDS, deadline - now))]
            if self._control.fileno() in ready:
                raise EOFError  # nothing is asked while something runs
            if output.descriptor in ready and not output.take():
                poll.unregister(output.descriptor)
            if output.full:
                return "output"
            if watch in ready:
                return ""
            if now >= look:
                look = now + LOOK_SECONDS
                if limit := self._held():
                    return limit

    def _held(self) -> str:
        """Which limit the command and all that it started exceed together."""
        most = 2 * self._config["processes"]
        pids = descendants(self._me, most)  # first, because a moment later there may be many more
        if len(pids) > most:
            return "processes"
        used = self.boxes.used(self._number, self._me, self._config["file"])
        if used is None or (not self.boxes.sized and used > self._config["disk"]):
            return "disk"
        held = sum(map(memory, pids)) + kernel(pids)
        return "memory" if held > self._config["memory"] else ""

    def _end_all(self, pid: int = 0) -> int:
        """Kill all that lives within the confinement but ourselves; the status of `pid`.

        Safe because `__init__` made sure that signals do not leave it. Orphans become our children,
        so that when there is no child left nothing is.
        """
        status = 0
        while True:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(-1, signal.SIGKILL)
            try:
                ended, how = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status
            if ended == 0:
                time.sleep(0.001)
            elif ended == pid:
                status = how

    def _become(self, work: Callable[[], None], stdin: int, out: int) -> NoReturn:
        """In the child: lock up, then work. Every way out of here ends the process."""
        try:
            os.setsid()
            lockdown.die_with_parent(self._me)
            os.chdir(self.root)
            os.umask(0o077)
            for number in (1, 2):
                os.dup2(out, number)
            os.dup2(stdin, 0)
            config = self._config
            lockdown.restrict_files(DEVICES, [self.box, "/dev/null"], run=self._outer)
            processes = config["processes"]
            files = config["file"], config["files"]
            lockdown.limit(config["cpu"], config["memory"], *files, processes)
            self._filter.install()
            os.closerange(3, 1 << 16)
            work()
        except (OSError, ValueError, MemoryError) as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)

    def _execute(self, argv: list[str]) -> None:
        home, path = f"{self.box}/home", f"{self.box}/bin:/usr/bin:/bin"
        program = shutil.which(argv[0], path=path) or argv[0]
        os.execve(program, argv, {"HOME": home, "TMPDIR": home, "PATH": path, **ENVIRONMENT})


ENVIRONMENT = {  # Environment variables of commands; commits of the same files have the same names
    "LC_ALL": "C.UTF-8",
    "SHLVL": "1",  # or bash, which may not ask what its input is, reads a network's rc file
    "TZ": "UTC", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "agent", "GIT_AUTHOR_EMAIL": "agent@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@example.org", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1",
}  # fmt: skip


def _write_result(arguments: dict[str, object]) -> None:
    text, failed = edit(arguments)
    data = json.dumps([text, failed]).encode()
    while data:
        data = data[os.write(1, data) :]
    os._exit(0)


def _is_scoped() -> bool:
    """True if our signals cannot leave: not even the one who started us can be reached."""
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return lockdown.landlock_version() >= 6
    return False


def main() -> None:
    """Lock, say so, serve."""
    control = socket.socket(fileno=os.dup(0))
    config: KeeperConfig = json.loads(sys.argv[1])
    os.environ.clear()
    try:
        keeper = Keeper(control, config)
        ready: dict[str, Any] = {"sized": keeper.boxes.sized, "root": keeper.boxes.root}
    except (lockdown.LockError, OSError) as error:
        keeper, ready = None, {"missing": str(error)}
    send(control, ready)
    if keeper is not None:
        keeper.serve()

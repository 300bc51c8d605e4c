"""Programs that try to get out, to see too much, to use too much, or to cheat about their result.

Each is tried bare and wrapped; `test_sandbox_bounds.py` has every kind of pool. Each is stopped,
each is the program's fault (an error or a limit, never "sandbox"), and the pool goes on serving
with the same zygote.
"""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rods.sandbox.execution import Execution
from rods.sandbox.pool import SandboxPool
from sandbox_cases import (
    KINDS,
    LIMITS,
    REFUSED,
    SECRET,
    blocked,
    let_through,
    neighbor,
    opened,
    opened_as,
    run,
)
from sweeps import slow


@pytest.fixture(scope="module", params=[KINDS[0], *slow(KINDS[2])])
def pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SandboxPool]:
    os.environ["RODS_TEST_SECRET"] = SECRET
    folder = tmp_path_factory.mktemp("interpreter")
    try:
        with opened_as(request.param, folder, replace(LIMITS, seconds=60)) as pool:
            yield pool
    finally:
        del os.environ["RODS_TEST_SECRET"]


@pytest.fixture(scope="module")
def hasty() -> Iterator[SandboxPool]:
    with opened(replace(LIMITS, seconds=0.5), size=12) as pool:
        yield pool


NETWORK = [
    "import socket; socket.socket()",
    "import socket; socket.socket(socket.AF_UNIX)",
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "import socket; socket.socketpair(socket.AF_UNIX)[0].bind('x')",
    "import socket; socket.socketpair()[0].connect('\\0x')",
    "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '\\0x')",
    "import socket; a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [0])",
]


@pytest.mark.parametrize("code", NETWORK)
def test_network(pool: SandboxPool, code: str) -> None:
    blocked(pool, code)


def test_network_of_this_machine(pool: SandboxPool) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        code = "import urllib.request as u; u.urlopen('http://127.0.0.1:{}')"
        blocked(pool, code.format(server.server_port), "urllib.error.URLError: <urlopen error [Err")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('{file}').read()",
        "open('../../../../..{file}').read()",
        "import os; os.listdir('/')",
        "import os; os.listdir('..')",
        "import os; os.listdir('{folder}')",
        "import os; os.open('{file}', os.O_RDONLY | os.O_TRUNC)",
        "import os; os.symlink('{file}', 'link'); open('link').read()",
        "import os; os.symlink('..', 'up'); os.listdir('up')",
        "import os; os.link('{file}', 'hard')",
        "import os; os.rename('{file}', 'mine')",
        "import importlib.util as i; s = i.spec_from_file_location('x', '{file}')\n"
        "i.module_from_spec(s).__loader__.exec_module(i.module_from_spec(s))",
        "import ctypes; ctypes.CDLL('{file}')",
        "import sqlite3; sqlite3.connect('{file}').execute('select 1 from x')",
        "import mmap; mmap.mmap(open('{file}').fileno(), 0)",
    ],
)
def test_reading_outside(pool: SandboxPool, tmp_path: Path, code: str) -> None:
    file = tmp_path / "secret.py"
    file.write_text(f"print({SECRET!r})")
    file.chmod(0o644)
    errors = ("PermissionError", "OSError", "sqlite3.OperationalError: unable to open")
    blocked(pool, code.format(file=file, folder=tmp_path), *errors)
    assert file.read_text() == f"print({SECRET!r})"


@pytest.mark.parametrize(
    "code",
    [
        "open('{file}', 'w')",
        "open('{file}', 'a')",
        "open('{folder}/new', 'w')",
        "open('../new', 'w')",
        "import os; os.remove('{file}')",
        "import os; os.truncate('{file}', 0)",
        "import os; os.mkdir('{folder}/new')",
        "import os; os.symlink('x', '{folder}/new')",
        "import os; os.mkfifo('new')",
        "import os; os.mknod('new')",
        "import os; os.chmod('{file}', 0)",
        "import os; os.chown('{file}', 1, 1)",
        "import os; os.utime('{file}')",
        "import os; os.setxattr('{file}', 'user.x', b'x')",
        "import os; os.chroot('.')",
        "import os; os.rmdir('../' + os.path.basename(os.getcwd()))",
    ],
)
def test_writing_outside(pool: SandboxPool, tmp_path: Path, code: str) -> None:
    file = tmp_path / "file"
    file.write_text("as it was")
    before = file.stat()
    blocked(pool, code.format(file=file, folder=tmp_path))
    after = file.stat()
    assert file.read_text() == "as it was" and os.listdir(tmp_path) == ["file"]
    assert (before.st_mode, before.st_uid, before.st_mtime_ns) == (
        after.st_mode,
        after.st_uid,
        after.st_mtime_ns,
    )


def test_standard_library_cannot_be_changed(pool: SandboxPool) -> None:
    blocked(pool, "import json; open(json.__file__, 'a')")
    blocked(pool, "import os, json; os.chmod(json.__file__, 0)")


@pytest.mark.parametrize(
    "path", ["self/environ", "self/mem", "self/maps", "1/cmdline", "{maker}/environ", "cpuinfo"]
)
def test_proc(pool: SandboxPool, path: str) -> None:
    errors = REFUSED
    if "maker" in path and pool._current().wrapper:
        errors = ("FileNotFoundError",)  # it sees no process but those of its zygote
    blocked(pool, f"open('/proc/{path.format(maker=os.getpid())}', 'rb').read()", *errors)
    blocked(pool, "import os; os.listdir('/proc')")
    blocked(pool, "import os; os.readlink(f'/proc/{os.getppid()}/cwd')")


def test_environment_is_empty(pool: SandboxPool) -> None:
    code = """
import ctypes, os
first = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
print(dict(os.environ), bool(first) and first[0], os.getenvb(b"RODS_TEST_SECRET"))
"""
    assert run(pool, code).stdout == "{} None None\n"


def test_memory_of_the_maker_holds_no_other_program(pool: SandboxPool) -> None:
    with neighbor(pool, f"kept = {SECRET!r}"):
        code = """
import gc
gc.unfreeze()
found = [x for x in gc.get_objects() if BACKWARDS in repr(x)[::-1]]
print(len(found))
""".replace("BACKWARDS", repr(SECRET[::-1]))
        assert run(pool, code).stdout == "0\n"


def test_other_scratch_folders(pool: SandboxPool) -> None:
    with neighbor(pool, "import os; open('a', 'w'); print(os.getcwd())") as folder:
        blocked(pool, f"open('{folder}/a').read()")
        blocked(pool, f"open('{folder}/b', 'w')")


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.fork()",
        "import os; os.forkpty()",
        "import os\nwhile True: os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import os; os.execv('/bin/true', ['true'])",
        "import multiprocessing as m; m.get_context('fork').Process(target=print).start()",
        "import threading\nwhile True: threading.Thread(target=input).start()",
        "import _thread\nwhile True: _thread.start_new_thread(print, ())",
        "import os; assert os.system('true') == 0",
    ],
)
def test_processes_and_threads(pool: SandboxPool, code: str) -> None:
    errors = ("PermissionError", "RuntimeError: can't start", "AssertionError", "OSError")
    blocked(pool, code, *errors)


CALLS = [
    ("fork", 57, 1079),
    ("vfork", 58, 1071),
    ("clone", 56, 220),
    ("clone3", 435, 435),
    ("execve", 59, 221),
    ("execveat", 322, 281),
    ("ptrace", 101, 117),
    ("process_vm_readv", 310, 270),
    ("pidfd_open", 434, 434),
    ("pidfd_getfd", 438, 438),
    ("socket", 41, 198),
    ("io_uring_setup", 425, 425),
    ("bpf", 321, 280),
    ("perf_event_open", 298, 241),
    ("userfaultfd", 323, 282),
    ("keyctl", 250, 219),
    ("unshare", 272, 97),
    ("setns", 308, 268),
    ("mount", 165, 40),
    ("memfd_create", 319, 279),
    ("shmget", 29, 194),
    ("mq_open", 240, 180),
    ("open_by_handle_at", 304, 265),
    ("openat2", 437, 437),
    ("prctl", 157, 167),
    ("seccomp", 317, 277),
    ("setuid", 105, 146),
    ("personality", 135, 92),
    ("sched_setaffinity", 203, 122),
    ("inotify_init1", 294, 26),
    ("not yet invented", 999, 999),
]


def test_system_calls_by_number(pool: SandboxPool) -> None:
    assert let_through(pool, CALLS) == ""


def test_numbers_of_other_interfaces(pool: SandboxPool) -> None:
    """The numbers of the x32 interface, and of 32-bit programs."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if os.uname().machine == "x86_64":
    print(libc.syscall(0x40000000 + 39), ctypes.get_errno())
"""
    expected = "-1 1\n" if os.uname().machine == "x86_64" else ""
    assert run(pool, code).stdout == expected


def test_thirty_two_bit_door(pool: SandboxPool) -> None:
    code = """
import ctypes, mmap, os
assert os.uname().machine == "x86_64", "other processors have no such door"
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=7)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # getpid by int 0x80
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print("ESCAPED")
"""
    done = run(pool, code)
    assert done.status == "error" and "ESCAPED" not in done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "os.kill(os.getppid(), signal.SIGKILL)",
        "os.kill(os.getppid(), signal.SIGSTOP)",
        "os.kill(os.getppid(), 0)",
        "os.kill(-1, signal.SIGKILL)",
        "os.kill(0, signal.SIGKILL)",
        "os.kill({maker}, signal.SIGTERM)",
        "os.killpg(os.getpgid(0), signal.SIGKILL)",
        "os.pidfd_open(os.getppid())",
        "signal.pthread_kill(1, 9) if False else os.setpgid(0, os.getppid())",
        "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
        "fcntl.fcntl(0, 10, signal.SIGKILL)",
        "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "os.sched_setaffinity(os.getppid(), [0])",
    ],
)
def test_signals_to_others(pool: SandboxPool, code: str) -> None:
    start = "import fcntl, os, resource, signal\n"
    blocked(pool, start + code.format(maker=os.getpid()), "PermissionError", "ProcessLookupError")


def test_limits_cannot_be_raised(pool: SandboxPool) -> None:
    for name in ("AS", "CPU", "FSIZE", "NOFILE", "NPROC"):
        code = f"import resource as r; r.setrlimit(r.RLIMIT_{name}, (r.RLIM_INFINITY,) * 2)"
        blocked(pool, code, "ValueError: not allowed", "PermissionError")


@pytest.mark.parametrize(
    "code",
    [
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "x = 'x'\nwhile True: x += x",
        "bytearray(1 << 40)",
        "import mmap; x = [mmap.mmap(-1, 1 << 24, flags=2) for _ in range(1 << 20)]",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return [n] * n + f(n + 1000)\nf(1)",
        "open('x', 'wb').truncate(1 << 50)",
        "import os; os.posix_fallocate(os.open('x', os.O_RDWR | os.O_CREAT), 0, 1 << 40)",
        "x = [open(f'{n}', 'w') for n in range(100)]",
    ],
)
def test_memory_and_file_floods(pool: SandboxPool, code: str) -> None:
    done = run(pool, code)
    assert done.status in ("limit", "error") and done.limit in ("", "memory"), done
    assert done.limit == "memory" or done.detail.startswith("OSError: [Errno 2"), done


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('x' * 1000)",
        "import os\nwhile True: os.write(2, b'x' * 100000)",
        "import sys; sys.stdout.buffer.write(bytes(1 << 25))",
        "import os\nfor n in (1, 2):\n    os.dup2(n, n + 5)\nwhile True: os.write(6, b'x' * 1000)",
    ],
)
def test_output_floods(pool: SandboxPool, code: str) -> None:
    done = run(pool, code)
    assert (done.status, done.limit) == ("limit", "output"), done
    assert len(done.stdout) <= LIMITS.output and len(done.stderr) <= LIMITS.output


LOOPS = [
    "while True: pass",
    "import time; time.sleep(1000)",
    "import signal\nwhile True:\n    try: signal.pause()\n    except BaseException: pass",
    "10 ** 10 ** 9",
    "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "import math; math.factorial(10 ** 8)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "import os; r, w = os.pipe(); os.read(r, 1)",
    "import signal\nfor n in range(1, 65):\n"
    "    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
    "while True: pass",
    "import sys\nclass F:\n    def __del__(self):\n        while True: pass\nx = F()\ndel x",
]


@pytest.mark.slow
def test_long_loops() -> None:
    """Each burns a processor until its time is up, so there is little of it."""
    size = len(LOOPS)
    with opened(replace(LIMITS, seconds=0.2), size=size) as pool, ThreadPoolExecutor(size) as all_:
        for code, done in zip(LOOPS, list(all_.map(pool.execute, LOOPS)), strict=True):
            assert (done.status, done.limit) == ("limit", "time"), code
        # On a busy machine even this may take longer than that, but not always.
        assert any(pool.execute("print(1)").ok for _ in range(50))
        assert pool.restarts == 0


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("def f(): f()\nf()", "RecursionError"),
        ("x = []\nfor _ in range(10**5): x = [x]\nrepr(x)", "RecursionError"),
        ("import sys\nsys.setrecursionlimit(10**8)\nx = []\n"
         "for _ in range(10**6): x = [x]\nrepr(x)", "the program was ended by SIGSEGV"),
        ("eval('(' * 10**5)", "MemoryError|SyntaxError|RecursionError|it printed"),
        ("eval('-' * 10**5 + '1')", "MemoryError|RecursionError|the program was ended"),
        ("str(10 ** 5000)", "ValueError: Exceeds the limit"),
        ("print(1 << 10**12)", "MemoryError|it used more"),
        ("import ctypes; ctypes.string_at(0)", "the program was ended by SIGSEGV"),
        ("import ctypes; ctypes.memset(id(None), 0, 64)", "the program was ended|TypeError|System"),
        ("import os; os.abort()", "the program was ended by SIGABRT"),
    ],
)  # fmt: skip
def test_depth_and_size(pool: SandboxPool, code: str, detail: str) -> None:
    done = run(pool, code)
    assert done.status in ("error", "limit")
    assert any(done.detail.startswith(words) for words in [*detail.split("|"), "it used"]), done


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.closerange(0, 1000)",
        "import os\nfor n in (0, 1, 2): os.close(n)\nprint('lost')",
        "import os\nos.close(1); os.open('x', os.O_RDWR | os.O_CREAT); print('into a file')",
        "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
        "import sys\nsys.stdout.close()",
        "import sys, traceback\ntraceback.print_exception = 1 / 1\nraise ValueError",
        "import os\nos._exit = None\nimport sys\nsys.modules.clear()",
        "import builtins\nbuiltins.__dict__.clear()",
        "import gc\nfor x in gc.get_objects():\n    if isinstance(x, dict): x.clear()",
        "import sys\nf = sys._getframe()\nwhile f: f.f_globals.clear(); f = f.f_back",
        "import os; os._exit(97)",
        "import os; os._exit(255)",
    ],
)
def test_breaking_its_own_interpreter(pool: SandboxPool, code: str) -> None:
    assert run(pool, code).status in ("ok", "error", "limit")


def test_no_descriptor_but_the_three(pool: SandboxPool) -> None:
    code = """
import os
found = []
for n in range(3, 2000):
    try:
        os.write(n, b"F it was the sandbox")
    except OSError as error:
        if error.errno != 9:
            found.append(n)
    else:
        found.append(n)
print(found)
"""
    assert run(pool, code).stdout == "[]\n"


@pytest.mark.slow
def test_floods_at_once(hasty: SandboxPool) -> None:
    """Many attackers and honest programs together: none of the honest is harmed."""
    codes = ["while True: print('x' * 999)", "print(1)", "import os\nwhile 1: os.fork()"] * 6
    codes += ["x = []\nwhile True: x.append(bytearray(1 << 20))", "import os; os._exit(9)"] * 3
    found: dict[int, Execution] = {}

    def work(start: int) -> None:
        for index in range(start, len(codes), 8):
            found[index] = hasty.execute(codes[index])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(codes) and hasty.restarts == 0
    assert all(found[i].stdout == "1\n" for i, code in enumerate(codes) if code == "print(1)")
    assert {done.status for done in found.values()} == {"ok", "error", "limit"}

"""Programs that reach for their neighbors, for the trainer, and for what no limit counted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rods.sandbox.pool import SandboxPool
from sandbox_cases import (
    EACH_KIND,
    SECRET,
    blocked,
    children,
    let_through,
    neighbor,
    opened_as,
    pool_of,
    run,
)

pool = pool_of(EACH_KIND)


CALLS = [
    ("io_setup", 206, 0),
    ("setxattr", 188, 5),
    ("ioprio_set", 251, 30),
    ("mknodat", 259, 33),
    ("linkat", 265, 37),
    ("truncate", 76, 45),
    ("chroot", 161, 51),
    ("fchmod", 91, 52),
    ("fchmodat", 268, 53),
    ("quotactl", 179, 60),
    ("signalfd4", 289, 74),
    ("vmsplice", 278, 75),
    ("splice", 275, 76),
    ("tee", 276, 77),
    ("timerfd_create", 283, 85),
    ("utimensat", 280, 88),
    ("acct", 163, 89),
    ("timer_create", 222, 107),
    ("syslog", 103, 116),
    ("sched_setscheduler", 144, 119),
    ("tkill", 200, 130),
    ("rt_sigqueueinfo", 129, 138),
    ("setpriority", 141, 140),
    ("sethostname", 170, 161),
    ("msgget", 68, 186),
    ("semget", 64, 190),
    ("setsockopt", 54, 208),
    ("sendmsg", 46, 211),
    ("recvmsg", 47, 212),
    ("add_key", 248, 217),
    ("request_key", 249, 218),
    ("swapon", 167, 224),
    ("mlock", 149, 228),
    ("mlockall", 151, 230),
    ("mincore", 27, 232),
    ("mbind", 237, 235),
    ("migrate_pages", 256, 238),
    ("rt_tgsigqueueinfo", 297, 240),
    ("fanotify_init", 300, 262),
    ("name_to_handle_at", 303, 264),
    ("kcmp", 312, 272),
    ("open_tree", 428, 428),
    ("move_mount", 429, 429),
    ("fsopen", 430, 430),
    ("process_madvise", 440, 440),
    ("mount_setattr", 442, 442),
    ("memfd_secret", 447, 447),
    ("process_mrelease", 448, 448),
    ("set_mempolicy_home_node", 450, 450),
    ("fchmodat2", 452, 452),
    ("statmount", 457, 457),
    ("listmount", 458, 458),
]


def test_more_system_calls_by_number(pool: SandboxPool) -> None:
    assert let_through(pool, CALLS) == ""


@pytest.mark.parametrize("flags", [0x21, 0x23, 0x8021, 0x4021])
def test_shared_memory_by_the_call_itself(pool: SandboxPool, flags: int) -> None:
    """Filled, and given back but for a page, it would stay: 1 GiB in two seconds."""
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
if libc.mmap(None, 1 << 20, 3, {flags}, -1, 0) == 2**64 - 1:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
    blocked(pool, code, "PermissionError")


def test_locks_of_parts_of_a_file_are_not_kept(pool: SandboxPool) -> None:
    """Each would be kernel memory, for as long as a program runs. SQLite must not notice."""
    code = """
import fcntl, os
file = open('x', 'w')
for n in range(1000):
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * n)
    fcntl.fcntl(file, 37, b'\\1' + bytes(7) + (2 * n).to_bytes(8, 'little') + b'\\1' + bytes(15))
found = os.fstat(file.fileno())
print(f'{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}')
"""
    with neighbor(pool, code) as inode:
        assert ":" in inode
        assert inode not in Path("/proc/locks").read_text().split()
    database = """
import sqlite3
for mode in ('delete', 'wal'):
    one, other = sqlite3.connect(f'{mode}.db'), sqlite3.connect(f'{mode}.db')
    one.execute(f'pragma journal_mode={mode}')
    one.execute('create table t (n)')
    one.executemany('insert into t values (?)', [(n,) for n in range(100)])
    one.commit()
    print(other.execute('select sum(n) from t').fetchall())
"""
    assert run(pool, database).stdout == "[(4950,)]\n" * 2


def test_pipes_and_pairs_hold_little(pool: SandboxPool) -> None:
    code = """
import fcntl, os, socket
kept, held = [], 0
def fill(place):
    global held
    os.set_blocking(place, False)
    try:
        while True: held += os.write(place, bytes(1 << 16))
    except BlockingIOError: pass
try:
    while True:
        read, write = os.pipe()
        kept.append((read, write))
        try: fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)
        except PermissionError: pass
        fill(write)
except OSError: pass
print(held)
for pair in kept: os.close(pair[0]), os.close(pair[1])
kept, held = [], 0
try:
    while True:
        kept.append(socket.socketpair())
        for end in kept[-1]: fill(end.fileno())
except OSError: pass
print(held)
"""
    pipes, pairs = map(int, run(pool, code).stdout.split())
    assert 0 < pipes <= 32 << 16 and 0 < pairs <= 32 << 20


def test_waiting_signals_are_few(pool: SandboxPool) -> None:
    code = """
import os, signal
numbers = range(signal.SIGRTMIN, signal.SIGRTMAX)
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    for _ in range(100): os.kill(os.getpid(), number)
"""
    with neighbor(pool, code):
        [pid] = children(pool)
        status = Path(f"/proc/{pid}/status").read_text()
        waiting, allowed = status.split("SigQ:")[1].split()[0].split("/")
        assert int(allowed) == 64
        assert int(waiting) <= 64 + 1000  # of all processes of the user, the tests' own among them


NEIGHBOUR = [
    "os.readlink('/proc/{pid}/cwd')",
    "os.readlink('/proc/{pid}/root')",
    "os.readlink('/proc/{pid}/exe')",
    "os.readlink('/proc/{pid}/fd/0')",
    "os.listdir('/proc/{pid}/fd')",
    "os.listdir('/proc/{pid}/cwd/')",
    "os.stat('/proc/{pid}/cwd/note')",
    "os.listdir('/proc/{pid}/map_files')",
    "open('/proc/{pid}/environ').read()",
    "open('/proc/{pid}/maps').read()",
    "open('/proc/{pid}/mem', 'rb').read(1)",
    "open('/proc/{pid}/cmdline').read()",
    "open('/proc/{pid}/task/{pid}/status').read()",
    "os.chdir('/proc/{pid}/cwd')",
    "os.kill({pid}, signal.SIGKILL)",
    "os.kill({pid}, signal.SIGCONT)",
    "os.kill({pid}, 0)",
    "signal.pidfd_send_signal(os.pidfd_open({pid}), 9)",
    "resource.prlimit({pid}, resource.RLIMIT_AS)",
    "os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
    "os.sched_setaffinity({pid}, [0])",
    "os.sched_setparam({pid}, os.sched_param(0))",
    "os.setpgid({pid}, 0)",
]


def test_a_neighbour_by_its_number(pool: SandboxPool) -> None:
    with neighbor(pool, "import os; os.symlink('x', 'note'); print(os.getpid())") as pid:
        there = children(pool)
        lines = [line.format(pid=pid) for line in NEIGHBOUR]
        code = f"""
import os, resource, signal
for line in {lines!r}:
    try:
        print(line, 'gave', eval(line))
    except (PermissionError, FileNotFoundError):
        pass
    except OSError as error:
        print(line, error)
"""
        assert run(pool, code).stdout == ""
        assert children(pool) == there  # it lives


@pytest.mark.parametrize("name", ["cmdline", "environ", "maps", "status", "task", "fd", "cwd/"])
def test_the_trainers_process(pool: SandboxPool, name: str) -> None:
    path = f"/proc/{os.getpid()}/{name}"
    read = f"os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}).read()"
    blocked(pool, f"import os; {read}", "PermissionError", "FileNotFoundError")


@pytest.mark.slow
def test_nothing_of_the_trainer_is_in_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RODS_TEST_SECRET", SECRET)
    monkeypatch.setattr(sys, "argv", [*sys.argv, SECRET])
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(sys.argv, os.environ, libc.getenv(b"RODS_TEST_SECRET"), libc.getenv(b"HOME"))
print(sys.orig_argv, sys.flags, sys.path)
"""
    with opened_as("sized", tmp_path) as pool:
        done = run(pool, code)
        assert done.stdout.startswith("['<program>'] environ({}) None None\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        # folders that are closed, deep, renamed, exchanged, or have no decent name
        "import os\nfor n in range(30): os.mkdir('d', 0o300); open('d/f', 'w'); os.chdir('d')",
        "import os\nos.mkdir('a', 0o300)\nos.mkdir('a/b')\nos.mkdir('a/b/c', 0)",
        "import os\nos.mkdir('a')\nos.chdir('a')\nos.rmdir('../a')\nprint(os.listdir())",
        "open(b'\\xff\\n (deleted)', 'w'); open('x (deleted)', 'w')",
        "import os\nfor n in range(50): os.symlink('x' * 4000, str(n))",
        "import os\nfor n in range(90): os.mkdir(str(n)); open(f'{n}/x', 'w')",
        "import os\nopen('a', 'w'); os.mkdir('b')\nimport ctypes\n"
        "ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2)\n"
        "ctypes.CDLL(None).renameat2(-100, b'a', -100, b'w', 4)",
        "import fcntl, os; fcntl.flock(os.open('.', os.O_RDONLY), fcntl.LOCK_EX)",
        # a file with holes, filled through a mapping when nothing is left
        "import mmap\nfor n in range(9):\n  f = open(str(n), 'w+b'); f.truncate(1 << 20)\n"
        "  m = mmap.mmap(f.fileno(), 1 << 20)\n  for i in range(0, 1 << 20, 4096): m[i] = 1",
        # as many mappings as the kernel allows
        "import ctypes\nm = ctypes.CDLL(None).mmap\nm.restype = ctypes.c_long\n"
        "m.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n"
        "n = 0\nwhile m(None, 4096, 1 + 2 * (n % 2), 0x22, -1, 0) > 0: n += 1",
        # signals without end
        "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)\nfor _ in range(9999): pass",
        # descriptors without end
        "import os, select\nk = []\nwhile True: k.append(select.epoll())",
        "import os\nk = []\nwhile True: k.append(os.eventfd(2**63, os.EFD_NONBLOCK))",
    ],
)
def test_what_it_leaves_harms_nobody(pool: SandboxPool, code: str) -> None:
    assert run(pool, code).status in ("ok", "error", "limit")
    assert run(pool, "import os; print(os.listdir())").stdout == "[]\n"

"""What programs hold is bounded as a sum: files, deleted files, what stays behind.

Programs of a review that got more than they were given, in every kind of pool.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rods.sandbox import readable, scratch
from rods.sandbox.pool import SandboxPool
from rods.sandbox.scratch import PREFIX
from sandbox_cases import EACH_KIND, LIMITS, left, neighbor, opened_as, pool_of

pool = pool_of(EACH_KIND)


HOLD = """
import ctypes, os, time
map_ = ctypes.CDLL(None).mmap
map_.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
map_.restype = ctypes.c_long
def mapped(place, flags):
    assert map_(None, 4096, 1, flags, place, 0) > 0
    os.close(place)
kept = []
for n in range(64):
    place = os.open('x', os.O_RDWR | os.O_CREAT)
    os.write(place, bytes({file}))
    kept.append({keep})
    os.unlink('x')
    time.sleep(0.02)
    print(n, flush=True)
time.sleep(1)
"""


@pytest.mark.parametrize(
    "keep", ["mapped(place, 1)", "mapped(place, 2)", "place", "(mapped(os.dup(place), 1), place)"]
)
def test_deleted_files_count_while_they_are_held(pool: SandboxPool, keep: str) -> None:
    done = pool.execute(HOLD.format(file=LIMITS.file, keep=keep))
    assert (done.status, done.limit) == ("limit", "disk"), done
    assert len(done.stdout.split()) * LIMITS.file < 8 * LIMITS.disk
    assert pool.execute(f"open('x', 'wb').write(bytes({LIMITS.file}))").ok


def test_files_without_a_name_count(pool: SandboxPool) -> None:
    code = HOLD.replace("'x', os.O_RDWR | os.O_CREAT", "'.', os.O_RDWR | os.O_TMPFILE")
    code = code.replace("    os.unlink('x')\n", "")
    done = pool.execute(code.format(file=LIMITS.file, keep="place"))
    assert (done.status, done.limit) == ("limit", "disk"), done


def test_a_file_is_not_made_larger_behind_its_limit(pool: SandboxPool) -> None:
    code = f"""
import ctypes, errno, os
place = os.open('x', os.O_RDWR | os.O_CREAT)
os.unlink('x')
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
for mode in (1, 2, 3, 8, 16, 32, 64):  # 1: without a change of size, which passes by the limit
    print(libc.fallocate(place, mode, 0, 4 << 30), errno.errorcode[ctypes.get_errno()])
os.posix_fallocate(place, 0, {LIMITS.file})
os.posix_fallocate(place, 0, {LIMITS.file + 1})
"""
    done = pool.execute(code)
    assert done.stdout == "-1 EPERM\n" * 7
    assert done.detail == "OSError: [Errno 27] File too large"


def test_shared_memory_without_a_name_is_refused(pool: SandboxPool) -> None:
    """It stays whole while one page of it is mapped, and then no limit counts it."""
    done = pool.execute("import mmap; mmap.mmap(-1, 1 << 20)")
    assert done.detail == "PermissionError: [Errno 1] Operation not permitted"
    assert pool.execute("import mmap; mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)").ok


def test_neighbors_folders_cannot_be_named(pool: SandboxPool) -> None:
    seek = """
import gc, os
gc.unfreeze()
found = []
for n in range(400):
    for path in (f'../{n}/note', f'../../{n}/note', f'../../{n}/box/note'):
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:
            pass
place = BACKWARDS
print(found, [repr(x)[:99] for x in gc.get_objects() if place in repr(x)[::-1]])
"""
    with neighbor(pool, "import os; os.symlink('secret', 'note'); print(os.getcwd())") as first:
        folder = Path(first)
        assert len(folder.parent.name) == 32  # as many as nobody can try
        done = pool.execute(seek.replace("BACKWARDS", repr(folder.parent.name[::-1])))
        assert done.stdout == "[] []\n", done
    names = [pool.execute("import os; print(os.getcwd())").stdout for _ in range(5)]
    assert len({folder, *names}) == 6  # a folder that is used again has another name


TRAINER = """
import sys, threading
from rods.sandbox.execution import SandboxLimits
from rods.sandbox.pool import SandboxPool
from sandbox_cases import neighbor
wrap, python = sys.argv[1:]
pool = SandboxPool(1, SandboxLimits(), preload=(), wrap=wrap, python=python)
with neighbor(pool, "for n in range(3): open(str(n), 'wb').write(bytes(15 << 20))"):
    handle = pool._current()
    print(handle.pid, handle.root, flush=True)
    threading.Event().wait()
"""


def until(condition: object) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "zygote_too"), [("sized", False), ("watched", True), ("bubblewrap", True)]
)
def test_a_killed_trainer_leaves_nothing(kind: str, zygote_too: bool, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    with opened_as(kind, tmp_path, size=1) as pool:
        wrap, python = pool._wrap, pool._python
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER, wrap, python],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert trainer.stdout
        pid, root = trainer.stdout.readline().split()
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert (root != "None" and Path(root).exists()) == (kind == "watched")
        trainer.kill()
        if zygote_too:
            os.kill(int(pid), signal.SIGKILL)
        trainer.wait()
        trainer.stdout.close()
        assert until(lambda: not Path(f"/proc/{pid}").exists())
        assert until(lambda: not Path(f"/proc/{child}").exists())
        if zygote_too and kind == "watched":
            assert Path(root).exists()  # until somebody comes
            assert pool._current().root != root
    with opened_as(kind, tmp_path, size=1):
        assert until(lambda: root == "None" or not Path(root).exists())
    new = set(os.listdir("/dev/shm")) - before
    assert not [name for name in new if name.startswith(PREFIX) and left(Path("/dev/shm", name))]


@pytest.mark.slow
def test_a_root_in_use_is_not_swept(tmp_path: Path) -> None:
    with opened_as("watched", tmp_path) as one:
        with opened_as("watched", tmp_path):
            assert Path(str(one._current().root)).exists()
        assert one.execute("open('a', 'w').write('x')").ok


def test_a_root_that_is_swept_before_it_is_claimed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = list[str](), os.mkdir

    def swept(path: str, mode: int) -> None:
        make(path, mode)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr("os.mkdir", swept)
    root, claim = scratch._claimed(str(tmp_path))
    os.close(claim)
    assert [root] == made[1:] and os.listdir(tmp_path) == [os.path.basename(root)]


@pytest.mark.slow
def test_a_path_with_so_in_it_opens_no_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "a.software" / "python"
    packages = prefix / "lib" / "python3" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "other.py").touch()
    for name in ("libx.so", "libx.so.1.2", "libx.so.txt", "notes.something"):
        (prefix / "lib" / name).touch()
    (prefix / "lib" / "folder.so").mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    found = [p for p in readable.libraries() if p.startswith(str(tmp_path))]
    assert sorted(found) == [f"{prefix}/lib/libx.so", f"{prefix}/lib/libx.so.1.2"]


@pytest.mark.parametrize("kind", EACH_KIND)
@pytest.mark.slow
def test_the_zygotes_own_process_is_known(kind: str, tmp_path: Path) -> None:
    """And not that of what is wrapped around it, which the benchmark measured."""
    with opened_as(kind, tmp_path) as pool:
        words = Path(f"/proc/{pool._current().pid}/cmdline").read_bytes().split(b"\0")
        assert b"bwrap" not in words[0] and any(b"rods.sandbox.zygote" in word for word in words)
        parent = Path(f"/proc/{pool._current().pid}/stat").read_text().rsplit(") ", 1)[1].split()[1]
        assert (int(parent) == os.getpid()) == (kind != "bubblewrap")


def test_accounts_of_a_user_are_left_to_others(pool: SandboxPool) -> None:
    code = "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 1 << 20)"
    assert pool.execute(code).detail.startswith("PermissionError")
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_SIGPENDING))"
    assert pool.execute(code).stdout == "(64, 64)\n"

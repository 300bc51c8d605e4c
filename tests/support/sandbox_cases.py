"""Pools for tests of the sandbox; where a machine cannot lock itself, proof that it refuses to run.

A kernel without Landlock or seccomp cannot run the attacks. There `opened` checks that the pool
says so and runs nothing, and then marks the test as expected to fail, with the reason.

`KINDS` are the ways in which a pool can stand on a machine; the attacks are run in each of them.
`blocked` runs an attack that must raise in the program; the program prints ESCAPED if it does not.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rods.errors import PrerequisiteError
from rods.sandbox import lockdown, syscalls
from rods.sandbox.execution import MIB, Execution, SandboxLimits
from rods.sandbox.handle import wrapping
from rods.sandbox.pool import SandboxPool
from rods.sandbox.runner import HEADER
from sweeps import slow

SECRET = "a secret of the maker"
REFUSED = ("PermissionError", "OSError: [Errno 1]")
LACKS = lockdown.missing()
LIMITS = SandboxLimits(
    seconds=20.0,
    cpu=10.0,
    memory=64 * MIB,
    output=4096,
    file=MIB,
    disk=4 * MIB,
    entries=200,
)


def left(root: Path) -> bool:
    """Whether no zygote holds a root; those of pools that are opened beside this test are held."""
    try:
        place = os.open(root, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(place)
    return True


@contextmanager
def opened(limits: SandboxLimits = LIMITS, size: int = 2, **more: object) -> Iterator[SandboxPool]:
    """A pool without packages, or the proof that there can be none."""
    settings = {"preload": (), **more}
    if LACKS:
        with pytest.raises(PrerequisiteError, match="cannot lock itself"):
            SandboxPool(size, limits, **settings)
        pytest.xfail(f"the sandbox refuses to run here: {'; '.join(LACKS)}")
    with SandboxPool(size, limits, **settings) as pool:
        yield pool


@contextmanager
def neighbor(pool: SandboxPool, code: str) -> Iterator[str]:
    """What a program prints that then rests beside the others until the block ends."""
    body = json.dumps([f"{code}\nimport time; print(end='.', flush=True); time.sleep(600)", ""])
    with pool._current().fork() as child:
        os.write(child.request, HEADER.pack(len(body)) + body.encode())
        os.set_blocking(child.out, True)
        said = b""
        while not said.endswith(b"."):
            part = os.read(child.out, 1 << 16)
            assert part, os.read(child.err, 1 << 16)
            said += part
        yield said.decode().removesuffix(".").strip()


KINDS = ("sized", "watched", "bubblewrap")
"""Folders of a fixed size; folders that are watched, where nothing may be mounted; wrapped."""
EACH_KIND = (KINDS[0], *slow(*KINDS[1:]))
"""The same for the long lists of attacks: the quick run tries them in the first kind alone."""
MOUNT, UNSHARE = (165, 40), (272, 97)
"""Their numbers on x86-64 and on 64-bit ARM."""


@contextmanager
def opened_as(
    kind: str, folder: Path, limits: SandboxLimits = LIMITS, size: int = 2, **more: object
) -> Iterator[SandboxPool]:
    """A pool of this kind; `folder` is for an interpreter that may not mount."""
    if kind == "watched" and not LACKS:
        more["python"] = str(refusing(folder, MOUNT, UNSHARE))
    if kind == "bubblewrap":
        require_bubblewrap()
    wrap = "on" if kind == "bubblewrap" else "off"
    with opened(limits, size, wrap=wrap, **more) as pool:
        assert ("sized" in pool.isolation) != ("watched" in pool.isolation)
        assert kind in pool.isolation
        yield pool


def pool_of(kinds: Sequence[str], limits: SandboxLimits = LIMITS) -> Any:
    """A fixture: a pool of each of these kinds, for all tests of a module."""

    @pytest.fixture(scope="module", params=kinds)
    def pool(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[SandboxPool]:
        with opened_as(request.param, tmp_path_factory.mktemp("interpreter"), limits) as opened:
            yield opened

    return pool


def children(pool: SandboxPool) -> list[int]:
    """The processes of a pool that live, as this one sees them."""
    pid = pool._current().pid
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def run(pool: SandboxPool, code: str) -> Execution:
    """Run an attack and check that the pool is none the worse for it."""
    zygote = pool._current().pid
    done = pool.execute(code)
    assert done.status != "sandbox" and done.attempts == 1, done
    assert SECRET not in done.stdout + done.stderr
    after = pool.execute("print('still here')")
    assert (after.stdout, after.attempts) == ("still here\n", 1)
    assert pool._current().pid == zygote and pool.restarts == 0
    return done


def blocked(pool: SandboxPool, code: str, *errors: str) -> Execution:
    """Run an attack whose last line must raise one of these errors; bubblewrap has one more."""
    errors = errors or REFUSED
    if pool._current().wrapper:
        errors = (*errors, "OSError: [Errno 30]")
    done = run(pool, f"{code}\nprint('ESCAPED')")
    assert done.status == "error", done
    assert "ESCAPED" not in done.stdout
    assert done.detail.startswith(errors), done.detail
    return done


def let_through(pool: SandboxPool, calls: Sequence[tuple[str, int, int]]) -> str:
    """Lines of the system calls (numbers on x86-64 and 64-bit ARM) that are not refused."""
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
column = 1 if os.uname().machine == "x86_64" else 2
for row in {calls!r}:
    if libc.syscall(row[column], 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
        print(row[0], ctypes.get_errno())
"""
    return run(pool, code).stdout


def require_bubblewrap() -> None:
    """Skip where bubblewrap is missing or of no use; where CI runs, that is a failure."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    try:
        wrapping("on", sys.executable)
    except PrerequisiteError as error:
        pytest.skip(str(error))


def refusing(folder: Path, *calls: tuple[int, int], argument: int | None = None) -> Path:
    """An interpreter behind a filter of its own that refuses some system calls.

    With `argument` they are refused only if that is their first.
    """
    column = syscalls.machine()
    assert column is not None
    script = f"""#!{sys.executable}
import os, sys
sys.path.insert(0, {str(Path(lockdown.__file__).parents[2])!r})
from rods.sandbox import lockdown, syscalls
step = syscalls._step
value = {argument!r}
which = [] if value is None else [step(0x20, 16), step(0x15, value, 0, 1)]
deny = [*which, step(0x06, 0x00050001), step(0x06, 0x7FFF0000)]
code = [step(0x20, 0)]
for number in {[call[column] for call in calls]!r}:
    code += [step(0x15, number, 0, len(deny)), *deny]
lockdown.SyscallFilter(b"".join([*code, step(0x06, 0x7FFF0000)])).install()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
    python = folder / "python"
    python.write_text(script)
    python.chmod(0o755)
    return python

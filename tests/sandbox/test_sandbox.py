"""The local sandbox: results and their classes, limits, repair, and failing closed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rods.errors import ConfigError, EnvError, PrerequisiteError
from rods.sandbox import lockdown, shell, syscalls
from rods.sandbox.execution import Execution, SandboxLimits, last_line
from rods.sandbox.handle import ZygoteHandle, end_of, plain_parent, wrapping
from rods.sandbox.pool import SandboxPool
from rods.sandbox.scratch import measure, remove_tree
from sandbox_cases import (
    EACH_KIND,
    KINDS,
    LACKS,
    LIMITS,
    children,
    neighbor,
    opened,
    opened_as,
    pool_of,
    refusing,
)
from waits import until

pool = pool_of(EACH_KIND)


@pytest.mark.slow
def test_program_output_and_input(pool: SandboxPool) -> None:
    done = pool.execute("import sys\nprint(input())\nprint(sys.stdin.read(), end='')", "a\nb\nü")
    assert (done.stdout, done.stderr, done.status, done.attempts) == ("a\nb\nü", "", "ok", 1)
    assert 0 < done.seconds < LIMITS.seconds


@pytest.mark.parametrize(
    ("code", "code_of_exit", "detail"),
    [
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("def (", 1, "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", 3, "the program ended with exit status 3"),
        ("raise SystemExit('no')", 1, "no"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        ("import os; os.abort()", -6, "the program was ended by SIGABRT"),
        ("import signal; signal.raise_signal(40)", -40, "the program was ended by signal 40"),
        ("print('\ud800' + 1)", 1, "UnicodeEncodeError"),
        ("import rods", 1, "ModuleNotFoundError: No module named 'rods'"),
        ("input()", 1, "EOFError: EOF when reading a line"),
    ],
)
def test_the_programs_error(pool: SandboxPool, code: str, code_of_exit: int, detail: str) -> None:
    done = pool.execute(code)
    assert (done.status, done.limit, done.returncode) == ("error", "", code_of_exit)
    assert done.detail.startswith(detail)
    assert done.checked() is done


def test_traceback_shows_the_program_only(pool: SandboxPool) -> None:
    done = pool.execute("def f():\n    return [][1]\nf()")
    assert done.stderr == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 3, in <module>\n    f()\n'
        '  File "<program>", line 2, in f\n    return [][1]\n           ~~^^^\n'
        "IndexError: list index out of range\n"
    )


def test_common_modules_work(pool: SandboxPool) -> None:
    code = """
import asyncio, dataclasses, hashlib, shutil, sqlite3, statistics, tempfile, zlib
@dataclasses.dataclass
class P:
    x: "int"
async def later():
    await asyncio.sleep(0.001)
    return P(2).x
with tempfile.TemporaryDirectory(dir=".") as folder:
    open(folder + "/a", "w").write("text")
    shutil.copyfile(folder + "/a", "b")
rows = sqlite3.connect(":memory:").execute("select 1").fetchall()
print(asyncio.run(later()), open("b").read(), rows, statistics.mean([1, 3]), __name__)
"""
    done = pool.execute(code)
    assert (done.stdout, done.stderr) == ("2 text [(1,)] 2 __main__\n", "")


@pytest.mark.slow
def test_numpy_is_loaded_where_asked() -> None:
    code = "import numpy as n; print(n.linalg.det(n.eye(3)), n.random.rand() == n.random.rand())"
    with opened(size=1, preload=("numpy", "no_such_package")) as pool:
        assert pool.loaded == ["numpy"]
        assert pool.execute(code).stdout == "1.0 False\n"


def test_executions_share_nothing_and_repeat(pool: SandboxPool) -> None:
    code = "import os, random\nprint(os.listdir(), hash('a'), random.random())\nopen('a', 'w')"
    first, second = pool.execute(code), pool.execute(code)
    assert first.stdout == second.stdout
    assert first.stdout.startswith("[]")


def test_fresh_entropy_where_asked() -> None:
    with opened(seed=None) as pool:
        code = "import random; print(random.random())"
        assert pool.execute(code).stdout != pool.execute(code).stdout


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("x = [0] * 10**9", "memory"),
        ("print('x' * 5000)", "output"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", "output"),
        ("n = 0\nwhile True:\n  n += 1; open(str(n), 'w')", "disk"),
        ("n = 0\nwhile True:\n  n += 1; open(str(n % 99), 'w').write('x' * 500000)", "disk"),
    ],
)
def test_limits(pool: SandboxPool, code: str, limit: str) -> None:
    done = pool.execute(code)
    assert (done.status, done.limit) == ("limit", limit), done
    assert done.detail.startswith("it ")
    assert len(done.stdout) <= LIMITS.output and len(done.stderr) <= LIMITS.output
    assert done.seconds < LIMITS.seconds


@pytest.mark.slow
def test_time_limits() -> None:
    with opened(replace(LIMITS, seconds=0.3)) as pool:
        for code in ("while True: pass", "import time; time.sleep(60)"):
            done = pool.execute("print('begun', flush=True)\n" + code)
            assert (done.status, done.limit, done.stdout) == ("limit", "time", "begun\n")
            assert 0.3 <= done.seconds < 10


@pytest.mark.slow
def test_cpu_limit() -> None:
    with opened(replace(LIMITS, seconds=300, cpu=1), size=1) as pool:
        done = pool.execute("while True: pass")
        assert (done.status, done.limit) == ("limit", "cpu")
        assert 0.5 <= done.cpu < 3  # counted by ticks, on a busy machine not very exactly


def test_a_file_may_not_grow_too_large(pool: SandboxPool) -> None:
    done = pool.execute(f"with open('a', 'wb') as f: f.write(bytes({LIMITS.file + 1}))")
    assert done.detail == "OSError: [Errno 27] File too large"


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="seconds is 0"):
        SandboxLimits(seconds=0)
    with pytest.raises(ConfigError, match="size -1"):
        SandboxPool(-1)


def test_threads_wait_their_turn(pool: SandboxPool) -> None:
    code = "import time; print(time.monotonic()); time.sleep(0.1); print(time.monotonic())"
    with ThreadPoolExecutor(5) as threads:
        done = list(threads.map(pool.execute, [code] * 5))
    spans = [tuple(map(float, one.stdout.split())) for one in done]
    together = [sum(a <= begin < b for a, b in spans) for begin, _ in spans]
    assert len(spans) == 5 and max(together) <= pool.size


def test_what_does_not_end_is_killed_with_what_it_wraps_and_its_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    (folder / "left").mkdir(parents=True)
    process, inner = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    end_of(process, 0.01, str(folder), inner.pid)
    assert process.returncode == -signal.SIGKILL == inner.wait()
    assert not folder.exists()


@pytest.mark.slow
def test_a_killed_zygote_is_replaced_and_the_program_run_again() -> None:
    with opened() as pool:
        first = pool._current().pid

        def kill() -> None:
            children = Path(f"/proc/{first}/task/{first}/children")
            until(children.read_text)  # the program was begun
            os.kill(first, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = pool.execute("import time; time.sleep(1); print(1)")
        killer.join()
        assert (done.stdout, done.status, done.attempts) == ("1\n", "ok", 2)
        assert pool.restarts == 1 and pool._current().pid != first
        assert pool.execute("print(2)").attempts == 1


@pytest.mark.slow
def test_a_sandbox_that_keeps_failing_is_invalid_and_not_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fork(*_: object) -> None:
        raise FileNotFoundError("no pipes")

    with opened(retries=1) as pool:
        monkeypatch.setattr(ZygoteHandle, "fork", fork)
        done = pool.execute("print(1)")
        assert (done.status, done.attempts) == ("sandbox", 2)
        with pytest.raises(EnvError, match="failed after 2 attempts: FileNotFoundError"):
            done.checked()
        monkeypatch.undo()
        assert pool.execute("print(1)").ok


@pytest.mark.usefixtures("many_files")
def test_a_process_with_many_open_files_runs_programs() -> None:
    with opened() as pool:
        assert pool.execute("print(7)").stdout == "7\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_closing_leaves_nothing(kind: str, tmp_path: Path) -> None:
    code = "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('x')"
    with opened_as(kind, tmp_path) as pool, neighbor(pool, code):
        root, process = pool._current().root, pool._current().process
        [pid] = children(pool)
        assert (root is not None and Path(root).exists()) == (kind == "watched")
        pool.close()
    assert root is None or not Path(root).exists()
    assert process.poll() is not None and not Path(f"/proc/{pid}").exists()
    with pytest.raises(EnvError, match="closed"):
        pool.execute("print(1)")


@pytest.mark.slow
def test_the_zygote_ends_with_its_maker() -> None:
    with opened() as pool:
        handle = pool._current()
        handle._socket.shutdown(2)  # what the kernel does when the maker dies
        assert handle.process.wait(5) == 0


@pytest.mark.slow
def test_closing_while_programs_run() -> None:
    done: list[str] = []

    def work(pool: SandboxPool) -> None:
        try:
            done.append(pool.execute("import time; time.sleep(60)").status)
        except EnvError as error:
            done.append(str(error))

    with opened() as pool:
        threads = [threading.Thread(target=work, args=(pool,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(children(pool)) < pool.size:
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert done == ["the sandbox pool is closed; make another"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("refused", ["landlock", "seccomp"])
def test_fails_closed_where_a_lock_is_refused(refused: str, tmp_path: Path) -> None:
    """An interpreter behind a filter of its own, which refuses one of the locks."""
    if LACKS:
        with opened():
            raise AssertionError("a pool without locks")
    # prctl is refused only for PR_SET_SECCOMP, when the second filter is put on
    blocked = {"landlock": ((444, 444), None), "seccomp": ((157, 167), 22)}[refused]
    python = refusing(tmp_path, blocked[0], argument=blocked[1])
    words = {"landlock": "Landlock: .*outer sandbox", "seccomp": "seccomp: .*not permitted"}
    with pytest.raises(PrerequisiteError, match=f"runs nothing: {words[refused]}"):
        SandboxPool(1, LIMITS, preload=(), python=str(python))


def test_missing_locks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, words in ((38, "older than 5.13"), (95, "lsm=landlock"), (1, "outer sandbox")):

        def refuse(*_: object, code: int = code) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(lockdown, "_syscall", refuse)
        assert words in lockdown.missing()[0]
    monkeypatch.setattr(syscalls, "machine", lambda: None)
    assert "no table of system calls" in lockdown.missing()[0]


def test_proof_finds_a_lock_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.sandbox.pool.PROOF", "print('the network', end='')")
    with pytest.raises(PrerequisiteError, match="still allowed the network"), opened():
        pass
    if LACKS:
        raise PrerequisiteError("still allowed the network")


def fake_bwrap(folder: Path, body: str) -> None:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


@pytest.mark.slow
def test_bubblewrap_is_used_where_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fake_bwrap(tmp_path, 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    with opened(wrap="auto") as pool:
        assert pool.isolation.endswith("bubblewrap")
        assert pool.execute("print(1)").ok
    fake_bwrap(tmp_path, "echo no namespaces >&2; exit 1")
    assert wrapping("auto", sys.executable) == []
    with pytest.raises(PrerequisiteError, match="no namespaces"):
        wrapping("on", sys.executable)
    assert wrapping("off", sys.executable) == []


@pytest.mark.slow
def test_scratch_is_removed_whatever_is_in_it() -> None:
    with tempfile.TemporaryDirectory(dir=plain_parent()) as memory:
        check_removal(Path(memory))


def check_removal(parent: Path) -> None:
    folder, outside = parent / "folder", parent / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    place = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path can be long, and than a stack
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    (folder / "link").symlink_to(outside)
    (folder / "closed").mkdir()
    (folder / "closed" / "in").mkdir()
    (folder / "closed" / "in" / ".rods-1").write_text("x")
    (folder / ".rods-0").mkdir()
    (folder / "closed").chmod(0)
    assert measure(str(folder), entries=1000) is None
    remove_tree(str(folder))
    assert not folder.exists() and (outside / "kept").read_text() == "kept"


@pytest.mark.slow
def test_executions_can_be_pickled() -> None:
    done = Execution("1\n", "", "ok", 0.1)
    assert pickle.loads(pickle.dumps(done)) == done
    assert last_line("a\n b \n\n") == "b" and last_line("") == ""


@pytest.mark.parametrize(
    ("ending", "words"), [("sys.exit('broken')", "broken"), ("os._exit(3)", "no message, status 3")]
)
def test_what_a_process_said_last_is_read_when_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, ending: str, words: str
) -> None:
    boot = f"import os, sys, time; os.close(0); time.sleep(0.3); {ending}"
    monkeypatch.setattr(shell, "BOOT", boot)
    with pytest.raises(EnvError, match=f"a workplace's keeper ended: {words}"):
        shell.Shell(wrap="off")

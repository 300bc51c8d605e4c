"""Memory of the kernel's that `/proc` shows at nobody: a workplace's limit sees it all the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from attack_programs import syscall
from repo_cases import environment_as
from rods.sandbox.observed import descendants, kernel, memory
from rods.sandbox.shell import Shell, ShellLimits
from sandbox_cases import KINDS, LACKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xfail(bool(LACKS), reason=f"nothing can be locked: {LACKS}", strict=True),
]
LIMIT = 128 << 20
SPREAD = """
import ctypes, mmap, os, select, socket, threading, time
def spread(work, processes=12):
    for _ in range(processes):
        if not os.fork():
            kept = []
            try:
                while True:
                    kept.append(work(kept))
            except (OSError, StopIteration):
                pass
            time.sleep(9)
            os._exit(0)
    time.sleep(9)
def fill(*ends):
    for end in ends:
        os.set_blocking(end if type(end) is int else end.fileno(), False)
        try:
            while True:
                os.write(end if type(end) is int else end.fileno(), bytes(65536))
        except BlockingIOError:
            pass
    return ends
def once(kept):
    if kept:
        raise StopIteration
"""
EATERS = {
    "stream sockets": "spread(lambda kept: (p := socket.socketpair(), fill(*p)))",
    "datagram sockets": "spread(lambda kept: (p := socket.socketpair(socket.AF_UNIX, "
    "socket.SOCK_DGRAM), fill(*p)))",
    "packet sockets": "spread(lambda kept: (p := socket.socketpair(socket.AF_UNIX, "
    "socket.SOCK_SEQPACKET), fill(*p)))",
    "pipes": "spread(lambda kept: (p := os.pipe(), fill(p[1])), 40)",
    "mappings": """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
def work(kept):
    once(kept)
    place = libc.mmap(None, 60 << 20, 0, 0x22, -1, 0)
    for page in range(0, (60 << 20) // 4096, 2):
        libc.mprotect(ctypes.c_void_p(place + page * 4096), 4096, 1)
spread(work, 20)""",
    "page tables": """
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
def work(kept):
    once(kept)
    for _ in range(10):
        place = libc.mmap(None, 8 << 20, 1, 0x22, -1, 0)
        for page in range(0, 8 << 20, 4096):
            ctypes.string_at(place + page, 1)
    for _ in range(64):
        kept.append(socket.socketpair())
spread(work, 4)""",
    "a thread whose first thread ended": """
def work():
    kept = [bytes(1 << 20) + b'x' for _ in range(40)]
    pairs = [socket.socketpair() for _ in range(55)]
    time.sleep(9)
    print(len(kept), len(pairs))
for _ in range(5):
    if not os.fork():
        threading.Thread(target=work).start()
        ctypes.CDLL(None).pthread_exit(None)
time.sleep(9)""",
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [*((KINDS[0], name) for name in EATERS), *((kind, "pipes") for kind in KINDS[1:])],
)
def test_what_the_kernel_holds_for_a_command_counts(name: str, kind: str, tmp_path: Path) -> None:
    made = environment_as(kind, tmp_path)
    limits = ShellLimits(memory=LIMIT, seconds=8)
    with Shell(limits, made._wrap, **({"python": made._python} if made._python else {})) as shell:
        shell.put({"eater.py": SPREAD + EATERS[name]})
        done = shell.run(["python", "eater.py"])
        assert done.limit == "memory", done
        assert shell.run(["echo", "still here"]).output == "still here\n"


USUAL = {
    "an event loop": "import asyncio; asyncio.run(asyncio.sleep(0.3)); print('fine')",
    "twenty event loops": "import asyncio, time\nloops = [asyncio.new_event_loop() for _ in "
    "range(20)]\ntime.sleep(0.3)\n[loop.close() for loop in loops]; print('fine')",
    "pipes of programs": "import subprocess, time\nmade = [subprocess.Popen(['cat'], stdin=-1, "
    "stdout=-1) for _ in range(10)]\ntime.sleep(0.3)\n[p.communicate() for p in made]\n"
    "print('fine')",
    "a pool of threads": "import concurrent.futures as f, time\nwith f.ThreadPoolExecutor(6) as p:"
    "\n    list(p.map(time.sleep, [0.05] * 60))\nprint('fine')",
}


@pytest.mark.parametrize("name", USUAL)
def test_usual_programs_do_not_meet_it(name: str) -> None:
    with Shell(ShellLimits(memory=LIMIT, seconds=20)) as shell:
        done = shell.run(["python", "-c", USUAL[name]])
        assert (done.output, done.limit) == ("fine\n", ""), done


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize("number", [444, 445, 446])
def test_commands_make_no_rules_of_landlock(number: int) -> None:
    with Shell() as shell:
        done = shell.run(["bash", "-c", syscall(number, 0, 0, 1, 0)])
        assert "AssertionError: 1\n" in done.output, done  # EPERM


def test_what_is_open_counts_once() -> None:
    before = kernel([os.getpid()])
    one, other = socket.socketpair()
    again = one.dup()
    grown = kernel([os.getpid(), os.getpid()]) - before
    assert grown >= 2 * 2 * 200_000
    read, write = os.pipe()
    assert 65_536 <= kernel([os.getpid()]) - before - 4 * 212_992 < 1 << 20
    for descriptor in (read, write):
        os.close(descriptor)
    for end in (one, other, again):
        end.close()
    assert memory(os.getpid()) > 10 << 20 and memory(1 << 30) == kernel([1 << 30]) == 0


def test_a_program_that_starts_others_without_end_is_not_read_to_the_end() -> None:
    """Five children of one child each; no child's own are read once there are enough."""
    tree = "for i in 1 2 3 4 5; do (sleep 60 & echo ready; wait) & done; wait"
    words = ["bash", "-c", tree]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            assert shell.stdout
            for _ in range(5):
                shell.stdout.readline()
            assert len(descendants(shell.pid, 10)) == 10
            assert len(descendants(shell.pid, 3)) == 5
        finally:
            os.killpg(shell.pid, signal.SIGKILL)

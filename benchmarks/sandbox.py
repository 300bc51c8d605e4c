"""The local sandbox against a fresh interpreter for every program, in one run.

Both run the same small programs from the same number of threads, in turns, so that what else the
machine does falls on both alike. First bare; then with NumPy and SymPy, which a fresh interpreter
imports and the sandbox has loaded. Prints executions per second, the 50th and 99th percentile of an
execution in milliseconds, CPU milliseconds of one execution (of all processes that take part), and
the ratios. With --leaks N also runs N executions and sessions and prints what is there before and
after: processes, open files, resident memory, scratch folders.

    python benchmarks/sandbox.py [--rounds 5] [--programs 40] [--threads 2] [--leaks 10000]
                                 [--wrap auto|on|off]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared import Options

from rods.sandbox.handle import Wrap
from rods.sandbox.lockdown import PLACE
from rods.sandbox.pool import SandboxPool

PROGRAMS = {
    (): "print(sum(n * n for n in range(100)))",
    ("numpy", "sympy"): "import numpy, sympy\nprint(numpy.arange(9).sum() + sympy.Integer(2))",
}


@dataclass
class Timing:
    """How long executions took."""

    each: list[float] = field(default_factory=list)
    wall: float = 0.0
    cpu: float = 0.0

    def summary(self) -> dict[str, float]:
        """Rate and percentiles."""
        ordered = sorted(self.each)
        return {
            "executions_per_s": round(len(ordered) / self.wall, 1),
            "p50_ms": round(1e3 * ordered[len(ordered) // 2], 2),
            "p99_ms": round(1e3 * ordered[int(len(ordered) * 0.99)], 2),
            "cpu_ms": round(1e3 * self.cpu / len(ordered), 2),
        }


def own_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def cpu_of(pid: int) -> float:
    """CPU seconds of another process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def zygote(pool: SandboxPool) -> int:
    """The zygote's process, not that of what is wrapped around it."""
    return pool._current().pid


def fresh(code: str) -> str:
    """Run a program in an interpreter of its own."""
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def timed(timing: Timing, run: Any, code: str, count: int, threads: int, pid: int = 0) -> None:
    """Add `count` executions from some threads to a timing."""

    def one(_: int) -> None:
        began = time.perf_counter()
        run(code)
        timing.each.append(time.perf_counter() - began)

    with ThreadPoolExecutor(threads) as workers:
        cpu = own_cpu() + (cpu_of(pid) if pid else 0)
        began = time.perf_counter()
        list(workers.map(one, range(count)))
        timing.wall += time.perf_counter() - began
        timing.cpu += own_cpu() + (cpu_of(pid) if pid else 0) - cpu


def compare(
    preload: tuple[str, ...], rounds: int, count: int, threads: int, wrap: Wrap
) -> dict[str, Any]:
    """The sandbox and fresh interpreters, in turns."""
    code = PROGRAMS[preload]
    ours, theirs = Timing(), Timing()
    few = count if not preload else max(4, count // 8)  # a fresh interpreter takes long to import
    with SandboxPool(threads, preload=preload, wrap=wrap) as pool:
        if set(preload) - set(pool.loaded):
            return {"skipped": f"not installed: {sorted(set(preload) - set(pool.loaded))}"}

        def sandboxed(code: str) -> str:
            done = pool.execute(code).checked()
            if not done.ok:
                raise SystemExit(f"the program failed: {done.detail}")
            return done.stdout

        if sandboxed(code) != fresh(code):
            raise SystemExit("the sandbox and a fresh interpreter disagree")
        for _ in range(rounds):
            timed(ours, sandboxed, code, count, threads, zygote(pool))
            timed(theirs, fresh, code, few, threads)
        isolation = pool.isolation
    us, them = ours.summary(), theirs.summary()
    return {
        "isolation": isolation,
        "sandbox": us,
        "fresh": them,
        "times_faster": {
            "executions_per_s": round(us["executions_per_s"] / them["executions_per_s"], 2),
            "p50": round(them["p50_ms"] / us["p50_ms"], 2),
            "p99": round(them["p99_ms"] / us["p99_ms"], 2),
            "cpu": round(them["cpu_ms"] / us["cpu_ms"], 2),
        },
    }


def held(pool: SandboxPool) -> dict[str, int]:
    """What this process and the zygote hold."""
    time.sleep(0.5)  # the zygote tells the end of a child before it closes the pipe
    parent, handle = zygote(pool), pool._current()
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    page = resource.getpagesize() // 1024

    folders = Path(f"/proc/{parent}/root{handle.root or PLACE}")

    def resident(pid: int | str) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page

    return {
        "children_of_zygote": len(children),
        "files_here": len(os.listdir("/proc/self/fd")),
        "files_of_zygote": len(os.listdir(f"/proc/{parent}/fd")),
        "resident_here_kib": resident("self"),
        "resident_zygote_kib": resident(parent),
        "scratch_folders_in_use": sum(not p.name.isdigit() for p in folders.iterdir()),
        "restarts": pool.restarts,
    }


def leaks(count: int, threads: int, wrap: Wrap) -> dict[str, Any]:
    """Run many programs, good and bad, and a session in every hundred; count before and after."""
    codes = [PROGRAMS[()], "1 / 0", "x = bytearray(1 << 40)", "open('a', 'w').write('x')"]

    def work(pool: SandboxPool, number: int) -> None:
        pool.execute(codes[number % len(codes)]).checked()
        if number % 100 == 0:
            with pool.session() as session:
                session.execute("x = 1").checked()

    with (
        SandboxPool(threads, preload=(), wrap=wrap) as pool,
        ThreadPoolExecutor(threads) as workers,
    ):
        list(workers.map(lambda n: work(pool, n), range(200)))  # first uses of anything
        before = held(pool)
        for start in range(0, count, 100):  # or the executor would hold a future for each
            list(workers.map(lambda n: work(pool, n), range(start, min(start + 100, count))))
        after = held(pool)
        process, root = pool._current().process, pool._current().root
    scratch = root is not None and Path(root).exists()
    left = {"zygote": process.poll() is None, "scratch_root": scratch}
    return {"executions": count, "before": before, "after": after, "left_after_close": left}


def main() -> None:
    """Measure and print."""
    parser = Options(__doc__, {"rounds": 1, "programs": 4})
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--leaks", type=int, default=0)
    parser.add_argument("--wrap", choices=("auto", "on", "off"), default="auto")
    options = parser.parse_args()
    how = (options.rounds, options.programs, options.threads, options.wrap)
    found: dict[str, Any] = {
        "threads": options.threads,
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "bare": compare((), *how),
        "numpy_sympy": compare(("numpy", "sympy"), *how),
    }
    if options.leaks:
        found["leaks"] = leaks(options.leaks, options.threads, options.wrap)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

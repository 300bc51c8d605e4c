"""Disturb real training at random moments for as long as you like; count what was lost or doubled.

    python benchmarks/faults.py --minutes 60 --seed 0
    python benchmarks/faults.py --minutes 10 --ray

One fault after the other: the driver, the synthesis worker or a world's process is killed, the disk
is full for one of them, the log's last line is torn or garbage, a resume comes with another recipe.
A run that ends is followed by the next. Then the folders are read: what the worker accepted against
what the pool holds, the groups of the updates against the draws, and what the logs name against
what was done. Exits 1 unless all agree. For Linux (`prlimit`); needs no rights.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet
from kill_resume import command, finished
from shared import Options

from rods.curriculum.draws import DONE
from rods.curriculum.saving import STATE, VARIANTS
from rods.infra.checkpoints import Checkpoints, step_of

MORE = ["--updates", "60", "--replay.cap", "12"]
PROCESSES = ["--rollout.worlds.processes", "2"]
PAUSE = 1.0, 45.0
"""Seconds before a fault, since the last one was named."""
GOES_ON = 0.6
"""Share of the faults that let an update be made first; the others may meet a start."""
PATIENCE = 120.0
"""Seconds until a fault has to be named."""
SMALL_FILE = 4096
"""Bytes that a file may have on a full disk."""
FULL = "disk is full|File too large|disk I/O error"
KILLED = "process {}, at work here before, was killed"
WORKER, WORLD, ACTOR = "rods.synthesis.worker.process", "multiprocessing.spawn", "ray::"
"""In the command lines of the driver's children, and of actors."""


# -- what the folder of a run says --------------------------------------------------------------


@dataclass
class Counts:
    """What one run came to."""

    updates: int = 0
    accepted: int = 0
    """Variants that the worker made for orders that are closed."""
    pool: int = 0
    lost: int = 0
    """Of the accepted, those that the pool does not hold; and of the pool, those never accepted."""
    doubled: int = 0
    """Variants of the pool that say the same as another."""
    groups: int = 0
    twice: int = 0
    """Groups in more updates than they were drawn for, and updates that are logged again."""
    untrained: int = 0
    """Draws that are closed and in no update."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def check(run: Path) -> Counts:
    """Count in the last checkpoint of a run that nobody plays, its trajectories and its queue."""
    checkpoint = Checkpoints(run / "checkpoint").latest()
    if checkpoint is None:
        return Counts()
    state = json.loads((checkpoint.path / STATE).read_text())
    variants = (checkpoint.path / VARIANTS).read_text().splitlines()
    pool = Counter(content(json.dumps(json.loads(line)["task"])) for line in variants)
    outcomes = rows(
        run / "synthesis.sqlite", "SELECT seed, number, task FROM outcomes WHERE task IS NOT NULL"
    )
    made = {(seed, number): content(task) for seed, number, task in outcomes}
    closed = [(seed, first, n) for _, seed, first, n, *_ in state["requests"]["closed"]]
    ordered = [(seed, first + i) for seed, first, n in closed for i in range(n)]
    accepted = {made[outcome] for outcome in ordered if outcome in made}
    groups: Counter[str] = Counter()
    for file in (run / "trajectories").glob("*.parquet"):
        if step_of(file.stem) <= checkpoint.step:
            played = pyarrow.parquet.read_table(file, columns=["task_id", "member"]).to_pylist()
            groups.update(row["task_id"] for row in played if row["member"] == 0)
    drawn = Counter(
        task_id
        for *order, status in state["buffer"]["draws"].values()
        for task_id, letter in zip(order, status, strict=True)
        if letter == DONE
    )
    known = (run / "metrics.jsonl").read_bytes()[: checkpoint.mark()["metrics"]].splitlines()
    steps = Counter(r["step"] for r in map(json.loads, known) if r["kind"] == "step")
    return Counts(
        len(steps), len(accepted), pool.total(),
        lost=len(accepted ^ set(pool)),
        doubled=pool.total() - len(pool),
        groups=groups.total(),
        twice=(groups - drawn).total() + steps.total() - len(steps),
        untrained=(drawn - groups).total(),
    )  # fmt: skip


def rows(path: Path, sql: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        return connection.execute(sql).fetchall()


def content(body: str) -> str:
    """A task but for where it comes from."""
    return json.dumps({k: v for k, v in json.loads(body).items() if k != "provenance"})


# -- a run that is disturbed --------------------------------------------------------------------


@dataclass
class Run:
    """A training and what it says."""

    path: Path
    more: list[str]
    process: Any = None
    known: Counter[Path] = field(default_factory=Counter)
    """Bytes that each log had before the last fault."""

    @property
    def logs(self) -> list[Path]:
        return [self.path.with_suffix(".log"), self.path / "synthesis.log"]

    def start(self) -> None:
        new = not (self.path / "manifest.json").exists()
        self.process = self.play(*self.more if new else [])

    def play(self, *more: str) -> subprocess.Popen[bytes]:
        # By a pipe, or the limit that stands for a full disk would keep its own report from us.
        with self.logs[0].open("ab") as log:
            cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        words = [*command(self.path), *more]
        process = subprocess.Popen(words, stdout=cat.stdin, stderr=cat.stdin)
        cat.stdin.close()  # type: ignore[union-attr]
        return process

    def go_on(self, until: float) -> None:
        """Wait for an update, or for the end."""
        log = self.path / "metrics.jsonl"
        before: int | None = None
        while time.monotonic() < until and self.process.poll() is None:
            made = log.read_bytes().count(b'"kind": "step"') if log.exists() else 0
            before = made if before is None else min(before, made)
            if made > before:
                return
            time.sleep(0.2)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def mark(self) -> None:
        self.known = Counter({log: log.stat().st_size for log in self.logs if log.exists()})

    def said(self) -> str:
        """Since the last mark."""
        new = [log.read_bytes()[self.known[log] :] for log in self.logs if log.exists()]
        return b"\n".join(new).decode(errors="replace")

    def child(self, words: str, rng: random.Random) -> int | None:
        """One of our descendants, by its command line; where there is no Ray, of the driver's."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True)
        lines = [line.split(None, 2) for line in listed.stdout.splitlines()]
        root = os.getpid() if words.startswith(ACTOR) else self.process.pid
        ours, grown = {str(root)}, 0
        while len(ours) > grown:
            grown = len(ours)
            ours |= {pid for pid, parent, *_ in lines if parent in ours}
        found = [int(pid) for pid, _, *args in lines if pid in ours and words in " ".join(args)]
        return rng.choice(found) if found else None


# -- faults: each does it and says how a log has to name it; None where there was no victim -------

Fault = Callable[[Run, random.Random], str | None]


def kill_driver(run: Run, _: random.Random) -> str | None:
    lock = run.path / ".lock"
    claimed = lock.exists() and lock.read_text() == str(run.process.pid)
    run.kill()
    return KILLED.format(run.process.pid) if claimed else None  # before that there is no run


def kill_child(words: str, named: str) -> Fault:
    def fault(run: Run, rng: random.Random) -> str | None:
        pid = run.child(words, rng)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return None if pid is None else named.format(pid)

    return fault


def fill_disk(words: str, named: str) -> Fault:
    """No file of a process may grow, until it ends."""

    def fault(run: Run, rng: random.Random) -> str | None:
        pid = run.child(words, rng) if words else run.process.pid
        if pid is None:
            return None
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (SMALL_FILE, before[1]))
        until = time.monotonic() + PATIENCE
        while run.process.poll() is None and (not words or Path(f"/proc/{pid}").exists()):
            if time.monotonic() > until:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
                return None if words else named  # a worker without orders writes nothing
            time.sleep(0.2)
        return named

    return fault


def tear(run: Run, _: random.Random) -> str | None:
    """The last line of the log is cut in its middle, even if a checkpoint knows all of it."""
    run.kill()
    log, latest = run.path / "metrics.jsonl", Checkpoints(run.path / "checkpoint").latest()
    lines = log.read_bytes().splitlines(keepends=True) if latest is not None else []
    if not lines:
        return None
    os.truncate(log, sum(map(len, lines)) - len(lines[-1]) // 2 - 1)
    return r"metrics\.jsonl: .*(the last one was torn|knew is lost)"


def garble(run: Run, rng: random.Random) -> str | None:
    run.kill()
    if Checkpoints(run.path / "checkpoint").latest() is None:
        return None
    with (run.path / "metrics.jsonl").open("ab") as log:
        log.write(rng.randbytes(40) + rng.choice([b"", b"\n"]))
    return r"metrics\.jsonl: \d+ lines? written after the last checkpoint removed"


def change_recipe(run: Run, _: random.Random) -> str | None:
    run.kill()
    if not (run.path / "manifest.json").exists():
        return None
    refused = run.play("--boundary.low", "0.25").wait()
    return r"differ from those of the run: boundary\.low" if refused == 2 else "it was refused"


FAULTS = {
    "driver killed": kill_driver,
    "synthesis worker killed": kill_child(WORKER, rf"worker ended \(exit code -9\)|{KILLED}"),
    "world's process killed": kill_child(WORLD, "a world's process died"),
    "disk full for the driver": fill_disk("", FULL),
    "disk full for the worker": fill_disk(WORKER, rf"{FULL}|worker ended \(exit code 1\)"),
    "last line torn": tear,
    "garbage at the end": garble,
    "another recipe": change_recipe,
}
ACTORS = {
    "actor of a world killed": kill_child(f"{ACTOR}Player", "actor with a world was lost"),
    "actor of variants killed": kill_child(
        f"{ACTOR}WriterActor", "actor that makes variants was lost"
    ),
}
ENDED = "ended unasked"


@dataclass
class Told:
    """Faults by kind: done, named in a log, and such that the run ended before it met them."""

    done: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    unmet: Counter[str] = field(default_factory=Counter)

    def unnamed(self) -> int:
        return (self.done - self.named - self.unmet).total()


def disturb(run: Run, rng: random.Random, until: float, told: Told) -> None:
    """Play one run to its end, or until the time is over, one fault after the other."""
    deck: list[str] = []
    run.start()
    while time.monotonic() < until:
        if rng.random() < GOES_ON:
            run.go_on(until)
        try:
            run.process.wait(min(rng.uniform(*PAUSE), max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            deck = deck or rng.sample(list(FAULTS), len(FAULTS))
            kind, started = deck.pop(), time.monotonic()
            run.mark()
            named = FAULTS[kind](run, rng)
            if run.process.poll() is not None and not finished(run.path):
                run.start()
            if named is None:
                deck.insert(0, kind)
            else:
                result = watch(run, kind, named, told)
                say(run, f"{kind}: {result} after {time.monotonic() - started:.1f} s")
            continue
        if finished(run.path):
            return
        told.done[ENDED] += 1
        say(run, f"{ENDED}, exit code {run.process.returncode}")
        run.start()
    run.process.send_signal(signal.SIGINT)
    run.process.wait()


def watch(run: Run, kind: str, named: str, told: Told) -> str:
    """Wait until a log names a fault."""
    until, found = time.monotonic() + PATIENCE, False
    while time.monotonic() < until and not found:
        over = run.process.poll() is not None
        found = re.search(named, run.said()) is not None
        if over and not found and finished(run.path):
            break
        time.sleep(0.2)
    told.done[kind] += 1
    where = told.named if found else told.unmet if finished(run.path) else Counter[str]()
    where[kind] += 1
    return "named" if found else "not met" if where is told.unmet else "NOT NAMED"


def begin_ray() -> list[str]:
    """A Ray of this machine; settings of a run that plays and writes there."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, logging_level="WARNING")
    del FAULTS["world's process killed"]
    FAULTS.update(ACTORS)
    address = ray.get_runtime_context().gcs_address
    return ["--ray.worlds", "2", "--ray.writers", "1", "--ray.address", address]


def say(run: Run, text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {run.path.name}: {text}", flush=True)


def main() -> None:
    parser = Options(__doc__, {"minutes": 0.2})
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="worlds and variants in actors")
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell's background command ignores Ctrl-C, and so would the runs that are ended by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    rng, told, total, number = random.Random(options.seed), Told(), Counts(), 0
    more = MORE + (begin_ray() if options.ray else PROCESSES)
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            number += 1
            run = Run((options.out or Path(folder)) / f"run-{number}", more)
            run.path.parent.mkdir(parents=True, exist_ok=True)
            disturb(run, rng, until, told)
            counts = check(run.path)
            total += counts
            say(run, ", ".join(f"{name} {n}" for name, n in asdict(counts).items()))
    print(f"\n{'fault':26} {'done':>6} {'named':>6} {'not met':>8}")
    for kind in [*FAULTS, ENDED]:
        print(f"{kind:26} {told.done[kind]:6} {told.named[kind]:6} {told.unmet[kind]:8}")
    print(f"\n{number} runs, {told.done.total()} faults in {options.minutes:g} minutes")
    print(f"{total.updates} updates, {total.groups} groups, {total.accepted} variants accepted")
    faults = (total.lost, total.doubled, total.twice, total.untrained, told.unnamed())
    words = "accepted variants lost {}, doubled {}; groups trained twice {}, never {}; "
    print((words + "failures that no log names {}").format(*faults))
    sys.exit(any(faults))


if __name__ == "__main__":
    main()

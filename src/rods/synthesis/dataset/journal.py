"""A data set of variants, made without training; a kill at any moment spoils nothing.

Owns the order of proposals and the journal that makes each outcome durable at once. Outcome `i`
depends on the seeds, the settings and the outcomes before it, never on threads or interruptions:
proposals for different seeds may run at the same time, they are recorded in order. Never writes
the data set itself: `exports.py` does.

    journal = Journal.open(path, settings)
    maker = DatasetMaker(Plan(seeds, n=100, rng_seed=0, attempts=3), writer, keeper, journal)
    maker.run(report)
    maker.accepted
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from rods.errors import StoreError, SynthesisError, WriterError
from rods.infra.files import replacing
from rods.synthesis.gates.keeper import Gatekeeper, Verdict
from rods.synthesis.gates.overlap import Neighbours, Prints, prints
from rods.synthesis.pipeline import Outcome, Statistics, synthesize
from rods.synthesis.rejection import Rejection
from rods.synthesis.worker.patience import Patience
from rods.synthesis.writers import Writer
from rods.task import Task
from rods.types import Json

LIMIT = 20
"""Outcomes for each wanted variant, after which the making stops with fewer."""
SUSPENSIONS = 6
"""Pauses in a row, two minutes in all, after which a writer that still fails is given up."""
LOOK = 0.5
"""Seconds between two reports while an outcome is waited for."""
VERSION = 1
"""Version of the journal."""


class StageUsage(Protocol):
    """What one stage of a writer has asked of its model so far."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


@runtime_checkable
class Metered(Protocol):
    """A writer that counts what it asks of a model."""

    def usage(self) -> Mapping[str, StageUsage]:
        """Totals by stage since the writer was made."""
        ...


Spent: TypeAlias = dict[tuple[str, str], float]
"""(stage, figure) to amount; figures as in `StageUsage`."""
FIGURES = ("calls", "prompt_tokens", "completion_tokens", "cost")


@dataclass(frozen=True)
class Plan:
    """What to make."""

    seeds: Sequence[Task]
    """Tried in turn, round by round."""
    n: int
    """Variants wanted."""
    rng_seed: int = 0
    attempts: int = 3
    """Whole attempts for one outcome, K_max."""
    concurrency: int = 1
    """Proposals at once, for writers that say they can (`parallel` over 1)."""


class Entry(NamedTuple):
    """One line of the journal."""

    outcome: Outcome
    seconds: float
    spent: Spent


class SharedGatekeeper(Gatekeeper):
    """A gatekeeper that threads may share: one proposal is judged at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lock = threading.Lock()

    def check(self, seed: Task, variant: Task, seen: Sequence[Prints] = ()) -> Verdict:
        """As the plain gatekeeper."""
        with self._lock:
            return super().check(seed, variant, seen)


class Journal:
    """Outcomes in order, one line of JSON each, on the disk before the next one is recorded."""

    def __init__(self, path: Path, entries: Sequence[Entry], size: int):
        """Use `open`."""
        self.path = path
        self.entries = list(entries)
        self._file = path.open("r+b", buffering=0)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise StoreError(f"{path}: another process is making this data set.") from error
        self._file.truncate(size)
        self._file.seek(size)

    @classmethod
    def open(cls, path: Path, settings: Mapping[str, Json]) -> Journal:
        """Begin a journal, or go on with the one that is there.

        Args:
            path: The file.
            settings: All that decides the outcomes; must be the same when one goes on.

        Raises:
            StoreError: it was made with other settings, is damaged, or cannot be written.
        """
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        head = {"journal": VERSION, "digest": digest, "settings": dict(settings)}
        if not path.exists():
            try:
                with replacing(path) as part:
                    part.write_text(json.dumps(head) + "\n", encoding="utf-8")
            except OSError as error:
                raise StoreError(f"{path}: cannot be written: {error}.") from error
        lines, size = _whole_lines(path)
        _same_settings(path, lines, head)
        entries = [_entry(line, f"{path}:{i}") for i, line in enumerate(lines[1:], 2)]
        return cls(path, entries, size)

    def append(self, entry: Entry) -> None:
        """Make one outcome durable; raises `StoreError` where the disk refuses."""
        line = memoryview(_line(entry))
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written: {error}. The {len(self.entries)} outcomes before "
                "are kept; go on with --resume."
            ) from error
        self.entries.append(entry)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def remove(self) -> None:
        """The data set is written: the journal has done its work."""
        self.path.unlink(missing_ok=True)
        self.close()


def _whole_lines(path: Path) -> tuple[list[bytes], int]:
    """Lines that end, and the bytes that they take: what follows was torn by a kill."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error}.") from error
    size = data.rfind(b"\n") + 1
    return data[:size].splitlines(), size


def _same_settings(path: Path, lines: Sequence[bytes], head: Mapping[str, Any]) -> None:
    try:
        found: dict[str, Any] = json.loads(lines[0])
        version, digest = found["journal"], found["digest"]
        theirs = cast("dict[str, Json]", found["settings"])
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: this is no journal of `rods synth`. Move it away.") from error
    if version != VERSION:
        raise StoreError(f"{path}: journal of version {version}, this program reads {VERSION}.")
    if digest != head["digest"]:
        ours: dict[str, Json] = head["settings"]
        keys = [k for k in sorted(theirs | ours) if theirs.get(k) != ours.get(k)]
        changed = ", ".join(f"{k}: {theirs.get(k)} -> {ours.get(k)}" for k in keys)
        raise StoreError(
            f"{path}: this data set was begun with other settings ({changed}). Go on with the old "
            "ones, or choose another --out."
        )


def _line(entry: Entry) -> bytes:
    outcome = entry.outcome
    row = {
        "variant": None if outcome.variant is None else outcome.variant.to_json(),
        "distance": outcome.distance,
        "rejections": [[r.stage, str(r.reason), r.detail, r.recipe] for r in outcome.rejections],
        "seconds": round(entry.seconds, 6),
        "spent": [[*key, amount] for key, amount in sorted(entry.spent.items())],
    }
    return json.dumps(row).encode() + b"\n"


def _entry(line: bytes, where: str) -> Entry:
    try:
        row: dict[str, Any] = json.loads(line)
        variant = None if row["variant"] is None else Task.from_json(row["variant"], where)
        rejections = tuple(Rejection(*parts) for parts in row["rejections"])
        spent = {(str(s), str(f)): float(amount) for s, f, amount in row["spent"]}
        outcome = Outcome(variant, float(row["distance"]), rejections)
        return Entry(outcome, float(row["seconds"]), spent)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{where}: a damaged line: {error}. Remove it and all after it."
        ) from error


class DatasetMaker:
    """Makes outcome after outcome until enough variants are accepted."""

    def __init__(self, plan: Plan, writer: Writer, keeper: Gatekeeper, journal: Journal):
        """Whatever the journal holds is taken over."""
        if not plan.seeds:
            raise SynthesisError("there are no seeds to make variants of.")
        self.plan = plan
        self.accepted: list[Task] = []
        self.statistics = Statistics()
        self.spent: Spent = {}
        self._writer, self._keeper, self._journal = writer, keeper, journal
        self._metered = spent_by(writer)
        self.suspended = ""
        """Why and for how long the writer pauses; empty while it works."""
        self._patience, self._worked = Patience(), False
        self._of_seed: list[list[Prints]] = [[] for _ in plan.seeds]
        self._all = Neighbours()
        self._done = 0
        for entry in journal.entries:
            self._take(entry)
        self.taken_over = len(self.accepted)
        """Variants that an earlier, interrupted making left."""

    @property
    def finished(self) -> bool:
        """Whether enough variants were accepted, or too many outcomes gave none."""
        return len(self.accepted) >= self.plan.n or self._done >= LIMIT * self.plan.n

    def run(self, report: Callable[[DatasetMaker], None]) -> None:
        """Make what is missing. A writer that fails is suspended and tried again, not for ever.

        Args:
            report: Called after each outcome that was recorded, and while one is waited for.

        Raises:
            WriterError: the writer cannot be used, and never could.
            SynthesisError: it was suspended too often; the message says why.
        """
        running: deque[Future[tuple[Outcome, float]]] = deque()
        threads = min(max(1, getattr(self._writer, "parallel", 1)), self.plan.concurrency)
        while not self.finished:
            # No more than may still be needed, and never two of one seed.
            missing = self.plan.n - len(self.accepted)
            window = max(1, min(threads, len(self.plan.seeds), missing))
            while len(running) < window:
                running.append(self._start(self._done + len(running), threaded=threads > 1))
            while not wait([running[0]], timeout=LOOK).done:
                report(self)
            reason = self._taken(running)
            report(self)
            if reason:
                self._suspend(reason, report)
                for place, future in enumerate(running):
                    if future.done() and isinstance(future.exception(), WriterError):
                        running[place] = self._start(self._done + place, threaded=threads > 1)

    def _taken(self, running: deque[Future[tuple[Outcome, float]]]) -> str:
        """Record the first outcome; why the writer has to be suspended, or nothing."""
        try:
            outcome, seconds = running[0].result()
        except WriterError as error:
            if not error.suspends or not (error.down or self._worked):
                raise
            return str(error)  # nothing was made: the same outcome is tried again
        running.popleft()
        self._record(outcome, seconds)
        reason = self._patience.take(outcome)
        self._worked = self._worked or not self._patience.failures
        return reason

    def _suspend(self, reason: str, report: Callable[[DatasetMaker], None]) -> None:
        if self._patience.suspensions >= SUSPENSIONS:
            raise SynthesisError(f"the writer failed again after {SUSPENSIONS} pauses: {reason}")
        seconds = self._patience.suspend()
        self.suspended = f"synthesis pauses for {seconds:g} s: {reason}"
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            report(self)
            time.sleep(min(LOOK, left))
        self.suspended = ""

    def _start(self, number: int, threaded: bool) -> Future[tuple[Outcome, float]]:
        promise: Future[tuple[Outcome, float]] = Future()
        place = number % len(self.plan.seeds)
        seed, seen = self.plan.seeds[place], tuple(self._of_seed[place])

        def work() -> None:
            try:
                promise.set_result(self._make(seed, number, seen))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                promise.set_exception(error)

        if threaded:
            # A daemon: Ctrl-C need not wait for a model's answer.
            threading.Thread(target=work, name=f"synth-{number}", daemon=True).start()
        else:
            work()
        return promise

    def _make(self, seed: Task, number: int, seen: Sequence[Prints]) -> tuple[Outcome, float]:
        started = time.perf_counter()
        noise = self.plan.rng_seed * 1_000_003 + number
        # A writer with a baton gives it up while it waits for its model; worlds are never shared.
        with getattr(self._writer, "baton", None) or nullcontext():
            made = synthesize(seed, self._writer, self._keeper, noise, self.plan.attempts, seen)
        return made, time.perf_counter() - started

    def _record(self, outcome: Outcome, seconds: float) -> None:
        variant = outcome.variant
        # Seeds of one scenario can meet in the same calls or words.
        repeated = None if variant is None else self._all.repeated(prints(variant))
        if variant is not None and repeated is not None:
            again = Rejection("gate", "novelty", f"repeats {repeated}", variant.provenance.recipe)
            outcome = Outcome(None, 1.0, (*outcome.rejections, again))
        now = spent_by(self._writer)
        spent = {key: amount - self._metered.get(key, 0) for key, amount in now.items()}
        entry = Entry(outcome, seconds, {key: amount for key, amount in spent.items() if amount})
        self._metered = now
        self._journal.append(entry)
        self._take(entry)

    def _take(self, entry: Entry) -> None:
        place = self._done % len(self.plan.seeds)
        self._done += 1
        self.statistics.add(entry.outcome, entry.seconds)
        for key, amount in entry.spent.items():
            self.spent[key] = self.spent.get(key, 0) + amount
        if entry.outcome.variant is not None:
            mine = prints(entry.outcome.variant)
            self.accepted.append(entry.outcome.variant)
            self._of_seed[place].append(mine)
            self._all.add(mine)


def spent_by(writer: Writer) -> Spent:
    """What a writer has asked of its model so far; empty where it asks nothing."""
    if not isinstance(writer, Metered):
        return {}
    return {
        (stage, figure): float(getattr(used, figure))
        for stage, used in writer.usage().items()
        for figure in FIGURES
    }

"""What happened to the pool: its tables, its meters, its orders to the worker.

Owns the layout of the replay buffer's file and everything in it that is counted or looked up later.
It never decides what enters or leaves the pool; `replay.py` does.

    journal.add("seed_emitted", epoch=3, by=16)
    journal.report(epoch=3).injected
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from rods.infra.database import Database, Kept, Row

LAYOUT = 2
"""Version of the tables below."""

SCHEMA = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE tasks(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT,
        category TEXT NOT NULL, generated INTEGER NOT NULL, status TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '', made INTEGER, request TEXT, distance REAL,
        entered INTEGER)""",
    "CREATE INDEX tasks_status ON tasks(generated, status, seq)",
    """CREATE TABLE visits(task_id TEXT, epoch INTEGER, step INTEGER, version INTEGER, rbar REAL,
        variance REAL, low REAL, high REAL, n_valid INTEGER, k INTEGER, region TEXT,
        PRIMARY KEY(task_id, epoch)) WITHOUT ROWID""",
    """CREATE TABLE draws(epoch INTEGER, position INTEGER, task_id TEXT NOT NULL,
        status TEXT NOT NULL, PRIMARY KEY(epoch, position), UNIQUE(epoch, task_id))""",
    """CREATE TABLE epochs(epoch INTEGER PRIMARY KEY, first_step INTEGER, originals INTEGER,
        active INTEGER, pending INTEGER, injected INTEGER, deferred INTEGER, draws INTEGER,
        mark INTEGER)""",
    """CREATE TABLE events(seq INTEGER PRIMARY KEY, epoch INTEGER, task_id TEXT, kind TEXT,
        reason TEXT)""",
    """CREATE TABLE requests(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seed_id TEXT,
        first INTEGER, n INTEGER, priority REAL, epoch INTEGER, rested INTEGER, open INTEGER)""",
    """CREATE TABLE meters(epoch INTEGER, name TEXT, value INTEGER,
        PRIMARY KEY(epoch, name)) WITHOUT ROWID""",
)

_ADD = (
    "INSERT INTO meters VALUES (?, ?, ?) "
    "ON CONFLICT(epoch, name) DO UPDATE SET value = value + excluded.value"
)

METERS = (
    "judged",
    "unjudged",
    "hard",
    "boundary",
    "mastered",
    "zero_variance",
    "no_variance",
    "cycles",
    "seed_emitted",
    "cooldown_filtered",
    "variance_filtered",
    "quota_filtered",
    "backlog_filtered",
    "accepted",
    "duplicate",
    "late_requests",
    "retired_burn_in",
    "retired_too_hard",
    "retired_mastered",
    "revived",
)
"""Counts of one epoch that the curriculum's `metrics` gives, beside rates and the pool's state."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What an epoch's start did to the pool."""

    epoch: int
    originals: int
    """Original tasks of this epoch's stage."""
    active: int
    """Variants that are active now."""
    pending: int
    """Variants that still wait."""
    injected: int
    deferred: int
    """Variants that could have entered but for the share `inject` or the cap."""
    retired: Mapping[str, int] = field(default_factory=dict[str, int])
    """By reason, since the start of the epoch before, this start included."""
    draws: int = 0
    """Tasks of this epoch; each is drawn once."""

    @property
    def pruned(self) -> int:
        """Variants that had to leave because of the cap."""
        return self.retired.get("pruned", 0)


class Request(NamedTuple):
    """One order to the synthesis worker."""

    id: str
    seed_id: str
    first: int
    """Number of its first outcome among those of the seed."""
    n: int
    priority: float
    epoch: int
    rested: int
    """First step at which the seed may be chosen again."""


class Journal:
    """Counts and orders, in the buffer's own file and transactions."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._meters = Kept(db, dict[int, Counter[str]])

    # -- events -----------------------------------------------------------------------------

    def event(self, epoch: int, task_id: str, kind: str, reason: str = "") -> None:
        """Note that a variant was injected, retired or revived."""
        self._db.run(
            "INSERT INTO events(epoch, task_id, kind, reason) VALUES (?, ?, ?, ?)",
            (epoch, task_id, kind, reason),
        )

    def report(self, epoch: int) -> EpochReport:
        """What the start of this epoch did."""
        before = self._db.number("SELECT MAX(mark) FROM epochs WHERE epoch < ?", (epoch,))
        row = self._db.rows("SELECT * FROM epochs WHERE epoch = ?", (epoch,))[0]
        number, _, originals, active, pending, injected, deferred, draws, mark = (
            int(v or 0) for v in row
        )
        retired = self._db.rows(
            "SELECT reason, COUNT(*) FROM events WHERE kind = 'retired' AND seq > ? AND seq <= ? "
            "GROUP BY reason",
            (before, mark),
        )
        left = by_name(retired)
        return EpochReport(number, originals, active, pending, injected, deferred, left, draws)

    # -- meters -----------------------------------------------------------------------------

    def add(self, name: str, epoch: int, by: int = 1) -> None:
        """Count something of an epoch."""
        self.add_all({(epoch, name): by})

    def add_all(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Count many things, by epoch and name."""
        for (epoch, name), by in counts.items():
            kept = self._counts(epoch)
            self._db.run(_ADD, (epoch, name, by))
            kept[name] += by

    def meter(self, name: str, epoch: int) -> int:
        """One count of an epoch."""
        return self._counts(epoch)[name]

    def meters(self, epoch: int) -> dict[str, int]:
        """All counts of an epoch."""
        return dict(self._counts(epoch))

    def _counts(self, epoch: int) -> Counter[str]:
        """Those of an epoch, to be asked for before one changes, then kept up."""
        known = self._meters.get()
        if epoch not in known:
            rows = self._db.rows("SELECT name, value FROM meters WHERE epoch = ?", (epoch,))
            known[epoch] = Counter(by_name(rows))
        return known[epoch]

    # -- orders to the synthesis worker -----------------------------------------------------

    def order(self, requests: Iterable[Request]) -> None:
        """Keep orders before they are submitted, so that none is lost between the two."""
        self._db.run_many(
            "INSERT OR IGNORE INTO requests(id, seed_id, first, n, priority, epoch, rested, "
            "open) VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
            requests,
        )

    def ordered(self, seed_id: str) -> int:
        """Outcomes of a seed that were ordered so far."""
        return self._db.number("SELECT SUM(n) FROM requests WHERE seed_id = ?", (seed_id,))

    def open_requests(self) -> list[Request]:
        """Orders whose variants are not taken in yet, oldest first."""
        rows = self._db.rows(
            "SELECT id, seed_id, first, n, priority, epoch, rested FROM requests "
            "WHERE open = 1 ORDER BY seq"
        )
        return [Request(*cast("tuple[str, str, int, int, float, int, int]", r)) for r in rows]

    def close_request(self, request_id: str) -> None:
        """All variants of this order were taken in."""
        self._db.run("UPDATE requests SET open = 0 WHERE id = ?", (request_id,))

    def cooldown(self) -> dict[str, int]:
        """Task id -> first step at which it may be a seed again."""
        return by_name(self._db.rows("SELECT seed_id, MAX(rested) FROM requests GROUP BY seed_id"))


def by_name(rows: Iterable[Row]) -> dict[str, int]:
    """Rows of a name and a number."""
    return {str(name): int(value or 0) for name, value in rows}

"""The durable queue between the driver and the synthesis worker: one SQLite file, two processes.

Owns requests, their outcomes and the worker's order to stop. Each outcome is one row with the key
(request, index), written with its variant in one transaction: a kill at any moment loses no
accepted variant and doubles none. Never makes a variant.

    queue = SynthesisQueue(path)
    queue.submit("r1", seed, n=2, rng_seed=7, priority=1.0, epoch=3)
    queue.results(["r1"])
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from rods.errors import SynthesisError
from rods.infra.database import Database
from rods.synthesis.pipeline import Outcome
from rods.task import Task

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE requests (id TEXT PRIMARY KEY, place INTEGER NOT NULL, seed TEXT NOT NULL, "
    "n INTEGER NOT NULL, rng_seed INTEGER NOT NULL, priority REAL NOT NULL, "
    "epoch INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE outcomes (request TEXT NOT NULL, number INTEGER NOT NULL, task TEXT, "
    "distance REAL NOT NULL, tried INTEGER NOT NULL, rejected TEXT NOT NULL, "
    "seconds REAL NOT NULL, PRIMARY KEY (request, number))",
    "CREATE INDEX open_requests ON requests (done, epoch, priority)",
)
VERSION = 2


class Order(NamedTuple):
    """A request that the worker has to finish."""

    id: str
    seed: Task
    n: int
    rng_seed: int
    made: int
    """Outcomes that exist already: the next one has this index."""


class Counts(NamedTuple):
    """What the queue holds."""

    tried: int
    accepted: int
    rejected: Counter[str]
    """Reason to count."""
    stages: Counter[str]
    """The same rejections by the stage that turned down."""
    seconds: float
    """Time spent on all outcomes."""
    requests: int
    """Requests that are not finished."""
    waiting: int
    """Accepted variants that nobody has taken yet."""


class SynthesisQueue:
    """Both ends of the queue; every method takes milliseconds."""

    def __init__(self, path: Path):
        """Open or make the file; raises `StoreError` where it is damaged."""
        self._db = Database(path, SCHEMA, VERSION, "synthesis queue")

    def submit(
        self, request_id: str, seed: Task, n: int, rng_seed: int, priority: float, epoch: int
    ) -> None:
        """Order `n` variants; the same id again changes nothing."""
        row = json.dumps(seed.to_json(), ensure_ascii=False)
        self._db.run(
            "INSERT OR IGNORE INTO requests (id, place, seed, n, rng_seed, priority, epoch) "
            "VALUES (?, (SELECT COUNT(*) FROM requests), ?, ?, ?, ?, ?)",
            (request_id, row, n, rng_seed, priority, epoch),
        )

    def next_order(self, under_way: Collection[str] = ()) -> Order | None:
        """The request to work on: oldest epoch first, then highest priority, then first come.

        Args:
            under_way: requests that are being worked on and are left out.
        """
        marks = ", ".join("?" for _ in under_way)
        rows = self._db.rows(
            "SELECT id, seed, n, rng_seed, (SELECT COUNT(*) FROM outcomes WHERE request = id) "
            f"FROM requests WHERE done = 0 AND id NOT IN ({marks}) "
            "ORDER BY epoch, priority DESC, place LIMIT 1",
            tuple(under_way),
        )
        if not rows:
            return None
        name, seed, n, rng_seed, made = rows[0]
        where = f"synthesis request {name}"
        task = Task.from_json(json.loads(str(seed)), where)
        return Order(str(name), task, int(n or 0), int(rng_seed or 0), int(made or 0))

    def record(self, order: Order, number: int, outcome: Outcome, seconds: float) -> None:
        """Store one outcome; the last one of a request finishes it. A second time is ignored."""
        variant = outcome.variant
        task = None if variant is None else json.dumps(variant.to_json(), ensure_ascii=False)
        rejected = json.dumps([[r.stage, str(r.reason)] for r in outcome.rejections])
        with self._db.atomic():
            self._db.run(
                "INSERT OR IGNORE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?)",
                (order.id, number, task, outcome.distance, outcome.tried, rejected, seconds),
            )
            self._finish(order.id, order.n)

    def _finish(self, request_id: str, n: int) -> None:
        self._db.run(
            "UPDATE requests SET done = 1 WHERE id = ? AND "
            "(SELECT COUNT(*) FROM outcomes WHERE request = ?) >= ?",
            (request_id, request_id, n),
        )

    def finish(self, order: Order) -> None:
        """Mark a request that needs nothing more as done."""
        self._finish(order.id, order.n)

    def variants(self, request_id: str) -> list[Task]:
        """Accepted variants of one request, by index; does not count as taking them."""
        return [task for _, _, task, _ in self._accepted([request_id])]

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        """Accepted variants: (request, index, task, distance), ordered as asked, then by index.

        Asking again gives them again. Finished requests that were asked for count as taken.
        """
        found = self._accepted(request_ids)
        taken = [(request,) for request in request_ids]
        with self._db.atomic():
            self._db.run_many("UPDATE requests SET taken = 1 WHERE id = ? AND done = 1", taken)
        return found

    def _accepted(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        found: list[tuple[str, int, Task, float]] = []
        for request in request_ids:
            rows = self._db.rows(
                "SELECT number, task, distance FROM outcomes "
                "WHERE request = ? AND task IS NOT NULL ORDER BY number",
                (request,),
            )
            for number, row, distance in rows:
                where = f"synthesis request {request}, variant {number}"
                task = Task.from_json(json.loads(str(row)), where)
                found.append((request, int(number or 0), task, float(distance or 0.0)))
        return found

    def unfinished(self, request_ids: Sequence[str]) -> list[str]:
        """Which of these requests are not finished; an unknown one never is."""
        return [
            request
            for request in request_ids
            if not self._db.number("SELECT done FROM requests WHERE id = ?", (request,))
        ]

    def waiting(self) -> int:
        """Accepted variants that nobody has taken yet."""
        return self._db.number(
            "SELECT COUNT(*) FROM outcomes JOIN requests ON id = request "
            "WHERE task IS NOT NULL AND taken = 0"
        )

    def counts(self) -> Counts:
        """Totals over the whole file."""
        rejected, stages = Counter[str](), Counter[str]()
        for (rows,) in self._db.rows("SELECT rejected FROM outcomes WHERE rejected != '[]'"):
            for stage, reason in json.loads(str(rows)):
                stages[stage] += 1
                rejected[reason] += 1
        ((tried, accepted, seconds),) = self._db.rows(
            "SELECT COALESCE(SUM(tried), 0), COUNT(task), COALESCE(SUM(seconds), 0) FROM outcomes"
        )
        return Counts(
            tried=int(tried or 0),
            accepted=int(accepted or 0),
            rejected=rejected,
            stages=stages,
            seconds=float(seconds or 0.0),
            requests=self._db.number("SELECT COUNT(*) FROM requests WHERE done = 0"),
            waiting=self.waiting(),
        )

    def put(self, key: str, value: str) -> None:
        """Keep a note (settings, the order to stop)."""
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def get(self, key: str) -> str:
        """A note, empty where there is none."""
        rows = self._db.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def bind(self, digest: str) -> None:
        """Tie the file to one set of tasks and settings.

        Raises:
            SynthesisError: it belongs to another one; its variants must not be mixed with ours.
        """
        known = self.get("digest")
        if known and known != digest:
            raise SynthesisError(
                f"{self._db.path}: this synthesis queue was made with other tasks or settings "
                f"(digest {known}, now {digest}). Resume with the old ones, or start a new run."
            )
        self.put("digest", digest)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

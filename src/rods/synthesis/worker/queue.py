"""The durable queue between those who request variants and the worker: one SQLite file.

A seed's outcomes are one sequence: number k depends on the seed task, the random seed, the settings
and the variants before it, on no request and no clock. A request is for a stretch of that sequence,
so `rods synth` and training get the same variants, a request that comes again finds what is there,
and a kill at any moment loses no outcome and doubles none.

    queue.submit("r1", seed, first=0, n=2, priority=1.0, epoch=3)
    queue.results(["r1"])
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rods.config.drift import moved
from rods.errors import SynthesisError
from rods.infra.database import Database
from rods.infra.dotted import changes
from rods.synthesis.pipeline import RequestOutcome, Statistics
from rods.synthesis.yields import SeedYield
from rods.task import Task, Turn
from rods.types import Json

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE seeds (id TEXT PRIMARY KEY, task TEXT NOT NULL)",
    "CREATE TABLE orders (id TEXT PRIMARY KEY, place INTEGER NOT NULL, seed TEXT NOT NULL, "
    "first INTEGER NOT NULL, n INTEGER NOT NULL, priority REAL NOT NULL, epoch INTEGER NOT NULL, "
    "done INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX open_orders ON orders (done, epoch, priority)",
    "CREATE INDEX orders_of_seed ON orders (seed, done)",
    "CREATE TABLE outcomes (seed TEXT NOT NULL, number INTEGER NOT NULL, task TEXT, "
    "distance REAL NOT NULL, tried INTEGER NOT NULL, rejected TEXT NOT NULL, "
    "seconds REAL NOT NULL, taken INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (seed, number))",
    "CREATE INDEX waiting ON outcomes (seed) WHERE taken = 0 AND task IS NOT NULL",
)
CANDIDATES = (
    "CREATE TABLE IF NOT EXISTS candidates (seed TEXT NOT NULL, number INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, turns TEXT NOT NULL, PRIMARY KEY (seed, number, attempt))"
)
"""Messages and calls of rejected candidates; apart, since totals read all of `outcomes`."""
VERSION = 3
LONGEST = 300
"""Characters of a rejected candidate's detail, and of its message, that are kept."""
KEPT, CHARACTERS = 2_000, 20_000
"""The latest so many rejected candidates have their turns kept, so many characters of each."""


def rejections_of(column: str) -> list[list[str]]:
    """Stage, reason, detail and message of the rejected candidates of an outcome."""
    return [[*row, "", ""][:4] for row in json.loads(column)]  # older files have the first two


def bounded(turns: Sequence[Turn]) -> str:
    """JSON of each turn's message and calls, without what exceeds `CHARACTERS`, which it states."""
    left, kept = CHARACTERS, list[list[str]]()
    for turn in turns:
        kept.append([])
        for text in (turn.user, *map(str, turn.ground_truth)):
            over = len(text) - left
            kept[-1].append(f"{text[:left]} [{over} characters left out]" if over > 0 else text)
            left = max(0, -over)
    return json.dumps(kept)


class NextOutcome(NamedTuple):
    """One outcome of a seed, which the worker has to make next."""

    seed: Task
    number: int
    """Place among the outcomes of this seed."""


class SqliteQueue:
    """Both ends of the queue; every method takes milliseconds."""

    def __init__(self, path: Path):
        """Open or make the file; raises `StoreError` where it is damaged or of another layout."""
        self._db = Database(path, SCHEMA, VERSION, "synthesis queue")
        self._db.run(CANDIDATES)

    def submit(
        self, request_id: str, seed: Task, first: int, n: int, priority: float, epoch: int
    ) -> None:
        """Request outcomes `first` to `first + n - 1` of a seed; the same id again changes nothing.

        Requests of one seed are worked on by `first`, whatever their priority.
        """
        with self._db.atomic():
            row = json.dumps(seed.to_json(), ensure_ascii=False)
            self._db.run("INSERT OR IGNORE INTO seeds VALUES (?, ?)", (seed.id, row))
            self._db.run(
                "INSERT OR IGNORE INTO orders (id, place, seed, first, n, priority, epoch) "
                "VALUES (?, (SELECT COUNT(*) FROM orders), ?, ?, ?, ?, ?)",
                (request_id, seed.id, first, n, priority, epoch),
            )
            self._finish(seed.id)

    def next_outcome(self, under_way: Collection[str] = ()) -> NextOutcome | None:
        """The outcome to make next: oldest epoch first, then highest priority, then first come.

        `under_way`: ids of seeds that are being worked on; each has one outcome at a time.
        """
        marks = ", ".join("?" for _ in under_way)
        rows = self._db.rows(
            "SELECT seed, first FROM orders WHERE done = 0 "
            f"AND seed NOT IN ({marks}) AND NOT EXISTS (SELECT 1 FROM orders AS other "
            "WHERE other.seed = orders.seed AND other.done = 0 AND other.first < orders.first) "
            "ORDER BY epoch, priority DESC, place LIMIT 1",
            tuple(under_way),
        )
        if not rows:
            return None
        name, first = rows[0]
        ((task,),) = self._db.rows("SELECT task FROM seeds WHERE id = ?", (name,))
        found = self._db.rows("SELECT number FROM outcomes WHERE seed = ?", (name,))
        made, number = {number for (number,) in found}, int(first or 0)
        while number in made:
            number += 1
        return NextOutcome(Task.from_json(json.loads(str(task)), f"synthesis seed {name}"), number)

    def unfinished(self, request_ids: Sequence[str]) -> list[str]:
        """Which of these requests are not finished; an unknown one never is."""
        done = "SELECT done FROM orders WHERE id = ?"
        return [request for request in request_ids if not self._db.number(done, (request,))]

    def record(
        self, request: NextOutcome, outcome: RequestOutcome, seconds: float, usage: str = "{}"
    ) -> None:
        """Store one outcome, and what the writer has asked so far. A second time is ignored."""
        variant = outcome.variant
        task = None if variant is None else json.dumps(variant.to_json(), ensure_ascii=False)
        cut, place = slice(LONGEST), (request.seed.id, request.number)
        rows = [[r.stage, str(r.reason), r.detail[cut], r.message[cut]] for r in outcome.rejections]
        made = (task, outcome.distance, outcome.tried, json.dumps(rows, ensure_ascii=False))
        with self._db.atomic():
            insert = "INSERT OR IGNORE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, 0)"
            self._db.run(insert, (*place, *made, seconds))
            for attempt, rejection in enumerate(outcome.rejections):
                kept = (*place, attempt, bounded(rejection.turns))
                if rejection.turns:
                    self._db.run("INSERT OR IGNORE INTO candidates VALUES (?, ?, ?, ?)", kept)
            last = "(SELECT MAX(rowid) FROM candidates)"
            self._db.run(f"DELETE FROM candidates WHERE rowid <= {last} - ?", (KEPT,))
            self._finish(request.seed.id)
            self.put("usage", usage)

    def _finish(self, seed: str) -> None:
        self._db.run(
            "UPDATE orders SET done = 1 WHERE seed = ? AND done = 0 AND (SELECT COUNT(*) FROM "
            "outcomes AS o WHERE o.seed = orders.seed AND number >= first AND number < first + n"
            ") >= n",
            (seed,),
        )

    def variants(self, seed: str, before: int) -> list[Task]:
        """Accepted variants of a seed with smaller numbers; does not count as taking them."""
        rows = self._db.rows(
            "SELECT task FROM outcomes WHERE seed = ? AND number < ? AND task IS NOT NULL "
            "ORDER BY number",
            (seed, before),
        )
        return [Task.from_json(json.loads(str(row)), f"variant of {seed}") for (row,) in rows]

    def results(self, request_ids: Sequence[str]) -> list[tuple[str, int, Task, float]]:
        """Accepted variants: (request, number, task, distance), ordered as asked, then by number.

        Asking again gives them again. Finished requests that were named count as taken.
        """
        found: list[tuple[str, int, Task, float]] = []
        for request in request_ids:
            for seed, first, end, done in self._db.rows(
                "SELECT seed, first, first + n, done FROM orders WHERE id = ?", (request,)
            ):
                stretch = "seed = ? AND number >= ? AND number < ? AND task IS NOT NULL"
                for number, row, distance in self._db.rows(
                    f"SELECT number, task, distance FROM outcomes WHERE {stretch} ORDER BY number",
                    (seed, first, end),
                ):
                    where = f"request {request}, variant {number}"
                    task = Task.from_json(json.loads(str(row)), where)
                    found.append((request, int(number or 0), task, float(distance or 0.0)))
                if done:
                    taken = f"UPDATE outcomes SET taken = 1 WHERE {stretch} AND taken = 0"
                    self._db.run(taken, (seed, first, end))
        return found

    def waiting(self) -> int:
        """Accepted variants that nobody has taken yet."""
        return self._db.number("SELECT COUNT(*) FROM outcomes WHERE taken = 0 AND task IS NOT NULL")

    def open_requests(self) -> int:
        """Requests that are not finished."""
        return self._db.number("SELECT COUNT(*) FROM orders WHERE done = 0")

    def statistics(self) -> Statistics:
        """Totals over the whole file."""
        counted = Statistics()
        for task, tried, seconds, distance, rejected in self._db.rows(
            "SELECT task IS NOT NULL, tried, seconds, distance, rejected FROM outcomes"
        ):
            counted.tried += int(tried or 0)
            counted.seconds += float(seconds or 0.0)
            counted.rejected.update((row[0], row[1]) for row in json.loads(str(rejected)))
            if task:
                counted.accepted += 1
                counted.distances.append(float(distance or 0.0))
        return counted

    def yields(self) -> list[SeedYield]:
        """Outcomes of the candidates of each seed, those without an outcome left out."""
        seeds = self._db.rows("SELECT id, task FROM seeds ORDER BY rowid")
        found = {key: SeedYield(Task.from_json(json.loads(str(task)))) for key, task in seeds}
        outcomes = "SELECT seed, task IS NOT NULL, rejected FROM outcomes ORDER BY seed, number"
        for seed, made, rejected in self._db.rows(outcomes):
            found[seed].accepted += int(made or 0)
            found[seed].rejections += rejections_of(str(rejected))
        return [made for made in found.values() if made.candidates]

    def put(self, key: str, value: str) -> None:
        """Keep a note (settings, the word to stop)."""
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def get(self, key: str) -> str:
        """A note, empty where there is none."""
        rows = self._db.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def bind(self, deciding: Mapping[str, Json], drift: bool = False) -> None:
        """Tie the file to all that decides its variants; with `drift`, later ones may be others.

        Raises:
            SynthesisError: it belongs to other tasks or settings; their variants must not be mixed.
        """
        known = self.get("deciding")
        theirs: dict[str, Json] = json.loads(known) if known else dict(deciding)
        free = ("synthesis.",) if drift else ()
        found = [text for text in changes(theirs, deciding) if not text.startswith(free)]
        if changed := [text for text in found if not moved(text)]:
            raise SynthesisError(
                f"{self._db.path}: these variants were begun with other settings "
                f"({', '.join(changed)}). Set the old ones, or choose another name."
            )
        self.put("deciding", json.dumps(dict(deciding)))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

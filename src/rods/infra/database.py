"""One SQLite file in WAL mode: transactions and clear errors.

It never retries and never repairs: a file that is damaged or of another layout is refused with a
`StoreError`. A killed process loses no committed transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from rods.errors import StoreError

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Cell, ...]

PATIENCE = 30.0  # seconds to wait for another process's transaction, where two share a file
CACHE = 32 << 10  # KiB of pages that a connection keeps in memory at most


class Database:
    """A connection. Threads of one process may share it; transactions exclude each other."""

    def __init__(self, path: Path, schema: Sequence[str], version: int, what: str) -> None:
        """Open or make a file of `what`; `StoreError` for a damaged one or another layout."""
        self.path, self._what = path, what
        self._lock = threading.RLock()  # held while a transaction lasts
        with self._errors("opening"):
            self._connection = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare(schema, version)
        except BaseException:  # Ctrl-C too: an open connection keeps its files beside the database
            self._connection.close()
            raise

    def _prepare(self, schema: Sequence[str], version: int) -> None:
        with self._errors("opening"):
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"cache_size=-{CACHE}"):
                self._connection.execute(f"PRAGMA {pragma}")
        with self.atomic():
            found = self.number("PRAGMA user_version")
            if not self.number("SELECT COUNT(*) FROM sqlite_master"):
                for statement in (*schema, f"PRAGMA user_version={version}"):
                    self.run(statement)
            elif found != version:
                raise StoreError(
                    f"{self.path}: this {self._what} has layout {found}, expected {version}. It "
                    "was made by another version of rods: use that version, or start a new run."
                )

    @contextmanager
    def _errors(self, doing: str) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: {doing} the {self._what} failed: {error}. Nothing that was stored "
                "before is lost; free space or fix the file, then resume."
            ) from error

    @contextmanager
    def atomic(self) -> Generator[None]:
        """All or nothing; may be nested, the outermost one commits."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            with self._errors("writing"):
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._connection.execute("COMMIT")
                finally:  # Ctrl-C must not leave half of it either
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")

    def run(self, sql: str, values: Sequence[Cell] = ()) -> int:
        """Change rows; returns how many."""
        with self._lock, self._errors("writing"):
            return self._connection.execute(sql, tuple(values)).rowcount

    def rows(self, sql: str, values: Sequence[Cell] = ()) -> list[Row]:
        """All rows of a query."""
        with self._lock, self._errors("reading"):
            return self._connection.execute(sql, tuple(values)).fetchall()

    def number(self, sql: str, values: Sequence[Cell] = ()) -> int:
        """The one whole number that a query gives; 0 where it gives none."""
        rows = self.rows(sql, values)
        return int(rows[0][0] or 0) if rows else 0

    def close(self) -> None:
        """Close the file; what was committed stays."""
        with self._lock:
            self._connection.close()

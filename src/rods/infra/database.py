"""One SQLite file in WAL mode: transactions, atomic snapshots, clear errors.

Owns the connection and nothing of the meaning of the rows. It never retries and never repairs: a
file that is damaged or of another layout is refused with a `StoreError`. A killed process loses no
committed transaction.

    db = Database(path, SCHEMA, version=1, what="replay buffer")
    with db.atomic():
        db.run("INSERT INTO meta VALUES (?, ?)", ("seed", "7"))
    db.snapshot(folder / "buffer.sqlite")
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from rods.errors import StoreError
from rods.infra.files import replacing

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Cell, ...]
T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for another process's transaction, where two share a file."""
CACHE = 32 << 10
"""KiB of pages that a connection keeps in memory at most: a pool of 100,000 tasks fits."""


class Database:
    """A connection. Threads of one process may share it; transactions exclude each other."""

    def __init__(self, path: Path, schema: Sequence[str], version: int, what: str) -> None:
        """Open the file, or make it.

        Args:
            path: the file; its folder must exist.
            schema: statements that make the tables.
            version: layout of the tables, kept in the file.
            what: name of the file's content in messages.

        Raises:
            StoreError: the file is damaged, has another layout, or cannot be written.
        """
        self.path = path
        self._schema, self._version, self._what = tuple(schema), version, what
        self.lock = threading.RLock()
        """Held while a transaction lasts."""
        self.undone = 0
        """Transactions that were taken back, and snapshots that were put in: what was counted
        beside them has to be read again."""
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        with self._errors("opening"), ExitStack() as undo:
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            undo.callback(connection.close)
            self._prepare(connection)
            undo.pop_all()
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA cache_size=-{CACHE}")
        connection.execute("BEGIN IMMEDIATE")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if not tables:
            for statement in self._schema:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={self._version}")
        elif found != self._version:
            raise StoreError(
                f"{self.path}: this {self._what} has layout {found}, expected {self._version}. "
                "It was made by another version of rods: use that version, or start a new run."
            )
        connection.execute("COMMIT")

    @contextmanager
    def _errors(self, doing: str) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failed(doing, error) from error

    def _failed(self, doing: str, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"{self.path}: {doing} the {self._what} failed: {error}. Nothing that was stored "
            "before is lost; free space or fix the file, then resume."
        )

    @contextmanager
    def atomic(self) -> Generator[None]:
        """All or nothing; may be nested, the outermost one commits."""
        with self.lock:
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
                        self.undone += 1
                        self._connection.execute("ROLLBACK")

    def run(self, sql: str, values: Sequence[Cell] = ()) -> int:
        """Change rows; returns how many."""
        with self.lock:
            try:
                return self._connection.execute(sql, tuple(values)).rowcount
            except sqlite3.Error as error:
                raise self._failed("writing", error) from error

    def run_many(self, sql: str, rows: Iterable[Sequence[Cell]]) -> None:
        """Change many rows by one statement."""
        with self.lock, self._errors("writing"):
            self._connection.executemany(sql, rows)

    def rows(self, sql: str, values: Sequence[Cell] = ()) -> list[Row]:
        """All rows of a query."""
        with self.lock:
            try:
                return self._connection.execute(sql, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise self._failed("reading", error) from error

    def number(self, sql: str, values: Sequence[Cell] = ()) -> int:
        """The one whole number that a query gives; 0 where it gives none."""
        rows = self.rows(sql, values)
        return int(rows[0][0] or 0) if rows else 0

    def snapshot(self, path: Path) -> None:
        """Write a consistent copy by a temporary file and a rename."""
        with replacing(path) as part:
            part.unlink(missing_ok=True)
            with self.lock, self._errors("copying"):
                target = sqlite3.connect(part)
                try:
                    self._connection.backup(target)
                finally:
                    target.close()
            with part.open("rb") as done:
                os.fsync(done.fileno())

    def restore(self, snapshot: Path) -> None:
        """Put a snapshot in this file's place and go on with it; whoever shares it has to wait.

        Raises:
            StoreError: see `put_snapshot` (then nothing has changed), or it has another layout.
        """
        with self.lock:
            self._connection.close()
            try:
                put_snapshot(snapshot, self.path)
            finally:
                self._connection = self._open()
            self.undone += 1

    def close(self) -> None:
        """Close the file; what was committed stays."""
        with self.lock:
            self._connection.close()


class Kept(Generic[T]):
    """What was read from a database once, for its owner to keep up with each change.

    It is read again when a transaction was taken back, so ask for it before the change.
    """

    def __init__(self, db: Database, read: Callable[[], T]) -> None:
        self._db, self._read = db, read
        self._undone = -1

    def get(self) -> T:
        """The value, to be changed in place."""
        with self._db.lock:
            if self._undone != self._db.undone:
                self._value = self._read()
                self._undone = self._db.undone
            return self._value


def put_snapshot(snapshot: Path, path: Path) -> None:
    """Put a snapshot in the place of a database that nobody has open, damaged or not.

    Raises:
        StoreError: there is no such snapshot, it is damaged, or it cannot be copied.
    """
    if not snapshot.is_file():
        raise StoreError(f"{snapshot}: there is no such snapshot.")
    try:
        source = sqlite3.connect(f"file:{snapshot}?mode=ro&immutable=1", uri=True)
        try:
            verdict = source.execute("PRAGMA quick_check").fetchone()[0]
        finally:
            source.close()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise StoreError(f"{snapshot}: this snapshot is damaged: {verdict}. Use an older one.")
    try:
        with replacing(path) as part:
            with part.open("wb") as out:
                out.write(snapshot.read_bytes())
                os.fsync(out.fileno())
            for suffix in ("-wal", "-shm"):  # they belong to the file that goes
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path}: restoring {snapshot.name} failed: {error.strerror or error}. The snapshot is "
            "as it was: free space, then resume."
        ) from error

"""Files that are written whole or not at all, logs, and tables (Parquet, Arrow) with their JSON.

Owns the way to the disk and what its errors say, and the reading of Arrow's types. A struct has
every field of every row, null where a row lacks it: such fields vanish again, and so does a null
that somebody wrote there, for Arrow keeps no difference. Maps become objects. Text of Arrow's type
for JSON (`datasets` uses it where rows differ) is read. What JSON cannot say, such as a date, is a
fault. Never knows what is in a file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import tomllib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from rods.errors import RodsError, StoreError
from rods.infra.install import needed
from rods.infra.text import counted, encoded, json_text
from rods.types import Json

PIECE = 512  # rows of a Parquet file that are read at once
TABLES = {".parquet": b"PAR1", ".arrow": b"ARROW1"}
"""Endings of tables, and how such files begin; Arrow's stream begins otherwise."""
HELD = (errno.EACCES, errno.EAGAIN)  # errors of a lock that another process holds
NOTES = "extra_info"  # a column of verl's rows for anything at all, of which little is read
Reader = Callable[[Any], Any]
_NAME = b"ARROW:extension:name"
_log = logging.getLogger(__name__)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A path beside this one: what is written there takes this one's place at the end.

    After an error (`StoreError` for one of the file system) this one is as it was, and nothing is
    left beside it. Each process has another path, so two at once mix nothing: the last one stays.
    """
    real = Path(os.path.realpath(path))  # a link stays one
    part = real.with_name(f"{real.name}.{os.getpid()}.part")
    with disk(path, "writing"):
        try:
            yield part
            part.replace(real)
        finally:
            part.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing happens where there is none."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def disk(path: Path, doing: str) -> Generator[None]:
    """Turn an error of the file system into one clear message."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(
                f"{path}: the disk is full, {doing} it failed. No earlier file is lost: free "
                "some space and repeat the command (a run: `rods train --resume`)."
            ) from error
        file = next((place for place in (*reversed(path.parents), path) if place.is_file()), None)
        gone = next((folder for folder in reversed(path.parents) if not folder.exists()), None)
        lost = f"there is no folder {gone}; it may have been removed"
        why = lost if gone else error.strerror or error
        if file and error.errno in (errno.ENOTDIR, errno.EEXIST):
            why = f"{file} is a file; expected a folder"
        raise StoreError(f"{path}: {doing} it failed: {why}.") from error


def locked(path: Path, busy: str) -> int:
    """Lock a file, made where it is missing, until the handle is `released` or the process dies.

    The file holds the number of the process: where one is left, it was killed; the log says so.

    Raises:
        StoreError: another process holds it (the message is `busy`), or it cannot be locked.
    """
    with disk(path, "opening"):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in HELD:  # such as ENOLCK, of NFS without a lock service
            how = "Choose a folder on a file system that locks files."
            busy = f"{path}: the file system cannot lock it: {error.strerror}. {how}"
        raise StoreError(busy) from error
    left, mine = os.pread(handle, 32, 0).decode(errors="replace"), str(os.getpid())
    if left and left != mine:
        what = f"process {left}, at work here before, was killed, or the machine stopped"
        _log.warning("%s: %s", path, what)
    with disk(path, "writing"):
        os.ftruncate(handle, os.pwrite(handle, mine.encode(), 0))
    return handle


def is_locked(path: Path) -> bool:
    """True if another process holds the lock of a file; takes nothing, so it is in nobody's way."""
    try:
        with path.open() as file:
            os.lockf(file.fileno(), os.F_TEST, 0)
    except OSError as error:
        return error.errno in HELD
    return False


def released(handle: int) -> None:
    """Give up what `locked` gave; no number is left there. In a forked child it only closes."""
    if os.pread(handle, 32, 0) == str(os.getpid()).encode():
        os.ftruncate(handle, 0)
    os.close(handle)


def toml_of(*where: str) -> dict[str, Any]:
    """The tables of a TOML file of this package, by its folders and its name."""
    return tomllib.loads(files("rods").joinpath(*where).read_text(encoding="utf-8"))


def text_of(path: Path, what: str, error: type[RodsError]) -> str:
    """The text of a file that somebody named, without a byte order mark at its start.

    Raises `error` where it cannot be read; `what` it should hold is for messages: "tasks".
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as fault:
        raise error(f"{path}: there is no such file of {what}.") from fault
    except IsADirectoryError as fault:
        raise error(f"{path}: is a folder; expected a file of {what}.") from fault
    except UnicodeDecodeError as fault:
        at = fault.object.count(b"\n", 0, fault.start) + 1
        raise error(f"{path}:{at}: not UTF-8 text; expected a file of {what}, unpacked.") from fault
    except OSError as fault:
        raise error(f"{path}: cannot be read: {fault.strerror}.") from fault


def write_atomic(path: Path, data: str | bytes) -> None:
    """Replace a file whole, by fsync and rename; a `StoreError` leaves the old one as it was."""
    raw = encoded(data) if isinstance(data, str) else data
    with replacing(path) as part, part.open("wb") as out:
        out.write(raw)
        out.flush()
        os.fsync(out.fileno())
    sync(Path(os.path.realpath(path)).parent)


def open_to_readers(folder: Path) -> None:
    """Give weights in a folder the mode of any new file: safetensors writes them for one user."""
    new = folder / ".mode"
    new.touch()
    for file in folder.glob("*.safetensors"):
        file.chmod(new.stat().st_mode)
    new.unlink()


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class LineLog:
    """A log of JSON records, one a line, made by the first one.

    A kill, or a full disk, at any moment leaves what was there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Json]) -> None:
        """Add one record; raises `StoreError` if it cannot be written (what was there stays)."""
        line = json_text(record, allow_nan=False) + "\n"
        with disk(self.path, "writing"), self.path.open("ab", buffering=0) as out:
            size, left = out.tell(), line.encode()
            try:
                while left:  # no buffer, which would write its rest when it is closed
                    left = left[out.write(left) :]
            except OSError:
                os.truncate(self.path, size)
                raise

    def records(self) -> list[dict[str, Json]]:
        """All whole records, no last line torn by a kill; `StoreError` if another is damaged."""
        if not self.path.is_file():
            return []
        *lines, _torn = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        found: list[dict[str, Json]] = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise StoreError(
                    f"{self.path}:{number}: not JSON: {error}. Remove this line to continue."
                ) from error
        return found

    def sync(self) -> int:
        """Bytes of the log, all of them on the disk."""
        with self.path.open("ab") as out:
            os.fsync(out.fileno())
            return out.tell()

    def size(self) -> int:
        """Bytes of the log; 0 where there is none."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def cut(self, size: int) -> int:
        """Cut the file after the last whole line within `size` bytes; return the bytes left."""
        held = self.path.read_bytes() if self.path.is_file() else b""
        left = held.rfind(b"\n", 0, size) + 1
        if behind := held[left:]:
            with disk(self.path, "cutting"):
                os.truncate(self.path, left)
            torn = not behind.endswith(b"\n")
            lines = behind.count(b"\n") + torn
            what = f"{counted(lines, 'line')} written after the last checkpoint removed"
            also = "; the last one was torn" if torn else ""
            _log.warning("%s: %s, to be computed again%s", self.path, what, also)
        return left


def pyarrow() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`; raises `PrerequisiteError` where they are not installed."""
    with needed("Parquet files need pyarrow", "train"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


def is_table(path: Path) -> bool:
    """True if a file is a table, by the name's ending or, whatever its name, by how it begins."""
    if path.suffix in TABLES or not path.is_file():
        return path.suffix in TABLES
    with suppress(OSError), path.open("rb") as file:  # its reader states why it fails
        return file.read(6).startswith(tuple(TABLES.values()))
    return False


@contextmanager
def _table(path: Path) -> Generator[tuple[Any, Callable[[list[str]], Iterator[Any]]]]:
    """The schema of a table, and what reads batches of some of its columns."""
    arrow, parquet = pyarrow()
    with path.open("rb") as file:
        kind = file.read(6)
    if path.suffix == ".parquet" or kind.startswith(TABLES[".parquet"]):
        with parquet.ParquetFile(path) as source:
            yield source.schema_arrow, lambda names: source.iter_batches(PIECE, columns=names)
        return
    with arrow.memory_map(str(path)) as file:
        stream = kind != TABLES[".arrow"]
        source = arrow.ipc.open_stream(file) if stream else arrow.ipc.open_file(file)
        numbers = () if stream else range(source.num_record_batches)
        batches = source if stream else map(source.get_batch, numbers)
        yield source.schema, lambda names: (batch.select(names) for batch in batches)


def table_rows(
    path: Path, what: str, error: type[RodsError], wanted: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table, each with where it stands; read in pieces.

    Columns are the JSON that they were. Without `wanted` columns, in lower case, all are read, and
    what JSON cannot say stays as it is. Raises `error` for a file that cannot be read.
    """
    arrow, _ = pyarrow()
    if not path.is_file():
        raise error(f"{path}: there is no such file of {what}.")
    number = 0
    try:
        with _table(path) as (schema, batches):
            names = [n for n in schema.names if not wanted or n.lower() in wanted]
            noted = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
            known = noted.get("info", {}).get("features", {})
            made = {name: reader(schema.field(name), known.get(name)) for name in names}
            readers = {name: read for name, read in made.items() if read}
            for batch in batches(names):
                for row in batch.to_pylist():
                    number += 1
                    where = f"{path}, row {number}"
                    _as_json(row, readers, where, error, strict=bool(wanted))
                    yield where, row
    except RodsError:
        raise
    except (OSError, arrow.ArrowException) as fault:
        form = "an Arrow" if path.suffix == ".arrow" else "a Parquet"
        raise error(f"{path}: not {form} file, or cut short: {fault}.") from fault
    except UnicodeDecodeError as fault:
        raise error(
            f"{path}, after row {number}: a text is not UTF-8 ({fault.reason}). Write it again."
        ) from fault


def _as_json(
    row: dict[str, object],
    readers: Mapping[str, Reader],
    where: str,
    error: type[RodsError],
    strict: bool,
) -> None:
    """Read the columns that are not JSON as they are; refuse what JSON cannot say, if `strict`."""
    for name, read in readers.items():
        try:
            row[name] = None if row[name] is None else read(row[name])
        except NotJsonError as fault:
            if strict and name != NOTES:
                raise error(
                    f"{where}, column {name}: holds {fault}, which JSON cannot hold. Store the "
                    "column as JSON text."
                ) from fault
        except (ValueError, RecursionError) as fault:
            raise error(f"{where}, column {name}: not JSON: {fault}. Fix the row.") from fault


class NotJsonError(ValueError):
    """A value that JSON cannot say."""


def reader(field: Any, feature: Any = None) -> Reader | None:
    """Make the function that turns a column's values, none null, into JSON; None: they are JSON.

    `feature` is what `datasets` noted of the column: an object of lists may be a list of objects.
    """
    return _reader(field.type, feature, (field.metadata or {}).get(_NAME, b"") == b"arrow.json")


def _reader(kind: Any, feature: Any = None, is_json: bool = False) -> Reader | None:
    import pyarrow.types as types

    if is_json or getattr(kind, "extension_name", "") == "arrow.json":
        return lambda text: json.loads(text) if isinstance(text, str) else text
    kind = getattr(kind, "storage_type", kind)
    if types.is_dictionary(kind):
        return _reader(kind.value_type)
    inside = feature[0] if isinstance(feature, list) else feature or {}
    listed = inside.get("_type") in ("Sequence", "List", "LargeList")
    inside = inside["feature"] if listed else inside
    if types.is_struct(kind):  # of lists, if it is a Sequence of objects
        of = {key: [one] if listed else one for key, one in inside.items()}
        fields = {field.name: reader(field, of.get(field.name)) for field in kind}
        whole = rows_of if listed else dict
        return lambda row: whole({k: _by(fields[k], v) for k, v in row.items() if v is not None})
    if types.is_map(kind):
        return partial(_map, reader(kind.item_field))
    if types.is_nested(kind):
        inner = reader(kind.value_field, inside)
        return inner and (lambda value: [_by(inner, item) for item in value])
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(is_a(kind) for is_a in (types.is_temporal, types.is_decimal, *binary)):
        return partial(_refuse, str(kind))
    return None


def rows_of(columns: Mapping[str, Sequence[object]], what: str = "it") -> list[dict[str, Any]]:
    """The rows of an object of lists, without nulls; raises `ValueError` if lengths differ."""
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError(f"{what} is an object of lists that differ in length")
    rows = zip(*columns.values(), strict=True)
    return [{k: v for k, v in zip(columns, row, strict=True) if v is not None} for row in rows]


def _map(inner: Reader | None, value: Collection[tuple[object, object]]) -> Any:
    found = {key: _by(inner, item) for key, item in value}
    if not all(isinstance(key, str) for key in found) or len(found) < len(value):
        raise NotJsonError("a map whose keys are not texts, or stand twice")
    return found


def _refuse(kind: str, _: object) -> Any:
    raise NotJsonError(f"a value of type {kind}")


def _by(inner: Reader | None, value: object) -> Any:
    return value if inner is None or value is None else inner(value)

"""Names of what commands write: one process at a time holds a name, while it works.

Owns the lock beside a file and the folders that a command makes. Never writes the file itself.

    with claimed(Path("variants.jsonl")): ...    # StoreError if another process writes it
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rods.errors import StoreError
from rods.infra.files import disk, locked, released, remove


@contextmanager
def claimed(path: Path, *there: str) -> Generator[None]:
    """Hold the name of what a command writes, from before the work until it is written.

    Makes the folders that it stands in. The lock `.NAME.lock` beside it is removed at the end; a
    process that died holds nothing. `there`: what may exist already, "file" or "folder".

    Raises:
        StoreError: it exists, another process writes it, or nothing can be written there.
    """
    _require_new(path, there)
    made = [folder for folder in path.parents if not folder.exists()]
    with disk(path.parent, "making"):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock, how = path.with_name(f".{path.name}.lock"), "Wait for it, or choose another name"
    busy = f"{path}: another process writes it. {how}; nothing was changed."
    handle = locked(lock, busy)
    while not os.fstat(handle).st_nlink:  # the process that held it has removed it
        os.close(handle)
        handle = locked(lock, busy)
    try:
        _require_new(path, there)  # that one may have written it
        for left in path.parent.iterdir():  # by one that was killed
            if re.fullmatch(rf"{re.escape(path.name)}\.\d+\.part", left.name):
                remove(left)
        yield
    finally:
        lock.unlink(missing_ok=True)
        released(handle)
        for folder in made:
            with suppress(OSError):  # something was written there
                folder.rmdir()


def _require_new(path: Path, there: tuple[str, ...]) -> None:
    kind = "folder" if path.is_dir() else "file"
    if not path.name or (path.exists() and kind not in there):
        what = f"a {kind} that exists" if there else "exists"
        raise StoreError(f"{path}: {what}. Choose another name; nothing was written.")

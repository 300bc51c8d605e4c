"""A log of JSON records, one a line: appended whole, read whole, cut where a checkpoint stood.

Owns its safety: a kill, or a full disk, at any moment leaves what was there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from rods.errors import StoreError
from rods.infra.files import disk
from rods.infra.text import json_text
from rods.types import Json

_log = logging.getLogger(__name__)


class LineLog:
    """One file of records; made by the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Json]) -> None:
        """Add one record; raises `StoreError` if it cannot be written (what was there stays)."""
        line = json_text(record, allow_nan=False) + "\n"
        with disk(self.path, "writing"), self.path.open("ab") as out:
            size = out.tell()
            try:
                out.write(line.encode())
                out.flush()
            except OSError:
                os.truncate(self.path, size)
                raise

    def records(self) -> list[dict[str, Json]]:
        """All whole records. A last line that was torn by a kill is left out: it is owed again.

        Raises:
            StoreError: a line before the last is damaged.
        """
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
        """Forget what stands behind so many bytes, and say how much that is; returns what is left:
        less where whole lines end before.
        """
        held = self.path.read_bytes() if self.path.is_file() else b""
        left = held.rfind(b"\n", 0, size) + 1
        if behind := held[left:]:
            with disk(self.path, "cutting"):
                os.truncate(self.path, left)
            whole, torn = behind.count(b"\n"), not behind.endswith(b"\n")
            what = f"{whole} records behind the checkpoint are done again"
            _log.warning("%s: %s%s", self.path, what, "; the last line was torn" if torn else "")
        return left

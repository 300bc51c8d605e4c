"""Files that are written whole or not at all, and the library for Parquet files.

Never knows what is in a file, never turns an error of the disk into one of ours: the caller knows
what was lost.

    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rods.errors import PrerequisiteError


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A path beside this one: what is written there takes this one's place at the end.

    After an error this one is as it was, and nothing is left beside it.
    """
    part = path.with_name(path.name + ".part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def pyarrow() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`.

    Raises:
        PrerequisiteError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PrerequisiteError("Parquet files need pyarrow: pip install 'rods[train]'.") from error
    return pyarrow, pyarrow.parquet

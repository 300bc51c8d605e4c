"""Scratch folders of executions: made, measured, and removed whatever the program left in them.

Owns the files below its root. Nothing here follows a link or trusts a depth, a name or a mode.

    root = ScratchRoot()
    folder = root.make()
    remove_tree(folder)
    root.close()
"""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
import weakref
from pathlib import Path

from rods.sandbox.execution import Limit, SandboxLimits

SHARED_MEMORY = "/dev/shm"


class ScratchRoot:
    """A folder for the scratch folders of one pool, in memory where the machine can."""

    def __init__(self, parent: str | None = None) -> None:
        if parent is None and os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
            parent = SHARED_MEMORY
        self.path = Path(tempfile.mkdtemp(prefix="rods-sandbox-", dir=parent)).resolve()
        self._numbers = itertools.count(1)
        self.close = weakref.finalize(self, _remove_root, self.path, os.getpid())
        """Remove the root and all in it; done at the latest when the process ends."""

    def make(self, owner: int | None = None) -> Path:
        """A new empty folder, handed to `owner` if that is someone else."""
        folder = self.path / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        if owner is not None and owner != os.geteuid():
            os.chown(folder, owner, -1)
        return folder


def _remove_root(path: Path, maker: int) -> None:
    if os.getpid() == maker and path.exists():
        remove_tree(path)


def over(folder: Path, limits: SandboxLimits) -> Limit:
    """ "disk" if the folder holds more than it may; what cannot be looked at counts as too much."""
    entries = size = 0
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if entries > limits.entries or size > limits.disk:
                        return "disk"
        except FileNotFoundError:
            continue  # removed while we looked
        except OSError:
            return "disk"  # a path too long, or a folder closed to us
    return ""


def remove_tree(folder: Path) -> None:
    """Remove a folder, however deep.

    What lies in an inner folder is moved up beside it before that is removed, so no path grows long
    and nothing recurses. Two may remove the same folder at once.
    """
    while folder.exists():
        try:
            _remove(folder)
        except FileNotFoundError:
            continue  # the other was faster


def _remove(folder: Path) -> None:
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fresh = itertools.count()
    try:
        while names := os.listdir(place):
            for name in names:
                if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                    _empty_upward(place, name, fresh)
                    os.rmdir(name, dir_fd=place)
                else:
                    os.unlink(name, dir_fd=place)
    finally:
        os.close(place)
    os.rmdir(folder)


def _unlock(name: str, place: int) -> None:
    """Give ourselves a folder that was closed to all; never what a link in its place points to."""
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
    try:
        os.chmod(f"/proc/self/fd/{held}", 0o700)
    finally:
        os.close(held)


def _empty_upward(place: int, name: str, fresh: itertools.count[int]) -> None:
    _unlock(name, place)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
    try:
        for child in os.listdir(inner):
            if stat.S_ISDIR(os.stat(child, dir_fd=inner, follow_symlinks=False).st_mode):
                _unlock(child, inner)
                # a name the program did not choose; taken ones are passed over
                while True:
                    target = f".rods-{next(fresh)}"
                    try:
                        os.stat(target, dir_fd=place, follow_symlinks=False)
                    except FileNotFoundError:
                        break
                os.rename(child, target, src_dir_fd=inner, dst_dir_fd=place)
            else:
                os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)

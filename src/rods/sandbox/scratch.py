"""Scratch folders of a zygote's children: handed out, measured, emptied whatever was left in them.

Owns the folders of one zygote. Where `lockdown.separate_mounts` can, each is a file system in
memory of a fixed size: what a program writes is bounded by the kernel, deleted files that it still
holds included, and all of it is gone with the last process. Elsewhere they are plain folders below
a root of our own, and `Boxes.used` counts what is in them and what is held of them; somebody must
ask often. Nothing here follows a link or trusts a depth, a name or a mode. Standard library only.

    boxes = Boxes("/dev/shm", count=4, disk=1 << 26, entries=1000, sized=True, owner=1000)
    number = boxes.take()
    path = boxes.rename(number)      # in the child: a name that its neighbors cannot guess
    boxes.give_back(number)
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat

from rods.sandbox.lockdown import mount_memory
from rods.sandbox.observed import GONE

PREFIX = "rods-boxes-"
BOX = "box"
BLOCK = 512  # Bytes of a block in what `stat` says of a file, whatever the file system


class Boxes:
    """The folders; `count` of them, one for each child that can live."""

    def __init__(
        self, parent: str, count: int, disk: int, entries: int, sized: bool, owner: int
    ) -> None:
        self.sized, self.disk, self.entries = sized, disk, entries
        if sized:
            mount_memory(parent, 1 << 20, 3 * count + 8, owner)
            self.root = parent
        else:
            sweep(parent)
            self.root, self._claim = _claimed(parent)
            os.chown(self.root, owner, -1)
        self._free = list(range(count))
        self._places: list[int] = []
        for number in self._free:
            place = f"{self.root}/{number}"
            for folder in (place, f"{place}/{BOX}"):
                os.mkdir(folder, 0o700)
                os.chown(folder, owner, -1)
            if sized:
                mount_memory(f"{place}/{BOX}", disk, entries + 2, owner)
            self._places.append(os.open(place, os.O_PATH | os.O_CLOEXEC))

    def take(self) -> int | None:
        """A folder that nobody has; None if there is none."""
        return self._free.pop() if self._free else None

    def path(self, number: int) -> str:
        """Where a folder is, whatever its child called it."""
        return f"{self._holder(number)}/{BOX}"

    def _holder(self, number: int) -> str:
        return os.readlink(f"/proc/self/fd/{self._places[number]}")

    def rename(self, number: int) -> str:
        """Give a folder a name that nobody can guess; its new path.

        Landlock does not hide names, links and sizes. To be called in the child, so that the memory
        of the zygote, which every later child inherits, does not hold the name.
        """
        fresh = f"{self.root}/{os.urandom(16).hex()}"
        os.rename(f"{self.root}/{number}", fresh)
        return f"{fresh}/{BOX}"

    def give_back(self, number: int) -> None:
        """Empty a folder whose child has ended."""
        empty(self.path(number))
        os.rename(self._holder(number), f"{self.root}/{number}")
        self._free.append(number)

    def used(self, number: int, pid: int, file: int) -> int | None:
        """Bytes of a child's files, deleted ones that it holds included; None: beyond counting."""
        path = self.path(number)
        if self.sized:
            kept = os.statvfs(path)
            return (kept.f_blocks - kept.f_bfree) * kept.f_frsize
        size = measure(path, self.entries)
        return None if size is None else size + held(pid, self.root, file)

    def remove(self) -> None:
        """Remove the root, if it is ours to remove."""
        if not self.sized:
            remove_tree(self.root)


def unnamed(path: str, data: bytes) -> int:
    """An open file that holds these bytes and has no name any more."""
    place = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    with open(place, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(place, 0, os.SEEK_SET)
    return place


def _claimed(parent: str) -> tuple[str, int]:
    """A new root, locked for as long as its zygote lives."""
    while True:
        path = f"{os.path.realpath(parent)}/{PREFIX}{os.urandom(8).hex()}"
        os.mkdir(path, 0o700)
        try:
            claim = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # swept before it could be claimed
        fcntl.flock(claim, fcntl.LOCK_EX)
        if os.fstat(claim).st_nlink:
            return path, claim
        os.close(claim)  # swept between the making and the claim


def sweep(parent: str) -> None:
    """Remove roots whose zygote was killed before it could."""
    for name in os.listdir(parent):
        if not name.startswith(PREFIX):
            continue
        path = f"{parent}/{name}"
        try:
            place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # somebody else's, or just removed
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
        except OSError:
            continue  # in use
        finally:
            os.close(place)


def measure(folder: str, entries: int) -> int | None:
    """Bytes of what lies in a folder; None if there are more entries, or what cannot be read."""
    found = size = 0
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listed:
                for entry in listed:
                    found += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if found > entries:
                        return None
        except FileNotFoundError:
            continue  # removed while we looked
        except OSError:
            return None  # a path too long, or a folder closed to us
    return size


def held(pid: int, root: str, file: int) -> int:
    """Bytes of deleted files below `root` that a process keeps by descriptors and mappings.

    Of a file that is only mapped nobody without privileges can tell the size: it counts as the
    largest that there can be, `file` bytes.
    """
    size = 0
    known: set[int] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if not os.readlink(path).startswith(root):
                continue
            found = os.stat(path)
            if not found.st_nlink and found.st_ino not in known:
                known.add(found.st_ino)
                size += found.st_blocks * BLOCK
        with open(f"/proc/{pid}/maps", "rb") as maps:
            marked = (row.split(None, 5) for row in maps if row.endswith(b" (deleted)\n"))
            mapped = {int(row[4]) for row in marked if row[5].startswith(root.encode())}
    except GONE:
        return size
    return size + file * len(mapped - known)


def can_look() -> bool:
    """True if /proc shows us what a child of ours holds open."""
    child = os.fork()
    if child == 0:
        try:
            signal.pause()
        finally:
            os._exit(1)
    try:
        return bool(os.listdir(f"/proc/{child}/fd"))
    except OSError:
        return False
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def remove_tree(folder: str) -> None:
    """Remove a folder, however deep; two may do so at once."""
    try:
        empty(folder)
        os.rmdir(folder)
    except FileNotFoundError:
        return  # the other was faster


def empty(folder: str) -> None:
    """Remove all that is in a folder, with one open descriptor and no path longer than a name."""
    here, depth = _enter(folder, None), 0
    try:
        while True:
            inner = _thin(here)
            if inner is None and not depth:
                return
            depth += 1 if inner else -1
            outer, here = here, _enter(inner or "..", here)
            os.close(outer)
    finally:
        os.close(here)


def _enter(name: str, place: int | None) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)


def _thin(place: int) -> str | None:
    """Remove what is in an open folder, up to an inner one that is not empty: its name."""
    for name in os.listdir(place):
        if not stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=place)
            continue
        try:
            os.rmdir(name, dir_fd=place)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            _unlock(name, place)
            return name
    return None


def _unlock(name: str, place: int) -> None:
    """Give ourselves a folder that was closed to all; never what a link in its place points to."""
    folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    try:
        os.chmod(f"/proc/self/fd/{folder}", 0o700)
    finally:
        os.close(folder)

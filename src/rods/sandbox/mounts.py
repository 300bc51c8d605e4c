"""File systems in memory, of a fixed size, that only this process and its children see.

Owns the calls into the kernel: a mount namespace of our own, and what is mounted in it. Needs root,
or user namespaces; `separate` says whether there are such. Never mounts anything that a process
outside could see. Standard library only: the zygote lives on it.

    if separate():
        memory("/dev/shm", size=1 << 20, entries=100, owner=1000)
"""

from __future__ import annotations

import ctypes
import os

from rods.sandbox.lockdown import could

NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000
NO_SUID, NO_DEVICES, NO_EXEC, RECURSIVE, PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
PLACE = "/dev/shm"
"""Where ours are mounted: a folder that every Linux has and no interpreter lies in."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def memory(place: str, size: int, entries: int, owner: int) -> None:
    """Mount an empty file system over a folder: so many bytes, files and folders, no more."""
    options = f"size={size},nr_inodes={entries},mode=700,uid={owner}"
    flags = NO_SUID | NO_DEVICES | NO_EXEC
    done = _libc.mount(b"rods", os.fsencode(place), b"tmpfs", flags, options.encode())
    _checked(done, f"mount {place}")


def separate() -> bool:
    """Leave the mounts of the others, if that is allowed; False, and nothing changed, if not.

    A process that has tried in vain may be left half in a user namespace, so a child tries first.
    """
    kinds = NEW_MOUNTS if os.geteuid() == 0 else NEW_MOUNTS | NEW_USER

    def attempt() -> None:
        _separate(kinds)
        memory(PLACE, 4096, 2, os.geteuid())

    if not could(attempt):
        return False
    _separate(kinds)
    return True


def _separate(kinds: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(kinds), "unshare")
    if kinds & NEW_USER:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _checked(_libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None), "mount /")

"""Locks that a process puts on itself for good: limits, privileges, mounts, Landlock, seccomp.

Owns the calls into the kernel and the words for what a kernel lacks. It never decides what may be
read or written, and never goes on after a lock that failed: `LockError` says which one. Standard
library only: the zygote lives on it.

    if not missing():
        give_up_privileges(NOBODY)
        restrict_files(read=["/usr/lib"], write=["/scratch"])
        SyscallFilter(syscalls.for_zygote()).install()
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import stat
import struct
import sys
from collections.abc import Callable, Iterable

from rods.sandbox import syscalls

NOBODY = 65534
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
PR_SET_CHILD_SUBREAPER = 36
PR_GET_SECCOMP, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 21, 22, 24, 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CAPSET = {"x86_64": 126, "aarch64": 91, "arm64": 91}
CAPABILITIES_V3, LAST_CAPABILITY = 0x20080522, 63
SECCOMP_MODE_FILTER = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR = 1 << 4
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
"""Rights that a rule on a plain file may name."""
LISTED = "list:"  # Before a path: its names may be listed, its files not read
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000
NO_SUID, NO_DEVICES, NO_EXEC, RECURSIVE, PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
PLACE = "/dev/shm"  # Where ours are mounted: every Linux has it, and no interpreter lies in it


class LockError(OSError):
    """A lock could not be put on; nothing that was to run behind it may run."""


_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str = "") -> int:
    """Result of a call; raises `OSError` where that says that it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}{os.strerror(code)}")
    return result


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    plain = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *plain)))


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    _checked(_libc.prctl(ctypes.c_int(option), *padded))


def landlock_version() -> int:
    """The kernel's Landlock version; OSError where it has none or it is switched off."""
    return _syscall(CREATE_RULESET, None, 0, 1)


def missing() -> list[str]:
    """Reasons why this machine cannot lock a process, one sentence each; empty if there is none."""
    if not sys.platform.startswith("linux"):
        return [f"the sandbox needs Linux; this is {sys.platform}"]
    if syscalls.machine() is None:
        return [f"seccomp: no table of system calls for a {os.uname().machine} processor"]
    lacks: list[str] = []
    try:
        landlock_version()
    except OSError as error:
        why = {
            errno.ENOSYS: "the kernel is older than 5.13 or was built without it",
            errno.EOPNOTSUPP: "the kernel was started without it (boot parameter lsm=landlock,...)",
        }.get(error.errno or 0, f"{error.strerror}; an outer sandbox may forbid it")
        lacks.append(f"Landlock: {why}")
    try:
        _prctl(PR_GET_SECCOMP)
    except OSError as error:
        lacks.append(f"seccomp: the kernel was built without it ({error.strerror})")
    return lacks


def could(action: Callable[[], None]) -> bool:
    """True if something can be done, tried in a child: for what cannot be undone."""
    trial = os.fork()
    if trial == 0:
        try:
            action()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(trial, 0)[1] == 0


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; LockError if it already has."""
    _prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        raise LockError("the zygote died while it forked")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends."""
    try:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        raise LockError(f"orphans: {error}") from error


def give_up_privileges(become: int | None) -> None:
    """Drop every capability for good; become another user if asked, which only root can."""
    try:
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        for capability in range(LAST_CAPABILITY + 1):
            try:
                _prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                break  # the kernel knows no capability of this number, or we hold none
        if become is not None:
            os.setgroups([])
            os.setresgid(become, become, become)
            os.setresuid(become, become, become)
        header = struct.pack("<Ii", CAPABILITIES_V3, 0)
        _syscall(CAPSET[os.uname().machine], header, struct.pack("<6I", *[0] * 6))
        _prctl(PR_SET_DUMPABLE, 1)  # or /proc would show us nothing of our own children
    except OSError as error:
        raise LockError(f"privileges: {error}") from error


def restrict_files(
    read: Iterable[str | int],
    write: Iterable[str],
    thin: Iterable[str] = (),
    run: Iterable[str | int] = (),
) -> None:
    """Allow files to be read and written below these paths and nowhere else.

    Paths to read that do not exist are passed over, paths to write must exist. `list:PATH` lets a
    folder be listed; an open folder may stand for its path. Of paths to thin empty folders may be
    removed. What may be run may be read too. Where the kernel can, the network and signals to
    outsiders are refused too.
    """
    try:
        version = landlock_version()
        handled = (1 << 13) - 1
        for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
            handled |= right if version >= since else 0
        network, scopes = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
        size = 8 if version < 4 else 16 if version < 6 else 24
        ruleset = _syscall(CREATE_RULESET, struct.pack("<QQQ", handled, network, scopes), size, 0)
        try:
            for place in read:
                _allow_to_read(ruleset, place, READ)
            for place in run:
                _allow_to_read(ruleset, place, READ | EXECUTE)
            for path in write:
                _allow(ruleset, path, handled & ~(EXECUTE | IOCTL_DEVICE))
            for path in thin:
                _allow(ruleset, path, REMOVE_DIR)
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
            _syscall(RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError as error:
        raise LockError(f"Landlock: {error}") from error


def _allow_to_read(ruleset: int, place: str | int, rights: int) -> None:
    if isinstance(place, str) and place.startswith(LISTED):
        place, rights = place.removeprefix(LISTED), READ_DIR
    with contextlib.suppress(FileNotFoundError, PermissionError):  # then it stays forbidden
        _allow(ruleset, place, rights)


def _allow(ruleset: int, place: str | int, rights: int) -> None:
    opened = place if isinstance(place, int) else os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= OF_A_FILE
        _syscall(ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, opened), 0)
    finally:
        if isinstance(place, str):
            os.close(opened)


class SyscallFilter:
    """A filter made by `syscalls`, laid out for the kernel ahead of the fork that will need it."""

    def __init__(self, code: bytes) -> None:
        self._code = ctypes.create_string_buffer(code, len(code))
        header = struct.pack("@HP", len(code) // 8, ctypes.addressof(self._code))
        self._header = ctypes.create_string_buffer(header, len(header))
        self._address = ctypes.addressof(self._header)
        anyone = struct.pack("<I", syscalls.ANYONE)
        self._places = [n for n in range(4, len(code), 8) if code[n : n + 4] == anyone]

    def install(self) -> None:
        """Refuse what it refuses, from now on; where it names a process, that is this one."""
        me = struct.pack("<I", os.getpid())
        for place in self._places:
            self._code[place : place + 4] = me
        try:
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
            _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address)
        except OSError as error:
            raise LockError(f"seccomp: {error}") from error


def limit(cpu: int | None, memory: int, file: int, files: int, processes: int = 0) -> None:
    """Limits of this process: CPU seconds, address space, size of a file, open files.

    No child and no thread unless `processes` are allowed to its user (a user who is root is not
    bound by them), no core dump, few waiting signals. `cpu` of None leaves CPU time to the
    watcher.
    """
    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_NPROC: processes,
        resource.RLIMIT_SIGPENDING: 64,  # one account for all processes of a user
        resource.RLIMIT_CORE: 0,
    }
    try:
        if cpu is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        for name, value in wanted.items():
            hard = resource.getrlimit(name)[1]
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(name, (value, value))
    except (OSError, ValueError) as error:
        raise LockError(f"limits: {error}") from error


# -- file systems in memory, of a fixed size, that only this process and its children see ---------


def mount_memory(place: str, size: int, entries: int, owner: int) -> None:
    """Mount an empty file system over a folder: so many bytes, files and folders, no more.

    `separate_mounts` comes first: nothing is mounted that a process outside could see.
    """
    options = f"size={size},nr_inodes={entries},mode=700,uid={owner}"
    flags = NO_SUID | NO_DEVICES | NO_EXEC
    done = _libc.mount(b"rods", os.fsencode(place), b"tmpfs", flags, options.encode())
    _checked(done, f"mount {place}: ")


def separate_mounts() -> bool:
    """Leave the mounts of the others, as root or by user namespaces; False: neither is allowed.

    A process that has tried in vain may be left half in a user namespace, so a child tries first.
    """
    kinds = NEW_MOUNTS if os.geteuid() == 0 else NEW_MOUNTS | NEW_USER

    def attempt() -> None:
        _separate(kinds)
        mount_memory(PLACE, 4096, 2, os.geteuid())

    if not could(attempt):
        return False
    _separate(kinds)
    return True


def _separate(kinds: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(kinds), "unshare: ")
    if kinds & NEW_USER:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _checked(_libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None), "mount /: ")

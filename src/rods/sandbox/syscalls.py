"""The system calls that a locked program may make, by machine, and the filter made of them.

Owns the list and its translation to a seccomp-BPF program. Everything not listed is refused with
EPERM: a list of what is allowed stays right when a kernel learns new calls. It never installs the
filter; `lockdown.SyscallFilter` does. Standard library only: the zygote loads it by path.

    lockdown.SyscallFilter(syscalls.for_zygote()).install()
"""

from __future__ import annotations

import os
import struct

COLUMNS = {"x86_64": 0, "aarch64": 1, "arm64": 1}  # Which number of the table below is a machine's
AUDITED = (0xC000003E, 0xC00000B7)
"""AUDIT_ARCH_* of a column's calls; a call of another kind kills the program."""

# name, number on x86_64, number on aarch64; `-` where a machine has no such call.
TABLE = """
read 0 63|write 1 64|readv 19 65|writev 20 66|pread64 17 67|pwrite64 18 68|preadv 295 69
pwritev 296 70|close 3 57|close_range 436 436|creat 85 -|lseek 8 62|dup 32 23|dup2 33 -|dup3 292 24
pipe 22 -|pipe2 293 59|stat 4 -|fstat 5 80|lstat 6 -|newfstatat 262 79|statx 332 291|statfs 137 43
fstatfs 138 44|access 21 -|faccessat 269 48|faccessat2 439 439|getdents64 217 61|getcwd 79 17
chdir 80 49|fchdir 81 50|mkdir 83 -|mkdirat 258 34|rmdir 84 -|unlink 87 -|unlinkat 263 35
rename 82 -|renameat 264 38|renameat2 316 276|symlink 88 -|symlinkat 266 36|readlink 89 -
readlinkat 267 78|ftruncate 77 46|fsync 74 82|fdatasync 75 83|flock 73 32
sendfile 40 71|copy_file_range 326 285|umask 95 166|fadvise64 221 223|munmap 11 215
mprotect 10 226|mremap 25 216|madvise 28 233|msync 26 227|brk 12 214|rt_sigaction 13 134
rt_sigprocmask 14 135|rt_sigreturn 15 139|rt_sigpending 127 136|rt_sigsuspend 130 133
rt_sigtimedwait 128 137|sigaltstack 131 132|restart_syscall 219 128|pause 34 -|alarm 37 -
getitimer 36 102|setitimer 38 103|nanosleep 35 101|clock_nanosleep 230 115|clock_gettime 228 113
clock_getres 229 114|gettimeofday 96 169|time 201 -|times 100 153|select 23 -|pselect6 270 72
poll 7 -|ppoll 271 73|epoll_create 213 -|epoll_create1 291 20|epoll_ctl 233 21|epoll_wait 232 -
epoll_pwait 281 22|eventfd2 290 19|recvfrom 45 207|getpid 39 172|getppid 110 173|gettid 186 178
getuid 102 174|geteuid 107 175|getgid 104 176|getegid 108 177|getresuid 118 148|getresgid 120 150
getgroups 115 158|getpgrp 111 -|getpgid 121 155|getsid 124 156|getpriority 140 141|getrlimit 97 163
setrlimit 160 164|getrusage 98 165|uname 63 160|sysinfo 99 179|sched_yield 24 124
sched_getaffinity 204 123|getcpu 309 168|futex 202 98|set_robust_list 273 99
set_tid_address 218 96|rseq 334 293|membarrier 324 283|arch_prctl 158 -|getrandom 318 278
exit 60 93|exit_group 231 94
"""

OPEN, OPENAT, FCNTL, IOCTL = (2, -1), (257, 56), (72, 25), (16, 29)
KILL, TGKILL = (62, 129), (234, 131)
PRLIMIT, SOCKETPAIR, SENDTO = (302, 261), (53, 199), (44, 206)
MMAP, FALLOCATE = (9, 222), (285, 47)  # Allowed for some arguments only: by machine as in the table
OF_THE_ZYGOTE = """
clone 56 220|clone3 435 435|wait4 61 260|recvmsg 47 212|pidfd_open 434 434
pidfd_send_signal 424 424|prctl 157 167|chmod 90 53|landlock_create_ruleset 444 444
landlock_add_rule 445 445|landlock_restrict_self 446 446
"""
"""Calls that the zygote needs besides, to fork, lock, reap and empty; its children lose them."""
OF_A_SHELL = """
execve 59 221|execveat 322 281|fork 57 -|vfork 58 -|wait4 61 260|waitid 247 95|kill 62 129
tgkill 234 131|setpgid 109 154|setsid 112 157|link 86 -|linkat 265 37|truncate 76 45
getxattr 191 8|lgetxattr 192 9|fgetxattr 193 10|listxattr 194 11|llistxattr 195 12
flistxattr 196 13|capget 125 90|pidfd_open 434 434|recvmsg 47 212
landlock_create_ruleset 444 444|landlock_add_rule 445 445|landlock_restrict_self 446 446
"""
"""Calls that commands need besides: to start programs, wait for them and end them (Landlock
bounds whom), and links."""
MODES_AND_TIMES = (
    (90, -1), (91, 52), (268, 53), (452, 452),
    (132, -1), (235, -1), (261, -1), (280, 88),
)  # fmt: skip
"""chmod and utime in all their forms. Landlock does not watch them, and the user who
trains owns files outside: they are granted and not kept."""
NAMESPACES = 0x7E020000  # Flags of clone that would give a new name space of any kind
SET_FILTER = 22
PRCTL_COMMANDS = (1, 3, 15, 16, 38)  # Parent's death, dumpable, thread's name, no new privileges

FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 36, 1030, 1032)
"""Duplicates, flags, questions about locks. Not F_SETOWN and F_SETSIG: they send signals to others;
not F_SETPIPE_SZ: the pages of all pipes of a user are one account."""
LOCK_COMMANDS = (6, 7, 37, 38)
"""Locks of parts of a file: each is kernel memory that no limit counts, and nobody else can open
the file. They are granted and not kept, for SQLite cannot do without."""
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""isatty, window size, bytes waiting, non-blocking, close on exec; nothing that moves a device."""
AF_UNIX = 1
ANYONE = 0x5EA1ED  # Stands for a process in a filter made ahead; larger than any process number
O_ACCMODE, O_TRUNC = 3, 0o1000
MAP_SHARED, MAP_ANONYMOUS = 1, 0x20

ALLOW, EPERM, PRETEND, KILL_PROCESS = 0x7FFF0000, 0x00050001, 0x00050000, 0x80000000
UNKNOWN = 0x00050026  # Answer of a kernel that lacks the call
_LOAD, _EQUAL, _ABOVE, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value & 0xFFFFFFFF)


_ALLOWED, _REFUSED = _step(_RETURN, ALLOW), _step(_RETURN, EPERM)


def _argument(index: int, high: bool = False) -> bytes:
    """Load half of an argument; both machines are little-endian."""
    return _step(_LOAD, 16 + 8 * index + 4 * high)


def _guarded(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which returns in every way, if the call in the accumulator is this one."""
    return [] if number < 0 else [_step(_EQUAL, number, 0, len(body)), *body]


def _one_of(index: int, values: tuple[int, ...]) -> list[bytes]:
    """Allow if an argument is one of these values."""
    tests = [_step(_EQUAL, v, len(values) - i) for i, v in enumerate(values)]
    return [_argument(index), *tests, _REFUSED, _ALLOWED]


def _pretended(index: int, values: tuple[int, ...]) -> list[bytes]:
    """If an argument is one of these values do nothing, and say that it was done."""
    tests = [_step(_EQUAL, v, len(values) - 1 - i) for i, v in enumerate(values[:-1])]
    return [_argument(index), *tests, _step(_EQUAL, values[-1], 0, 1), _step(_RETURN, PRETEND)]


def _unless(index: int, bit: int, mask: int, value: int) -> list[bytes]:
    """Refuse if an argument has this bit and, of these bits, this value."""
    test, masked = _step(_ANY_BIT, bit, 0, 2), _step(_AND, mask)
    return [_argument(index), test, masked, _step(_EQUAL, value, 1, 0), _ALLOWED, _REFUSED]


def _without_address(index: int) -> list[bytes]:
    """Allow if a pointer is null: data goes to the other end of a pair, never to an address."""
    low, high = _argument(index), _argument(index, high=True)
    return [low, _step(_EQUAL, 0, 0, 3), high, _step(_EQUAL, 0, 0, 1), _ALLOWED, _REFUSED]


def _without_bits(index: int, bits: int) -> list[bytes]:
    return [_argument(index), _step(_ANY_BIT, bits, 0, 1), _REFUSED, _ALLOWED]


def numbers(at: int, table: str = TABLE) -> dict[str, int]:
    """Numbers of a table's calls by name, for the machine of a column."""
    rows = [row.split() for line in table.split("\n") for row in line.split("|") if row]
    return {row[0]: int(row[1 + at]) for row in rows if row[1 + at] != "-"}


def _runs(plain: list[int]) -> list[tuple[int, int]]:
    """Sorted numbers as stretches without a gap."""
    found: list[tuple[int, int]] = []
    for number in sorted(plain):
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _tree(runs: list[tuple[int, int]]) -> list[bytes]:
    """A binary search: the kernel asks the filter about every call when it is put on."""
    if len(runs) == 1:
        low, high = runs[0]
        return [_step(_AT_LEAST, low, 0, 1), _step(_ABOVE, high, 0, 1), _REFUSED, _ALLOWED]
    middle = len(runs) // 2
    left, right = _tree(runs[:middle]), _tree(runs[middle:])
    return [_step(_AT_LEAST, runs[middle][0], len(left), 0), *left, *right]


def machine() -> int | None:
    """This computer's column of the table; None where the numbers are not known."""
    return COLUMNS.get(os.uname().machine)


def _column() -> int:
    here = machine()
    if here is None:
        raise OSError(f"no table of system calls for {os.uname().machine}")
    return here


def for_zygote() -> bytes:
    """The filter of the zygote and, inherited, of all its children: the table and a few more."""
    at = _column()
    more = [KILL[at], TGKILL[at], *numbers(at, OF_THE_ZYGOTE).values()]
    return _filter(at, _guards(at), [*numbers(at).values(), *more])


def for_shell() -> bytes:
    """The filter of a keeper and of the commands that it runs: programs may start programs."""
    at = _column()
    own = numbers(at, OF_THE_ZYGOTE)
    guards = [
        *_guards(at),
        (own["clone"], _without_bits(0, NAMESPACES)),
        (own["clone3"], [_step(_RETURN, UNKNOWN)]),  # its flags cannot be seen; clone is taken then
        (own["prctl"], _one_of(0, (*PRCTL_COMMANDS, SET_FILTER))),
        *((call[at], [_step(_RETURN, PRETEND)]) for call in MODES_AND_TIMES),
    ]
    return _filter(at, guards, [*numbers(at).values(), *numbers(at, OF_A_SHELL).values()])


def for_command() -> bytes:
    """Filter of a command on top of that: rules of Landlock and more filters are memory that no
    limit counts."""
    at = _column()
    own = numbers(at, OF_THE_ZYGOTE)
    steps = [_step(_LOAD, 0), *_guarded(own["prctl"], _one_of(0, PRCTL_COMMANDS))]
    for name, number in own.items():
        if name.startswith("landlock"):
            steps += _guarded(number, [_REFUSED])
    return b"".join([*steps, _ALLOWED])


def _guards(at: int) -> list[tuple[int, list[bytes]]]:
    """Calls that are allowed for some arguments only."""
    found = [
        # no file that is opened for reading is emptied: old Landlock does not see that
        (OPEN, _unless(1, O_TRUNC, O_ACCMODE, 0)),
        (OPENAT, _unless(2, O_TRUNC, O_ACCMODE, 0)),
        (FCNTL, _pretended(1, LOCK_COMMANDS) + _one_of(1, FCNTL_COMMANDS)),
        (IOCTL, _one_of(1, IOCTL_COMMANDS)),
        # shared memory without a name stays whole while a page of it is mapped: no limit counts it
        (MMAP, _unless(3, MAP_ANONYMOUS, MAP_SHARED, MAP_SHARED)),
        (FALLOCATE, _one_of(1, (0,))),  # others pass by the limit of a file's size
        (PRLIMIT, _one_of(0, (0,))),
        (SOCKETPAIR, _one_of(0, (AF_UNIX,))),
        (SENDTO, _without_address(4)),
    ]
    return [(call[at], body) for call, body in found]


def _filter(at: int, guards: list[tuple[int, list[bytes]]], plain: list[int]) -> bytes:
    kind = [_step(_LOAD, 4), _step(_EQUAL, AUDITED[at], 1, 0), _step(_RETURN, KILL_PROCESS)]
    steps = [*kind, _step(_LOAD, 0)]
    for number, body in guards:
        steps += _guarded(number, body)
    return b"".join([*steps, *_tree(_runs(plain))])


def for_program() -> bytes:
    """Filter of a program on top of that; `ANYONE` in it must become the program's process.

    The kernel translates a filter whenever it is put on, so the long one is put on only once.
    """
    at = _column()
    steps = [_step(_LOAD, 0)]
    for call in (KILL, TGKILL):
        steps += _guarded(call[at], _one_of(0, (ANYONE,)))
    for number in numbers(at, OF_THE_ZYGOTE).values():
        steps += _guarded(number, [_REFUSED])
    return b"".join([*steps, _ALLOWED])

"""This machine: its free memory, and when, where and by what a run was started on it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from rods.infra.install import installed
from rods.types import Json

_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")  # of an address
_KIND = r"(?:key|token|secret|password)"
_NAME = rf"[\w.-]{{0,60}}{_KIND}"
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_SECRET = re.compile(
    rf"((?:--?{_NAME}[\s=]|\b{_NAME}=|\bBearer\s)\s*)(?:{_QUOTED}|[^\s\"']+)", re.I
)  # after an option, or after a variable or a part of an address
_FIELD = re.compile(
    rf"(\b(?:Authorization|[\w.-]{{0,60}}[_-]{_KIND})[\"']?\s*:\s*)(?:{_QUOTED}|[^\"']+)", re.I
)  # a header or a field of JSON, to the end of its string
LIBRARIES = ("torch", "transformers", "tokenizers")  # whose versions decide what a run does


def host_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that the host may still give to processes, within the limit of its control group."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # all there is
    free = _counts(meminfo).get("MemAvailable:", free >> 10) << 10
    limit, used = group / "memory.max", group / "memory.current"
    if not (limit.is_file() and used.is_file()) or limit.read_text().strip() == "max":
        return free
    # What counts as used but is given back when it is needed: file cache that is idle, slabs.
    given = _counts(group / "memory.stat")
    idle = given.get("inactive_file", 0) + given.get("slab_reclaimable", 0)
    return min(free, int(limit.read_text()) - int(used.read_text()) + idle)


_COUNTED = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "used", "free", "keep",
)  # fmt: skip


class _Heap(ctypes.Structure):
    """The fields of glibc's `struct mallinfo2`, in bytes and blocks."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _COUNTED)


def give_back(least: int = 2 << 30) -> None:
    """Return freed memory that glibc keeps to the system, if it may be so many bytes or more.

    Tensors of an update have many sizes, and between them the heap of a large model grows to twice
    what is in use. A small model's update would be a sixth slower, because it takes all back.
    """
    library = ctypes.CDLL(None)
    if (count := getattr(library, "mallinfo2", None)) is None:  # another library, or an old glibc
        return
    count.restype = _Heap
    if count().free >= least:
        library.malloc_trim(0)


def _counts(path: Path) -> dict[str, int]:
    rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    return {name: int(count) for name, count, *_ in rows}


def origin(command: Sequence[str] | None = None) -> dict[str, Json]:
    """Versions, machine and `command`, by default this process's, without folders and logins."""
    words = sys.argv if command is None else command
    # Absolute paths state where a machine keeps things; their last part is enough.
    shown = [re.sub(r"(?s)(?<![^=])[/~].*", lambda m: Path(m[0]).name, word) for word in words]
    return {
        "versions": {name: installed(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "started": now(),
        "command": " ".join(_masked_word(*pair) for pair in pairwise(["", *shown])),
    }


def masked(text: str, name: str = "") -> str:
    """A setting or a command without what no page or card may show: logins, keys, passwords.

    A secret is known by the `name` of its setting, or by the option or variable before it.
    """
    if text and re.search(rf"{_KIND}$", name, re.I):
        return "***"
    for pattern in (_FIELD, _SECRET):
        text = pattern.sub(r"\1***", text)
    return _LOGIN.sub("***@", text)


def _masked_word(before: str, word: str) -> str:
    """A word of a command: all of its value, blanks included, where its name is a secret's."""
    name, equals, value = word.partition("=")
    if equals:
        return f"{masked(name)}={masked(value, name)}"
    return masked(word, before if before.startswith("-") else "")


def now() -> str:
    """This second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")

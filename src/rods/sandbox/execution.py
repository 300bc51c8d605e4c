"""Limits and result of one execution; the same words for a local and a remote sandbox.

Owns `SandboxLimits`, `Execution` and what is closed at the end of a `with`. It runs nothing.

    execution = pool.execute("print(1)").checked()
    execution.stdout, execution.status      # "1\\n", "ok"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from rods.errors import ConfigError, EnvError

Status = Literal["ok", "error", "limit", "sandbox"]
"""Ended well; the program failed; it met a limit; the sandbox failed (invalid, not worth 0)."""

Limit = Literal["", "time", "cpu", "memory", "output", "disk"]  # Which limit was met

MIB = 1 << 20


def require_positive(limits: Any, kind: str) -> None:
    """Refuse limits of 0 and less; raises `ConfigError`."""
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value <= 0:
            raise ConfigError(f"{kind} limit {field.name} is {value}, expected > 0")


class Closing(ABC):
    """Base of what a `with` block closes at its end."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one execution."""

    seconds: float = 10.0
    """Wall-clock seconds, counted from the moment the locks are on."""
    cpu: float = 10.0
    """CPU seconds, rounded up to whole ones."""
    memory: int = 512 * MIB
    """Bytes of address space above what the interpreter and the preloaded packages use."""
    output: int = 256 * 1024
    """Bytes of standard output and of standard error, each; a program that writes more is ended."""
    file: int = 16 * MIB
    """Bytes of one file."""
    disk: int = 64 * MIB
    """Bytes of all files of the scratch folder, deleted ones that are still held included."""
    entries: int = 1000
    """Files and folders in the scratch folder."""
    files: int = 32
    """Open files."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing can run under."""
        require_positive(self, "sandbox")
        if self.files < 8:
            raise ConfigError(f"sandbox limit files is {self.files}, an interpreter needs 8")


@dataclass(frozen=True, slots=True)
class Execution:
    """Result of running a program once."""

    stdout: str
    stderr: str
    status: Status
    seconds: float
    """Wall-clock seconds that the program ran."""
    limit: Limit = ""
    """Which limit was met, if `status` is "limit"."""
    detail: str = ""
    """Last line of the error, the limit in words, or why the sandbox failed."""
    returncode: int = 0
    """Exit status of the program; minus a signal's number if one ended it."""
    cpu: float = 0.0
    """CPU seconds; 0 where they are not known (remote services)."""
    attempts: int = 1
    """1 and how often it was run again because the sandbox failed."""

    @property
    def ok(self) -> bool:
        """True if the program ended without an error."""
        return self.status == "ok"

    def checked(self) -> Self:
        """Itself; EnvError if the sandbox failed, so that the trajectory is invalid and not 0."""
        if self.status == "sandbox":
            raise EnvError(
                f"the code sandbox failed after {self.attempts} attempts: {self.detail}. "
                "The program is not at fault; see docs/guides/sandbox.md, section 'When it fails'"
            )
        return self


def last_line(text: str) -> str:
    """The last line that is not blank: of a traceback, the exception and its message."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

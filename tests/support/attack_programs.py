"""Programs for bash that say ESCAPED where they got through."""

from __future__ import annotations


def python(code: str) -> str:
    """A program of a few lines that raises where it is refused."""
    return f"python - <<'END' && echo ESCAPED\n{code}\nEND"


def syscall(number: int, *arguments: int) -> str:
    return python(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"assert libc.syscall{(number, *arguments)} >= 0, ctypes.get_errno()"
    )

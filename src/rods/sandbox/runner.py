"""Runs one program inside a locked child of the zygote.

Owns the child's side of the conversation: reads a request, runs it as `__main__`, prints a
traceback that shows the program only, and answers with the exit status. It never locks anything,
and its status is trusted for no more than the program's own result. Standard library only.

    serve(request=3, status=4, seed=0)    # does not return
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import linecache
import os
import random
import struct
import sys
import traceback
from types import ModuleType, TracebackType
from typing import NoReturn, Self

from rods.sandbox.scratch import unnamed

OK, ERROR, MEMORY, DISK = 0, 1, 97, 98  # Exit status of a program
HEADER = struct.Struct("<Q")
PROGRAM = "<program>"


class RunnerVerdict:
    """A `with` block around the program: keeps every exception in and turns it into a verdict."""

    def __init__(self) -> None:
        self.value = ERROR

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self.value = OK
        elif isinstance(error, SystemExit):
            self.value = self._exit(error.code)
        else:
            self.value = _what_ran_out(error)
            while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
                trace = trace.tb_next
            traceback.print_exception(type(error), error, trace, file=sys.stderr)
        return True

    @staticmethod
    def _exit(code: object) -> int:
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        print(code, file=sys.stderr)  # noqa: T201 -- as the interpreter does for sys.exit("text")
        return ERROR


def _what_ran_out(error: BaseException) -> int:
    number = error.errno if isinstance(error, OSError) else 0
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        return MEMORY
    return DISK if number in (errno.ENOSPC, errno.EDQUOT) else ERROR


def serve(request: int, status: int, seed: int | None) -> NoReturn:
    """Run the program that arrives, then end the process."""
    verdict = RunnerVerdict()
    try:
        main = _prepare(seed)
        header = _read(request, HEADER.size)
        message = _read(request, HEADER.unpack(header)[0]) if header else None
        os.close(request)
        os.close(status)
        if message is not None:
            with verdict:
                code, stdin = json.loads(message)
                _give_input(stdin)
                linecache.cache[PROGRAM] = (len(code), None, code.splitlines(True), PROGRAM)
                exec(compile(code, PROGRAM, "exec", dont_inherit=True), main.__dict__)
            with verdict if verdict.value == OK else RunnerVerdict():
                for stream in (sys.stdout, sys.stderr):
                    if isinstance(stream, io.TextIOBase) and not stream.closed:
                        stream.flush()
    finally:
        os._exit(verdict.value)


def _prepare(seed: int | None) -> ModuleType:
    """A new `__main__`, and random numbers as asked."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = [PROGRAM]
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    return main


def _read(request: int, count: int) -> bytes:
    """Exactly so many bytes, or none at the end."""
    parts: list[bytes] = []
    while count > 0:
        part = os.read(request, min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _give_input(text: str) -> None:
    """Make the text descriptor 0, as a file that has no name."""
    if not text:
        return
    place = unnamed(".stdin", text.encode("utf-8", "surrogatepass"))
    os.dup2(place, 0)
    os.close(place)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115

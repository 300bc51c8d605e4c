r"""Programs cut out of what a model wrote: fences, tags, indentation.

Owns where a program begins and ends. A fence may be indented, as in an item of a list. A fence at
the start of a line closes it, so a program may print one. Never runs a program.

    >>> last_block("1. So:\n   ```py\n   print('```')\n   ```")
    "print('```')"
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings

from rods.dialects.marks import quoted
from rods.infra.pycall import MAX_CHARACTERS

_BEGINS = r"```[ \t]*(?:python3?|py)"
_PYTHON = re.compile(rf"(?im)^[ \t]*(?:(?:[-*+>]|\d+[.)])[ \t]*)?{_BEGINS}\b|{_BEGINS}[ \t]*$")
_AMID_WORDS = re.compile(rf"{_BEGINS}\b", re.IGNORECASE)
_LINE_START = re.compile(r"^[ \t]*```(\w*)", re.MULTILINE)
_TRIES = 8
"""Openings, counted from the last, that may begin the program."""


def printed(program: str) -> str:
    """The program with its last line in a `print`, as ReTool's recipe has it.

    Only if this line is an expression of its own and no print: anything else would not compile.
    """
    body = _statements(program)
    head, line_end, line = program.rstrip().rpartition("\n")
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr) or last.col_offset or line.startswith("print("):
        return program
    if last.lineno != head.count("\n") + bool(line_end) + 1:
        return program
    end = len(line.encode()[: last.end_col_offset].decode())
    return f"{head}{line_end}print({line[:end]}){line[end:]}"


def last_block(text: str) -> str | None:
    """The last Python block, closed or not; None if there is none.

    Blocks without a language count where none has one. The text of a program may hold fences: then
    the first opening from which the text up to the last fence is a program begins it.
    """
    opened = [found.end() for found in _PYTHON.finditer(text)]
    if not opened:
        amid = (found.span() for found in _AMID_WORDS.finditer(text))
        opened = [end for start, end in amid if not quoted(text, start, end)] or _bare(text)
    if not opened:
        return None
    fences = _LINE_START.finditer(text, opened[-1])
    closed = [found.start() for found in fences if not found[1]] or [len(text)]
    for start in opened[-_TRIES:] if len(opened) + len(closed) > 2 else ():
        whole = _inside(text, start, closed[-1])
        if _statements(whole):
            return whole
    return _inside(text, opened[-1], closed[0])


def _bare(text: str) -> list[int]:
    """Where the blocks without a language begin."""
    starts: list[int] = []
    opened = False
    for fence in _LINE_START.finditer(text):
        starts += [] if opened or fence[1] else [fence.end()]
        opened = not opened or bool(fence[1])
    return starts


def between(text: str, tag: str) -> str:
    """The last program between these tags, in a block or not; "" if there is none.

    The text of a program may hold tags: the first opening from which it is a program begins it.
    """
    parts = text.rpartition(f"</{tag}>")[0].rpartition(f"</{tag}>")[2].split(f"<{tag}>")
    program = ""
    for index in range(max(1, len(parts) - _TRIES), len(parts)):
        inside = f"<{tag}>".join(parts[index:])
        program = unwrapped(inside)
        if _statements(program):
            break
    return program


def unwrapped(text: str) -> str:
    """The program of a text that is one, in a block or not."""
    whole = dedented(text)
    if "```" not in text or _statements(whole):
        return whole
    block = last_block(text)
    return whole if block is None else block


def dedented(program: str) -> str:
    """The program without blank lines around it and without the indentation of its first line."""
    program = re.sub(r"\A(?:[ \t]*\n)+", "", program).rstrip()
    if "\n" not in program:
        return program.strip()
    return textwrap.dedent(program) if program[0] in " \t" else program


def _inside(text: str, start: int, end: int) -> str:
    """The program from an opening fence up to one on the same line, else up to a place."""
    line = text[start:end].partition("\n")[0]
    inside = line.partition("```")[0] if "```" in line else text[start:end]
    return dedented(inside.lstrip(" \t"))


def _statements(program: str) -> list[ast.stmt]:
    """The statements of a program; none if it is not one."""
    if len(program) > MAX_CHARACTERS:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []

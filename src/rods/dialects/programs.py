r"""Programs cut out of what a model wrote: fences, tags, indentation.

Owns where a program begins and ends. A fence may be indented, as in an item of a list, and may have
attributes. A fence at the start of a line closes it, so a program may print one. Never runs one.

    >>> last_block("1. So:\n   ```py\n   print('```')\n   ```")
    "print('```')"
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings

from rods.dialects.marks import ATTRIBUTES, ITEM, PYTHON, opening, quoted
from rods.infra.pycall import MAX_CHARACTERS

MARKS = ("```", "~~~")  # Characters of fences
_BEGINS = opening(PYTHON)
_PYTHON = re.compile(rf"(?m)^[ \t]*(?:{ITEM})?[`~]*{_BEGINS}|{_BEGINS}[ \t\r]*$")
_AMID_WORDS = re.compile(_BEGINS)
_LINE_START = re.compile(r"^[ \t]*(```|~~~)[`~]*(\{?\.?\w*)", re.MULTILINE)
_REST = re.compile(rf"(?:\d[\d.]*(?=\s))?{ATTRIBUTES}(?=\n)")
"""Rest of the line of a fence: a version that a stop string cut off, and attributes."""
_TRIES = 8  # Openings, counted from the last, that may begin the program


def printed(program: str) -> str:
    """The program with its last line in a `print`, as ReTool's recipe has it.

    Only if this line is an expression of its own and no print: anything else would not compile.
    """
    body = parsed(program)[0]
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
    opened = [found.span() for found in _PYTHON.finditer(text)]
    if not opened:
        amid = (found.span() for found in _AMID_WORDS.finditer(text))
        opened = [span for span in amid if not quoted(text, *span)] or _bare(text)
    if not opened:
        return None
    mark = MARKS["~~~" in text[slice(*opened[-1])]]
    fences = _LINE_START.finditer(text, opened[-1][1])
    closed = [f.start() for f in fences if (f[1], f[2]) == (mark, "")] or [len(text)]
    for _, start in opened[-_TRIES:] if len(opened) + len(closed) > 2 else ():
        whole = in_fence(text[start : closed[-1]], mark)
        if parsed(whole)[0]:
            return whole
    return in_fence(text[opened[-1][1] : closed[0]], mark)


def _bare(text: str) -> list[tuple[int, int]]:
    """The openings of the blocks without a language."""
    starts: list[tuple[int, int]] = []
    opened = ""
    for fence in _LINE_START.finditer(text):
        if opened in ("", fence[1]):
            starts += [] if opened or fence[2] else [fence.span()]
            opened = "" if opened and not fence[2] else fence[1]
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
        if parsed(program)[0]:
            break
    return program


def unwrapped(text: str) -> str:
    """The program of a text that is one, in a block or not."""
    whole = dedented(text)
    if not any(mark in text for mark in MARKS) or parsed(whole)[0]:
        return whole
    block = last_block(text)
    return whole if block is None else block


def dedented(program: str) -> str:
    """The program without blank lines around it and without the indentation of its first line."""
    program = re.sub(r"\A(?:[ \t\r]*\n)+", "", program).rstrip()
    if "\n" not in program:
        return program.strip()
    return textwrap.dedent(program) if program[0] in " \t" else program


def in_fence(text: str, mark: str) -> str:
    """The program behind the language of a fence, up to a fence on the same line, else all of it.

    `x=5` on that line is an attribute of the fence, unless the program uses the name.
    """
    line = text.partition("\n")[0]
    text = line.partition(mark)[0] if mark in line else text
    noted = _REST.match(text)
    rest = text[noted.end() :] if noted else ""
    names = re.findall(r"([\w-]+)=", noted[0]) if noted else []
    if rest.strip() and not any(re.search(rf"\b{name}\b", rest) for name in names):
        text = rest
    return dedented(text.lstrip(" \t"))


def program_end(text: str, start: int, end: int) -> int:
    """Where a program ends that begins at a place and that nothing closes before `end`.

    It has the lines that are Python; what the error of the parser points to, words mostly, is left.
    """
    lines = text[start : min(end, start + MAX_CHARACTERS - 10)].split("\n")
    nested = next((line for line in lines if line.strip()), "")[:1].isspace()
    for _ in range(_TRIES):
        fault = parsed("if 1:\n" * nested + "\n".join(lines))[1]
        if not fault:
            return start + len("\n".join(lines))
        lines = lines[: max(0, fault - 1 - nested)]
    return start


def parsed(program: str) -> tuple[list[ast.stmt], int]:
    """The statements of a program, and 0; none, and the line of its fault, if it is not one."""
    if not program or len(program) > MAX_CHARACTERS:
        return [], len(program)  # too long: at fault after all lines
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(program).body, 0
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [], getattr(error, "lineno", None) or 1

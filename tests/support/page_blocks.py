"""The code blocks of a page, and the mark that says what tests do with them.

A mark is a comment of HTML, at the end of the line above the block or of the page's own line
`<!-- blocks: ... -->`, which holds for all other blocks of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MARK = re.compile(r"<!-- (test \w+|parsed|shown) -->$")
PAGE_MARK = re.compile(r"^<!-- blocks: (test \w+|parsed|shown) -->$", re.M)
FENCE = re.compile(r"^( *)```(\w*)")


class Block(NamedTuple):
    """A block of code."""

    page: Path
    line: int
    """Of its first line, from 1."""
    language: str
    """As behind the fence; empty for an indented block."""
    text: str
    mark: str
    """`test NAME`, `parsed`, `shown`, or nothing."""


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced and the indented blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    rest = PAGE_MARK.search(text)
    lines, above, at = text.split("\n"), "", 0
    while at < len(lines):
        start, fence = at, FENCE.match(lines[at])
        if fence:
            at = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            body, language = lines[start + 1 : at], fence[2]
            at += 1
        elif re.match(r"    \S", lines[at]) and _may_begin(lines[:start]):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body, language = [line[4:] for line in lines[start:at]], ""
        else:
            above = lines[at] if lines[at].strip() else above
            at += 1
            continue
        mark = MARK.search(above) or rest
        yield Block(page, start + 1, language, "\n".join(body).strip("\n"), mark[1] if mark else "")
        above = ""


def _may_begin(before: list[str]) -> bool:
    """Whether an indented line is code: after a blank line, or a mark that has its own line."""
    return not before or not before[-1].strip() or before[-1].startswith("<!-- ")

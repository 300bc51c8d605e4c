"""What a method's docstring says: the text before its sections, and what each parameter means.

Owns the reading of Google (`Args:`), Sphinx (`:param x:`), NumPy (`Parameters` underlined) and
plain docstrings. Never fails: what it does not understand is left out.

    read_docstring(Library.lend).parameters["member_id"]
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields|examples?|notes?|attributes)\s*:?$",
    re.IGNORECASE,
)
_PARAMETERS = frozenset({"args", "arguments", "parameters", "params"})
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*(?::|--?|\u2013)\s+(.*)$")
_NUMPY = re.compile(r"^(\w+)\s*(?::\s*.*)?$")
_FIELD = re.compile(r"^:(\w+)(?:\s+[^:]*?(\w+))?:\s*(.*)$")


class Doc(NamedTuple):
    """A docstring, parted."""

    text: str
    """What stands before the first section, in one paragraph a line."""
    parameters: dict[str, str]


def read_docstring(function: Callable[..., object]) -> Doc:
    """Part a function's docstring; empty where it has none."""
    lines = (inspect.getdoc(function) or "").splitlines()
    text: list[str] = []
    found: dict[str, str] = {}
    section, current, base, underlined = "", "", 0, False
    for number, line in enumerate(lines):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        heading = _SECTION.match(bare)
        field = _FIELD.match(bare)
        if heading and (bare.endswith(":") or re.fullmatch(r"-{3,}", following)):
            section, current, base = heading.group(1).lower(), "", 0
            underlined = not bare.endswith(":")
        elif field:
            section = "fields"
            current = (field.group(2) or "") if field.group(1) == "param" else ""
            if current:
                found[current] = field.group(3).strip()
        elif not section:
            text.append(bare)
        elif section in _PARAMETERS and bare and not re.fullmatch(r"-{3,}", bare):
            base = base or indent
            entry = (_NUMPY if underlined else _ENTRY).match(bare)
            if entry and indent <= base:
                current = entry.group(1)
                found[current] = "" if underlined else entry.group(2).strip()
            elif current:
                found[current] = f"{found[current]} {bare}".strip()
        elif section == "fields" and bare and current:
            found[current] = f"{found[current]} {bare}".strip()
    return Doc(_paragraphs(text), found)


def _paragraphs(lines: list[str]) -> str:
    blocks = "\n".join(lines).strip().split("\n\n")
    return "\n".join(" ".join(block.split()) for block in blocks if block.strip())

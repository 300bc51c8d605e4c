"""Bounds of calls, whatever dialect they are written in.

Owns the one bound of depth, size and values for all calls that a model writes. Beyond it calls are
malformed: a deeper or larger value would end a tool, a judge or the file of a trajectory instead of
the attempt. Never looks at tools or at the types of values.

    >>> calls_fault([ToolCall("f", {"x": float("inf")})])
    'a number is infinite or not a number'
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from rods.infra.pycall import MAX_BITS, MAX_CHARACTERS, MAX_DEPTH
from rods.infra.text import inside
from rods.types import ToolCall

TOO_DEEP = f"the arguments are nested more than {MAX_DEPTH} deep"
TOO_LARGE = f"the calls hold more than {MAX_CHARACTERS} characters and values"
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def calls_fault(calls: Iterable[ToolCall]) -> str:
    """Name the bound that some calls exceed, or return an empty text."""
    return value_fault(list(calls), depth=-1)


def value_fault(value: object, depth: int = 0, shape: bool = False) -> str:
    """Name the bound that JSON with nested calls exceeds, or return an empty text.

    `depth` is that of the value itself. `shape`: look at depth and size alone.
    """
    size = 0
    stack = [(value, depth)]
    while stack:
        one, depth = stack.pop()
        if depth > MAX_DEPTH:
            return TOO_DEEP
        texts, inner = inside(one)
        size += 1 + sum(map(len, texts))
        if size > MAX_CHARACTERS:
            return TOO_LARGE
        if not shape and (fault := _odd(one, texts)):
            return fault
        stack += [(item, depth + 1) for item in inner]
    return ""


def _odd(value: object, texts: list[str]) -> str:
    if any(_UNREADABLE.search(text) for text in texts):
        return "a text holds NUL or half of a character (an unpaired surrogate)"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return "a number is too long"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number is infinite or not a number"
    return ""

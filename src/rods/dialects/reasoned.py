"""What the dialects of ToolRL and Tool-N1 share: a thought, then calls as JSON in `<tool_call>`.

Owns the short thought of a demonstration, how JSON keeps tags unique, and which blocks count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rods.dialects.jsonic import STRAY, Block, read_blocks
from rods.types import ToolCall

TAG = re.compile(r"</?(?:think|tool_call|response|user|obs)>")


def blocks(body: str, arguments_key: str) -> Iterator[Block]:
    """The blocks of a text; a closing tag by itself counts for nothing, as in the released code."""
    return (block for block in read_blocks(body, arguments_key) if block.fault != STRAY)


def thought(calls: Sequence[ToolCall]) -> str:
    """A short thought that names the tools."""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    return f"<think>I call {TAG.sub('', names)}.</think>"


def escaped(line: str) -> str:
    """JSON without "<", which stands in its texts alone; so tags stay unique."""
    return line.replace("<", "\\u003c")

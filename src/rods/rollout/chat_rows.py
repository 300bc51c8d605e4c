"""What chat templates read, and the tags with which they begin the assistant's message.

Owns the rows of messages and tools that `apply_chat_template` takes. It renders nothing.

    >>> opened_tags("assistant\\n<think>\\n")
    '<think>\\n'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rods.dialects.base import tool_row
from rods.types import Message, ToolCall, ToolSpec

_TAG = re.compile(r"<(/?)([A-Za-z_]\w*)>")
_LAST = re.compile(r"(?:</?[A-Za-z_]\w*>|\s)+\Z")
_ROLES = ("assistant", "model", "bot")
"""Headers that look like tags; they open nothing."""


def chat_rows(
    messages: Sequence[Message], calls: Sequence[ToolCall], neutral: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Messages as templates read them; a result has the name and the id of its call.

    Args:
        messages: in order.
        calls: of assistant messages that show none.
        neutral: makes a text harmless.
    """
    rows: list[dict[str, Any]] = []
    answered = 0
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": neutral(message.content)}
        if message.role == "assistant":
            calls, answered = message.calls or calls, 0
            if message.calls:
                row["tool_calls"] = [_call_json(i, c) for i, c in enumerate(message.calls)]
        elif message.role == "tool" and calls:
            call = min(answered, len(calls) - 1)
            row |= {"name": calls[call].name, "tool_call_id": _call_id(call)}
            answered += 1
        rows.append(row)
    return rows


def _call_id(index: int) -> str:
    """Nine letters and digits, which Mistral's templates ask for."""
    return f"call{index:05d}"


def _call_json(index: int, call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dict(call.arguments)}
    return {"type": "function", "id": _call_id(index), "function": function}


def tool_json(spec: ToolSpec) -> dict[str, Any]:
    """A tool in the form that chat templates read (`{"type": "function", "function": {...}}`)."""
    return {"type": "function", "function": tool_row(spec)}


def is_tag(text: str) -> bool:
    """Whether the text is one tag, `<name>` or `</name>`."""
    return _TAG.fullmatch(text) is not None


def opened_tags(header: str) -> str:
    """The tags at the end of a header if one of them stays open; else an empty text.

    Words after a tag close the search: they may be a user's, and those open nothing.
    """
    found = _LAST.search(header)
    text = found[0].lstrip() if found else ""
    held: list[str] = []
    for close, name in _TAG.findall(text):
        if not close:
            held.append(name)
        elif name in held:
            held.remove(name)
    return text if any(name not in _ROLES for name in held) else ""

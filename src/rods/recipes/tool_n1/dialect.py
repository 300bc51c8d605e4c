"""Tool-N1's dialect (arXiv 2505.00024): a thought, then a JSON list of calls, in one response.

Owns the form in both directions; the wording of the instructions is ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rods.dialects.base import Parsed, check_calls, tool_row
from rods.dialects.jsonic import CLOSE, OPEN, Reasoned, require_tags
from rods.infra.pycall import CallSyntaxError
from rods.types import ParseVerdict, ToolCall, ToolSpec


class ToolN1Dialect(Reasoned):
    """A thought, then one JSON list of calls; an empty list where no tool fits."""

    name = "tool_n1"
    shows_tools = True
    _arguments = "arguments"
    _answer = f"<think>No function fits.</think> {OPEN}[]{CLOSE}\nWORDS"
    _remedy = (
        f'Write <think>...</think> and then {OPEN}[{{"name": "tool", "arguments": '
        f'{{"argument": "value"}}}}]{CLOSE}.'
    )

    def system_prompt(self) -> str:
        """Two parts in one reply."""
        return (
            "You compose function calls. You read a question and functions that may answer it; "
            "call one or more of them. Each reply has two parts:\n"
            "1. Reason about the request within <think></think>.\n"
            f"2. Then write a JSON list of calls within {OPEN}{CLOSE}, as in "
            f'<think>To say hello to Bob I write a mail.</think> {OPEN}[{{"name": "mail", '
            f'"arguments": {{"receiver": "Bob", "text": "hello"}}}}]{CLOSE}. '
            f"Mind the types of arguments. If no function fits, or a value is missing, write an "
            f"empty list: {OPEN}[]{CLOSE}."
        )

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line of JSON for each tool, within `<tools>` tags."""
        rows = ({"type": "function", "function": tool_row(spec)} for spec in specs)
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        return "<tools>\n" + "\n".join(lines) + "\n</tools>"

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        """The last block; none, or an empty list, is an answer, unless a call lacks its tags."""
        found = [*self._blocks(body)]
        if not found:
            require_tags(body)
            return Parsed(ParseVerdict.ANSWER, answer=body)
        block = found[-1]
        if block.fault:
            raise CallSyntaxError(block.fault)
        if not block.calls:
            return Parsed(ParseVerdict.ANSWER, answer=body[block.end :].strip())
        return check_calls(block.calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the functions, and the list."""
        return f"{self._thought(calls)} {OPEN}[{', '.join(self._lines(calls))}]{CLOSE}"

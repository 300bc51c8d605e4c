"""Tool-N1's dialect (arXiv 2505.00024): a thought, then a JSON list of calls, in one response.

Owns the form in both directions; the wording of the instructions is ours. It describes the tools
itself. What is read here is what a world is asked to do; the reward reads the text by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rods.dialects.base import Dialect, Parsed, check_calls, malformed, too_long
from rods.dialects.jsonic import CLOSE, OPEN, dump_call
from rods.dialects.marks import without_thought
from rods.dialects.reasoned import TAG, blocks, escaped, thought
from rods.errors import TaskError
from rods.types import ParseVerdict, Role, ToolCall, ToolSpec


class ToolN1Dialect(Dialect):
    """A thought, then one JSON list of calls; an empty list where no tool fits."""

    feedback_role: Role = "user"
    shows_tools = True
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
        rows = (
            {"name": s.name, "description": s.description, "parameters": dict(s.parameters)}
            for s in specs
        )
        lines = (json.dumps({"type": "function", "function": r}, ensure_ascii=False) for r in rows)
        return "<tools>\n" + "\n".join(lines) + "\n</tools>"

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation: its last block; none, or an empty list, is an answer."""
        if truncated:
            return too_long()
        body = without_thought(text)
        found = [*blocks(body, "arguments")]
        if not found:
            return Parsed(ParseVerdict.ANSWER, answer=body)
        block = found[-1]
        if block.fault:
            return malformed(block.fault, self._remedy)
        if not block.calls:
            return Parsed(ParseVerdict.ANSWER, answer=body[block.end :].strip())
        return check_calls(block.calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the functions, and the list."""
        listed = ", ".join(escaped(dump_call(call, "arguments", "tool_n1")) for call in calls)
        return f"{thought(calls)} {OPEN}[{listed}]{CLOSE}"

    def answer(self, text: str) -> str:
        """A short thought, an empty list, and the words after it."""
        if TAG.search(text):
            raise TaskError(f"an answer of the tool_n1 dialect cannot hold its tags: {text!r}.")
        return f"<think>No function fits.</think> {OPEN}[]{CLOSE}\n{text.strip()}"

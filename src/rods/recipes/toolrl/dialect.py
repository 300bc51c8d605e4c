r"""ToolRL's dialect (arXiv 2504.13958): a thought, a JSON call a line, then words, in one response.

Owns the form in both directions; the wording of the instructions is ours. It describes the tools
itself. What is read here is what a world is asked to do; the reward reads the text by itself.

    >>> ToolRlDialect().write([ToolCall("ls")])
    '<think>I call ls.</think>\n<tool_call>\n{"name": "ls", "parameters": {}}\n</tool_call>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rods.dialects.base import Dialect, Parsed, check_calls, malformed, too_long
from rods.dialects.jsonic import CLOSE, OPEN, dump_call
from rods.dialects.marks import without_thought
from rods.dialects.reasoned import TAG, blocks, escaped, thought
from rods.errors import TaskError
from rods.types import Message, ParseVerdict, Role, ToolCall, ToolSpec

_WORDS = re.compile(r"<response>(.*?)</response>", re.DOTALL)


class ToolRlDialect(Dialect):
    """A thought, then one JSON call a line, then words; what was said before is one message."""

    feedback_role: Role = "user"
    shows_tools = True

    def system_prompt(self) -> str:
        """What each part of the output is."""
        return (
            "You help a user over several turns, by calling tools and by answering.\n\n"
            "**Each turn**\n"
            "1. Think about what the dialogue says and what the user wants now.\n"
            "2. If tools are needed, call them with their parameters.\n"
            "3. If words are needed, answer in accordance with what was said.\n\n"
            "**Output Format**\n"
            "<think> what you think </think>\n"
            f"{OPEN}\n"
            '{"name": "tool", "parameters": {"parameter": "value"}}\n'
            f"{CLOSE}\n"
            "<response> what the user reads </response>\n\n"
            "The thought always comes first. Calls, a response, or both follow. Each call is a "
            "JSON object on a line of its own; without parameters they are an empty object. "
            "Results of earlier calls stand in <obs> </obs>."
        )

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """A numbered list: name, description, parameters as JSON."""
        tools = (
            f"{number}. Name: {spec.name}\nDescription: {spec.description}\n"
            f"Parameters: {json.dumps(spec.properties, ensure_ascii=False)}"
            for number, spec in enumerate(specs, 1)
        )
        return "**Available Tools**\n" + "\n".join(tools)

    def opening(self, dialogue: Sequence[Message], user: str) -> tuple[Message, ...]:
        """The whole dialogue in one message of the user."""
        blocks = [self._block(message) for message in dialogue]
        blocks += [self._block(Message("user", user))] if user.strip() or not dialogue else []
        return (Message("user", "**Dialogue Records History**\n" + "\n\n".join(blocks)),)

    def _block(self, message: Message) -> str:
        if message.role == "assistant":
            return self.said(message)
        tag = "user" if message.role == "user" else "obs"
        return f"<{tag}> {message.content.strip()} </{tag}>"

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation; without `<tool_call>` it is an answer."""
        if truncated:
            return too_long()
        body = without_thought(text)
        block = next(blocks(body, "parameters"), None)
        if block is None:
            return Parsed(ParseVerdict.ANSWER, answer=_words(body))
        if block.fault or not block.calls:
            return malformed(block.fault or "the list of calls is empty", self._remedy)
        return check_calls(block.calls, offered)

    _remedy = (
        f'Write {OPEN}, then {{"name": "tool", "parameters": {{"parameter": "value"}}}} a line, '
        f"then {CLOSE}."
    )

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the tools, and a call a line."""
        lines = "\n".join(escaped(dump_call(call, "parameters", "toolrl")) for call in calls)
        return f"{thought(calls)}\n{OPEN}\n{lines}\n{CLOSE}"

    def answer(self, text: str) -> str:
        """A short thought and the words."""
        if TAG.search(text):
            raise TaskError(f"an answer of the toolrl dialect cannot hold its tags: {text!r}.")
        return f"<think>I answer the user.</think>\n<response> {text.strip()} </response>"


def _words(body: str) -> str:
    found = _WORDS.search(body)
    return (found.group(1) if found else body).strip()

r"""ToolRL's dialect (arXiv 2504.13958): a thought, a JSON call a line, then words, in one response.

Owns the form in both directions; the wording of the instructions is ours.

    >>> ToolRlDialect().write([ToolCall("ls")])
    '<think>I call ls.</think>\n<tool_call>\n{"name": "ls", "parameters": {}}\n</tool_call>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rods.dialects.base import Parsed, check_calls
from rods.dialects.jsonic import CLOSE, OPEN, Reasoned, require_tags
from rods.infra.pycall import CallSyntaxError
from rods.types import Message, ParseVerdict, ToolCall, ToolSpec

_WORDS = re.compile(r"<response>((?:(?!<response>).)*?)</response>", re.DOTALL)


class ToolRlDialect(Reasoned):
    """A thought, then one JSON call a line, then words; what was said before is one message."""

    name = "toolrl"
    shows_tools = True
    _arguments = "parameters"
    _answer = "<think>I answer the user.</think>\n<response> WORDS </response>"
    _remedy = (
        f'Write {OPEN}, then {{"name": "tool", "parameters": {{"parameter": "value"}}}} a line, '
        f"then {CLOSE}."
    )

    def system_prompt(self) -> str:
        """Explain each part of the output."""
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
            return self.rendered(message)
        tag = "user" if message.role == "user" else "obs"
        return f"<{tag}> {message.content.strip()} </{tag}>"

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        """Without `<tool_call>` it is an answer, unless a call stands amid its words."""
        block = next(self._blocks(body), None)
        if block is None:
            require_tags(body)
            found = _WORDS.search(body)
            return Parsed(ParseVerdict.ANSWER, answer=(found[1] if found else body).strip())
        if block.fault or not block.calls:
            raise CallSyntaxError(block.fault or "the list of calls is empty")
        return check_calls(block.calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the tools, and a call a line."""
        lines = "\n".join(self._lines(calls))
        return f"{self._thought(calls)}\n{OPEN}\n{lines}\n{CLOSE}"

r"""The dialects of single-step function calling: a thought, then calls, in one response.

Owns the forms of ToolRL (arXiv 2504.13958) and Tool-N1 (arXiv 2505.00024) in both directions; the
wording of the instructions is ours. Both describe the tools themselves. What is read here is what a
world is asked to do; their rewards read the text by themselves (`rods.rewards.calls`).

    >>> ToolRl().write([ToolCall("ls")])
    '<think>I call ls.</think>\n<tool_call>\n{"name": "ls", "parameters": {}}\n</tool_call>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from rods.dialects.base import Dialect, Parsed, check_calls, malformed, too_long
from rods.dialects.jsonic import CLOSE, OPEN, STRAY, Block, dump_call, read_blocks
from rods.dialects.marks import without_thought
from rods.errors import TaskError
from rods.types import Message, ParseVerdict, Role, ToolCall, ToolSpec

_WORDS = re.compile(r"<response>(.*?)</response>", re.DOTALL)
_TAG = re.compile(r"</?(?:think|tool_call|response|user|obs)>")


class ToolRl(Dialect):
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
        block = next(_blocks(body, "parameters"), None)
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
        lines = "\n".join(_escaped(dump_call(call, "parameters", "toolrl")) for call in calls)
        return f"{_thought(calls)}\n{OPEN}\n{lines}\n{CLOSE}"

    def answer(self, text: str) -> str:
        """A short thought and the words."""
        if _TAG.search(text):
            raise TaskError(f"an answer of the toolrl dialect cannot hold its tags: {text!r}.")
        return f"<think>I answer the user.</think>\n<response> {text.strip()} </response>"


class ToolN1(Dialect):
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
        blocks = [*_blocks(body, "arguments")]
        if not blocks:
            return Parsed(ParseVerdict.ANSWER, answer=body)
        block = blocks[-1]
        if block.fault:
            return malformed(block.fault, self._remedy)
        if not block.calls:
            return Parsed(ParseVerdict.ANSWER, answer=body[block.end :].strip())
        return check_calls(block.calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the functions, and the list."""
        listed = ", ".join(_escaped(dump_call(call, "arguments", "tool_n1")) for call in calls)
        return f"{_thought(calls)} {OPEN}[{listed}]{CLOSE}"

    def answer(self, text: str) -> str:
        """A short thought, an empty list, and the words after it."""
        if _TAG.search(text):
            raise TaskError(f"an answer of the tool_n1 dialect cannot hold its tags: {text!r}.")
        return f"<think>No function fits.</think> {OPEN}[]{CLOSE}\n{text.strip()}"


def _blocks(body: str, arguments_key: str) -> Iterator[Block]:
    """The blocks of a text; a closing tag by itself counts for nothing, as in the released code."""
    return (block for block in read_blocks(body, arguments_key) if block.fault != STRAY)


def _thought(calls: Sequence[ToolCall]) -> str:
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    return f"<think>I call {_TAG.sub('', names)}.</think>"


def _escaped(line: str) -> str:
    """JSON without "<", which stands in its texts alone; so tags stay unique."""
    return line.replace("<", "\\u003c")


def _words(body: str) -> str:
    found = _WORDS.search(body)
    return (found.group(1) if found else body).strip()

"""The grammar of Environment Tuning (arXiv 2510.10197): think, then call or answer.

Exactly one `<think>` pair, then exactly one `<tool_call>` pair (a JSON object or a list of them)
or one `<answer>` pair; no text outside. Each way to break it has its own message, which goes back
as the next user message, and so do the results of calls.

    >>> Think().parse("ls", {}, truncated=False).feedback[:40]
    'Error: the <think></think> pair is missi'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rods.dialects.base import Parsed, check_calls
from rods.dialects.jsonic import Reasoned, read_json_calls
from rods.dialects.marks import unfence
from rods.infra.pycall import CallSyntaxError
from rods.types import Message, ParseVerdict, ToolCall, ToolResult, ToolSpec

_TAGS = ("think", "tool_call", "answer")
_WHOLE = re.compile(r"\A\s*<think>(.*?)</think>\s*<(tool_call|answer)>(.*)</\2>\s*\Z", re.DOTALL)
_GO_ON = (
    "If the request is done, think within <think></think> and answer within <answer></answer>. "
    "Otherwise go on calling."
)


class Think(Reasoned):
    """`<think>` and then one `<tool_call>` or one `<answer>`."""

    name = "think"
    _tags = re.compile(r"(?:think|tool_call|answer)>")
    _arguments = "arguments"
    _answer = "<think>I answer the user.</think>\n<answer>WORDS</answer>"
    _remedy = (
        "Write <think>...</think> and then either <tool_call>...</tool_call> with a JSON object "
        '(or a list of them) with "name" and "arguments", or <answer>...</answer> with words for '
        "the user."
    )

    def system_prompt(self) -> str:
        """Short instructions; without them a model cannot know the tags."""
        return (
            "Use the functions to do what the user asks. In each message first think within "
            "<think></think>. Then either call functions: <tool_call>"
            '[{"name": "function", "arguments": {"argument": "value"}}]</tool_call>; you then read '
            "the results. Or, when the request is done, answer the user: <answer></answer>. Write "
            "nothing outside of these tags. If a function or a value is missing, call nothing and "
            "answer what is missing."
        )

    def _body(self, text: str) -> str:
        """All of it: the thought is part of the form."""
        return text

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        problem = _grammar_fault(body)
        found = None if problem else _WHOLE.match(body)
        if found is None:
            outside = "there is text outside of the tags, or they are in the wrong order"
            raise CallSyntaxError(problem or outside)
        if found.group(2) == "answer":
            return Parsed(ParseVerdict.ANSWER, answer=found.group(3).strip())
        inside = unfence(found.group(3)).strip()
        if not inside:
            raise CallSyntaxError("the <tool_call></tool_call> pair is empty")
        try:
            calls, end = read_json_calls(inside, 0, "arguments")
            if inside[end:].strip():
                raise CallSyntaxError("text follows the JSON; put several calls into one list")
        except CallSyntaxError as error:
            raise CallSyntaxError(f"within <tool_call></tool_call>: {error}") from error
        return check_calls(calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the functions, and the calls as a JSON list."""
        return f"{self._thought(calls)}\n<tool_call>[{', '.join(self._lines(calls))}]</tool_call>"

    def results(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """One user message: all results as a JSON list, and how to go on."""
        contents = json.dumps([result.content for result in results], ensure_ascii=False)
        return (Message("user", f"Results of the calls: {contents}\n{_GO_ON}"),)


def _grammar_fault(text: str) -> str:
    """Which tags are missing or too many, or an empty text."""
    opened = {tag: text.count(f"<{tag}>") for tag in _TAGS}
    closed = {tag: text.count(f"</{tag}>") for tag in _TAGS}
    if not opened["think"] and not closed["think"]:
        return "the <think></think> pair is missing"
    for tag in _TAGS:
        if opened[tag] > 1 or closed[tag] > 1:
            return f"there is more than one <{tag}></{tag}> pair"
        if opened[tag] != closed[tag]:
            missing = f"</{tag}>" if opened[tag] else f"<{tag}>"
            return f"the tag {missing} is missing"
    if opened["tool_call"] and opened["answer"]:
        return "there are both <tool_call> and <answer>; write only one of them"
    if not opened["tool_call"] and not opened["answer"]:
        return "after <think></think> there is neither <tool_call> nor <answer>"
    return ""

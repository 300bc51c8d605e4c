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

from rods.dialects.base import Dialect, Parsed, check_calls, malformed, too_long
from rods.dialects.jsonic import describe_json, dump_call, read_json_calls
from rods.dialects.marks import unfence
from rods.errors import TaskError
from rods.infra.pycall import CallSyntaxError
from rods.types import Message, ParseVerdict, Role, ToolCall, ToolResult, ToolSpec

_TAGS = ("think", "tool_call", "answer")
_WHOLE = re.compile(r"\A\s*<think>(.*?)</think>\s*<(tool_call|answer)>(.*)</\2>\s*\Z", re.DOTALL)
_REMEDY = (
    "Write <think>...</think> and then either <tool_call>...</tool_call> with a JSON object (or a "
    'list of them) with "name" and "arguments", or <answer>...</answer> with words for the user.'
)


_GO_ON = (
    "If the request is done, think within <think></think> and answer within <answer></answer>. "
    "Otherwise go on calling."
)


class Think(Dialect):
    """`<think>` and then one `<tool_call>` or one `<answer>`."""

    feedback_role: Role = "user"

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

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation."""
        if truncated:
            return too_long()
        problem = _grammar_fault(text)
        found = None if problem else _WHOLE.match(text)
        if found is None:
            outside = "there is text outside of the tags, or they are in the wrong order"
            return malformed(problem or outside, _REMEDY)
        if found.group(2) == "answer":
            return Parsed(ParseVerdict.ANSWER, answer=found.group(3).strip())
        body = unfence(found.group(3)).strip()
        if not body:
            return malformed("the <tool_call></tool_call> pair is empty", _REMEDY)
        try:
            read = read_json_calls(body, 0, "arguments")
        except CallSyntaxError as error:
            return malformed(f"within <tool_call></tool_call>: {error}", _REMEDY)
        if body[read.end :].strip():
            return malformed(
                "within <tool_call></tool_call>: text follows the JSON; put several calls into "
                "one list",
                _REMEDY,
            )
        if not read.calls:
            return malformed("the list of calls is empty", _REMEDY)
        return check_calls(read.calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the functions, and the calls as a JSON list."""
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        body = ", ".join(dump_call(call, "arguments", "think") for call in calls)
        escaped = body.replace("<", "\\u003c")  # stands only in JSON strings; keeps tags unique
        return f"<think>I call {names}.</think>\n<tool_call>[{escaped}]</tool_call>"

    def answer(self, text: str) -> str:
        """A short thought and the answer."""
        if any(f"{tag}>" in text for tag in _TAGS):
            raise TaskError(f"an answer of the think dialect cannot hold its tags: {text!r}.")
        return f"<think>I answer the user.</think>\n<answer>{text.strip()}</answer>"

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line of JSON for each tool."""
        return describe_json(specs)

    def results(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """One user message: all results as a JSON list, and how to go on."""
        said = json.dumps([result.content for result in results], ensure_ascii=False)
        return (Message("user", f"Results of the calls: {said}\n{_GO_ON}"),)


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

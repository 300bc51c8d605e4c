r"""What ToolRL's rlla files write as text: tools, the dialogue so far, the wanted output.

Owns the reading of these three. The thoughts in them are placeholders and are left out.

    truth_of("<think> x </think>\n<response> Which file? </response>")
    # ((), True)
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from rods.types import Message, ToolCall

_TOOL = re.compile(r"\d+\. Name: (.*)\nDescription: (.*)\nParameters: (.*)", re.DOTALL)
_BLOCK = re.compile(r"<(user|think|tool_call|obs|response)>(.*?)</\1>", re.DOTALL)
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_BEFORE, _AFTER = "**Available Tools**", "\n\n**"


def tools_of(instruction: str) -> list[dict[str, Any]]:
    """The numbered tools of a system message.

    Raises:
        ValueError: there are none, or one of them is broken.
    """
    _, found, rest = instruction.partition(_BEFORE)
    listed = re.split(r"\n(?=\d+\. Name: )", rest.partition(_AFTER)[0])[1:]
    if not found or not listed:
        raise ValueError(f"the instruction has no tools after {_BEFORE}")
    tools: list[dict[str, Any]] = []
    for text in listed:
        match = _TOOL.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"a tool is not Name, Description and Parameters: {text[:80]!r}")
        parameters = json.loads(match[3])
        tools.append({"name": match[1], "description": match[2], "parameters": parameters})
    return tools


def dialogue_of(asked: str) -> list[Message]:
    """The messages of a dialogue record.

    Raises:
        ValueError: there are none, or calls in it cannot be read.
    """
    said: list[Message] = []
    for tag, inside in _BLOCK.findall(asked):
        if tag == "tool_call":
            said.append(Message("assistant", "", _calls(inside)))
        elif tag != "think":
            role = {"user": "user", "obs": "tool", "response": "assistant"}[tag]
            said.append(Message(cast("Any", role), inside.strip()))
    if not said:
        raise ValueError("the input has no <user> message")
    return said


def truth_of(output: str) -> tuple[tuple[ToolCall, ...], bool]:
    """The wanted calls, and whether words are wanted.

    Raises:
        ValueError: the calls cannot be read.
    """
    said = _THOUGHT.sub("", output, count=1)
    _, found, rest = said.partition("<tool_call>")
    calls = _calls(rest.partition("</tool_call>")[0]) if found else ()
    return calls, "<response>" in said


def _calls(body: str) -> tuple[ToolCall, ...]:
    made: list[ToolCall] = []
    for line in body.strip().split("\n"):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"a call is not JSON: {line!r:.80} ({error})") from error
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ValueError(f"a call is {line!r:.80}, expected an object with name and parameters")
        if not isinstance(row.get("parameters"), dict):
            raise ValueError(f"the parameters of {row['name']} are not an object: {line!r:.80}")
        made.append(ToolCall(row["name"], row["parameters"]))
    return tuple(made)

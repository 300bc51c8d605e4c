r"""What published data sets write as text: rlla (ToolRL) and ToolACE.

Owns the reading of tools, dialogues and wanted calls. The thoughts of rlla's are placeholders and
are left out. ToolACE's names may hold blanks and dots, so a call is found by the names of the
tools. Arguments are parsed as syntax, never evaluated (`rods.infra.pycall`).

    truth_of("<think> x </think>\n<response> Which file? </response>")     # ((), True)
    called('[Get Weather(city="Oslo")]', ["Get Weather"])       # (Get Weather(city='Oslo'),)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from rods.infra.pycall import CallSyntaxError, PyCall, PyValue, parse_python_calls
from rods.types import Message, ToolCall, Value

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


# -- ToolACE -------------------------------------------------------------------------------------


def listed_tools(system: str) -> list[Any]:
    """The JSON list of tools in a system message.

    Raises:
        ValueError: there is none.
    """
    decoder = json.JSONDecoder()
    at = system.find("[{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(system, at)
        except ValueError:
            at = system.find("[{", at + 1)
            continue
        return cast("list[Any]", found)
    raise ValueError("system holds no JSON list of tools")


def called(text: str, names: Sequence[str]) -> tuple[ToolCall, ...]:
    """The calls that a whole message is; none where it is words.

    Raises:
        SyntaxError: it begins like a call of one of the tools, and cannot be read.
    """
    body = text.strip()
    if not (body.startswith("[") and body.endswith("]")):
        return ()
    longest = sorted(names, key=len, reverse=True)
    if not any(body[1:].lstrip().startswith(f"{name}(") for name in longest):
        if "(" not in body:
            return ()
        raise SyntaxError(f"calls of unknown tools: {body[:80]}")
    return tuple(_read(body[1:-1], longest))


def _read(inside: str, names: Sequence[str]) -> Iterator[ToolCall]:
    at = 0
    while at < len(inside):
        rest = inside[at:].lstrip()
        at = len(inside) - len(rest)
        name = next((n for n in names if rest.startswith(f"{n}(")), None)
        if name is None:
            raise SyntaxError(f"a call of an unknown tool: {rest[:80]}")
        end = _closing(inside, at + len(name))
        arguments = inside[at + len(name) : end]
        try:
            [call] = parse_python_calls(f"[f{arguments}]")
        except CallSyntaxError as error:
            raise SyntaxError(f"{name}{arguments[:80]}: {error}") from error
        yield ToolCall(name, _named(name, call))
        after = inside[end:].lstrip()
        if after and not after.startswith(","):
            raise SyntaxError(f"after {name}(...) stands {after[:40]!r}")
        at = len(inside) - len(after) + 1 if after else len(inside)


def _closing(text: str, start: int) -> int:
    """Just after the bracket that closes the one at `start`; brackets in texts do not count."""
    depth, quote, at = 0, "", start
    while at < len(text):
        letter = text[at]
        if quote:
            at += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if depth == 0:
                return at + 1
        at += 1
    raise SyntaxError(f"a bracket is not closed: {text[start : start + 80]}")


def _named(name: str, call: PyCall) -> dict[str, Value]:
    if call.positional:
        raise SyntaxError(f"{name}: arguments by place, whose names nobody tells")
    return {key: _plain(name, value) for key, value in call.keyword.items()}


def _plain(name: str, value: PyValue) -> Value:
    if isinstance(value, PyCall):
        raise SyntaxError(f"{name}: a call as an argument")
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(name, item) for key, item in value.items()}
    return value

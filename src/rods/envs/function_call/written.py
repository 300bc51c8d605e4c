r"""Spellings of published data sets: rlla (ToolRL), ToolACE, tables of parameters.

Owns the reading of tools, dialogues, wanted calls, and types such as `List[int]` and `str,
optional`. The thoughts of rlla's are placeholders and are left out. ToolACE's names may hold blanks
and dots, so a call is found by the names of the tools. Arguments are parsed as syntax, never
evaluated (`rods.infra.pycall`).

    truth_of("<think> x </think>\n<response> Which file? </response>")     # ((), True)
    called('[Get Weather(city="Oslo")]', ["Get Weather"])       # (Get Weather(city='Oslo'),)
    schema_of({"city": {"type": "str, optional", "default": "Oslo"}})
    # {"type": "object", "properties": {"city": {"type": "string", "default": "Oslo"}},
    #  "required": []}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rods.dialects.base import mapped
from rods.infra.pycall import CallSyntaxError, PyCall, parse_python_calls
from rods.types import Json, Message, Role, ToolCall, Value

_TOOL = re.compile(r"\d+\. Name: (.*)\nDescription: (.*)\nParameters: (.*)", re.DOTALL)
_BLOCK = re.compile(r"<(user|think|tool_call|obs|response)>(.*?)</\1>", re.DOTALL)
_ROLES: Mapping[str, Role] = {"user": "user", "obs": "tool", "response": "assistant"}
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_BEFORE, _AFTER = "**Available Tools**", "\n\n**"


def tools_of(instruction: str) -> list[dict[str, Any]]:
    """The tools of a system message; raises `ValueError` where there are none, or broken ones."""
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
    """The messages of a dialogue; raises `ValueError` where there are none, or broken calls."""
    messages: list[Message] = []
    for tag, inside in _BLOCK.findall(asked):
        if tag == "tool_call":
            messages.append(Message("assistant", "", _calls(inside)))
        elif tag != "think":
            messages.append(Message(_ROLES[tag], inside.strip()))
    if not messages:
        raise ValueError("the input has no <user> message")
    return messages


def truth_of(output: str) -> tuple[tuple[ToolCall, ...], bool]:
    """The wanted calls, and whether words are wanted; raises `ValueError` for broken calls."""
    text = _THOUGHT.sub("", output, count=1)
    _, found, rest = text.partition("<tool_call>")
    calls = _calls(rest.partition("</tool_call>")[0]) if found else ()
    return calls, "<response>" in text


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


def listed_tools(system: str) -> list[Any]:
    """The JSON list of tools in a system message; raises `ValueError` where there is none."""
    for begin in re.finditer(r"\[\{", system):
        with suppress(ValueError):
            return json.JSONDecoder().raw_decode(system, begin.start())[0]
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
        raise SyntaxError(f"{name}: the arguments are positional, so their parameters are unknown")

    def refuse(inner: PyCall) -> None:
        raise SyntaxError(f"{name}: a call as an argument")

    return {key: mapped(value, refuse) for key, value in call.keyword.items()}


_TYPES = {
    **dict.fromkeys(("str", "string", "text", "date", "datetime", "time"), "string"),
    **dict.fromkeys(("int", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "number", "double", "complex"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "object", "hashmap", "any object"), "object"),
}


def schema_of(parameters: object) -> dict[str, Json]:
    """A JSON schema of type `object`, from a schema or from a table of parameters by name.

    In a table a parameter is required that neither has a default nor is called optional.

    Raises:
        TypeError: it is neither.
    """
    if parameters is None or parameters == [] or parameters == "":
        parameters = {}
    if not isinstance(parameters, dict):
        raise TypeError(f"parameters are {parameters!r:.60}, expected an object")
    table: dict[str, Any] = parameters
    rows: dict[str, Any] = table["properties"] if _is_schema(table) else table
    if rows is table:
        required = [name for name, row in table.items() if _needed(row)]
    else:
        listed: list[Any] = table.get("required") or []
        required = [name for name in listed if isinstance(name, str)]
    return {
        "type": "object",
        "properties": {name: _property(name, row) for name, row in rows.items()},
        "required": list[Json](required),
    }


def _is_schema(table: Mapping[str, object]) -> bool:
    """True if it is a schema; a table may have a parameter that is called `properties`."""
    rows = table.get("properties")
    if not isinstance(rows, dict) or not isinstance(table.get("type", "object"), str):
        return False
    return all(isinstance(row, dict) for row in rows.values())


def _needed(row: object) -> bool:
    if not isinstance(row, dict):
        return True
    entry: dict[str, Any] = row
    if isinstance(entry.get("required"), bool):
        return entry["required"]
    optional = "optional" in str(entry.get("type", "")).lower()
    return not optional and entry.get("default") in (None, "")


def _property(name: str, row: object) -> dict[str, Json]:
    if isinstance(row, str):
        row = {"description": row}
    if not isinstance(row, dict):
        raise TypeError(f"parameter {name!r} is {row!r:.60}, expected an object")
    entry: dict[str, Json] = {**row}
    return {**entry, "type": json_type(entry.get("type"))} if "type" in entry else entry


def json_type(written: Json) -> Json:
    """The type of JSON that a written type stands for; what is unknown stays as it is."""
    if not isinstance(written, str):
        return written
    head = re.split(r"[\[,(<]", written.strip().lower(), maxsplit=1)[0].strip()
    return _TYPES.get(head, written)

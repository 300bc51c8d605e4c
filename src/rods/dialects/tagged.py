r"""The XML dialect of Qwen3-Coder, Qwen3.5 and newer Nemotron templates.

Owns reading and writing calls in which every argument stands in a tag of its own. The tags carry no
types, so the tool's schema says what a text is: parameters of type string keep their text as it
is, others are read as JSON.

    >>> Xml().write([ToolCall("ls", {"a": True})]).replace("\n", "")
    '<tool_call><function=ls><parameter=a>true</parameter></function></tool_call>'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rods.dialects.base import Parsed, PlainDialect, check_calls, require_flat
from rods.dialects.bounds import TOO_DEEP, TOO_LARGE
from rods.dialects.jsonic import CLOSE, OPEN, UNTAGGED, calls_of, read_blocks
from rods.dialects.marks import ITEM
from rods.errors import TaskError
from rods.infra.pycall import MAX_CHARACTERS, CallSyntaxError
from rods.types import ParseVerdict, ToolCall, ToolSpec, Value

_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_PARAMETER_END = re.compile(r"</parameter>\s*(?=<parameter=|</function>)")
_INNER = re.compile(r"^<(/?)parameter\b", re.MULTILINE)
_FUNCTION_END = re.compile(r"</function>\s*")
_BARE = re.compile(rf"^[ \t]*(?:{ITEM}){{0,3}}<function=", re.MULTILINE)
_TYPE_OF = {str: "string", type(None): "null"}
_CONSTANTS: Mapping[str, bool | float | None] = {
    "True": True, "False": False, "None": None, "NaN": math.nan, "Infinity": math.inf,
    "-Infinity": -math.inf,
}  # fmt: skip
"""Spellings of Python and JSON for values that JSON does not have."""


class Xml(PlainDialect):
    """`<function=...>` with `<parameter=...>` in `<tool_call>` tags; text before is allowed."""

    name = "xml"
    _described = "<tools>\nTOOLS\n</tools>"
    _remedy = (
        f"Write each call as {OPEN}\n<function=name>\n<parameter=argument>\nvalue\n</parameter>\n"
        f"</function>\n{CLOSE}"
    )

    def system_prompt(self) -> str:
        """Short instructions; the chat template shows the tools and the format."""
        return (
            "Use the functions to do what the user asks. Write each call as <function=name> with "
            f"its <parameter=argument> values within {OPEN}{CLOSE} tags; you then read the "
            "results. When the request is done, answer in words. If a function or a value is "
            "missing, call nothing and say what is missing."
        )

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        written = calls_of(read_blocks(body, _read))
        if OPEN not in body and _BARE.search(body):
            raise CallSyntaxError(UNTAGGED)
        if not written:
            return Parsed(ParseVerdict.ANSWER, answer=body)
        return check_calls([_typed(call, offered.get(call.name)) for call in written], offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One block for each call."""
        return "\n".join(_block_text(call) for call in calls)


def _read(body: str, at: int) -> tuple[list[ToolCall], int]:
    """A `Reader` of the one call of a block, whose arguments are texts without types."""
    function = _FUNCTION.match(body, at)
    if function is None:
        raise CallSyntaxError(f"after {OPEN} <function=name> is missing")
    name, texts, at = function[1].strip(), dict[str, Value](), function.end()
    while parameter := _PARAMETER.match(body, at):
        key = parameter[1].strip()
        closed = _PARAMETER_END.search(body, parameter.end(), parameter.end() + MAX_CHARACTERS)
        if closed is None:
            missing = f"{name}: </parameter> or </function> is missing after {key}"
            cut = len(body) > parameter.end() + MAX_CHARACTERS
            raise CallSyntaxError(TOO_LARGE if cut else missing)
        value = body[parameter.end() : closed.start()]
        if _unclosed(value):
            raise CallSyntaxError(f"{name}: </parameter> is missing after {key}")
        if key in texts:
            raise CallSyntaxError(f"{name}: the parameter {key} is given twice")
        texts[key], at = value.removeprefix("\n").removesuffix("\n"), closed.end()
    closed = _FUNCTION_END.match(body, at)
    if closed is None:
        raise CallSyntaxError(f"{name}: expected <parameter=...> or </function>")
    if not body.startswith(CLOSE, closed.end()):
        raise CallSyntaxError(f"{name}: after </function> {CLOSE} is missing")
    return [ToolCall(name, texts)], closed.end() + len(CLOSE)


def _unclosed(value: str) -> bool:
    """True if a parameter that begins on a line of the value is not closed in it."""
    opened = 0
    for tag in _INNER.finditer(value):
        opened += -1 if tag[1] and opened else not tag[1]
    return opened > 0


def _typed(call: ToolCall, spec: ToolSpec | None) -> ToolCall:
    """The call with its texts as values of the types that the tool's schema names."""
    types = spec.properties if spec else {}
    return ToolCall(call.name, {k: _value(str(v), types.get(k)) for k, v in call.arguments.items()})


def _value(text: str, schema: object) -> Value:
    types = _types(schema)
    if "string" in types and not ("null" in types and text in ("null", "None")):
        return text
    if text.strip() in _CONSTANTS:
        return _CONSTANTS[text.strip()]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except RecursionError as error:
        raise CallSyntaxError(TOO_DEEP) from error
    except ValueError as error:  # so many digits that Python refuses to read them
        raise CallSyntaxError("a number is too long") from error


def _types(schema: object) -> set[str]:
    """The types that a schema allows; empty: any."""
    if not isinstance(schema, dict):
        return set()
    table: dict[str, Any] = schema
    named = table.get("type") or [_TYPE_OF.get(type(v), "") for v in table.get("enum") or ()]
    parts = table.get("anyOf") or table.get("oneOf") or ()
    return ({named} if isinstance(named, str) else {*named}).union(*map(_types, parts))


def _block_text(call: ToolCall) -> str:
    require_flat(call, "xml")
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in call.arguments.items()
    }
    body = "".join(f"<parameter={k}>\n{text}\n</parameter>\n" for k, text in texts.items())
    block = f"{OPEN}\n<function={call.name}>\n{body}</function>\n{CLOSE}"
    try:
        read = _read(block, len(OPEN))
    except CallSyntaxError:
        read = None
    if read != ([ToolCall(call.name, texts)], len(block)):
        raise TaskError(f"the xml dialect cannot write {call}: a text of it holds tags.")
    return block

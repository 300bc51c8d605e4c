"""What ToolACE writes as text: its list of tools, and calls such as `[Get Weather(city="Oslo")]`.

Owns the reading of both. Names may hold blanks and dots, so a call is found by the names of the
tools. Arguments are parsed as syntax, never evaluated (`rods.infra.pycall`).

    called('[Get Weather(city="Oslo")]', ["Get Weather"])
    # (Get Weather(city='Oslo'),)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from rods.infra.pycall import CallSyntaxError, PyCall, PyValue, parse_python_calls
from rods.types import ToolCall, Value

_QUOTES = "\"'"


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
        elif letter in _QUOTES:
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

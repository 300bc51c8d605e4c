"""The JSON dialects: Hermes/Qwen tags and Llama objects.

Owns reading and writing calls as JSON objects. JSON is decoded, never searched with patterns, so a
tag inside of a string does no harm; arguments stay objects and are never dumped into strings.

    >>> Hermes().write([ToolCall("ls", {"a": True})])
    '<tool_call>\\n{"name": "ls", "arguments": {"a": true}}\\n</tool_call>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rods.dialects.base import Dialect, Parsed, check_calls, has_nested, malformed, too_long
from rods.errors import TaskError
from rods.types import ParseVerdict, ToolCall, ToolSpec

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```[a-z_]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_ABSTAIN = (
    "When the request is done, answer in words. If a function or a value is missing, call nothing "
    "and say what is missing."
)


class JsonCallError(ValueError):
    """The text is no JSON call; the message is fit to be shown to the model that wrote it."""


class Read(NamedTuple):
    """Calls that were read, and where in the text the reading ended."""

    calls: list[ToolCall]
    end: int


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json_calls(text: str, start: int, arguments_key: str) -> Read:
    """Decode one JSON object, or a list of them, that stands at `start` (white space skipped).

    Raises:
        JsonCallError: no JSON, or no object with a name and an object of arguments.
    """
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    try:
        data, end = _DECODER.raw_decode(text, begin)
    except RecursionError as error:
        raise JsonCallError("the JSON is nested too deep") from error
    except ValueError as error:
        raise JsonCallError(f"the JSON is not valid: {error}") from error
    items = cast("list[Any]", data) if isinstance(data, list) else [data]
    return Read([_call(item, arguments_key) for item in items], end)


def _call(item: Any, arguments_key: str) -> ToolCall:
    if not isinstance(item, dict):
        raise JsonCallError(f"a call must be a JSON object, got {type(item).__name__}")
    data = cast("dict[str, Any]", item)
    name, arguments = data.get("name"), data.get(arguments_key)
    if not isinstance(name, str) or not name:
        raise JsonCallError('the JSON object has no text under "name"')
    if not isinstance(arguments, dict):
        got = "nothing" if arguments_key not in data else type(arguments).__name__
        raise JsonCallError(f'{name}: expected an object under "{arguments_key}", got {got}')
    extra = sorted(data.keys() - {"name", arguments_key, "type", "id"})
    if extra:
        raise JsonCallError(f'{name}: the key "{extra[0]}" does not belong to a call')
    return ToolCall(name, cast("dict[str, Any]", arguments))


def dump_call(call: ToolCall, arguments_key: str, dialect: str) -> str:
    """One call as a JSON object on one line.

    Raises:
        TaskError: the call has a nested call or a number that JSON cannot say.
    """
    if has_nested(call):
        raise TaskError(f"the {dialect} dialect cannot write the nested call {call}.")
    try:
        return json.dumps(
            {"name": call.name, arguments_key: dict(call.arguments)},
            ensure_ascii=False,
            allow_nan=False,
        )
    except ValueError as error:
        raise TaskError(f"the {dialect} dialect cannot write {call}: {error}.") from error


def describe_json(specs: Sequence[ToolSpec]) -> str:
    """One line of JSON for each tool: name, description, parameters."""
    rows = (
        {"name": s.name, "description": s.description, "parameters": dict(s.parameters)}
        for s in specs
    )
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def unfence(text: str) -> str:
    """The inside of a code fence if the whole text is one, else the text."""
    found = _FENCE.match(text)
    return found.group(1) if found else text


class Hermes(Dialect):
    """JSON with `name` and `arguments` in `<tool_call>` tags; text before them is allowed."""

    _remedy = (
        "Write each call as <tool_call>\n"
        '{"name": "function", "arguments": {"argument": "value"}}\n</tool_call>'
    )

    def system_prompt(self) -> str:
        """Short instructions; the chat template shows the tools."""
        return (
            "Use the functions to do what the user asks. Write each call as a JSON object within "
            f"<tool_call></tool_call> tags; you then read the results. {_ABSTAIN}"
        )

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation; a leading `<think>` block is skipped, code fences tolerated."""
        if truncated:
            return too_long()
        body = _THOUGHT.sub("", text, count=1).strip()
        try:
            calls = self._blocks(body) if "tool_call>" in body else self._bare(body)
        except JsonCallError as error:
            return malformed(str(error), self._remedy)
        if calls is None:
            return Parsed(ParseVerdict.ANSWER, answer=body)
        if not calls:
            return malformed("the list of calls is empty", self._remedy)
        return check_calls(calls, offered)

    def _blocks(self, body: str) -> list[ToolCall]:
        calls: list[ToolCall] = []
        at = body.find("<tool_call>")
        if at < 0 or "</tool_call>" in body[:at]:
            raise JsonCallError("a </tool_call> tag has no <tool_call> before it")
        while at >= 0:
            at += len("<tool_call>")
            fence = re.compile(r"\s*```[a-z_]*\s*").match(body, at)
            read = read_json_calls(body, fence.end() if fence else at, "arguments")
            calls += read.calls
            close = re.compile(r"\s*```\s*</tool_call>" if fence else r"\s*</tool_call>")
            found = close.match(body, read.end)
            if not found:
                raise JsonCallError("after the JSON object </tool_call> is missing")
            following = body.find("<tool_call>", found.end())
            between = body[found.end() : following if following >= 0 else len(body)]
            if "</tool_call>" in between:
                raise JsonCallError("a </tool_call> tag has no <tool_call> before it")
            at = following
        return calls

    def _bare(self, body: str) -> list[ToolCall] | None:
        """Calls of a text that is one code fence with a call in it, else None."""
        inside = unfence(body)
        if inside is body or '"arguments"' not in inside:
            return None
        read = read_json_calls(inside, 0, "arguments")
        return read.calls if not inside[read.end :].strip() else None

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One block for each call."""
        return "\n".join(
            f"<tool_call>\n{dump_call(call, 'arguments', 'hermes')}\n</tool_call>" for call in calls
        )

    def answer(self, text: str) -> str:
        """The text itself."""
        if "tool_call>" in text:
            raise TaskError(f"an answer of the hermes dialect cannot hold its tags: {text!r}.")
        return text.strip()

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line of JSON for each tool, within `<tools>` tags."""
        return f"<tools>\n{describe_json(specs)}\n</tools>"


class Llama(Dialect):
    """JSON with `name` and `parameters` as the whole text; several are separated by `;`."""

    _tag = "<|python_tag|>"
    _remedy = (
        'Write only the call: {"name": "function", "parameters": {"argument": "value"}}; several '
        "are separated by a semicolon."
    )

    def system_prompt(self) -> str:
        """Short instructions; the chat template shows the tools."""
        return (
            "Use the functions to do what the user asks. To call, write only "
            '{"name": "function", "parameters": {"argument": "value"}}, several separated by a '
            f"semicolon; you then read the results. {_ABSTAIN}"
        )

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation; `<|python_tag|>` and code fences are tolerated."""
        if truncated:
            return too_long()
        body = text.strip()
        tagged = body.startswith(self._tag)
        inside = unfence(body.removeprefix(self._tag).removesuffix("<|eom_id|>").strip()).strip()
        if not tagged and not inside.startswith(("{", "[{")):
            return Parsed(ParseVerdict.ANSWER, answer=body)
        calls: list[ToolCall] = []
        try:
            end = 0
            while end < len(inside):
                read = read_json_calls(inside, end, "parameters")
                calls += read.calls
                end = read.end
                end += len(inside[end:]) - len(inside[end:].lstrip("; \t\r\n"))
        except JsonCallError as error:
            return malformed(str(error), self._remedy)
        if not calls:
            return malformed("there is no call after the tag", self._remedy)
        return check_calls(calls, offered)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """JSON objects separated by `; `."""
        return "; ".join(dump_call(call, "parameters", "llama") for call in calls)

    def answer(self, text: str) -> str:
        """The text itself."""
        if text.lstrip().startswith(("{", "[{", "```", self._tag)):
            raise TaskError(f"an answer of the llama dialect cannot start like a call: {text!r}.")
        return text.strip()

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line of JSON for each tool."""
        return describe_json(specs)

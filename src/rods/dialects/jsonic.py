"""The JSON dialects: Hermes/Qwen tags, Llama objects, and the base of those that reason first.

Owns reading and writing calls as JSON objects. JSON is decoded, never searched with patterns, so a
tag inside of a string does no harm; arguments stay objects and are never dumped into strings.

    >>> Hermes().write([ToolCall("ls", {"a": True})])
    '<tool_call>\\n{"name": "ls", "arguments": {"a": true}}\\n</tool_call>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from rods.dialects.base import Parsed, PlainDialect, check_calls, require_flat
from rods.dialects.bounds import TOO_DEEP, TOO_LARGE
from rods.dialects.marks import FENCE, ITEM, closes, next_tag, quoted, unfence
from rods.errors import TaskError
from rods.infra.pycall import MAX_CHARACTERS, CallSyntaxError
from rods.types import ParseVerdict, Role, ToolCall, ToolSpec

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_BLANK = re.compile(r"\s*")
_FENCE = re.compile(rf"\s*{FENCE}\s*")
_ABSTAIN = (
    "When the request is done, answer in words. If a function or a value is missing, call nothing "
    "and say what is missing."
)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json_calls(
    text: str, start: int, arguments_key: str, texts: bool = False
) -> tuple[list[ToolCall], int]:
    """Decode one JSON object, or a list of them, that stands at `start` (white space skipped).

    Returns the calls, and where the reading ended. With `texts` arguments may be a JSON text that
    holds an object, as some models write them.

    Raises:
        CallSyntaxError: no JSON, or no object with a name and an object of arguments.
    """
    data, end = _decode(text, _end(_BLANK, text, start))
    items = data if isinstance(data, list) else [data]
    return [_call(item, arguments_key, texts) for item in items], end


def _decode(text: str, start: int) -> tuple[Any, int]:
    if text[start : start + 1] not in ("{", "["):
        raise CallSyntaxError("the JSON is not valid: expected an object or a list")
    part = text[start : start + MAX_CHARACTERS]  # an error counts the lines before it
    try:
        data, end = _DECODER.raw_decode(part)
    except RecursionError as error:
        raise CallSyntaxError(TOO_DEEP) from error
    except ValueError as error:
        ended = "Unterminated" in str(error) or getattr(error, "pos", 0) > MAX_CHARACTERS - 9
        if ended and len(part) == MAX_CHARACTERS:
            raise CallSyntaxError(TOO_LARGE) from error
        raise CallSyntaxError(f"the JSON is not valid: {error}") from error
    return data, start + end


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Where a pattern that matches at a place ends; the place itself if it does not match."""
    found = pattern.match(text, start)
    return found.end() if found else start


def _call(item: object, arguments_key: str, texts: bool) -> ToolCall:
    if not isinstance(item, dict):
        raise CallSyntaxError(f"a call must be a JSON object, got {type(item).__name__}")
    data: dict[str, Any] = item
    name, arguments = data.get("name"), data.get(arguments_key)
    if not isinstance(name, str) or not name:
        raise CallSyntaxError('the JSON object has no text under "name"')
    if texts and isinstance(arguments, str):
        arguments = _text_arguments(name, arguments)
    if not isinstance(arguments, dict):
        got = "nothing" if arguments_key not in data else type(arguments).__name__
        raise CallSyntaxError(f'{name}: expected an object under "{arguments_key}", got {got}')
    extra = sorted(data.keys() - {"name", arguments_key, "type", "id"})
    if extra:
        raise CallSyntaxError(f'{name}: the key "{extra[0]}" does not belong to a call')
    return ToolCall(name, arguments)


def _text_arguments(name: str, text: str) -> Any:
    found, end = _decode(text, _end(_BLANK, text, 0))
    if text[end:].strip():
        raise CallSyntaxError(f"{name}: text follows the JSON of the arguments")
    return found


STRAY = f"a {CLOSE} tag has no {OPEN} before it"


class Block(NamedTuple):
    """One pair of tags."""

    calls: list[ToolCall]
    fault: str
    """Why the block cannot be read, or an empty text."""
    end: int
    """Where the text goes on after it."""


Reader: TypeAlias = Callable[[str, int], tuple[list[ToolCall], int]]
"""Reads the calls of a block whose opening tag ends at a place of a text, and its closing tag;
returns the calls and where the block ends, or raises `CallSyntaxError`."""


def read_blocks(body: str, read: Reader) -> Iterator[Block]:
    """The `<tool_call>` blocks of a text in order, without those that are mentioned or quoted."""
    found = next_tag(body, "tool_call")
    while found is not None:
        block = Block([], STRAY, found.end())
        if not closes(found):
            try:
                calls, end = read(body, found.end())
                block = Block(calls, "", end)
            except CallSyntaxError as error:
                block = Block([], str(error), found.end())
        if not quoted(body, found.start(), block.end):
            yield block
        found = next_tag(body, "tool_call", block.end)


def calls_of(blocks: Iterable[Block]) -> list[ToolCall] | None:
    """All calls of some blocks, None where there is no block; raises the first fault."""
    calls: list[ToolCall] | None = None
    for block in blocks:
        if block.fault:
            raise CallSyntaxError(block.fault)
        calls = calls or []
        calls += block.calls
    return calls


def read_json_block(
    body: str, start: int, arguments_key: str, texts: bool = False
) -> tuple[list[ToolCall], int]:
    """A `Reader` of JSON objects or lists of them, perhaps in a code fence."""
    at = _end(_FENCE, body, start)
    fenced = at > start
    calls: list[ToolCall] = []
    while not (close := _CLOSES[fenced].match(body, at)):
        try:
            read, at = read_json_calls(body, at, arguments_key, texts)
        except CallSyntaxError as error:
            missing = f"after the JSON {CLOSE} is missing"
            raise CallSyntaxError(missing if calls else f"within {OPEN}{CLOSE}: {error}") from error
        calls += read
    if at == start:
        raise CallSyntaxError(f"the {OPEN}{CLOSE} pair is empty")
    return calls, close.end()


_CLOSES = (re.compile(rf"\s*{CLOSE}"), re.compile(rf"\s*(?:`{{3,}}|~{{3,}})\s*{CLOSE}"))


def dump_call(call: ToolCall, arguments_key: str, dialect: str) -> str:
    """One call as a JSON object on one line.

    Raises:
        TaskError: the call has a nested call or a value that no dialect reads.
    """
    require_flat(call, dialect)
    return json.dumps({"name": call.name, arguments_key: dict(call.arguments)}, ensure_ascii=False)


_LATE = re.compile(
    rf'^[ \t]*(?:{ITEM}){{0,3}}(?:[^{{}}`"\n]*:[ \t*]*)?(?:\[[ \t]*)?'
    r'\{\s*"(?:name|type|function)"\s*:[^{}]*"(?:parameters|arguments)"\s*:',
    re.MULTILINE,
)
"""A call amid words: on lines of its own, in an item of a list or after a colon."""
_NAMED = re.compile(r'\[?\s*\{\s*"(?:type|id|name|arguments|parameters)"\s*:')
"""The beginning of a call."""
UNTAGGED = f"the tags {OPEN}{CLOSE} around the call are missing"


def require_tags(body: str) -> None:
    """Refuse a text without tags that has a call amid its words; raises `CallSyntaxError`."""
    if OPEN not in body and _LATE.search(body):
        raise CallSyntaxError(UNTAGGED)


_read_hermes = partial(read_json_block, arguments_key="arguments", texts=True)


class Hermes(PlainDialect):
    """JSON with `name` and `arguments` in `<tool_call>` tags; text before them is allowed."""

    name = "hermes"
    _described = "<tools>\nTOOLS\n</tools>"
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

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        """Code fences and arguments as JSON text are tolerated; a quoted block is not a call."""
        calls = calls_of(read_blocks(body, _read_hermes))
        if calls is None:
            calls = self._bare(body)
        if calls is None:
            return Parsed(ParseVerdict.ANSWER, answer=body)
        return check_calls(calls, offered)

    def _bare(self, body: str) -> list[ToolCall] | None:
        """The call of a text that is one code fence with a call in it; None: there is none.

        Raises:
            CallSyntaxError: it has no tags, or cannot be read.
        """
        inside = unfence(body)
        if not _NAMED.match(inside) or '"arguments"' not in inside:
            require_tags(body)
            return None
        calls, end = read_json_calls(inside, 0, "arguments", texts=True)
        if inside is body or inside[end:].strip():
            raise CallSyntaxError(UNTAGGED)
        return calls

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One block for each call."""
        return "\n".join(
            f"<tool_call>\n{dump_call(call, 'arguments', 'hermes')}\n</tool_call>" for call in calls
        )


_OBJECT = re.compile(r"(?:\[\s*)?\{")
_BETWEEN = re.compile(r"[;\s]*")


class Llama(PlainDialect):
    """JSON with `name` and `parameters` as the whole text; several are separated by `;`."""

    name = "llama"
    _tag = "|python_tag|"
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

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        """Words before `<|python_tag|>`, fences and arguments as JSON text are tolerated."""
        inside = self._inside(body)
        if inside is None:
            if _LATE.search(body):
                raise CallSyntaxError("words stand around the call")
            return Parsed(ParseVerdict.ANSWER, answer=body)
        calls: list[ToolCall] = []
        end = 0
        while end < len(inside):
            read, end = read_json_calls(inside, end, "parameters", texts=True)
            calls += read
            end = _end(_BETWEEN, inside, end)
        if not calls:
            raise CallSyntaxError("there is no call after the tag")
        return check_calls(calls, offered)

    def _inside(self, body: str) -> str | None:
        """Part of a text that should be calls; None: the text is an answer."""
        tag = None if _OBJECT.match(unfence(body)) else next_tag(body, self._tag)
        while tag and quoted(body, *tag.span()):
            tag = next_tag(body, self._tag, tag.end())
        after = body[tag.end() :] if tag else body
        inside = unfence(after.strip().removesuffix("<|eom_id|>")).strip()
        return inside if tag or _OBJECT.match(inside) else None

    def write(self, calls: Sequence[ToolCall]) -> str:
        """JSON objects separated by `; `."""
        return "; ".join(dump_call(call, "parameters", "llama") for call in calls)


class Reasoned(PlainDialect):
    """Base of dialects that write a thought, then calls as JSON in `<tool_call>`, or words in tags.

    What such a dialect reads is what a world is asked to do; the rewards of ToolRL and Tool-N1 read
    the text by themselves.
    """

    feedback_role: Role = "user"
    _tags = re.compile(r"</?(?:think|tool_call|response|user|obs)>")
    """Tags that a text cannot hold."""
    _arguments: str
    """Key of a call's arguments."""
    _answer: str
    """An answer with its thought, around `WORDS`."""

    def _blocks(self, body: str) -> Iterator[Block]:
        """The blocks of a text; a closing tag by itself counts for nothing, as in ToolRL's code."""
        read = partial(read_json_block, arguments_key=self._arguments)
        return (b for b in read_blocks(body, read) if b.fault != STRAY)

    def _thought(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the tools."""
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        return f"<think>I call {self._tags.sub('', names)}.</think>"

    def _lines(self, calls: Sequence[ToolCall]) -> list[str]:
        """Each call as JSON without "<", which stands in its texts alone; so tags stay unique."""
        lines = (dump_call(call, self._arguments, self.name) for call in calls)
        return [line.replace("<", "\\u003c") for line in lines]

    def answer(self, text: str) -> str:
        """A short thought and the words."""
        if self._tags.search(text):
            raise TaskError(f"an answer of the {self.name} dialect cannot hold its tags: {text!r}.")
        return self._answer.replace("WORDS", text.strip())

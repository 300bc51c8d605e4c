"""What calls may hold: one bound in every dialect and in the readers of calls of the rewards."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from registered import readers, registered
from rods.dialects import DIALECTS, InlineDialect, get_dialect, structured
from rods.errors import TaskError
from rods.infra.pycall import MAX_CHARACTERS, MAX_DEPTH
from rods.types import ParseVerdict, ToolCall, ToolSpec

OFFERED = {"f": ToolSpec("f", "", {"type": "object", "properties": {"x": {}, "t": {}}})}
JSON: dict[str, Callable[[str], str]] = {
    "hermes": lambda x: f'<tool_call>{{"name": "f", "arguments": {{"x": {x}}}}}</tool_call>',
    "think": lambda x: (
        f'<think>a</think><tool_call>{{"name": "f", "arguments": {{"x": {x}}}}}</tool_call>'
    ),
    "llama": lambda x: f'{{"name": "f", "parameters": {{"x": {x}}}}}',
    "toolrl": lambda x: f'<tool_call>\n{{"name": "f", "parameters": {{"x": {x}}}}}\n</tool_call>',
    "tool_n1": lambda x: f'<tool_call>[{{"name": "f", "arguments": {{"x": {x}}}}}]</tool_call>',
    "pythonic": lambda x: f"[f(x={x})]",
    "compact": lambda x: f"[f(x={x})]",
    "xml": lambda x: (
        f"<tool_call>\n<function=f>\n<parameter=x>\n{x}\n</parameter>\n</function>\n</tool_call>"
    ),
}
"""A call of `f` in each dialect, its argument as it is written there."""
NAMES = registered(sorted(JSON), DIALECTS)
BEYOND = {
    "600 lists": "[" * 600 + "1" + "]" * 600,
    "600 objects": '{"a": ' * 600 + "1" + "}" * 600,
    "one too deep": "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH,
    "lists without end": "[" * 100_000,
    "a long text": json.dumps("a" * (MAX_CHARACTERS + 1)),
    "many values": json.dumps([1] * (MAX_CHARACTERS // 2)),
    "an infinite number": "1e999",
    "minus infinity": "[-1e999]",
    "no number": "NaN",
    "a long number": "9" * 1_300,
    "a number beyond Python's": "9" * 5_000,
    "NUL": r'"a\u0000b"',
    "half a character": r'"a\ud800b"',
    "half a character in a key": r'{"\udfff": 1}',
}


def test_every_dialect_is_tried() -> None:
    assert sorted(n for n in DIALECTS if not isinstance(get_dialect(n), InlineDialect)) == NAMES


READERS = ("hermes", "pythonic", "xml")
"""Dialects with a reader of values of their own; the others use that of `hermes` or `pythonic`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [(n, k) for n in NAMES for k in BEYOND if n in READERS or k in ("one too deep", "NUL")],
)
def test_calls_beyond_the_bound_are_malformed(name: str, kind: str) -> None:
    value = BEYOND[kind]
    for one in (value, f'{{"deep": {value}}}'):
        parsed = structured(name).parse(JSON[name](one), OFFERED, truncated=False)
        assert (parsed.verdict, parsed.calls) == (ParseVerdict.MALFORMED, ()), kind
        assert "Nothing was executed" in parsed.feedback
        assert len(parsed.feedback) < 600


def test_calls_that_are_too_large_together_are_malformed() -> None:
    call = JSON["hermes"](json.dumps("a" * (MAX_CHARACTERS * 2 // 3)))
    one, two = (structured("hermes").parse(t, OFFERED, truncated=False) for t in (call, call * 2))
    assert one.verdict is ParseVerdict.CALLS
    assert (two.verdict, two.calls) == (ParseVerdict.MALFORMED, ())


@pytest.mark.parametrize("name", NAMES)
def test_feedback_names_the_bound_that_was_passed(name: str) -> None:
    dialect, much = structured(name), MAX_CHARACTERS * 2
    many = json.dumps({str(number): number for number in range(much // 10)})
    for value in (json.dumps("a" * much), json.dumps([1] * much), many):
        parsed = dialect.parse(JSON[name](value), OFFERED, truncated=False)
        assert f"more than {MAX_CHARACTERS}" in parsed.feedback, parsed.feedback
    if name not in ("pythonic", "compact", "xml"):  # a mistake at the front is named as before
        parsed = dialect.parse(JSON[name](f'{{1: "{"a" * much}"}}'), OFFERED, truncated=False)
        assert "the JSON is not valid: Expecting property name" in parsed.feedback


@pytest.mark.parametrize("name", NAMES)
def test_calls_within_the_bound_are_read(name: str) -> None:
    deep = "[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)
    for value in (deep, json.dumps("a" * (MAX_CHARACTERS - 200)), "1e300", r'"\ud83d\ude00"'):
        text = JSON[name](value if name not in ("pythonic", "compact") else repr(json.loads(value)))
        parsed = structured(name).parse(text, OFFERED, truncated=False)
        assert parsed.verdict is ParseVerdict.CALLS, parsed.feedback
        assert parsed.calls[0].arguments["x"] == json.loads(value)


@pytest.mark.parametrize("raw", ["\0", "\ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("name", NAMES)
def test_raw_characters_that_no_tool_reads_are_malformed(name: str, raw: str) -> None:
    parsed = structured(name).parse(JSON[name](f'"{raw}"'), OFFERED, truncated=False)
    assert (parsed.verdict, parsed.calls) == (ParseVerdict.MALFORMED, ())


@pytest.mark.parametrize("name", NAMES)
def test_what_no_dialect_reads_none_writes(name: str) -> None:
    deep: list[object] = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    for value in (deep, "\0", "\ud800", float("inf"), 10**1300, "a" * (MAX_CHARACTERS + 1)):
        with pytest.raises(TaskError, match="cannot write f"):
            structured(name).write([ToolCall("f", {"x": value})])  # type: ignore[dict-item]


@pytest.mark.parametrize("name", NAMES)
def test_feedback_quotes_little_of_what_was_written(name: str) -> None:
    dialect, long = structured(name), "n" * 5_000
    for call in (ToolCall(long), ToolCall("f", {long: 1})):
        parsed = dialect.parse(dialect.write([call]), OFFERED, truncated=False)
        assert parsed.verdict in (ParseVerdict.UNKNOWN_TOOL, ParseVerdict.BAD_ARGS)
        assert len(parsed.feedback) < 1_000


@pytest.mark.parametrize(
    "name", registered(["torl", "zerotir", "retool", "artist", "search_r1"], DIALECTS)
)
@pytest.mark.parametrize("odd", ["\0", "\ud800", "x = 1\n" * MAX_CHARACTERS])
def test_programs_beyond_the_bound_are_malformed(name: str, odd: str) -> None:
    written = {
        "torl": f"```python\n{odd}#\n```\n```output",
        "zerotir": f"```python\n{odd}#\n```",
        "retool": f"<code>\n{odd}#\n</code>",
        "artist": f"<python>\n{odd}#\n</python>",
        "search_r1": f"<search> {odd}# </search>",
    }
    dialect = get_dialect(name)
    assert isinstance(dialect, InlineDialect)
    parsed = dialect.read(written[name])
    assert parsed and (parsed.verdict, parsed.calls) == (ParseVerdict.MALFORMED, ())
    assert "Nothing was executed" in parsed.feedback


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 600, 100_000])
def test_rewards_read_no_deeper_than_dialects(depth: int) -> None:
    value = "[" * depth + "1" + "]" * depth
    for name, read in readers().items():
        key = {"tool_n1": "arguments", "toolrl": "parameters"}[name]
        assert read(JSON[name](value)) is None
        assert read(JSON[name]("[[1]]")) == [{"name": "f", key: {"x": [[1]]}}]

"""What models write, read back: verdicts, feedback, and writing as the inverse of reading."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.dialects import DIALECTS, InlineDialect, get_dialect, signature, structured
from rods.errors import ConfigError, TaskError
from rods.types import Message, ParseVerdict, ToolCall, ToolResult, ToolSpec

CP = ToolSpec(
    "cp",
    "Copy a file.",
    {
        "type": "object",
        "properties": {"source": {"type": "string"}, "destination": {"type": "string"}},
        "required": ["source"],
    },
)
OFFERED = {"cp": CP, "ls": ToolSpec("ls", "", {"type": "object", "properties": {}})}
STRUCTURED = sorted(n for n in DIALECTS if not isinstance(get_dialect(n), InlineDialect))
PYTHONIC, HERMES = get_dialect("pythonic"), get_dialect("hermes")
THINK, LLAMA = get_dialect("think"), get_dialect("llama")
NAMES = st.from_regex(r"[a-z]_[a-z0-9_]{0,6}", fullmatch=True)
READABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(READABLE, max_size=20)
    | st.sampled_from(
        [
            "\n",
            "a\n</parameter>\nb",
            "</tool_call>",
            "<tool_call>{",
            "[x(a=1)]",
            "'\"\\n",
            "```",
            "; {",
            "<think>",
        ]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(READABLE, max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
CALLS = st.lists(
    st.builds(ToolCall, NAMES, st.dictionaries(NAMES, VALUES, max_size=3)),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call.name,
)


def offer(calls: list[ToolCall]) -> dict[str, ToolSpec]:
    names: dict[str, dict[str, object]] = {}
    for call in calls:
        types = {k: "string" if isinstance(v, str) else "any" for k, v in call.arguments.items()}
        names.setdefault(call.name, {}).update({key: {"type": types[key]} for key in types})
    return {n: ToolSpec(n, "", {"type": "object", "properties": p}) for n, p in names.items()}  # type: ignore[dict-item]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(calls=CALLS)
def test_parse_is_the_inverse_of_write(calls: list[ToolCall]) -> None:
    offered = offer(calls)
    for name in STRUCTURED:
        dialect = get_dialect(name)
        parsed = dialect.parse(dialect.write(calls), offered, truncated=False)
        assert parsed.verdict is ParseVerdict.CALLS, (name, parsed.feedback)
        assert list(parsed.calls) == calls, name
        for read, meant in zip(parsed.calls, calls, strict=True):
            assert repr(read) == repr(meant), name  # also tells 1, 1.0 and True apart


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("text", ["Two files.", "It is 3 > 2 { maybe }.", "I need a name."])
def test_an_answer_is_read_back(name: str, text: str) -> None:
    dialect = get_dialect(name)
    parsed = dialect.parse(dialect.answer(text), OFFERED, truncated=False)
    assert (parsed.verdict, parsed.answer, parsed.feedback) == (ParseVerdict.ANSWER, text, "")


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_truncated_generation_is_never_calls(name: str) -> None:
    dialect = get_dialect(name)
    parsed = dialect.parse(dialect.write([ToolCall("ls")]), OFFERED, truncated=True)
    assert parsed.verdict is ParseVerdict.TRUNCATED
    assert not parsed.calls and "nothing was executed" in parsed.feedback


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize(
    ("call", "verdict", "words"),
    [
        (ToolCall("lss"), ParseVerdict.UNKNOWN_TOOL, ["no function lss", "nearest are: ls"]),
        (ToolCall("cp"), ParseVerdict.BAD_ARGS, ["source is missing", "destination: string?"]),
        (ToolCall("ls", {"a": 1}), ParseVerdict.BAD_ARGS, ["no argument a", "ls()"]),
        (ToolCall("cp", {"source": 5}), ParseVerdict.CALLS, []),
    ],
)
def test_names_are_checked_and_types_are_not(
    name: str, call: ToolCall, verdict: ParseVerdict, words: list[str]
) -> None:
    dialect = get_dialect(name)
    parsed = dialect.parse(dialect.write([ToolCall("ls"), call]), OFFERED, truncated=False)
    assert parsed.verdict is verdict
    told = (
        ToolCall("cp", {"source": "5"})
        if (name, call.arguments) == ("xml", {"source": 5})
        else call
    )
    assert parsed.calls[1] == told, "only XML has no types of its own"
    assert all(word in parsed.feedback for word in words)


@pytest.mark.parametrize(
    ("text", "verdict", "calls"),
    [
        ("[cp('a', 'b')]", "calls", "[cp(source='a', destination='b')]"),
        ("[cp('a', destination='b')]", "calls", "[cp(source='a', destination='b')]"),
        ("```python\n[ls()]\n```", "calls", "[ls()]"),
        ("<think>[no]</think>\n[ls()]", "calls", "[ls()]"),
        ("[cp(source=ls())]", "calls", "[cp(source=ls())]"),
        ("[cp('a', 'b', 'c')]", "bad_args", None),
        ("[cp('a', source='b')]", "bad_args", None),
        ("[cp(source=rm(x=1))]", "unknown_tool", None),
        ("[os.system('id')]", "unknown_tool", None),
        ("[cp(source=__import__('os').getpid())]", "malformed", None),
        ("[cp(source=1 + 1)]", "malformed", None),
        ("[cp(**{'source': 'a'})]", "malformed", None),
        ("[ls() for _ in [1]]", "malformed", None),
        ("[ls()] and then", "malformed", None),
        ("[ls(", "malformed", None),
        ("[]", "malformed", None),
        ("[1, 2]", "malformed", None),
        ("[" * 5000, "malformed", None),
        ("ls()", "answer", None),
        ("", "answer", None),
    ],
)
def test_pythonic(text: str, verdict: str, calls: str | None) -> None:
    parsed = PYTHONIC.parse(text, OFFERED, truncated=False)
    assert parsed.verdict == verdict
    assert parsed.verdict.is_error == bool(parsed.feedback)
    if calls:
        assert PYTHONIC.write(parsed.calls) == calls


LS = '{"name": "ls", "arguments": {}}'


@pytest.mark.parametrize(
    ("text", "verdict", "count"),
    [
        (f"Let me look.\n<tool_call>\n{LS}\n</tool_call>", "calls", 1),
        (f"<tool_call>{LS}</tool_call> <tool_call>{LS}</tool_call>", "calls", 2),
        (f"<tool_call>[{LS}, {LS}]</tool_call>", "calls", 2),
        (f"<tool_call>\n```json\n{LS}\n```\n</tool_call>", "calls", 1),
        (f"```json\n{LS}\n```", "calls", 1),
        (f"<think>\n<tool_call>\n</think>\n<tool_call>{LS}</tool_call>", "calls", 1),
        (f"<tool_call>{LS}", "malformed", 0),
        (f"{LS}</tool_call>", "malformed", 0),
        (f"<tool_call>{LS}</tool_call></tool_call>", "malformed", 0),
        ("<tool_call></tool_call>", "malformed", 0),
        ("<tool_call>[]</tool_call>", "malformed", 0),
        ('<tool_call>{"name": "ls"}</tool_call>', "malformed", 0),
        ('<tool_call>{"name": "ls", "arguments": "{}"}</tool_call>', "calls", 1),
        ('<tool_call>{"name": "cp", "arguments": {"source": NaN}}</tool_call>', "malformed", 0),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "malformed", 0),
        ("I would call ls.", "answer", 0),
    ],
)
def test_hermes(text: str, verdict: str, count: int) -> None:
    parsed = HERMES.parse(text, OFFERED, truncated=False)
    assert (parsed.verdict, len(parsed.calls)) == (verdict, count)
    assert parsed.verdict.is_error == bool(parsed.feedback)


LP = '{"name": "ls", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "verdict", "count"),
    [
        (LP, "calls", 1),
        (f"<|python_tag|>{LP}", "calls", 1),
        (f"{LP}; {LP}", "calls", 2),
        (f"{LP}\n{LP};", "calls", 2),
        (f"[{LP}, {LP}]", "calls", 2),
        (f"```\n{LP}\n```", "calls", 1),
        ('{"type": "function", "name": "ls", "parameters": {}}', "calls", 1),
        (f"{LP} done", "malformed", 0),
        ('{"answer": 3}', "malformed", 0),
        ("<|python_tag|>ls.call()", "malformed", 0),
        ("<|python_tag|>", "malformed", 0),
        ("Nothing to do.", "answer", 0),
    ],
)
def test_llama(text: str, verdict: str, count: int) -> None:
    parsed = LLAMA.parse(text, OFFERED, truncated=False)
    assert (parsed.verdict, len(parsed.calls)) == (verdict, count)
    assert parsed.verdict.is_error == bool(parsed.feedback)


XML = get_dialect("xml")
PARAMETER = "<parameter={}>\n{}\n</parameter>\n"


def xml(name: str, *texts: tuple[str, str]) -> str:
    body = "".join(PARAMETER.format(key, text) for key, text in texts)
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


CP_XML = xml("cp", ("source", "a"))
UNCLOSED = xml("cp", ("source", "a"), ("destination", "b")).replace("</parameter>\n", "", 1)
PRINTS = "pattern = '<parameter=x>\\n</parameter>'\nprint(pattern)"
NESTED = "a\n<parameter=x>\n1\n</parameter>\nb"


@pytest.mark.parametrize(
    ("text", "verdict", "count"),
    [
        (CP_XML, "calls", 1),
        (f"<think>\nI copy.\n</think>\n\nNow:\n{CP_XML}", "calls", 1),
        (f"{CP_XML}\n{xml('ls')}", "calls", 2),
        (CP_XML.replace("\n", ""), "calls", 1),
        ("<tool_call><function=ls></function></tool_call>", "calls", 1),
        (xml("cp", ("source", "a"), ("source", "b")), "malformed", 0),
        (CP_XML.replace("</parameter>\n", ""), "malformed", 0),
        (UNCLOSED, "malformed", 0),
        (CP_XML.replace("</function>\n", ""), "malformed", 0),
        (CP_XML.replace("</tool_call>", ""), "malformed", 0),
        (CP_XML.replace("<tool_call>", ""), "malformed", 0),
        (CP_XML.replace("<tool_call>", "").replace("</tool_call>", ""), "malformed", 0),
        (CP_XML.replace("</function>\n", "") + xml("ls"), "malformed", 0),
        (CP_XML.replace("<function=cp>", ""), "malformed", 0),
        (f"<tool_call>{LS}</tool_call>", "malformed", 0),
        (xml("rm"), "unknown_tool", 1),
        (xml("cp", ("source", "a"), ("to", "b")), "bad_args", 1),
        (f"You could write `{CP_XML}` there.", "answer", 0),
        ("Done. I used <function=cp> twice.", "answer", 0),
    ],
)
def test_xml(text: str, verdict: str, count: int) -> None:
    parsed = XML.parse(text, OFFERED, truncated=False)
    assert (parsed.verdict, len(parsed.calls)) == (verdict, count), parsed.feedback
    assert parsed.verdict.is_error == bool(parsed.feedback)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, "null", "null"),
        ({"type": "string"}, "a\n  <b>\n\nc", "a\n  <b>\n\nc"),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, PRINTS, PRINTS),
        ({"type": "string"}, NESTED, NESTED),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "None", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "5", "5"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"type": "integer"}, " 5 ", 5),
        ({"type": "integer"}, "five", "five"),
        ({"type": "number"}, "0.5", 0.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array"}, '["a",\n 1]', ["a", 1]),
        ({"type": "object"}, '{"a": {"b": null}}', {"a": {"b": None}}),
        ({"type": "object"}, "{'a': 1}", "{'a': 1}"),
        ({}, "5", 5),
        ({}, '"5"', "5"),
        ({}, "five", "five"),
        (True, "5", 5),
    ],
)
def test_xml_values_have_the_types_of_the_schema(schema: object, text: str, value: object) -> None:
    tool = ToolSpec("f", "", {"type": "object", "properties": {"x": schema}})  # type: ignore[dict-item]
    parsed = XML.parse(xml("f", ("x", text)), {"f": tool}, truncated=False)
    assert repr(parsed.calls) == repr((ToolCall("f", {"x": value}),))  # type: ignore[dict-item]


T = "<think>x</think>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<answer>a</answer>", "<think></think> pair is missing"),
        (f"{T}{T}<answer>a</answer>", "more than one <think>"),
        (f"{T}<tool_call>{LS}</tool_call><tool_call>{LS}</tool_call>", "more than one <tool_call>"),
        (f"{T}<answer>a</answer><answer>b</answer>", "more than one <answer>"),
        (f"{T}<answer>a</answer><tool_call>{LS}</tool_call>", "both <tool_call> and <answer>"),
        (f"{T}and so", "neither <tool_call> nor <answer>"),
        (f"{T} hm <answer>a</answer>", "outside of the tags"),
        (f"<answer>a</answer>{T}", "outside of the tags"),
        (f"{T}<answer>a", "</answer> is missing"),
        (f"{T}<tool_call>{{</tool_call>", "Expecting property name"),
        (f"{T}<tool_call>{LS}{LS}</tool_call>", "several calls into one list"),
        (f"{T}<tool_call></tool_call>", "pair is empty"),
        (f"{T}<tool_call>[]</tool_call>", "list of calls is empty"),
        (f'{T}<tool_call>{{"name": "ls"}}</tool_call>', 'object under "arguments", got nothing'),
    ],
)
def test_think_says_what_broke_its_grammar(text: str, words: str) -> None:
    parsed = THINK.parse(text, OFFERED, truncated=False)
    assert parsed.verdict is ParseVerdict.MALFORMED
    assert words in parsed.feedback


def test_think_accepts_an_object_and_a_list() -> None:
    for body, count in ((LS, 1), (f"[{LS}, {LS}]", 2), (f"```json\n{LS}\n```", 1)):
        parsed = THINK.parse(f"{T}\n<tool_call>\n{body}\n</tool_call>", OFFERED, truncated=False)
        assert (parsed.verdict, len(parsed.calls)) == (ParseVerdict.CALLS, count)


def test_what_a_dialect_cannot_say_is_refused() -> None:
    inner = ToolCall("cp", {"source": ToolCall("ls")})
    odd = "a\n</parameter>\n<parameter=b>\nc"
    for call in (ToolCall("f", {"x": odd}), ToolCall("f", {"x>": 1}), ToolCall("f\n")):
        with pytest.raises(TaskError, match="holds tags"):
            XML.write([call])
    for dialect in (HERMES, THINK, LLAMA, XML):
        with pytest.raises(TaskError, match="nested"):
            dialect.write([inner])
        with pytest.raises(TaskError, match="cannot write"):
            dialect.write([ToolCall("f", {"x": float("inf")})])
    for call in (ToolCall("f", {"from": 1}), ToolCall("f", {"x": float("nan")})):
        with pytest.raises(TaskError, match="cannot write"):
            PYTHONIC.write([call])
    answers = {PYTHONIC: "[a]", HERMES: "<tool_call>", THINK: "</answer>", LLAMA: "{}"}
    answers[XML] = "<tool_call>"
    for dialect, text in answers.items():
        with pytest.raises(TaskError, match="answer"):
            dialect.answer(text)


@pytest.mark.parametrize("name", STRUCTURED)
def test_tools_and_results_are_shown(name: str) -> None:
    dialect = get_dialect(name)
    text = dialect.describe([CP])
    words = ["cp", "source", "destination"] + ["Copy a file."] * (name != "compact")
    assert all(word in text for word in words)
    shown = dialect.results([ToolCall("ls")] * 2, [ToolResult("a"), ToolResult("b", failed=True)])
    if name == "think":  # as its system does: all of them in the next user message
        assert [m.role for m in shown] == ["user"] and '["a", "b"]' in shown[0].content
    else:
        assert [(m.role, m.content) for m in shown] == [("tool", "a"), ("tool", "b")]
    assert 20 < len(dialect.system_prompt()) < 700  # short, never empty


def test_signature_marks_optional_arguments() -> None:
    assert signature(CP) == "cp(source: string, destination: string?)"


def test_an_unknown_dialect_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'hermes'"):
        get_dialect("hermis")


@pytest.mark.parametrize("name", ["pythonic", "compact"])
@pytest.mark.parametrize(
    "call", [ToolCall("get-weather"), ToolCall("class"), ToolCall("get", {"city-name": "Oslo"})]
)
def test_names_that_are_no_identifiers_are_not_written_as_python(name: str, call: ToolCall) -> None:
    with pytest.raises(
        TaskError, match=r"cannot write a function or argument called '.*'; use the"
    ):
        structured(name).write([call])
    hermes = structured("hermes")
    offered = {
        call.name: ToolSpec(call.name, "", {"type": "object", "properties": {"city-name": {}}})
    }
    assert hermes.parse(hermes.write([call]), offered, truncated=False).calls == (call,)


@pytest.mark.parametrize("name", ["pythonic", "compact"])
def test_dotted_names_are_written_and_read(name: str) -> None:
    dialect, call = structured(name), ToolCall("math.sum", {"a": 1})
    offered = {call.name: ToolSpec(call.name, "", {"type": "object", "properties": {"a": {}}})}
    assert dialect.parse(dialect.write([call]), offered, truncated=False).calls == (call,)


# -- what was said before -------------------------------------------------------------------------

SAID = (
    Message("user", "List it."),
    Message("assistant", "", (ToolCall("ls"),)),
    Message("tool", "a.txt"),
    Message("assistant", "One file."),
)


def test_what_was_said_is_told_as_the_dialect_would_have_said_it() -> None:
    said = PYTHONIC.opening(SAID, "Copy it.")
    assert [(m.role, m.content) for m in said] == [
        ("user", "List it."),
        ("assistant", "[ls()]"),
        ("tool", "a.txt"),
        ("assistant", "One file."),
        ("user", "Copy it."),
    ]
    assert not any(m.calls for m in said), "the text is all: a template would write calls twice"
    assert [m.content for m in PYTHONIC.opening(SAID[:3], "")][-1] == "a.txt"
    assert PYTHONIC.opening((), "") == (Message("user", ""),)
    assert PYTHONIC.opening((Message("assistant", "[sic]"),), "")[0].content == "[sic]"

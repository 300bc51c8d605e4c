"""Tags that are mentioned, quoted or written a little otherwise: in every dialect and reader."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registered import readers, registered
from rods.dialects import DIALECTS, InlineDialect, get_dialect, structured
from rods.dialects.programs import last_block, unwrapped
from rods.rewards.answers import last_boxed
from rods.rewards.reading import call_offset, without_calls
from rods.types import ParseVerdict, ToolCall, ToolSpec

STRUCTURED = sorted(n for n in DIALECTS if not isinstance(get_dialect(n), InlineDialect))
INLINE = sorted(set(DIALECTS) - set(STRUCTURED))
TAGGED = registered(["hermes", "tool_n1", "toolrl", "xml"], DIALECTS)
OFFERED = {
    "ls": ToolSpec("ls", "", {"type": "object", "properties": {"a": {"type": "string"}}}),
    "rm": ToolSpec("rm", "", {"type": "object", "properties": {}}),
}
LS, RM = ToolCall("ls", {"a": "x"}), ToolCall("rm")


def parse(name: str, text: str) -> tuple[ParseVerdict, tuple[ToolCall, ...]]:
    parsed = structured(name).parse(text, OFFERED, truncated=False)
    assert parsed.verdict.is_error == bool(parsed.feedback)
    return parsed.verdict, parsed.calls


def written(name: str, *calls: ToolCall) -> str:
    text = structured(name).write(calls)
    return text.partition("</think>")[2].lstrip() if "</think>" in text else text


MARKS = ["**.**", "*.*", "__.__", "_._", "~~.~~", "«.»", "‘.’", "„.“", "”.”", "「.」", "[.]", "{.}"]  # noqa: RUF001
"""What stands around a tag that is named."""
MENTIONS = [
    "I use the <tool_call> tag.",
    "Calls go between <tool_call> and </tool_call> tags.",
    "Calls go into <tool_call></tool_call>, I think.",
    "Each `<tool_call>` needs its `</tool_call>`.",
    'The tags are "<tool_call>" and "</tool_call>".',
    "The tag '<tool_call>' comes first.",
    "The tag “<tool_call>” comes first.",
    "Write `<tool_call>{...}</tool_call>` to call.",
    "After the </tool_call> tag I wait.",
    "Between <tool_call>/</tool_call> I write it.",
    "A <tool_call>-tag opens it.",
    *(f"The {pair.replace('.', '<tool_call>')} opens it." for pair in MARKS),
    *(f"{pair.replace('.', '</tool_call>')} closes it." for pair in MARKS),
    "**<tool_call>** and **</tool_call>**",
    "| <tool_call> | opens it |",
    "<tool_call> opens a call, </tool_call> closes it.",
    "<tool_call> is the tag; I will not call.",
    "- <tool_call>: opens it\n- </tool_call>: closes it",
    "1. <tool_call>\n2. </tool_call>",
    "tags: <tool_call>/</tool_call>",
    "The opening tag: <tool_call>",
    "No <tool_call>s are needed.",
    "It is closed with </tool_call>",
    "*<tool_call>* and </tool_call>",
    "A call looks like <tool_call>{...}</tool_call>.",
]


@pytest.mark.parametrize("mention", MENTIONS)
@pytest.mark.parametrize("name", TAGGED)
def test_a_mentioned_tag_swallows_no_call(name: str, mention: str) -> None:
    call = written(name, LS)
    for text in (f"{mention}\n{call}", f"<think>{mention}</think>\n{mention}\n\n{call}"):
        assert parse(name, text) == (ParseVerdict.CALLS, (LS,)), text
    assert parse(name, mention) == (ParseVerdict.ANSWER, ())


@pytest.mark.parametrize(
    "mention",
    ["I use <tool_call>", "<tool_call> opens a call.", "1. <tool_call>", "```\n<tool_call>\n```"],
)
@pytest.mark.parametrize("name", TAGGED)
def test_a_tag_without_an_end_before_the_call_is_a_mention(name: str, mention: str) -> None:
    assert parse(name, f"{mention}\n{written(name, LS)}") == (ParseVerdict.CALLS, (LS,))
    assert parse(name, mention) in ((ParseVerdict.MALFORMED, ()), (ParseVerdict.ANSWER, ()))


@pytest.mark.parametrize("name", TAGGED)
def test_a_tag_in_an_argument_swallows_no_call(name: str) -> None:
    dialect = structured(name)
    odd = ToolCall("ls", {"a": "a </tool_call> and <tool_call> in words"})
    text = dialect.write([odd, RM])
    text = text.replace("\\u003c", "<")  # as models write it
    assert parse(name, text) == (ParseVerdict.CALLS, (odd, RM))


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize(
    "attempt",
    [
        *("<tool_call>\nls()\n</tool_call>", "So: <tool_call> ls() </tool_call>", "<tool_call>"),
        *(
            "With the <tool_call>\nls()\n</tool_call>",
            "<tool_call>...</tool_call>",
            "I <tool_call>",
        ),
        *("By <tool_call> list it </tool_call>", "1. <tool_call>\nls()\n2. </tool_call>"),
    ],
)
def test_an_attempt_is_no_mention(name: str, attempt: str) -> None:
    assert parse(name, attempt) == (ParseVerdict.MALFORMED, ())


QUOTES = ["`{}`", '"{}"', "'{}'", "“{}”"]


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize("name", STRUCTURED)
def test_a_quoted_call_is_never_executed(name: str, quote: str) -> None:
    call = written(name, RM)
    for text in (f"You would write {quote.format(call)} for that.", quote.format(call)):
        verdict, _ = parse(name, text)
        assert verdict in (ParseVerdict.ANSWER, ParseVerdict.MALFORMED), text
        if name != "think":  # strict: what has no tags of its own is malformed
            assert verdict is ParseVerdict.ANSWER, text
    if name in TAGGED:
        both = f"Not {quote.format(call)} but\n{written(name, LS)}"
        assert parse(name, both) == (ParseVerdict.CALLS, (LS,))


# -- llama ---------------------------------------------------------------------------------------

CALL = '{"name": "ls", "parameters": {"a": "x"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"<think>I look.</think>\n{CALL}",
        f"<think>I look.</think>\n<|python_tag|>{CALL}<|eom_id|>",
        f"[ {CALL}]",
        f"[\n  {CALL}\n]",
        f"```json\n[{CALL}]\n```",
        f"```\n[\n{CALL}\n]\n```",
        f"```json [{CALL}]```",
        f"```json\r\n{CALL}\r\n```",
        f"I look.\n<|python_tag|>{CALL}",
        f"I use `<|python_tag|>` now: <|python_tag|>{CALL}",
        f"The <|python_tag|> tag begins a call.\n<|python_tag|>{CALL}",
        f"**<|python_tag|>** opens it. <|python_tag|>[ {CALL} ]",
        '{"name": "ls", "parameters": "{\\"a\\": \\"x\\"}"}',
    ],
)
def test_llama_reads_calls_in_these_forms(text: str) -> None:
    assert parse("llama", text) == (ParseVerdict.CALLS, (LS,))


@pytest.mark.parametrize(
    "text", [f"I look:\n{CALL}", f"Here:\n```json\n{CALL}\n```", f"So\n[{CALL}]\nand wait."]
)
def test_llama_gives_feedback_on_a_call_amid_words(text: str) -> None:
    assert parse("llama", text) == (ParseVerdict.MALFORMED, ())


@pytest.mark.parametrize("fill", ["", "word " * 60, 'say "hi" '])
def test_llama_reads_no_tag_within_an_argument(fill: str) -> None:
    call = ToolCall("ls", {"a": f"{fill}<|python_tag|> and <|python_tag|>[] {fill}"})
    for text in (structured("llama").write([call, RM]), f"[{structured('llama').write([call])}]"):
        calls = (call, RM) if "rm" in text else (call,)
        assert parse("llama", text) == (ParseVerdict.CALLS, calls)
        assert parse("llama", f"<|python_tag|>{text}") == (ParseVerdict.CALLS, calls)


@pytest.mark.parametrize("mention", [m for m in MENTIONS if "</" not in m])
def test_llama_reads_words_about_its_tag_as_an_answer(mention: str) -> None:
    words = mention.replace("tool_call", "|python_tag|")
    for text in (words, f"{words} Write `<|python_tag|>{CALL}` to list."):
        assert parse("llama", text) == (ParseVerdict.ANSWER, ())


@pytest.mark.parametrize("end", ["", " ", "\n\n"])
@pytest.mark.parametrize(
    "thought",
    ["The </think> tag ends it.", "It ends with `</think>`, then I call.", "I look at it"],
)
@pytest.mark.parametrize("name", sorted({*STRUCTURED} - {"think"}))
def test_a_closing_tag_that_a_thought_mentions_does_not_end_it(
    name: str, thought: str, end: str
) -> None:
    call = written(name, LS)
    text = f"<think>{thought}</think>{end}"
    assert parse(name, text + call) == (ParseVerdict.CALLS, (LS,))
    assert structured(name).parse(f"{text}Done.", OFFERED, truncated=False).answer == "Done."


def test_hermes_gives_feedback_on_a_call_without_tags() -> None:
    bare = '{"name": "ls", "arguments": {"a": "x"}}'
    assert parse("hermes", bare) == (ParseVerdict.MALFORMED, ())
    assert parse("hermes", f"[{bare}]") == (ParseVerdict.MALFORMED, ())
    assert parse("hermes", f"I look:\n{bare}") == (ParseVerdict.MALFORMED, ())
    assert parse("hermes", f"It is `{bare}` for that.") == (ParseVerdict.ANSWER, ())
    assert parse("hermes", '{"total": 3}') == (ParseVerdict.ANSWER, ())


JSON = registered(["hermes", "llama", "think", "tool_n1", "toolrl"], DIALECTS)


@pytest.mark.parametrize("name", JSON)
def test_arguments_as_json_text_are_read_where_the_family_writes_them(name: str) -> None:
    text = structured(name).write([LS]).replace('{"a": "x"}', '"{\\"a\\": \\"x\\"}"')
    read = (ParseVerdict.CALLS, (LS,)) if name in ("hermes", "llama") else None
    assert parse(name, text) == (read or (ParseVerdict.MALFORMED, ()))
    for broken in ('"{"', '"[1]"', '"{} x"', '""'):
        text = structured(name).write([LS]).replace('{"a": "x"}', broken)
        assert parse(name, text) == (ParseVerdict.MALFORMED, ()), broken


MARKERS = ["- ", "1. ", "* ", "2) ", "(1) ", "a) ", "> ", "• ", "1. - "]
"""What stands before an item of a list."""
BARE = {
    "llama": '{"name": "ls", "parameters": {"a": "x"}}',
    "hermes": '{"name": "ls", "arguments": {"a": "x"}}',
    "tool_n1": '{"name": "ls", "arguments": {"a": "x"}}',
    "toolrl": '{"name": "ls", "parameters": {"a": "x"}}',
    "xml": "<function=ls>\n<parameter=a>\nx\n</parameter>\n</function>",
    "pythonic": "[ls(a='x')]",
    "compact": "[ls(a='x')]",
    "think": '{"name": "ls", "arguments": {"a": "x"}}',
    "artist": "",
}
"""A call as the dialect has it, without its tags."""


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("name", STRUCTURED)
def test_a_call_in_an_item_of_a_list_is_no_answer(name: str, marker: str) -> None:
    for before in ("", "<think>I look.</think>\n"):
        for call in (written(name, LS), BARE[name]):
            verdict, calls = parse(name, f"{before}{marker}{call}\n{marker}{call}")
            assert verdict is ParseVerdict.MALFORMED or set(map(str, calls)) == {str(LS)}, call
    listed = f"{marker}the file\n{marker}[x] done, {{x}}"
    if name != "think":
        assert parse(name, listed) == (ParseVerdict.ANSWER, ())


@pytest.mark.parametrize("label", ["Call: ", "- Call 1: ", "**Call:** "])
@pytest.mark.parametrize("name", [name for name in JSON if name != "think"])
def test_a_call_after_a_colon_is_no_answer(name: str, label: str) -> None:
    assert parse(name, label + BARE[name]) == (ParseVerdict.MALFORMED, ())
    assert parse(name, f"{label}`{BARE[name]}`") == (ParseVerdict.ANSWER, ())


OPENED = [
    "<think>I look.\n", "<response>Hm.\n", "<answer>Hm.\n", "<code>\nx = 1\n", "<python>\n",
    "<search> who\n", "<|python_tag|>\n", "<tool_call>\n", "<tool_call>\nls(\n", "<obs>\n",
    '<tool_call>\n{"name": "ls", \n', "<tool_call>\n<function=ls>\n", "<interpreter>\n",
    "<tool_call>\n<function=ls>\n<parameter=a>\nx\n",
]  # fmt: skip
"""What opens something in one of the dialects, and does not close it."""


@pytest.mark.parametrize("before", OPENED)
@pytest.mark.parametrize("name", STRUCTURED)
def test_an_unclosed_tag_swallows_no_call(name: str, before: str) -> None:
    verdict, calls = parse(name, before + written(name, LS))
    assert verdict is ParseVerdict.MALFORMED or calls == (LS,)


# -- readers of the rewards ------------------------------------------------------------------------

BOX = r"The answer is \boxed{5}."


@pytest.mark.parametrize("tag", ["code", "tool_call", "python", "search"])
def test_a_mentioned_tag_hides_no_answer(tag: str) -> None:
    mentions = [f"I used the <{tag}> tag.", f"`<{tag}>` is a tag,", f"<{tag}> and </{tag}>:"]
    mentions += [f"{pair.replace('.', f'<{tag}>')} is a tag." for pair in MARKS]
    for mention in mentions:
        words = f"First {mention} {BOX}"
        assert last_boxed(without_calls(words)) == "5", words
        assert call_offset(words) == 0
    program = f"So\n<{tag}>\nprint('\\boxed{{7}}')\n</{tag}>\n"
    assert last_boxed(without_calls(f"{program}{BOX}")) == "5"
    assert last_boxed(without_calls(program)) is None
    assert call_offset(f"the <{tag}> tag.\n{program}") == len(f"the <{tag}> tag.\nSo\n")


@pytest.mark.parametrize("fence", ["```python", "```py", "```python3", "```Python", "```json"])
def test_a_mentioned_fence_hides_no_answer(fence: str) -> None:
    assert last_boxed(without_calls(f"I wrote a {fence} block. {BOX}")) == "5"
    inside = "print('\\boxed{7}', '```', '\\boxed{8}')"
    for block in (
        f"{fence}\n{inside}\n```",
        f"1. So\n   {fence}\n   {inside}\n   ```",
        f"- {fence}\n  {inside}\n  ```",
        f"Then {fence}\n{inside}\n```",
    ):
        assert last_boxed(without_calls(block)) is None, block
        assert last_boxed(without_calls(f"{block}\n{BOX}")) == "5", block
    assert last_boxed(without_calls(f"Then {fence} \\boxed{{7}} ``` and {BOX}")) == "5"


@pytest.mark.parametrize("form", ["code", "python", "tool_call", "search", "```python", "~~~py"])
def test_what_is_not_closed_hides_no_answer(form: str) -> None:
    tag = form if form[0] in "`~" else f"<{form}>"
    program = "x = '\\boxed{7}'\nprint(x)"
    indented = program.replace("x =", "    x =").replace("print", "    print")
    for words in (
        f"{tag}\n{program}\nSo {BOX}",
        f"{tag}\n\n{indented}\n\nSo {BOX}",
        f"So\n{tag}\n{program}\n<answer>{BOX}</answer>",
        f"{tag}\n{program}\n{BOX}\n{tag}\n{program}",
    ):
        assert last_boxed(without_calls(words)) == "5", words
    assert last_boxed(without_calls(f"{tag}\n{program}")) is None
    if form[0] not in "`~":
        closed = f"<{form}>\n{program}\n</{form}>"
        assert last_boxed(without_calls(f"{tag}\n{program}\n{BOX}\n{closed}")) == "5"
        assert last_boxed(without_calls(f"{tag}\n```python\n{program}\n```\n{BOX}")) == "5"


PROGRAM_FENCES = [
    "```python3.11", "```Python3", "~~~python", "``` python", "```{python}", "```{.python}",
    "```{python, echo=FALSE}", "```python title=x", '```python title="a b.py"', "```py3",
    "```python {cmd=true}", "````python", "```ipython3", "~~~~ py", "```python\r", "~~~", "```",
]  # fmt: skip


@pytest.mark.parametrize("opened", PROGRAM_FENCES)
def test_a_program_in_any_fence_is_run_and_hides_its_text(opened: str) -> None:
    closed = opened[0] * (len(opened) - len(opened.lstrip(opened[0])))
    program = "text = '\\boxed{7}'\nprint(text)"
    block = f"{opened}\n{program}\n{closed}"
    for text, name in (
        (f"{block}\n```output", "torl"),
        (block, "zerotir"),
        (f"<code>\n{block}\n</code>", "retool"),
        (f"<python>\n{block}\n</python>", "artist"),
    ):
        if not registered([name], DIALECTS):
            continue
        dialect = get_dialect(name)
        assert isinstance(dialect, InlineDialect)
        if name == "zerotir" and "```python" not in text:
            continue  # its released code stops at nothing else
        read = dialect.read(text)
        assert read and [call.arguments["code"] for call in read.calls] == [program], name
    assert unwrapped(block) == program
    for text in (block, f"1. So\n   {block}", f"- {block}"):
        assert last_boxed(without_calls(text)) is None, text
        assert last_boxed(without_calls(f"{text}\n{BOX}")) == "5", text
    answer = f"{opened}\n{BOX}\n{closed}" if opened in ("~~~", "```") else f"~~~text\n{BOX}\n~~~"
    assert last_boxed(without_calls(answer)) == "5"
    assert last_boxed(without_calls(f"```text\nx\n```\n{BOX}\n{block}")) == "5"


def test_a_name_that_the_program_uses_is_no_attribute() -> None:
    assert last_block("```python x=5\nprint(x)\n```") == "x=5\nprint(x)"
    assert last_block("```python x=5\nprint(1)\n```") == "print(1)"
    assert last_block("```python x=5\n```") == "x=5"


# -- any text --------------------------------------------------------------------------------------

PIECES = [
    "<tool_call>", "</tool_call>", "<think>", "</think>", "<answer>", "</answer>", "<response>",
    "<function=ls>", "</function>", "<parameter=a>", "</parameter>", "<|python_tag|>", "```",
    "```python", "```py\n", "```output", "<code>", "</code>", "<python>", "</python>",
    "<search>", "</search>", '{"name": "rm", "arguments": {}}', "[rm()]", "[ls(a='x'), ",
    '{"name": "rm", "parameters": {}}', "[", "]", "{", "}", "(", ")", '"', "'", "`", "\\",
    *("\n", " ", ";", ",", ":", "=", "1e999", "NaN", "word", "\0", "\ud800", "\x1b", "é"),
    "\U0001f600", "\u202e", '"arguments"',
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_no_text_makes_a_reader_raise(text: str) -> None:
    for name in STRUCTURED:
        verdict, calls = parse(name, text)
        assert (verdict is ParseVerdict.CALLS) <= bool(calls)
        assert all(call.name in text for call in calls)
    for name in INLINE:
        dialect = get_dialect(name)
        assert isinstance(dialect, InlineDialect)
        parsed = dialect.read(text)
        assert parsed is None or (parsed.verdict is ParseVerdict.CALLS) == bool(parsed.calls)
    assert len(without_calls(text)) <= len(text) + text.count("<") + text.count("`")
    assert 0 <= call_offset(text) <= len(text)
    for read in readers().values():
        assert read(text) is None or "<tool_call>" in text


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(before=TEXTS, after=TEXTS, name=st.sampled_from(TAGGED), quote=st.sampled_from(QUOTES))
def test_no_words_make_a_quoted_call_run(before: str, after: str, name: str, quote: str) -> None:
    words = "".join(c for c in before + after if c.isalnum() or c in " \n,:")
    text = f"{words}\nNot {quote.format(written(name, RM))}, no.\n{words[::-1]}"
    assert parse(name, text)[0] is not ParseVerdict.CALLS


READERS: dict[str, Callable[[str], object]] = {
    **{name: lambda text, name=name: parse(name, text) for name in STRUCTURED},
    **{name: lambda text, name=name: get_dialect(name).read(text) for name in INLINE},  # type: ignore[union-attr]
    "without_calls": without_calls,
    "call_offset": call_offset,
    **{f"reward of {name}": read for name, read in readers().items()},
}
REPEATED = [
    "<tool_call>", "[[[[", "```", "{", " ", "\n", "the <tool_call> tag ", "`<tool_call>",
    "```py\n", "<tool_call>{", '<tool_call>{"a', "<tool_call> and </tool_call> ", "<code>",
    "`<tool_call><function=ls><parameter=a>", '{"name": "ls", "parameters": {}}\n',
    "\n</parameter>\n ", "</tool_call>", "<think>", "</think><answer>", "1+", "[f(x=",
    "the ```py x ", "```python\nx\n```\n", "<|python_tag|>", "~~~", "~~~\n", "go ```python\n",
    *(
        "x = 1\n<code>\n",
        "#<code>\n",
        "```python a=1 ",
        "```{",
        "- - ",
        "1. [",
        "a: ",
        "<b>[f()]\n",
    ),
    "```x\n", "x <code> y </code> ", "```\nx\n", "<python>\n<code>\n", "tag <tool_call>\n",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_length_of_a_text(name: str) -> None:
    ends = ("", "</code>", "</python>", "```output", "\n</parameter>\n</function>\n</tool_call>")
    for piece in REPEATED:
        for end in ends if name in INLINE else ends[::4] + ends[1:2]:
            text = piece * (50_000 // len(piece)) + end
            begin = time.process_time()
            READERS[name](text)
            assert time.process_time() - begin < 1, (piece, end)  # quadratic: many seconds


CALL_OF_LS = '{"name": "ls", "arguments": {"a": "x"}}'
FENCED = f"<tool_call>\nOPEN\n{CALL_OF_LS}\n```\n</tool_call>"
FENCES = ["```json", "``` json", "```  JSON ", "```", "``` ", "~~~json", "~~~", "```{json}"]
FENCES += ['```json title="a b"', "```json {a=b}", "````json", "```json5.1"]

FENCED_CALLS = [
    ("hermes", FENCED),
    ("toolrl", f"<think>x</think>{FENCED}"),
    ("tool_n1", f"<think>x</think>{FENCED.replace(CALL_OF_LS, f'[{CALL_OF_LS}]')}"),
    ("think", f"<think>x</think>{FENCED}"),
    ("llama", f"OPEN\n{CALL_OF_LS}\n```"),
    ("llama", f"OPEN\n[{CALL_OF_LS}]\n```"),
    ("pythonic", "OPEN\n[ls(a='x')]\n```"),
]


@pytest.mark.parametrize("opened", FENCES)
@pytest.mark.parametrize(
    ("name", "text"),
    [row for row in FENCED_CALLS if registered(row[:1], DIALECTS)],
)
def test_a_fence_is_one_with_blanks_before_its_language(name: str, text: str, opened: str) -> None:
    text = text.replace("arguments", "parameters") if name in ("llama", "toolrl") else text
    text = text.replace("```", "~~~" if "~" in opened else "```").replace("OPEN", opened)
    assert parse(name, text) == (ParseVerdict.CALLS, (LS,))

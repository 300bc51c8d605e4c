"""ToolRL's dialect: verdicts, what was said in one message, tools that it shows itself."""

from __future__ import annotations

import pytest

from rods.dialects import get_dialect
from rods.types import Message, ToolCall, ToolSpec

CP = ToolSpec("cp", "Copy a file.", {"type": "object", "properties": {}})
OFFERED = {"cp": CP, "ls": ToolSpec("ls", "", {"type": "object", "properties": {}})}
TOOLRL = get_dialect("toolrl")
LIST = '{"name": "ls", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "verdict", "calls"),
    [
        (f"<think>a</think>\n<tool_call>\n{LIST}\n</tool_call>", "calls", 1),
        (f"<think>a</think>\n<tool_call>\n{LIST}\n{LIST}\n</tool_call>\n<response>b", "calls", 2),
        (f"<tool_call>{LIST}</tool_call>", "calls", 1),
        (f"<think>a <tool_call></think><tool_call>{LIST}</tool_call>", "calls", 1),
        ("<tool_call>\n</tool_call>", "malformed", 0),
        (f"<tool_call>\n{LIST}\nso\n</tool_call>", "malformed", 0),
        (f"<tool_call>\n{LIST}", "malformed", 0),
        (LIST.join(("<tool_call>", "</tool_call>")).replace("param", "argum"), "malformed", 0),
        ("<think>a</think>\n<response> No. </response>", "answer", 0),
        ("No.", "answer", 0),
    ],
)
def test_toolrl(text: str, verdict: str, calls: int) -> None:
    parsed = TOOLRL.parse(text, OFFERED, truncated=False)
    assert (parsed.verdict.value, len(parsed.calls)) == (verdict, calls)
    assert parsed.answer == ("No." if verdict == "answer" else "")


SAID = (
    Message("user", "List it."),
    Message("assistant", "", (ToolCall("ls"),)),
    Message("tool", "a.txt"),
    Message("assistant", "One file."),
)


def test_toolrl_tells_what_was_said_in_one_message() -> None:
    [told] = TOOLRL.opening(SAID, "Copy it.")
    assert told.role == "user"
    assert told.content == (
        "**Dialogue Records History**\n<user> List it. </user>\n\n"
        f"<think>I call ls.</think>\n<tool_call>\n{LIST}\n</tool_call>\n\n<obs> a.txt </obs>\n\n"
        "<think>I answer the user.</think>\n<response> One file. </response>\n\n"
        "<user> Copy it. </user>"
    )
    assert TOOLRL.opening(SAID[:3], "")[0].content.endswith("</obs>")


def test_an_unclosed_response_swallows_no_response() -> None:
    text = "<think>x</think>\n<response> So <response> It is done. </response>"
    assert TOOLRL.parse(text, OFFERED, truncated=False).answer == "It is done."


def test_it_shows_the_tools_itself() -> None:
    assert "1. Name: cp\nDescription: Copy a file.\nParameters: {" in TOOLRL.describe([CP])

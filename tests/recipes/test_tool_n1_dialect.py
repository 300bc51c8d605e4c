"""Tool-N1's dialect: verdicts, and tools that it shows itself."""

from __future__ import annotations

import pytest

from rods.dialects import get_dialect
from rods.types import ToolSpec

CP = ToolSpec("cp", "Copy a file.", {"type": "object", "properties": {}})
OFFERED = {"cp": CP, "ls": ToolSpec("ls", "", {"type": "object", "properties": {}})}
N1 = get_dialect("tool_n1")
LIST = '{"name": "ls", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "verdict", "calls"),
    [
        ('<think>a</think> <tool_call>[{"name": "ls", "arguments": {}}]</tool_call>', "calls", 1),
        ('<tool_call>{"name": "ls", "arguments": {}}</tool_call> so', "calls", 1),
        (
            '<tool_call>x</tool_call><tool_call>{"name": "ls", "arguments": {}}</tool_call>',
            "calls",
            1,
        ),
        ("<think>a</think> <tool_call>[]</tool_call>\nNo.", "answer", 0),
        ("<think>a</think>No.", "answer", 0),
        (f"<tool_call>{LIST}</tool_call>", "malformed", 0),
        ('<tool_call>[{"name": "ls", "arguments": {}}]', "malformed", 0),
        ("<tool_call>[5]</tool_call>", "malformed", 0),
    ],
)
def test_tool_n1(text: str, verdict: str, calls: int) -> None:
    parsed = N1.parse(text, OFFERED, truncated=False)
    assert (parsed.verdict.value, len(parsed.calls)) == (verdict, calls)
    assert parsed.answer == ("No." if verdict == "answer" else "")


def test_it_shows_the_tools_itself() -> None:
    assert '{"type": "function", "function": {"name": "cp"' in N1.describe([CP])

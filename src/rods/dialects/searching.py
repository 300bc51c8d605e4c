"""Inline dialect of Search-R1: queries inside one response, what was found inserted after them.

Owns the form: `<search> query </search>`, then `<information>` from the environment, at the end
`<answer>`. Never searches and never decides about tokens.

    dialect = SearchR1()
    dialect.read("<search> river of Okdal </search>").calls[0].arguments
    # {"query": "river of Okdal"}
    dialect.insert("Doc 1 (Title: Okdal) ...")
    # "\\n\\n<information>Doc 1 (Title: Okdal) ...</information>\\n\\n"
"""

from __future__ import annotations

from collections.abc import Callable

from rods.dialects.fences import InlineForm
from rods.types import ToolResult

TOOL = "search"
"""The tool that this dialect calls."""
OPEN, CLOSE = "<search>", "</search>"
INFORMATION_TOKENS = 500
"""Search-R1: what was found is cut after so many tokens."""


class SearchR1(InlineForm):
    """Search-R1 (arXiv 2503.09516): its tags and the text that it inserts; the prompt is ours."""

    tool = TOOL
    _argument = "query"
    _template = (
        "Question: QUESTION\nThink inside <think> </think> whenever you learn something. "
        "If you lack knowledge, write <search> query </search>; what a search engine finds follows "
        "inside <information> </information>. Search as often as you need. When you know enough, "
        "write the answer alone inside <answer> </answer>, as in <answer> Oslo </answer>.\n"
    )
    _inserted = "\n\n<information>RESULT</information>\n\n"
    _stop = CLOSE
    _absent = (
        "Error: there is no query before </search>. Nothing was executed. "
        "Write <search> query </search>."
    )

    def shorten(self, result: ToolResult, count: Callable[[str], int]) -> str:
        """The longest beginning that fits; a cut is marked by "..."."""
        shown = result.content.strip()
        if count(shown) <= INFORMATION_TOKENS:
            return shown
        low, high = 0, len(shown)  # the longest beginning that fits, found by halving
        while low < high:
            middle = (low + high + 1) // 2
            fits = count(f"{shown[:middle]}...") <= INFORMATION_TOKENS
            low, high = (middle, high) if fits else (low, middle - 1)
        return f"{shown[:low].rstrip()}..."

    def _program(self, text: str) -> str | None:
        _, tag, query = text.rpartition(CLOSE)[0].rpartition(OPEN)
        return query.strip() if tag else ""

    def _write(self, program: str) -> str:
        return f"{OPEN} {program} {CLOSE}"

    def _answer(self, answer: str) -> str:
        return f"<answer> {answer} </answer>"

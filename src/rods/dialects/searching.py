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

from collections.abc import Callable, Sequence

from rods.dialects.base import Asked, Parsed, malformed
from rods.errors import TaskError
from rods.types import ParseVerdict, ToolCall, ToolResult

TOOL = "search"
"""The tool that this dialect calls."""
OPEN, CLOSE = "<search>", "</search>"
INFORMATION_TOKENS = 500
"""Search-R1: what was found is cut after so many tokens."""

_PROMPT = (
    "Question: QUESTION\nThink inside <think> </think> whenever you learn something. "
    "If you lack knowledge, write <search> query </search>; what a search engine finds follows "
    "inside <information> </information>. Search as often as you need. When you know enough, "
    "write the answer alone inside <answer> </answer>, as in <answer> Oslo </answer>.\n"
)


class SearchR1:
    """Search-R1 (arXiv 2503.09516): its tags and the text that it inserts; the prompt is ours."""

    inline = True
    tool = TOOL

    def prompt(self, question: str) -> str:
        """The whole prompt as raw text, up to where the response begins."""
        return _PROMPT.replace("QUESTION", question.strip())

    def stops(self, text: str) -> tuple[str, ...]:
        """The end of a query."""
        return (CLOSE,)

    def read(self, text: str) -> Parsed | None:
        """The query at the end of what was written since the last insertion.

        Args:
            text: it ends with (or just after) `</search>`.

        Returns:
            One call, or `MALFORMED` where no query stands between the tags.
        """
        _, tag, query = text.rpartition(CLOSE)[0].rpartition(OPEN)
        query = query.strip()
        if not tag or not query:
            return malformed(
                "there is no query before </search>", "Write <search> query </search>."
            )
        return Parsed(ParseVerdict.CALLS, (ToolCall(TOOL, {"query": query}),))

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

    def insert(self, shown: str) -> str:
        """What was found, between its tags."""
        return f"\n\n<information>{shown}</information>\n\n"

    def demonstration(self, question: Asked, outputs: Sequence[str]) -> list[tuple[str, bool]]:
        """A response that asks the question's queries and gives its answer, for supervised data.

        Args:
            question: with its answer; its programs are queries. None: the direct answer.
            outputs: what each query found.

        Returns:
            Pieces in order; True: the policy writes it, False: the environment inserts it.

        Raises:
            TaskError: as many outputs as queries were expected.
        """
        if len(outputs) != len(question.programs):
            raise TaskError(
                f"{question.text!r}: {len(question.programs)} queries came with {len(outputs)} "
                "outputs; expected one for each."
            )
        pieces: list[tuple[str, bool]] = []
        for query, output in zip(question.programs, outputs, strict=True):
            pieces.append((f"{OPEN} {query} {CLOSE}", True))
            shown = self.shorten(ToolResult(output), lambda text: len(text.encode()))
            pieces.append((self.insert(shown), False))
        return [*pieces, (f"<answer> {question.answer} </answer>", True)]

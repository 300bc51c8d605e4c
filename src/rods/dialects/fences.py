r"""Inline dialects: programs or queries in one response, results inserted where the policy stopped.

Owns the forms in which ToRL, ZeroTIR, ReTool and Search-R1 write a program, read its result and
answer: the prompt as raw text, the stop strings, how the program is found, how a result is
shortened and what is inserted. Never runs a program, never decides about tokens:
`rods.rollout.inline` does.

    dialect = Torl()
    dialect.stops("")                                           # ("```output",)
    dialect.read("```python\nprint(1)\n```\n```output").calls   # code_interpreter(code='print(1)')
    dialect.insert(dialect.shorten(ToolResult("1\n"), len))      # "\n1\n```\n"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rods.dialects.base import Parsed
from rods.dialects.bounds import calls_fault
from rods.dialects.programs import between, in_fence, last_block, printed
from rods.errors import TaskError
from rods.types import ParseVerdict, ToolCall, ToolResult

TOOL = "code_interpreter"
"""The tool that an inline dialect calls."""
OPEN, CLOSE = "```python", "```"
TORL_CHARS, TORL_KEPT = 256, 128
"""ToRL: a result of so many characters or more keeps so many of its first and of its last."""
ZEROTIR_TOKENS = 256
"""ZeroTIR: a result of more tokens is replaced by a notice."""
INFORMATION_TOKENS = 500
"""Search-R1: what was found is cut after so many tokens."""


class InlineDialect:
    """One way of writing programs inside a single response, which results are inserted into.

    Derive from it; a call stands between marks, and its result is inserted after it.
    """

    tool = TOOL
    """Name of the one tool that it calls."""
    _argument = "code"
    _template: str
    _inserted: str
    _stop: str
    _absent = "Error: there is no program to run."

    def prompt(self, question: str) -> str:
        """The whole prompt as raw text, up to where the response begins."""
        return self._template.replace("QUESTION", question.strip())

    def stops(self, text: str) -> tuple[str, ...]:
        """Stop strings of the next generation, by what was written since the last insertion."""
        return (self._stop,)

    def read(self, text: str) -> Parsed | None:
        """The program at the end of what was written since the last insertion.

        `text` ends with (or just after) one of `stops`. Returns one call, or `MALFORMED` where
        there is no program; None: the program has only begun.
        """
        program = self._program(text)
        if program is None:
            return None
        if not program:
            return Parsed(ParseVerdict.MALFORMED, feedback=self._absent)
        call = ToolCall(self.tool, {self._argument: program})
        if fault := calls_fault([call]):
            return Parsed(ParseVerdict.MALFORMED, feedback=f"Error: {fault}. Nothing was executed.")
        return Parsed(ParseVerdict.CALLS, (call,))

    def shorten(self, result: ToolResult, count: Callable[[str], int]) -> str:
        """Text of a result that the policy reads; `count` gives the tokens of a text."""
        return result.content.strip()

    def insert(self, shown: str) -> str:
        """The text that the environment adds after a program."""
        return self._inserted.replace("RESULT", shown)

    def demonstration(
        self, programs: Sequence[str], outputs: Sequence[str], answer: str
    ) -> list[tuple[str, bool]]:
        """A response that runs programs and gives an answer, for supervised data.

        Encode every piece by itself, because a rollout inserts so; the end-of-turn token follows
        the last one.

        Args:
            programs: in order; none: the direct answer.
            outputs: what each program printed.
            answer: to the question.

        Returns:
            Pieces in order; True: the policy writes it, False: the environment inserts it.

        Raises:
            TaskError: as many outputs as programs were expected.
        """
        if len(outputs) != len(programs):
            raise TaskError(
                f"a demonstration of the answer {answer!r}: {len(programs)} calls came with "
                f"{len(outputs)} outputs; expected one for each."
            )
        pieces: list[tuple[str, bool]] = []
        for program, output in zip(programs, outputs, strict=True):
            # bytes: tokens at most, where no tokenizer is known
            pieces.append((self._write(program.strip("\n")), True))
            shown = self.shorten(
                ToolResult(output), lambda text: len(text.encode("utf-8", "replace"))
            )
            pieces.append((self.insert(shown), False))
        return [*pieces, (self._answer(answer), True)]

    def _program(self, text: str) -> str | None:
        """The program (or query); "" if there is none, None if it has only begun."""
        return last_block(text.rpartition(self._stop)[0]) or ""

    def _write(self, program: str) -> str:
        return f"{OPEN}\n{program}\n{CLOSE}"

    def _answer(self, answer: str) -> str:
        return rf"<answer>\boxed{{{answer}}}</answer>"


class Torl(InlineDialect):
    r"""ToRL (arXiv 2503.23383): the policy opens the output block, the environment fills it."""

    _template = (
        "User: QUESTION\nReason step by step. A ```python block runs if you write ```output after "
        "it. Put the final answer in \\boxed{}.\nAssistant:\n"
    )
    _inserted = "\nRESULT\n```\n"
    _stop = "```output"
    _absent = "Error: there is no python block before this."

    def shorten(self, result: ToolResult, count: Callable[[str], int]) -> str:
        """The last line of an error; the two ends of a long result; words for an empty one."""
        shown = result.content.strip()
        if result.failed:
            shown = shown.rpartition("\n")[2].strip()
        if len(shown) >= TORL_CHARS:
            shown = f"{shown[:TORL_KEPT]}...{shown[-TORL_KEPT:]}"
        return shown or "TimeoutError: nothing was printed in time"

    def _write(self, program: str) -> str:
        return f"{super()._write(program)}\n{self._stop}"

    def _answer(self, answer: str) -> str:
        return rf"The answer is \boxed{{{answer}}}."


class ZeroTir(InlineDialect):
    r"""ZeroTIR (arXiv 2505.07773): stops where a python block begins and where it ends.

    As in its released code, only "```python" begins a program, whatever follows on the line.
    """

    _template = (
        "The assistant first thinks in <think> </think>, where it may use ```python code, then "
        "answers in <answer> \\boxed{} </answer>.\nUser: QUESTION\nAssistant: <think>\n"
    )
    _inserted = "\n```output\nRESULT\n```\n\n\n"
    _stop = OPEN

    def stops(self, text: str) -> tuple[str, ...]:
        """The end of the block that is open, or the opening of one."""
        return (CLOSE,) if OPEN in text else (self._stop,)

    def shorten(self, result: ToolResult, count: Callable[[str], int]) -> str:
        """A notice instead of a long result; no folders in the traces of an error."""
        shown = result.content.strip()
        if result.failed:
            shown = re.sub(r'(?<=File ")[^"\n]*/', "", shown)
        if count(shown) > ZEROTIR_TOKENS:
            return f"The output has more than {ZEROTIR_TOKENS} tokens: too long. Print less."
        return shown

    def _program(self, text: str) -> str | None:
        inside, closed, _ = text.partition(OPEN)[2].partition(CLOSE)
        return in_fence(inside, CLOSE) if closed else None

    def _answer(self, answer: str) -> str:
        return rf"</think> <answer> \boxed{{{answer}}} </answer>"


class ReTool(InlineDialect):
    r"""ReTool (arXiv 2504.11536): a program in `<code>`, its result in `<interpreter>`."""

    _template = (
        "Solve the problem step by step. Code that you write as <code>\n```python\n...\n```\n"
        "</code> is run and its output follows in <interpreter>. End with "
        "<answer>\\boxed{}</answer>.\nProblem: QUESTION\nSolution:\n"
    )
    _inserted = "\n<interpreter>\nRESULT\n</interpreter>\n"
    _stop = "</code>"

    def _program(self, text: str) -> str | None:
        return printed(between(text, "code"))

    def _write(self, program: str) -> str:
        return f"<code>\n{super()._write(program)}\n</code>"


class SearchR1(InlineDialect):
    """Search-R1 (arXiv 2503.09516): its tags and the text that it inserts; the prompt is ours."""

    tool = "search"
    _argument = "query"
    _template = (
        "Question: QUESTION\nThink inside <think> </think> whenever you learn something. "
        "If you lack knowledge, write <search> query </search>; what a search engine finds follows "
        "inside <information> </information>. Search as often as you need. When you know enough, "
        "write the answer alone inside <answer> </answer>, as in <answer> Oslo </answer>.\n"
    )
    _inserted = "\n\n<information>RESULT</information>\n\n"
    _stop = "</search>"
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
        _, tag, query = text.rpartition(self._stop)[0].rpartition("<search>")
        return query.strip() if tag else ""

    def _write(self, program: str) -> str:
        return f"<search> {program} </search>"

    def _answer(self, answer: str) -> str:
        return f"<answer> {answer} </answer>"

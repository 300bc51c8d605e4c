"""ARTIST's dialect (arXiv 2505.01441): programs inside of the reasoning of one response.

Owns the form: `<python>` from the policy, `<output>` from the environment, at the end `<answer>`.
"""

from __future__ import annotations

from rods.dialects.fences import InlineDialect
from rods.dialects.programs import between


class ArtistDialect(InlineDialect):
    r"""ARTIST (arXiv 2505.01441): a program in `<python>`, its result in `<output>`."""

    _template = (
        "Solve the problem. First reason in <think> </think>. Code that you write as "
        "<python> ... </python> is run and its output follows in <output> </output>; reason about "
        "it in <think> </think> and go on. End with <answer>\\boxed{}</answer>.\n"
        "Problem: QUESTION\nSolution:\n"
    )
    _inserted = "\n<output>\nRESULT\n</output>\n"
    _stop = "</python>"

    def _program(self, text: str) -> str | None:
        return between(text, "python")

    def _write(self, program: str) -> str:
        return f"<think> I compute it. </think>\n<python>\n{program}\n</python>"

    def _answer(self, answer: str) -> str:
        return f"<think> I have it. </think>\n{super()._answer(answer)}"

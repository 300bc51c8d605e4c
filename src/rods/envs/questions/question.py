"""What a generated question is: its text, its answer, and programs that find the answer.

Owns the two value types of this folder. Never makes a question.

    question = Question("What is 473 * 28?", "13244", ("print(473 * 28)",))
    question.program        # "print(473 * 28)"
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

HARDEST = 5
"""Difficulties of our own families are 1 to this."""


@dataclass(frozen=True)
class Question:
    """A question with one right answer."""

    text: str
    answer: str
    programs: tuple[str, ...] = ()
    """Python sources in order: the work step by step. Each runs by itself, because interpreters
    forget; the last does all the work and prints the answer. Empty: no program is known."""

    @property
    def program(self) -> str:
        """The one program that does all the work; empty if none is known."""
        return self.programs[-1] if self.programs else ""


class Family(NamedTuple):
    """Questions of one kind."""

    about: str
    """What is asked, in a line."""
    make: Callable[[int, random.Random], Question]
    """Difficulty (1 to `HARDEST`) and a source of chance give a question."""


def steps(*expressions: str) -> tuple[str, ...]:
    """Programs that print each expression; repeated ones once."""
    return tuple(f"print({expression})" for expression in dict.fromkeys(expressions))

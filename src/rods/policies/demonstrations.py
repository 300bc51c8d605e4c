"""Demonstrations of questions in the inline dialects: direct answers, and programs with results.

Owns the mixture: which questions, how often a program is written, how many, and which programs are
useless or fail. Outputs are real: every program is run. That happens in this process, without a
sandbox, because all programs come from our own generators; nothing else may be passed to `execute`.

A direct answer is written as if it were known: a small model guesses it for large numbers.

    for made in demonstrations(ProgramPlan(dialects=("retool",)), seed=0, numbers=range(1000)):
        made.task_id, made.pieces       # "add-2-8451-retool", [["What is ...", False], ...]
"""

from __future__ import annotations

import io
import linecache
import random
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import astuple, dataclass
from typing import NamedTuple, cast

from rods.dialects import InlineDialect, get_dialect
from rods.envs.python_tool.environment import shown
from rods.envs.questions.families import FAMILIES, HELD_OUT, Question, make_question
from rods.sandbox.execution import Execution
from rods.types import ToolResult

DIALECTS = ("torl", "zerotir", "retool", "artist")
PRETRAINED = ("torl", "zerotir", "retool")
"""Dialects that the bundled policy is pretrained on."""
PROGRAM = "<program>"
"""Name of a program's file in tracebacks, as the sandbox has it."""
SPREAD = 400_000
"""Seeds that questions are drawn from, on either side."""
FAULTS = ("print({0}", "print(answer)", "print(total + {0})", "print(int('x'))", "1 / 0")
"""Programs that fail; {0} is what the right one prints."""


@dataclass(frozen=True)
class Mixture:
    """Shares of the ways to answer with programs or searches; what is left are direct answers."""

    one: float = 0.20
    """One program that finds the answer; the necessary searches, no other."""
    several: float = 0.13
    """The work step by step, a second time the same where there is only one step; one search more
    than necessary."""
    failing: float = 0.03
    """A program that fails, then the right one; one search too few, so the answer is a guess."""
    useless: float = 0.015
    """A program that does not help, then a direct answer; a search that names nobody, then the
    necessary ones."""

    def pick(self, ways: Sequence[list[str]], rng: random.Random) -> list[str]:
        """One of the ways, in the order of the shares; nothing for a direct answer."""
        draw = rng.random()
        for way, share in zip(ways, astuple(self), strict=True):
            draw -= share
            if draw < 0:
                return way
        return []


@dataclass(frozen=True)
class ProgramPlan:
    """Plan of the demonstrations."""

    dialects: Sequence[str] = PRETRAINED
    families: Sequence[str] = tuple(FAMILIES)
    difficulties: Sequence[int] = (1, 1, 1, 1, 2, 2, 3, 3, 4, 5)
    """Each as often as it stands here: small numbers are what a direct answer can be learnt on."""
    mixture: Mixture = Mixture()
    held_out: bool = False
    """True if questions of the held-out split are asked."""


class Demonstration(NamedTuple):
    """One question with a response."""

    task_id: str
    pieces: list[tuple[str, bool]]
    """The prompt, then the response; True: the policy writes it."""
    difficulty: int = 0
    """Difficulty of a question that programs answer."""
    known: bool = True
    """True if a search has shown the answer."""

    @property
    def text(self) -> str:
        """All of it, as the policy reads it."""
        return "".join(text for text, _ in self.pieces)


def demonstrations(plan: ProgramPlan, seed: int, numbers: Iterable[int]) -> Iterator[Demonstration]:
    """Demonstration `i` is a function of plan, seed and `i` alone.

    Raises:
        ConfigError: a family or a difficulty is unknown, or has no question on this side.
    """
    for number in numbers:
        rng = random.Random(f"rods-demonstrations-{seed}-{number}")
        name = plan.dialects[number % len(plan.dialects)]
        dialect = cast("InlineDialect", get_dialect(name))
        family, difficulty = rng.choice(plan.families), rng.choice(plan.difficulties)
        place = (HELD_OUT if plan.held_out else 0) + rng.randrange(SPREAD)
        question = make_question(family, difficulty, place)
        programs = choose_programs(question, plan.mixture, rng)
        outputs = [dialect.shorten(execute(program), len) for program in programs]
        response = dialect.demonstration(programs, outputs, question.answer)
        prompt = (dialect.prompt(question.text), False)
        task_id = f"{family}-{difficulty}-{place}-{name}"
        yield Demonstration(task_id, [prompt, *response], difficulty)


def choose_programs(question: Question, mixture: Mixture, rng: random.Random) -> list[str]:
    """The programs of one demonstration, none for a direct answer."""
    if not question.programs:
        return []
    right, inner = question.program, _inner(question.program)
    steps = [*question.programs] if len(question.programs) > 1 else [right, right]
    failing = [rng.choice(FAULTS).format(inner), right]
    return mixture.pick([[right], steps, failing, [f"print({rng.choice(_numbers(inner))})"]], rng)


def _inner(program: str) -> str:
    """Expression that the last line prints."""
    return program.rstrip().rpartition("\n")[2].removeprefix("print(").removesuffix(")")


def _numbers(text: str) -> list[str]:
    words = "".join(c if c.isdigit() else " " for c in text).split()
    return words or ["0"]


def execute(program: str) -> ToolResult:
    """Run one of our own programs here, and say what a policy would read of it."""
    printed = io.StringIO()
    linecache.cache[PROGRAM] = (len(program), None, program.splitlines(True), PROGRAM)
    with redirect_stdout(printed):
        try:
            exec(compile(program, PROGRAM, "exec"), {"__name__": "__main__"})
        except (ArithmeticError, NameError, SyntaxError, TypeError, ValueError) as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
                trace = trace.tb_next
            lines = traceback.format_exception(type(error), error, trace)
            return shown(Execution(printed.getvalue(), "".join(lines), "error", 0.0))
    return shown(Execution(printed.getvalue(), "", "ok", 0.0))

"""What a generated question is: its text, its answer, and programs that find the answer.

Owns the value types of this folder and how a task says that it was generated. Never makes a
question.

    question = Question("What is 473 * 28?", "13244", ("print(473 * 28)",))
    question.program        # "print(473 * 28)"
"""

from __future__ import annotations

from dataclasses import dataclass

from rods.errors import TaskError
from rods.task import Task

HARDEST = 5
"""Difficulties of our own families are 1 to this."""
HELD_OUT = 1_000_000_000
"""First seed of the held-out side."""


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


def steps(*expressions: str) -> tuple[str, ...]:
    """Programs that print each expression; repeated ones once."""
    return tuple(f"print({expression})" for expression in dict.fromkeys(expressions))


def is_generated(task: Task) -> bool:
    """Whether a task's world says which question it is."""
    world = task.world
    numbers = (world.get("difficulty"), world.get("seed"))
    return isinstance(world.get("family"), str) and all(type(n) is int for n in numbers)


def require_same(task: Task, question: Question, name: str) -> None:
    """Refuse a generated task whose question, made again, is another one; raises `TaskError`."""
    if (question.text, question.answer) != (task.turns[0].user, task.world.get("answer")):
        raise TaskError(
            f"task {task.id}: {name} is now {question.text!r} with answer {question.answer!r}, but "
            f"the task has {task.turns[0].user!r}. It was made by another version; generate the "
            "tasks again."
        )

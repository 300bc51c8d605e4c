"""Base of environments of questions: generated ones, and those of published data sets.

Owns how many questions of each side there are, how another one is found, the reading of files and
the marks of `env.questions`; of worlds which calls are refused and the verdict on a turn. Never
makes a question nor knows a tool: environments add `generate`, `make`, `remake`, worlds `use`.

    class SearchEnvironment(QuestionEnvironment): ...
    SearchEnvironment(questions={"count": 40}).tasks(held_out=0.25)
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from rods.env import Environment, TurnVerdict, World
from rods.envs.judge import refusal
from rods.envs.questions import QuestionSettings
from rods.envs.questions.families import HELD_OUT, Question, is_generated
from rods.envs.questions.files import load_question_tasks
from rods.envs.turns import TurnWorld, require_env
from rods.errors import ConfigError, RewardError, TaskError
from rods.rewards.answers import LENIENT, as_strictly, leniently, references, require_judges
from rods.split import Split, given_split
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec, Value

DRAWS = 32  # Draws for another question before there is none


class QuestionEnvironment(Environment):
    """Base of an environment whose original tasks are questions."""

    world_keys = "answer", "aliases", "judge", "family", "difficulty", "seed", "source", LENIENT

    def __init__(self, questions: Mapping[str, JsonValue] | None = None) -> None:
        """`questions`: the settings of `env.questions`."""
        self._asked = QuestionSettings.model_validate(questions or {})

    @abstractmethod
    def generate(self, settings: QuestionSettings, count: int, held_out: bool) -> Sequence[Task]:
        """So many questions of one split, the same in every run; no text is in both splits."""

    @abstractmethod
    def make(self, like: Task, seed: int) -> Task:
        """The question of another seed, of the same family and difficulty."""

    @abstractmethod
    def remake(self, task: Task) -> Question:
        """A generated question, made again; `TaskError` where that is not what the task has."""

    @abstractmethod
    def world(self, task: Task) -> World:
        """A fresh world of a task that was looked at."""

    def wrong(self, question: Question) -> str | None:
        """Fault of a question that was made again; None: nothing, or not known."""
        return None

    def generated(self, task: Task) -> bool:
        """True if the environment made the question; it can then be made again."""
        return is_generated(task)

    def is_held_out(self, task: Task) -> bool:
        """True if a generated question is of the held-out split, by its seed."""
        seed = task.world.get("seed")
        return self.generated(task) and isinstance(seed, int) and seed >= HELD_OUT

    def another(self, task: Task, rng: random.Random) -> Task | None:
        """Another question of the task's family, difficulty and side; None: there is none.

        Raises `TaskError` where the task's world is not what it says.
        """
        if not self.generated(task):
            return None
        text, first = self.remake(task).text, HELD_OUT if self.is_held_out(task) else 0
        for _ in range(DRAWS):
            made = self.make(task, first + rng.randrange(HELD_OUT))
            if made.turns[0].user != text:
                return as_strictly(made, task)
        return None

    def replay(self, task: Task) -> str | None:
        """Fault of a generated question or its answer; None: nothing, or not known."""
        if not self.generated(task):
            return None
        try:
            return self.wrong(self.remake(task))
        except (TaskError, ConfigError) as error:
            return str(error)

    def open(self, task: Task) -> World:
        """A fresh world; raises `TaskError` for a task of another environment."""
        require_env(task, self.name)
        try:
            references(task)
        except RewardError as error:
            raise TaskError(str(error)) from error
        return self.world(task)

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Generated questions, the training split first."""
        whole = self._asked.count
        out = min(whole - 1, max(1, round(whole * held_out))) if held_out else 0
        train = self.generate(self._asked, whole - out, held_out=False)
        return self._marked([*train, *self.generate(self._asked, out, held_out=True)])

    def load(self, path: Path) -> list[Task]:
        """Questions of a published data set, or our own JSON lines.

        Raises:
            PrerequisiteError: what judges their answers is not installed.
            TaskError: the file is missing, or a row of it is broken.
        """
        tasks = load_question_tasks(path, self.name)
        require_judges(tasks)
        return self._marked(tasks)

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Generated questions by the side that they were made for, others by scenario."""
        if held_out is not None:
            return super().part(tasks, held_out)
        out = [task for task in tasks if self.is_held_out(task)]
        return given_split([task for task in tasks if not self.is_held_out(task)], out)

    def _marked(self, tasks: Iterable[Task]) -> list[Task]:
        """Questions, marked where their answers may stand anywhere."""
        return [leniently(task) if self._asked.lenient else task for task in tasks]


class QuestionWorld(TurnWorld):
    """Base of a single-use world of one question."""

    spec: ClassVar[ToolSpec]
    """The one tool."""

    @abstractmethod
    def use(self, arguments: Mapping[str, Value]) -> ToolResult:
        """Result of the tool for these arguments, which nobody has checked."""

    def offered(self) -> tuple[ToolSpec, ...]:
        """The one tool, unless the turn withholds it."""
        withheld = self._task.turns[max(self._turn, 0)].withheld
        return () if self.spec.name in withheld else (self.spec,)

    def _execute(self, call: ToolCall) -> ToolResult:
        """Use the tool, another is refused; raises `EnvError` where what the tool needs failed."""
        names = [spec.name for spec in self.offered()]
        if call.name not in names:
            return ToolResult(refusal(call.name, names), failed=True)
        return self.use(call.arguments)

    def _verdict(self) -> TurnVerdict:
        return TurnVerdict(False, self._calls, True, True, True)  # only the answer counts

    def _state(self) -> dict[str, object]:
        return {}  # a tool leaves nothing behind

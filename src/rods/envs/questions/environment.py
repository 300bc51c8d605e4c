"""What environments of questions share: generated questions, and those of published data sets.

Owns how many questions of each side there are, the reading of files and the marks of
`env.questions`. Never makes a question: environments add `generate`.

    class SearchEnvironment(QuestionEnvironment): ...
    SearchEnvironment(questions={"count": 40}).tasks(held_out=0.25)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from rods.env import Environment
from rods.envs.questions.files import load_question_tasks
from rods.rewards.answers import leniently, require_judges
from rods.settings.env import QuestionSettings
from rods.split import Split, sides
from rods.task import Task


class QuestionEnvironment(Environment):
    """Base of an environment whose original tasks are questions."""

    def __init__(self, questions: Mapping[str, JsonValue] | None = None) -> None:
        """`questions`: the settings of `env.questions`."""
        self._asked = QuestionSettings.model_validate(questions or {})

    @abstractmethod
    def generate(self, settings: QuestionSettings, count: int, held_out: bool) -> Sequence[Task]:
        """So many questions of one side, the same in every run; no text stands on both sides."""

    @abstractmethod
    def is_held_out(self, task: Task) -> bool:
        """Whether a generated question is of the held-out side."""

    def tasks(self, held_out: float) -> Sequence[Task]:
        """Generated questions, the training side first."""
        whole = self._asked.count
        out = min(whole - 1, max(1, round(whole * held_out))) if held_out else 0
        made = [
            *self.generate(self._asked, whole - out, held_out=False),
            *self.generate(self._asked, out, held_out=True),
        ]
        return self._marked(made)

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
        parts: tuple[list[Task], list[Task]] = ([], [])
        for task in tasks:
            parts[self.is_held_out(task)].append(task)
        return sides(*parts)

    def _marked(self, tasks: Iterable[Task]) -> list[Task]:
        """Questions, marked where their answers may stand anywhere."""
        return [leniently(task) if self._asked.lenient else task for task in tasks]

"""Definition of a suite: a published benchmark's tasks, their rollouts, and what is right.

Owns the protocol and the rollout settings that all suites share. A suite stands in the folder of
its environment; the table of their names is `rods.suites.SUITES`. Its score is worked out from a
trajectory alone, so that a saved one gets the verdict of the run that saved it.

    rules = make_suite("bfcl-multi-turn", config)
    rules.score(task, trajectory).right
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from rods.config import RolloutSettings
from rods.dialects import Dialect, Parsed
from rods.env import Environment
from rods.task import Task
from rods.trajectory import Trajectory
from rods.types import ParseVerdict, ToolSpec

CALLS = 100_000
"""Calls of a conversation: no suite bounds them, its steps do."""


class RuleOutcome(NamedTuple):
    """Verdict of the suite's rules on one trajectory."""

    right: bool
    why: str = ""
    """Why it is not right, in a few words that repeat; empty where it is."""
    process: float | None = None
    """Share of the way, in [0, 1], where the suite measures it; 1 where it is right."""


class SuiteRules(Protocol):
    """A benchmark that `rods eval --suite` runs. Derive from it: the rollout has defaults."""

    name: str
    environment: Environment
    averages: Mapping[str, Sequence[str]]
    """Categories behind each average, by its name; the mean of their means, unless in `pooled`."""
    pooled: frozenset[str] = frozenset()
    """Averages in which each task weighs the same, whatever its category."""
    steps: int = 0
    """Steps of a turn under the suite's rules; 0: the user's setting."""
    executes: bool = False
    """True if every call that can be read is executed, and all else is an answer."""
    trials: bool = False
    """True if the suite quotes pass^k, the chance that k trials of a task are all right."""

    def tasks(self) -> Sequence[Task]:
        """All tasks, in the suite's order; `provenance.origin` is the suite's own name of one.

        Raises:
            PrerequisiteError: the data must be fetched or given first.
            TaskError: the data cannot be read; the message names file, line and key.
        """
        ...

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """The verdict on a valid trajectory of the task, by what was written and called alone."""
        ...

    def ready(self, tasks: Sequence[Task], rollouts: bool) -> None:
        """Raise `PrerequisiteError` where something must be installed or given for a task.

        Tasks are to be rolled out (`rollouts`), or saved trajectories of them are to be judged.
        """
        return

    def rollout(self, settings: RolloutSettings) -> RolloutSettings:
        """The rollout settings under the suite's rules."""
        return unbounded(settings, **({"steps_per_turn": self.steps} if self.steps else {}))

    def dialect(self, dialect: Dialect) -> Dialect:
        """Dialect that reads what the policy writes, under the suite's rules."""
        return executing(dialect) if self.executes else dialect


def unbounded(settings: RolloutSettings, **rules: object) -> RolloutSettings:
    """Settings under which only the suite's own rules, context and seconds bound a conversation.

    The user's context, tokens of a step and concurrency stay; the suite fixes `rules`, such as
    `steps_per_turn`.
    """
    free = {
        "turns": CALLS,
        "calls": CALLS,
        "generated_tokens": settings.context_tokens,
        "result_chars": 0,
        "schedule": "asynchronous",
    }
    return settings.model_copy(update={**free, **rules})


def executing(dialect: Dialect) -> Dialect:
    """A dialect of which every call that can be read is executed, and all else is an answer.

    Calls of tools that are not offered, and such whose arguments do not fit, go to the world; what
    cannot be read, or was cut off, ends what an answer ends.
    """
    return cast("Dialect", _Executing(dialect))


class _Executing:
    """Another dialect in all but how calls are read."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation as the inner dialect does; no verdict is an error."""
        parsed = self._dialect.parse(text, offered, truncated)
        if not parsed.verdict.is_error:
            return parsed
        if parsed.calls:
            return Parsed(ParseVerdict.CALLS, parsed.calls)
        return Parsed(ParseVerdict.ANSWER, answer=text)

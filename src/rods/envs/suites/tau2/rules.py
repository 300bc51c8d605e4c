"""The suite `tau2-retail`: customers of a shop, judged by the database that they leave.

Owns the reading of tasks and the released rules: the reward is the product of what a task's
`reward_basis` names. What it does not name is not looked at.

    rules = Tau2Retail(config)
    rules.score(task, trajectory).why
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from rods.config import RolloutSettings, RunConfig
from rods.dialects import Dialect, structured
from rods.env import Environment
from rods.envs.suites.chat import Speaker
from rods.envs.suites.tau2.database import Shop, read_database
from rods.envs.suites.tau2.judge import holds
from rods.envs.suites.tau2.specs import SPECS
from rods.envs.suites.tau2.tasks import NAME, read_retail
from rods.envs.suites.tau2.world import GREETING, MAX_FAILED, TOO_MANY, RetailWorld
from rods.errors import ConfigError, PrerequisiteError
from rods.evaluation.rules import Outcome, SuiteRules, executing, unbounded
from rods.settings.rollout import SuiteSettings
from rods.task import Task
from rods.trajectory import Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolCall

STEPS = 99
"""Generations: the suite allows 200 messages, calls' results and the customer's among them; the
hundredth is the two hundredth message, which ends a conversation, whatever it says."""


class Tau2Retail(SuiteRules):
    """The retail tasks of the released split `base`, by train and test."""

    name = NAME
    averages: Mapping[str, Sequence[str]] = {
        "test": ("test_state", "test_words"),
        "train": ("train_state", "train_words"),
        "base": ("test_state", "test_words", "train_state", "train_words"),
    }
    pooled = frozenset(averages)
    trials = True

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet.

        Raises:
            ConfigError: no folder is named.
        """
        settings = config.evaluation.suite
        if not settings.folder:
            raise ConfigError(
                "evaluation.suite.folder: tau2-retail needs data/tau2/domains/retail of a checkout "
                "of sierra-research/tau2-bench."
            )
        self._folder, self._written = Path(settings.folder), config.model.dialect
        self._user, self._judge = speakers(settings)
        self._worlds = RetailEnvironment(self._folder, self._user)
        self.environment = self._worlds

    @cached_property
    def _tasks(self) -> list[Task]:
        return read_retail(self._folder)

    def tasks(self) -> Sequence[Task]:
        """All tasks of the split."""
        return self._tasks

    def ready(self, tasks: Sequence[Task], plays: bool) -> None:
        """Refuse where nobody plays the user, or judges what has to be judged."""
        _ = self._worlds.shop
        key = "(OpenAI-compatible; .model NAME; the key in RODS_WRITER_KEY)"
        if plays and not self._user:
            raise PrerequisiteError(
                "tau2-retail: every task is a talk with a user, whom a chat server plays: give "
                f"--evaluation.suite.user.url URL {key}."
            )
        judged = sum(bool(_asserted(task)) for task in tasks)
        if judged and not self._judge:
            raise PrerequisiteError(
                f"tau2-retail: in {judged} of {len(tasks)} tasks a model judges what was said: "
                f"give --evaluation.suite.judge.url URL {key}, or leave them out: "
                '--evaluation.suite.categories \'["test_state", "train_state"]\'.'
            )

    def rollout(self, settings: RolloutSettings) -> RolloutSettings:
        """Two hundred messages."""
        return unbounded(settings, steps_per_turn=STEPS)

    def dialect(self, dialect: Dialect) -> Dialect:
        """What can be read is executed; all else is said to the user."""
        return executing(dialect)

    def score(self, task: Task, trajectory: Trajectory) -> Outcome:
        """The product of what the task's reward is based on; what costs nothing comes first."""
        why = _unfinished(trajectory)
        basis = cast("list[str]", task.world["basis"])
        if not why and "DB" in basis and self._differs(task, trajectory):
            why = "the database differs"
        if not why and "ACTION" in basis and not _acted(task, trajectory):
            why = "a wanted call is missing"
        if not why and "COMMUNICATE" in basis and not self._told(task, trajectory):
            why = "something was not said"
        asserted = _asserted(task)
        if not why and asserted and not holds(self._judge, self._said(task, trajectory), asserted):
            why = "an assertion does not hold"
        return Outcome(not why, why)

    def _differs(self, task: Task, trajectory: Trajectory) -> bool:
        if task.world["actions"] is None:
            return False
        world = self._worlds.replay(task)
        world.begin_turn(0)
        for call in _executed(trajectory):
            world.call(call)
        return world.snapshot() != world.wanted()

    def _told(self, task: Task, trajectory: Trajectory) -> bool:
        wanted = cast("list[str]", task.world["communicate"])
        said = [GREETING, *(self._answer(s) for s in trajectory.steps if not s.calls)]
        read = [text.lower().replace(",", "") for text in said]
        return all(any(info.lower() in text for text in read) for info in wanted)

    @cached_property
    def _dialect(self) -> Dialect:
        return executing(structured(self._written))

    def _answer(self, step: Step) -> str:
        """What the user reads of a generation that is no call."""
        cut = step.finish is FinishReason.LENGTH
        return self._dialect.parse(step.text, {one.name: one for one in SPECS}, cut).answer

    def _said(self, task: Task, trajectory: Trajectory) -> str:
        """The conversation as the judge reads it: no instructions, no thoughts, no calls."""
        steps = iter(trajectory.steps)
        lines = [f"assistant: {GREETING}"]
        for message in trajectory.messages:
            text = message.content
            if message.role == "assistant":
                step = next(steps)
                text = self._answer(step) if step.verdict is ParseVerdict.ANSWER else "None"
            if message.role != "system":
                lines.append(f"{message.role}: {text.removeprefix(task.turns[0].user).strip()}")
        return "\n".join(lines)


class RetailEnvironment(Environment):
    """Worlds of one shop; each waits for who plays its customer."""

    name = NAME
    varies = False
    blocking = True
    gives_up = True

    def __init__(self, folder: Path, user: Speaker) -> None:
        """Read nothing yet."""
        self._folder, self._user = folder, user

    @cached_property
    def shop(self) -> Shop:
        """The database.

        Raises:
            TaskError: it cannot be read.
        """
        return read_database(self._folder / "db.json")

    def open(self, task: Task) -> RetailWorld:
        """A fresh world; somebody plays its customer."""
        return RetailWorld(task, self.shop, self._user.says)

    def replay(self, task: Task) -> RetailWorld:
        """A fresh world in which calls are made alone."""
        return RetailWorld(task, self.shop, None)

    def close(self) -> None:
        """End the connection."""
        self._user.close()


def speakers(settings: SuiteSettings) -> tuple[Speaker, Speaker]:
    """Who plays the user and who judges."""
    return Speaker(settings.user, NAME, "user"), Speaker(settings.judge, NAME, "judge")


def _asserted(task: Task) -> list[str]:
    """What a model must judge; nothing where the reward is not based on it."""
    judged = "NL_ASSERTION" in cast("list[str]", task.world["basis"])
    return cast("list[str]", task.world["assertions"]) if judged else []


def _executed(trajectory: Trajectory) -> list[ToolCall]:
    return [
        call for step in trajectory.steps for call, _ in zip(step.calls, step.results, strict=False)
    ]


def _unfinished(trajectory: Trajectory) -> str:
    """Why the conversation did not end by its user; empty: it did."""
    if trajectory.stop is not StopReason.DONE:
        return f"ended by a budget: {trajectory.stop.value}"
    if sum(r.failed for s in trajectory.steps for r in s.results) >= MAX_FAILED:
        return TOO_MANY
    last = trajectory.steps[-1] if trajectory.steps else None
    return "" if last is not None and not last.calls and last.text.strip() else "said nothing"


def _acted(task: Task, trajectory: Trajectory) -> bool:
    """Whether each wanted call was made, as far as its arguments are compared."""
    calls = _executed(trajectory)
    wanted = cast("list[Mapping[str, Any]]", task.world["actions"] or [])
    return all(any(_same(action, call) for call in calls) for action in wanted)


def _same(action: Mapping[str, Any], call: ToolCall) -> bool:
    """As released: where no arguments are named, those that the call has are compared."""
    if action["name"] != call.name:
        return False
    named = action["compare_args"]
    keys = call.arguments if named is None else named
    theirs = {key: value for key, value in action["arguments"].items() if key in keys}
    return theirs == {key: value for key, value in call.arguments.items() if key in keys}

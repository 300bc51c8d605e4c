"""Supervised conversations: what an agent of some habits says on verified variants, as token ids.

The texts go through the very rollout that trains and evaluates, so that the ids the model
learns from are those that it will meet. Of the oracle's conversations only solved ones are kept.

    conversation = play(task, environment, dialect, template, settings)
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pretrain.habits import ORACLE, Habits, agent_texts
from rods.config import RolloutSettings
from rods.dialects import Dialect, structured
from rods.env import Environment
from rods.policies.ground_truth import rehearse, results_of
from rods.rollout.template import ChatTemplate
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.trace import trace
from rods.task import Task
from rods.types import StopReason, ToolResult
from rods.writers.graph.writer import GraphWriter
from rods.writers.resample.writer import ResampleWriter

DIALECT = "compact"
RESAMPLED = 0.2
"""Share of the conversations in the words of the benchmark's users."""
ROAMING = 0.5
"""Share of the conversations in templates that keep nothing of their seed but its world: what comes
next has to be read from the message, it cannot be remembered with the scenario."""


class Conversation(NamedTuple):
    """One task, rolled out."""

    ids: list[int]
    mask: list[int]
    """1 where the agent speaks."""


def play(
    task: Task,
    environment: Environment,
    dialect: Dialect,
    template: ChatTemplate,
    settings: RolloutSettings,
    habits: Habits = ORACLE,
    seed: int = 0,
) -> Conversation | None:
    """The conversation of an agent of these habits, whose choices are a function of the seed.

    Returns:
        None if it does not fit the budgets, or if the oracle's is not judged solved.
    """
    rng = random.Random(f"rods-habits-{seed}")
    texts = agent_texts(task, results_of(environment, task), dialect, habits, rng)
    trajectory = rehearse(task, environment, dialect, template, settings, texts)
    if trajectory.stop is not StopReason.DONE or not (trajectory.solved or habits != ORACLE):
        return None
    return Conversation(trajectory.ledger.ids, trajectory.ledger.mask)


class VariantGenerator:
    """Makes verified variants of one side of the split, and their conversations, by number.

    Variant `i` is a function of the seed and `i` alone, so processes can share the numbers.
    """

    def __init__(self, tasks: Sequence[Task], environment: Environment, seed: int) -> None:
        self.tasks, self.environment = tasks, environment
        self._graph = GraphWriter(tasks, environment)
        self._roaming = GraphWriter(tasks, environment, roam=True)
        self._resample = ResampleWriter(tasks, environment)
        self._seed = seed

    def variant(self, number: int) -> Task:
        """The first proposal of this number that a writer can make."""
        rng = random.Random(f"rods-pretrain-{self._seed}-{number}")
        while True:
            made = self._propose(rng.choice(self.tasks), rng)
            if isinstance(made, Task) and not any(r.failed for r in self._results(made)):
                return made

    def _results(self, task: Task) -> list[ToolResult]:
        return [step.result for step in trace(self.environment, task).steps]

    def _propose(self, seed: Task, rng: random.Random) -> Task | Rejection:
        kind = rng.random()
        if kind < RESAMPLED:
            return self._resample.propose(seed, rng)
        roaming = kind < RESAMPLED + ROAMING
        return (self._roaming if roaming else self._graph).propose(seed, rng)

    def texts(self, number: int) -> list[str]:
        """Everything that is said in a variant, for the tokenizer's corpus."""
        task, dialect = self.variant(number), structured(DIALECT)
        said = [turn.user for turn in task.turns]
        said += [dialect.write(turn.ground_truth) for turn in task.turns if turn.ground_truth]
        return said + [result.content[:300] for result in self._results(task)]


def make_conversations(
    generator: VariantGenerator,
    template: ChatTemplate,
    settings: RolloutSettings,
    numbers: Iterable[int],
    habits: Habits = ORACLE,
) -> Iterator[Conversation]:
    """The conversations of these variants; those that do not fit the budgets are left out."""
    dialect = structured(DIALECT)
    for number in numbers:
        task = generator.variant(number)
        made = play(task, generator.environment, dialect, template, settings, habits, number)
        if made is not None:
            yield made

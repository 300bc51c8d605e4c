"""Supervised conversations: what an agent of some habits says on verified variants, as token ids.

The texts are played through the very rollout that trains and evaluates, so that the ids the model
learns from are those that it will meet. Of the oracle's conversations only solved ones are kept.

    conversation = play(task, environment, dialect, template, settings)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rods.config import RolloutSettings
from rods.dialects import Dialect, structured
from rods.envs.bfcl.world import BfclEnvironment
from rods.policies.habits import ORACLE, Habits, agent_texts
from rods.policy import ScriptedPolicy
from rods.rollout.groups import run_episode
from rods.rollout.template import ChatTemplate
from rods.synthesis.rejection import Rejection
from rods.synthesis.writers.graph.writer import GraphWriter
from rods.synthesis.writers.resample.writer import ResampleWriter
from rods.task import Task
from rods.types import StopReason

DIALECT = "compact"
RESAMPLED = 0.2
"""Share of the conversations in the words of the benchmark's users."""
ROAMING = 0.5
"""Share of the conversations in templates that keep nothing of their seed but its world: what comes
next has to be read from the message, it cannot be remembered with the scenario."""


class Conversation(NamedTuple):
    """One task, played."""

    ids: list[int]
    mask: list[int]
    """1 where the agent speaks."""


def play(
    task: Task,
    environment: BfclEnvironment,
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
    end = template.end_id
    rng = random.Random(f"rods-habits-{seed}")
    texts = agent_texts(task, environment.replay(task), dialect, habits, rng)
    script = [[*template.encode(text), end] for text in texts]
    trajectory = asyncio.run(
        run_episode(task, environment, ScriptedPolicy(script), dialect, template, settings)
    )
    if trajectory.stop is not StopReason.DONE or not (trajectory.solved or habits != ORACLE):
        return None
    return Conversation(trajectory.ledger.ids, trajectory.ledger.mask)


class VariantGenerator:
    """Makes verified variants of one side of the split, and their conversations, by number.

    Variant `i` is a function of the seed and `i` alone, so processes can share the numbers.
    """

    def __init__(self, tasks: Sequence[Task], wheel: str, seed: int) -> None:
        self.tasks = tasks
        self.environment = BfclEnvironment(wheel)
        self._graph = GraphWriter(tasks, self.environment)
        self._roaming = GraphWriter(tasks, self.environment, roam=True)
        self._resample = ResampleWriter(tasks, self.environment)
        self._seed = seed

    def variant(self, number: int) -> Task:
        """The first proposal of this number that a writer can make."""
        rng = random.Random(f"rods-pretrain-{self._seed}-{number}")
        while True:
            made = self._propose(rng.choice(self.tasks), rng)
            if isinstance(made, Task) and not self.environment.replay(made).failed:
                return made

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
        played = self.environment.replay(task).turns
        return said + [r.content[:300] for turn in played for r in turn.results]


def make_conversations(
    generator: VariantGenerator,
    template: ChatTemplate,
    settings: RolloutSettings,
    numbers: Iterable[int],
    habits: Habits = ORACLE,
) -> Iterator[Conversation]:
    """The conversations of these variants; those that do not fit the budgets are left out.

    Args:
        generator: of the variants.
        template: of the policy.
        settings: budgets.
        numbers: which variants.
        habits: shares of the worse ways.
    """
    dialect = structured(DIALECT)
    for number in numbers:
        task = generator.variant(number)
        made = play(task, generator.environment, dialect, template, settings, habits, number)
        if made is not None:
            yield made

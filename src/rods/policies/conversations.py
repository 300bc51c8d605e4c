"""Supervised conversations: what the oracle says on verified variants, as token ids with a mask.

The oracle's texts are played through the very rollout that trains and evaluates, so that the ids
the model learns from are those that it will meet. A call that needs the result of an earlier one in
the same turn waits for it in a step of its own. Only solved conversations are kept.

    texts = oracle_texts(task, environment.replay(task), dialect)
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
from rods.envs.judge import Replay
from rods.policy import ScriptedPolicy
from rods.rollout import run_episode
from rods.synthesis.writers import make_writer
from rods.task import Task, Turn
from rods.template import ChatTemplate
from rods.types import ToolCall, ToolResult, Value

DIALECT = "compact"
RESAMPLED = 0.4
"""Share of the conversations in the words of the benchmark's users; the others are in templates."""
DONE = "Done."
MISSING_TOOL = "I have no tool for that."
MISSING_VALUE = "Which one exactly? Please tell me more."


class Conversation(NamedTuple):
    """One solved task."""

    ids: list[int]
    mask: list[int]
    """1 where the oracle speaks."""


def oracle_texts(task: Task, replay: Replay, dialect: Dialect) -> list[str]:
    """What a perfect agent would say on each of its generations.

    Args:
        task: whose ground truth is played.
        replay: results of the ground truth.
        dialect: how calls are written.
    """
    texts: list[str] = []
    known = ""
    for index, (turn, played) in enumerate(zip(task.turns, replay.turns, strict=True)):
        known += "\n" + turn.user
        if not turn.ground_truth:
            later = task.turns[index + 1] if index + 1 < len(task.turns) else Turn("")
            texts.append(MISSING_VALUE if later.user else MISSING_TOOL)
            continue
        texts += [dialect.write(calls) for calls in steps(turn, played.results, known)]
        known += "".join("\n" + result.content for result in played.results)
        texts.append(DONE)
    return texts


def steps(turn: Turn, results: tuple[ToolResult, ...], known: str) -> Iterator[list[ToolCall]]:
    """A turn's calls, parted where a call needs what an earlier one of the turn returned.

    Args:
        turn: with at least one call.
        results: of its calls, in order.
        known: everything that the agent has read before the turn's first call.
    """
    step: list[ToolCall] = []
    unread = ""
    for call, result in zip(turn.ground_truth, results, strict=True):
        words = [str(v) for v in _scalars(list(call.arguments.values()))]
        if step and any(w not in known and len(w) > 1 and w in unread for w in words):
            yield step
            step, known, unread = [], known + unread, ""
        step.append(call)
        unread += "\n" + result.content
    yield step


def _scalars(value: Value) -> Iterator[str | int | float]:
    if isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _scalars(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def play(
    task: Task,
    environment: BfclEnvironment,
    dialect: Dialect,
    template: ChatTemplate,
    settings: RolloutSettings,
) -> Conversation | None:
    """The oracle's conversation; None if it does not fit the budgets or is not judged solved."""
    end = template.stop_ids[0]
    texts = oracle_texts(task, environment.replay(task), dialect)
    script = [[*template.encode(text), end] for text in texts]
    trajectory = asyncio.run(
        run_episode(task, environment, ScriptedPolicy(script), dialect, template, settings)
    )
    if not trajectory.solved:
        return None
    return Conversation(trajectory.ledger.ids, trajectory.ledger.mask)


class Maker:
    """Makes verified variants of one side of the split, and their conversations, by number.

    Variant `i` is a function of the seed and `i` alone, so processes can share the numbers.
    """

    def __init__(self, tasks: Sequence[Task], wheel: str, seed: int) -> None:
        self.tasks = tasks
        self.environment = BfclEnvironment(wheel)
        self._writer = make_writer("graph", tasks, self.environment, RESAMPLED)
        self._seed = seed

    def variant(self, number: int) -> Task:
        """The first proposal of this number that the writer can make."""
        rng = random.Random(f"rods-pretrain-{self._seed}-{number}")
        while True:
            made = self._writer.propose(rng.choice(self.tasks), rng)
            if isinstance(made, Task) and not self.environment.replay(made).failed:
                return made

    def texts(self, number: int) -> list[str]:
        """Everything that is said in a variant, for the tokenizer's corpus."""
        task, dialect = self.variant(number), structured(DIALECT)
        said = [turn.user for turn in task.turns]
        said += [dialect.write(turn.ground_truth) for turn in task.turns if turn.ground_truth]
        played = self.environment.replay(task).turns
        return said + [r.content[:300] for turn in played for r in turn.results]


def make_conversations(
    maker: Maker, template: ChatTemplate, settings: RolloutSettings, numbers: Iterable[int]
) -> Iterator[Conversation]:
    """The conversations of these variants; those that do not fit the budgets are left out."""
    dialect = structured(DIALECT)
    for number in numbers:
        made = play(maker.variant(number), maker.environment, dialect, template, settings)
        if made is not None:
            yield made

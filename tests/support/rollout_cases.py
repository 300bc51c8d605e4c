"""Shared by the tests of the rollout: one dialect, one template, scripts of texts, short calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from fake_tokenizer import FakeTokenizer
from rods.config import RolloutSettings
from rods.dialects import get_dialect
from rods.policy import Completion, Policy, ScriptedPolicy
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_episode, run_groups
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import FinishReason
from worlds import NotesEnvironment

TEMPLATE = ChatTemplate(FakeTokenizer())
DIALECT = get_dialect("pythonic")


def script(*texts: str) -> ScriptedPolicy:
    """A policy that says these texts in every session."""
    return ScriptedPolicy([[*TEMPLATE.encode(text), TEMPLATE.end_id] for text in texts])


def settings(**changes: Any) -> RolloutSettings:
    return RolloutSettings(**{"k": 4, "max_invalid": 1.0, **changes})


def play(
    task: Task,
    policy: Policy,
    environment: NotesEnvironment | None = None,
    dialect: str = "pythonic",
    **changes: Any,
) -> Trajectory:
    """One episode."""
    context = RolloutContext(
        environment or NotesEnvironment(),
        policy,
        get_dialect(dialect),
        TEMPLATE,
        settings(**changes),
    )
    return asyncio.run(run_episode(context, task))


def play_groups(
    tasks: Sequence[Task],
    policy: Policy,
    environment: NotesEnvironment | None = None,
    seed: int = 0,
    on_trajectory: Callable[[Trajectory], None] | None = None,
    **changes: Any,
) -> list[Group]:
    """A step."""

    async def collect() -> list[Group]:
        context = RolloutContext(
            environment or NotesEnvironment(), policy, DIALECT, TEMPLATE, settings(**changes), seed
        )
        return [group async for group in run_groups(context, tasks, on_trajectory)]

    return asyncio.run(collect())


def read_by_policy(trajectory: Trajectory) -> str:
    """Everything that the policy reads or wrote, as text."""
    return TEMPLATE.tokenizer.decode(trajectory.ledger.ids, skip_special_tokens=False)


class NoisyPolicy:
    """Says random calls, made of its seed and position alone, and arrives after random waits."""

    def __init__(self, waits: int | None = None) -> None:
        self.version = 3
        self.opened: list[tuple[int, tuple[int, ...]]] = []
        self._waits = None if waits is None else random.Random(waits)

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> NoisySession:
        self.opened.append((seed, tuple(shared_prompt)))
        return NoisySession(seed, self._waits)


class NoisySession:
    def __init__(self, seed: int, waits: random.Random | None) -> None:
        self._random, self._waits = random.Random(seed), waits

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        for _ in range(self._waits.randrange(6) if self._waits else 0):
            await asyncio.sleep(0)
        text = self._random.choice(
            [
                "[add(amount={})]",
                "[note(text='{}')]",
                "ok {}",
                "[total()]",
                "[add({})",
                "[gone(x={})]",
            ]
        ).format(self._random.randrange(100))
        ids = (*map(self._letter, text), TEMPLATE.end_id)
        logprobs = tuple(-self._random.random() for _ in ids)
        finish = FinishReason.STOP if len(ids) <= max_tokens else FinishReason.LENGTH
        return Completion(ids[:max_tokens], logprobs[:max_tokens], finish, 3)

    def _letter(self, letter: str) -> int:
        return TEMPLATE.encode(letter)[0]  # never the pairs that `encode` of a text would choose

    def close(self) -> None:
        pass

"""Trajectories and groups: the one artifact that every package reads.

A `Trajectory` is everything that happened in one attempt at a task: messages for people, spans for
the trainer, steps and verdicts for rewards. A `Group` is K of them by one policy version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from rods.env import TurnVerdict
from rods.task import Task
from rods.tokens import Ledger, Span
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Step:
    """One generation of the policy and what became of it."""

    turn: int
    """0-based index of the turn it belongs to."""
    text: str
    """Decoded text of the generation, without special tokens (for display and scoring)."""
    verdict: ParseVerdict
    finish: FinishReason
    calls: tuple[ToolCall, ...] = ()
    """Calls that were parsed; executed unless the verdict is an error."""
    results: tuple[ToolResult, ...] = ()
    """One for each executed call."""
    tokens: int = 0
    """Sampled tokens."""


@dataclass(frozen=True)
class Trajectory:
    """One attempt of one policy version at one task."""

    task_id: str
    member: int
    """Index within the group, 0 .. K-1."""
    policy_version: int
    """Policy version at its start; later spans may have later versions (`Span.version`)."""
    seed: int
    messages: tuple[Message, ...]
    """The conversation as people read it: system prompt, user, assistant and tool results."""
    steps: tuple[Step, ...]
    """Generations of the policy, in order, each with its calls and their results."""
    verdicts: tuple[TurnVerdict, ...]
    """One for each turn that was begun, save one that ran out of `rollout.seconds`; shorter than
    `n_turns` if the trajectory was cut."""
    n_turns: int
    """Turns of the task: the fixed denominator of the progress reward."""
    spans: tuple[Span, ...]
    """Token ids in order, each span either read or sampled; `ledger` joins them."""
    stop: StopReason
    failure: str | None = None
    """Why infrastructure failed; such a trajectory is invalid, not worth 0."""
    seconds: float = 0.0
    """Wall-clock seconds from its start to its end."""
    temperature: float = 1.0
    """Sampling temperature, 0 (greedy) to 5."""
    cut_results: int = 0
    """Tool results that were shortened to fit (each says so in its text); never silent."""

    @property
    def valid(self) -> bool:
        """True if it may enter the mean progress, a baseline or a loss."""
        return self.failure is None

    @cached_property
    def ledger(self) -> Ledger:
        """Token ids, mask and log-probabilities."""
        return Ledger(self.spans)

    @property
    def progress(self) -> float:
        """Share of the task's turns that were solved, in [0, 1]."""
        return sum(verdict.solved for verdict in self.verdicts) / self.n_turns

    @property
    def official(self) -> bool:
        """The benchmark's own verdict: every turn was reached and passes its checker."""
        return len(self.verdicts) == self.n_turns and all(v.official for v in self.verdicts)

    @property
    def solved(self) -> bool:
        """Our verdict: every turn was reached and solved, abstentions included."""
        return len(self.verdicts) == self.n_turns and all(v.solved for v in self.verdicts)


class TrainingSignal(NamedTuple):
    """Reward and advantages of one trajectory in an update."""

    reward: float | None
    """The reward that was compared within the group, less what KL costs; None: it is invalid."""
    reward_parts: Mapping[str, float]
    span_advantages: Sequence[float | None]
    """For each span the mean advantage of its tokens with loss; None: none of them has a loss."""


Signals: TypeAlias = Sequence[Sequence[TrainingSignal]]
"""Rewards and advantages of an update, by group and member."""


@dataclass(frozen=True)
class Group:
    """K trajectories of one task (K is `rollout.k`), begun by one policy version."""

    task: Task
    trajectories: Sequence[Trajectory]
    policy_version: int

"""The budgets of a trajectory, checked in one place and in one order.

A budget of N allows exactly N: a trajectory stops when the *next* use would exceed it, so one that
spends a budget to the last unit and then ends is done, not cut. The order of the checks is

    seconds, turns, calls, generated tokens, context tokens

and the first budget that does not allow what is needed names the `StopReason`.

    limits = Limits.from_settings(config.rollout)
    stop = limits.exceeded(usage, tokens=1, context=len(new_ids) + 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rods.config import RolloutSettings
from rods.types import StopReason


@dataclass(slots=True)
class Usage:
    """Amounts that a trajectory has used so far."""

    seconds: float = 0.0
    """Seconds of the world's calls; waiting for the policy does not count."""
    turns: int = 0
    """Turns begun."""
    calls: int = 0
    """Calls handed to the world, refused ones included."""
    generated: int = 0
    """Tokens sampled."""
    context: int = 0
    """All tokens so far."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Five budgets of a trajectory and bounds within it."""

    seconds: float
    turns: int
    calls: int
    generated: int
    context: int
    steps_per_turn: int
    """Generations in one turn; then the turn is closed by force and the next one begins."""
    step_tokens: int
    """Tokens of one generation at most; a longer one is truncated and not executed."""
    call_seconds: float = math.inf
    """Seconds of one call of a world that has a thread or a process."""

    @classmethod
    def from_settings(cls, settings: RolloutSettings) -> Limits:
        """The budgets of a configuration."""
        return cls(
            seconds=settings.seconds,
            turns=settings.turns,
            calls=settings.calls,
            generated=settings.generated_tokens,
            context=settings.context_tokens,
            steps_per_turn=settings.steps_per_turn,
            step_tokens=settings.step_tokens,
            call_seconds=settings.worlds.call_seconds or math.inf,
        )

    def exceeded(
        self, usage: Usage, *, turns: int = 0, calls: int = 0, tokens: int = 0, context: int = 0
    ) -> StopReason | None:
        """The first budget that does not allow this much more (at least), or None."""
        if usage.seconds >= self.seconds:
            return StopReason.SECONDS
        if turns and usage.turns + turns > self.turns:
            return StopReason.TURNS
        if calls and usage.calls + calls > self.calls:
            return StopReason.CALLS
        if tokens and usage.generated + tokens > self.generated:
            return StopReason.GENERATED
        if context and usage.context + context > self.context:
            return StopReason.CONTEXT
        return None

    def step_budget(self, usage: Usage) -> int:
        """Tokens that the next generation may have: the least of step, trajectory and context."""
        return min(self.step_tokens, self.generated - usage.generated, self.context - usage.context)

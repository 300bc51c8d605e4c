"""The budgets of a trajectory, checked in one place and in one order.

A budget of N allows exactly N: a trajectory stops when the *next* use would exceed it, so one that
spends a budget to the last unit and then ends is done, not cut. The order of the checks is

    seconds, turns, calls, generated tokens, context tokens

and the first budget that does not allow what is needed names the `StopReason`.

    stop = exceeded(config.rollout, usage, tokens=1, context=len(new_ids) + 1)
"""

from __future__ import annotations

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


def exceeded(
    budgets: RolloutSettings,
    usage: Usage,
    *,
    turns: int = 0,
    calls: int = 0,
    tokens: int = 0,
    context: int = 0,
) -> StopReason | None:
    """The first budget that does not allow this much more (at least), or None."""
    if usage.seconds >= budgets.seconds:
        return StopReason.SECONDS
    if turns and usage.turns + turns > budgets.turns:
        return StopReason.TURNS
    if calls and usage.calls + calls > budgets.calls:
        return StopReason.CALLS
    if tokens and usage.generated + tokens > budgets.generated_tokens:
        return StopReason.GENERATED
    if context and usage.context + context > budgets.context_tokens:
        return StopReason.CONTEXT
    return None


def step_budget(budgets: RolloutSettings, usage: Usage) -> int:
    """Tokens that the next generation may have: the least of step, trajectory and context."""
    left = budgets.generated_tokens - usage.generated, budgets.context_tokens - usage.context
    return min(budgets.step_tokens, *left)

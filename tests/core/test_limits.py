"""Five budgets, one order, and no off-by-one: a budget of N allows exactly N."""

from __future__ import annotations

import pytest

from rods.config import RolloutSettings
from rods.limits import Usage, exceeded, step_budget
from rods.types import StopReason

WIDE = RolloutSettings(
    seconds=10.0, turns=100, calls=100, generated_tokens=100, context_tokens=100, step_tokens=50
)
CASES = [
    ("turns", "turns", "turns", StopReason.TURNS),
    ("calls", "calls", "calls", StopReason.CALLS),
    ("generated_tokens", "generated", "tokens", StopReason.GENERATED),
    ("context_tokens", "context", "context", StopReason.CONTEXT),
]


@pytest.mark.parametrize(("limit", "used", "need", "reason"), CASES)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_budget_of_n_allows_exactly_n(
    limit: str, used: str, need: str, reason: StopReason, n: int
) -> None:
    bound = WIDE.model_copy(update={limit: n})
    for spent in range(n):
        assert exceeded(bound, Usage(**{used: spent}), **{need: 1}) is None
    assert exceeded(bound, Usage(**{used: n}), **{need: 1}) is reason
    assert exceeded(bound, Usage(**{used: n})) is None  # spent, but nothing more is needed
    assert exceeded(bound, Usage(), **{need: n}) is None
    assert exceeded(bound, Usage(), **{need: n + 1}) is reason


def test_the_deadline_is_reached_at_its_second() -> None:
    assert exceeded(WIDE, Usage(seconds=9.99)) is None
    assert exceeded(WIDE, Usage(seconds=10.0)) is StopReason.SECONDS


def test_the_order_is_seconds_turns_calls_generated_context() -> None:
    usage = Usage(seconds=99.0, turns=100, calls=100, generated=100, context=100)
    need = {"turns": 1, "calls": 1, "tokens": 1, "context": 1}
    found = []
    for key in ("seconds", *need):
        found.append(exceeded(WIDE, usage, **need))
        usage.seconds = 0.0
        need = {name: n for name, n in need.items() if name != key}
    assert found == [StopReason.SECONDS, *(reason for *_, reason in CASES)]


def test_a_generation_gets_the_least_of_three_bounds() -> None:
    assert step_budget(WIDE, Usage()) == 50
    assert step_budget(WIDE, Usage(generated=60)) == 40
    assert step_budget(WIDE, Usage(generated=60, context=99)) == 1

"""Five budgets, one order, and no off-by-one: a budget of N allows exactly N."""

from __future__ import annotations

import pytest

from rods.config import RolloutSettings
from rods.limits import Limits, Usage
from rods.types import StopReason

WIDE = Limits(
    seconds=10.0,
    turns=100,
    calls=100,
    generated=100,
    context=100,
    steps_per_turn=6,
    step_tokens=50,
)
CASES = [
    ("turns", "turns", "turns", StopReason.TURNS),
    ("calls", "calls", "calls", StopReason.CALLS),
    ("generated", "generated", "tokens", StopReason.GENERATED),
    ("context", "context", "context", StopReason.CONTEXT),
]


def limits(**changes: float) -> Limits:
    values = {name: getattr(WIDE, name) for name in WIDE.__slots__}
    return Limits(**{**values, **changes})


@pytest.mark.parametrize(("limit", "used", "need", "reason"), CASES)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_budget_of_n_allows_exactly_n(
    limit: str, used: str, need: str, reason: StopReason, n: int
) -> None:
    bound = limits(**{limit: n})
    for spent in range(n):
        assert bound.exceeded(Usage(**{used: spent}), **{need: 1}) is None
    assert bound.exceeded(Usage(**{used: n}), **{need: 1}) is reason
    assert bound.exceeded(Usage(**{used: n})) is None  # spent, but nothing more is needed
    assert bound.exceeded(Usage(), **{need: n}) is None
    assert bound.exceeded(Usage(), **{need: n + 1}) is reason


def test_the_deadline_is_reached_at_its_second() -> None:
    assert WIDE.exceeded(Usage(seconds=9.99)) is None
    assert WIDE.exceeded(Usage(seconds=10.0)) is StopReason.SECONDS


def test_the_order_is_seconds_turns_calls_generated_context() -> None:
    usage = Usage(seconds=99.0, turns=100, calls=100, generated=100, context=100)
    need = {"turns": 1, "calls": 1, "tokens": 1, "context": 1}
    order = []
    for name, key in [
        ("seconds", None),
        ("turns", "turns"),
        ("calls", "calls"),
        ("generated", "tokens"),
        ("context", "context"),
    ]:
        order.append((name, WIDE.exceeded(usage, **need)))
        usage.seconds = 0.0
        need.pop(key or "", None)
    assert order == [
        ("seconds", StopReason.SECONDS),
        ("turns", StopReason.TURNS),
        ("calls", StopReason.CALLS),
        ("generated", StopReason.GENERATED),
        ("context", StopReason.CONTEXT),
    ]


def test_a_generation_gets_the_least_of_three_bounds() -> None:
    assert WIDE.step_budget(Usage()) == 50
    assert WIDE.step_budget(Usage(generated=60)) == 40
    assert WIDE.step_budget(Usage(generated=60, context=99)) == 1


def test_the_configuration_is_taken_over() -> None:
    settings = RolloutSettings(
        turns=3, calls=4, generated_tokens=5, context_tokens=64, seconds=7, steps_per_turn=8,
        step_tokens=9,
    )  # fmt: skip
    assert Limits.from_settings(settings) == Limits(7.0, 3, 4, 5, 64, 8, 9)

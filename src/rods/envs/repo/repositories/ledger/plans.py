"""Budgets, interest and savings."""

from __future__ import annotations

from .entries import balance, spent


def left(entries: list[tuple[int, int]], budget: int, first: int, last: int) -> int:
    """What is left of a budget for these days; negative if more was spent."""
    return budget - spent(entries, first, last)


def is_over(entries: list[tuple[int, int]], budget: int, first: int, last: int) -> bool:
    """Whether more was spent than the budget allows; all of it may be."""
    return left(entries, budget, first, last) < 0


def interest(cents: int, percent: int, years: int) -> int:
    """Amount with interest after so many years, cents cut off at the end of each."""
    for _ in range(years):
        cents = cents + cents * percent // 100
    return cents


def months_to_save(goal: int, saved: int, monthly: int) -> int:
    """Months until a goal is reached; 0 if it is."""
    missing = goal - saved
    if missing <= 0:
        return 0
    return (missing + monthly - 1) // monthly


def can_pay(entries: list[tuple[int, int]], price: int, day: int, reserve: int) -> bool:
    """Whether a price can be paid on a day so that the reserve stays untouched."""
    return balance(entries, day) - price >= reserve

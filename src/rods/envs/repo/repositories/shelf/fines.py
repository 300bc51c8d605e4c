"""What a late book costs."""

from __future__ import annotations

from .loans import days_late, overdue

DAILY, MOST = 2, 30
"""Price of a day, and of a book at most."""


def fine(due: int, returned: int) -> int:
    """Price of one late book; the first two days are free."""
    days = days_late(due, returned) - 2
    if days <= 0:
        return 0
    return min(DAILY * days, MOST)


def total(loans: dict[str, int], today: int) -> int:
    """Price of all books that are late today."""
    return sum(fine(loans[title], today) for title in overdue(loans, today))


def share(amount: int, readers: int) -> list[int]:
    """An amount parted among readers; who comes first pays what does not part evenly."""
    each, rest = amount // readers, amount % readers
    return [each + 1 if place < rest else each for place in range(readers)]


def after_payment(fines: int, paid: int) -> int:
    """What is left to pay; nobody gets money back."""
    if paid >= fines:
        return 0
    return fines - paid

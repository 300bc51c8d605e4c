"""When loans are due, how late they are, and who may borrow."""

from __future__ import annotations

LIMIT = 5
"""Books that one reader may have at once."""


def due_day(borrowed: int, weeks: int) -> int:
    """Day on which a loan of so many weeks ends."""
    return borrowed + 7 * weeks


def days_late(due: int, returned: int) -> int:
    """Days after the due day; 0 if it came in time."""
    return max(0, returned - due)


def is_overdue(due: int, today: int) -> bool:
    """Whether a book that is still out should be back; on the due day it need not be."""
    return today > due


def may_borrow(books: int, fines: int) -> bool:
    """Whether a reader may have one more book: below the limit, and fines of less than 10."""
    return books < LIMIT and fines < 10


def renew(due: int, weeks: int, renewals: int) -> int:
    """New due day; a loan can be renewed twice, after that it stays as it is."""
    if renewals >= 2:
        return due
    return due_day(due, weeks)


def overdue(loans: dict[str, int], today: int) -> list[str]:
    """Titles that should be back, the latest first, equal ones by title."""
    late = [title for title, due in loans.items() if is_overdue(due, today)]
    return sorted(late, key=lambda title: (-days_late(loans[title], today), title))

"""Meetings as (start, end) in minutes; the end is not part of them."""

from __future__ import annotations

Meeting = tuple[int, int]


def overlap(a: Meeting, b: Meeting) -> bool:
    """Whether two meetings have a minute in common."""
    return a[0] < b[1] and b[0] < a[1]


def busy(meetings: list[Meeting]) -> int:
    """Minutes in which at least one meeting goes on."""
    return sum(end - start for start, end in merged(meetings))


def merged(meetings: list[Meeting]) -> list[Meeting]:
    """Meetings in order, those that touch or overlap made one."""
    found: list[Meeting] = []
    for start, end in sorted(meetings):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def gaps(meetings: list[Meeting], first: int, last: int) -> list[Meeting]:
    """What is free between two times."""
    free: list[Meeting] = []
    at = first
    for start, end in merged(meetings):
        if start > at:
            free.append((at, min(start, last)))
        at = max(at, end)
    if at < last:
        free.append((at, last))
    return free


def first_free(meetings: list[Meeting], length: int, first: int, last: int) -> int:
    """When a meeting of this length can begin at the earliest; -1 if it cannot."""
    for start, end in gaps(meetings, first, last):
        if end - start >= length:
            return start
    return -1

"""Clock times as minutes since midnight."""

from __future__ import annotations

DAY = 24 * 60


def minutes(text: str) -> int:
    """Minutes since midnight of a text such as `9:05`."""
    hours, _, rest = text.partition(":")
    if not (0 <= int(hours) < 24 and 0 <= int(rest) < 60):
        raise ValueError(text)
    return 60 * int(hours) + int(rest)


def clock(minutes: int) -> str:
    """Text of a time, also of one beyond midnight."""
    minutes = minutes % DAY
    return f"{minutes // 60}:{minutes % 60:02}"


def later(text: str, by: int) -> str:
    """The time so many minutes later."""
    return clock(minutes(text) + by)


def between(start: str, end: str) -> int:
    """Minutes from one time to the next other; if that is not later it is tomorrow's."""
    length = minutes(end) - minutes(start)
    return length if length > 0 else length + DAY


def is_morning(text: str) -> bool:
    """Whether a time is before noon."""
    return minutes(text) < DAY // 2

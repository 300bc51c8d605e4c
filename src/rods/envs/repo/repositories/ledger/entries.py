"""Entries of an account: a day and an amount in cents, negative for what is spent."""

from __future__ import annotations


def balance(entries: list[tuple[int, int]], until: int) -> int:
    """Sum of the entries up to and with a day."""
    return sum(amount for day, amount in entries if day <= until)


def spent(entries: list[tuple[int, int]], first: int, last: int) -> int:
    """What was spent from the first to the last day, both counted, as a positive number."""
    return -sum(amount for day, amount in entries if first <= day <= last and amount < 0)


def lowest(entries: list[tuple[int, int]]) -> int:
    """The lowest balance at the end of any entry; 0 without entries, and never above 0."""
    least = running = 0
    for _, amount in sorted(entries):
        running = running + amount
        least = min(least, running)
    return least


def parse(text: str) -> int:
    """Cents of a text such as `12.50`, `-3.05` or `7`."""
    sign = -1 if text.startswith("-") else 1
    whole, _, part = text.lstrip("-").partition(".")
    if len(part) > 2:
        raise ValueError(text)
    return sign * (100 * int(whole) + int(part.ljust(2, "0")))


def show(cents: int) -> str:
    """Text of an amount, with two digits after the point."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"

"""What it costs to send a parcel."""

from __future__ import annotations

STEPS = ((500, 3), (2000, 5), (10000, 9))
"""Grams up to which, and the price."""
HEAVY = 10000
"""Grams above which nothing is sent."""


def base(grams: int) -> int:
    """Price by weight.

    Raises:
        ValueError: it weighs nothing or is too heavy.
    """
    if grams <= 0 or grams > HEAVY:
        raise ValueError(grams)
    for most, price in STEPS:
        if grams <= most:
            return price
    raise ValueError(grams)


def price(grams: int, zone: int, express: bool) -> int:
    """Price to a zone from 1 on; express costs half as much again, rounded up."""
    total = base(grams) + 2 * (zone - 1)
    if express:
        total = total + (total + 1) // 2
    return total


def discount(total: int, parcels: int) -> int:
    """Price of many parcels: a tenth less from ten parcels on, a fifth less from fifty on."""
    if parcels >= 50:
        return total - total // 5
    if parcels >= 10:
        return total - total // 10
    return total


def cheapest(offers: dict[str, int]) -> str:
    """Who offers the lowest price, the first in the alphabet among equals; nobody: empty."""
    if not offers:
        return ""
    return min(sorted(offers), key=lambda name: offers[name])

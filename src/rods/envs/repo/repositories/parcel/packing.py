"""How things are packed."""

from __future__ import annotations

from .prices import HEAVY, price


def volume(sides: tuple[int, int, int]) -> int:
    """Cubic centimetres."""
    return sides[0] * sides[1] * sides[2]


def fits(thing: tuple[int, int, int], box: tuple[int, int, int]) -> bool:
    """Whether a thing goes into a box in some way; sides may be equal."""
    return all(a <= b for a, b in zip(sorted(thing), sorted(box), strict=True))


def pack(weights: list[int], most: int) -> list[list[int]]:
    """Weights put one after the other into the first parcel that has room."""
    parcels: list[list[int]] = []
    for weight in weights:
        for parcel in parcels:
            if sum(parcel) + weight <= most:
                parcel.append(weight)
                break
        else:
            parcels.append([weight])
    return parcels


def sendable(weights: list[int]) -> list[int]:
    """Weights that may be sent, in their order."""
    return [weight for weight in weights if 0 < weight <= HEAVY]


def cost(weights: list[int], most: int, zone: int) -> int:
    """Price of all parcels into which weights are packed, not express."""
    return sum(price(sum(parcel), zone, False) for parcel in pack(sendable(weights), most))

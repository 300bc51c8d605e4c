"""New numbers: within range, in the old format, keeping order and comparisons.

Owns the choice of amounts, quantities, readings and ids. Never touches a number that something is
computed from.

    assign_numbers(sketch, values, frozen=frozenset({50.0}), landmarks=(35.0,), ...)
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence, Set

from rods.synthesis.structure.sources import NUMBER
from rods.writers.resample.sketch import New, Sketch

SMALL_RANGE = 120
"""Kinds with no larger value are drawn from the whole range, unless they are `scaled`."""
_MEASURED = re.compile(rf"({NUMBER.pattern}) ([A-Za-z]{{3,}}s)\b")
"""A number with its unit in the plural."""
KEEP = 0.06
"""Chance that a number stays as it is."""

SUPERLATIVES = ("highest", "lowest", "top priority", "critical")


def assign_numbers(
    sketch: Sketch,
    values: list[New],
    frozen: Set[float],
    landmarks: Sequence[float],
    keep_counters: bool,
    rng: random.Random,
) -> None:
    """Fill the slots of numbers in `values`; what must not move stays None."""
    groups: dict[str, list[tuple[float, int]]] = {}
    taken: set[float] = set(landmarks) | set(sketch.found.numbers)
    bound = frozen | _reckoned(sketch)
    for index, (kind, key) in enumerate(sketch.slots):
        if kind == "counter" and not keep_counters:
            old = float(key)
            values[index] = old + rng.randint(1, 40_000 if old >= 1000 else 880)
        elif kind == "number" and movable(sketch, float(key), bound):
            kinds = sorted(sketch.found.numbers[float(key)])
            if rng.random() > KEEP or sketch.domains.numbers[kinds[0]].ordered:
                groups.setdefault(kinds[0], []).append((float(key), index))
    for kind, members in groups.items():
        news = _group(sketch, kind, sorted(members), landmarks, taken, rng)
        for (_, index), new in zip(sorted(members), news, strict=True):
            values[index] = new


def _reckoned(sketch: Sketch) -> set[float]:
    """Numbers said beside another one of the same unit that stays: they are reckoned from it.

    Of `add 30 gallons so that I end with 40 gallons` neither moves.
    """
    found: set[float] = set()
    for text in sketch.found.prose.splitlines():
        units: dict[str, set[float]] = {}
        for number, unit in _MEASURED.findall(text):
            units.setdefault(unit.lower(), set()).add(float(number.replace(",", "")))
        for said in units.values():
            found |= said if len(said) > 1 and said - set(sketch.found.numbers) else set()
    return found


def movable(sketch: Sketch, value: float, frozen: Set[float]) -> bool:
    """Whether this number may get a new value: large enough to be told from chance, not frozen."""
    if value in frozen or value <= 0:
        return False
    said = sketch.said_numbers.get(value, 0)
    if value >= 10 or (not said and value not in sketch.argued_numbers):
        return True
    kinds = sketch.found.numbers[value]
    small = all(sketch.domains.numbers[kind].small for kind in kinds)
    prose = sketch.found.prose.lower()
    return said == 1 and small and not any(word in prose for word in SUPERLATIVES)


def _group(
    sketch: Sketch,
    kind: str,
    members: Sequence[tuple[float, int]],
    landmarks: Sequence[float],
    taken: set[float],
    rng: random.Random,
) -> list[New]:
    ordered = sketch.domains.numbers[kind].ordered
    for _ in range(12):
        news = [_fresh(sketch, value, landmarks, rng) for value, _ in members]
        if ordered:
            news = [_round(v, old) for v, (old, _) in zip(sorted(news), members, strict=True)]
        distinct = len(set(news)) == len(news) and not (set(news) & taken)
        if distinct and (not ordered or news == sorted(news)):
            taken.update(news)
            return list(news)
    return [None] * len(members)


def _fresh(sketch: Sketch, value: float, landmarks: Sequence[float], rng: random.Random) -> float:
    kinds = [sketch.domains.numbers[kind] for kind in sorted(sketch.found.numbers[value])]
    low = max(kind.range[0] for kind in kinds)
    high = min(kind.range[1] for kind in kinds)
    if any(kind.digits for kind in kinds):
        digits = len(str(int(value)))
        return float(rng.randint(10 ** (digits - 1), 10**digits - 1))
    if any(kind.integer for kind in kinds):
        return float(rng.randint(int(low), int(high)))
    nudge = max(kind.nudge for kind in kinds)
    if nudge:
        low, high = max(low, value - nudge), min(high, value + nudge)
        low = max([low, *(mark + 0.5 for mark in landmarks if mark <= value)])
        high = min([high, *(mark - 0.5 for mark in landmarks if mark > value)])
        return _round(rng.uniform(low, max(high, low)), value)
    if high <= SMALL_RANGE and not any(kind.scaled for kind in kinds):
        return _round(rng.uniform(low, high), value)
    shrink, grow = kinds[0].spread
    scaled = value * math.exp(rng.uniform(shrink, grow))
    return _round(min(max(scaled, low), high), value, rng)


def _round(new: float, old: float, rng: random.Random | None = None) -> float:
    """Write `new` with the precision of `old`: its decimals, or nearly its trailing zeros."""
    if not old.is_integer():
        decimals = len(repr(old).partition(".")[2])
        rounded = round(new, decimals)
        return rounded if not rounded.is_integer() else round(rounded + 10.0**-decimals, decimals)
    digits = str(int(old))
    zeros = len(digits) - len(digits.rstrip("0"))
    if rng is not None and zeros:
        zeros = max(0, zeros - rng.choice((0, 1, 1, 2)))
    step = 10.0 ** min(zeros, max(0, len(str(int(abs(new)))) - 1))
    return float(round(new / step) * step) if rng is not None else float(round(new))

"""Word problems: `shopping` and `travel`.

Owns the sentences and what has to be computed for them. Numbers grow with the difficulty, and so
does the count of steps. Never chooses a seed.

    shopping(1, random.Random(0)).text      # "Ana buys 8 bags for 8 coins each. What does Ana pay?"
"""

from __future__ import annotations

import random

from rods.envs.questions.question import Family, Question, steps

NAMES = ("Ana", "Ben", "Cem", "Dora", "Eva", "Finn", "Gil", "Hana")
GOODS = ("pens", "books", "cups", "lamps", "bags", "caps", "keys", "nuts")
RIDES = ("train", "bus", "car", "ship")

COUNTS = {1: (2, 9), 2: (3, 12), 3: (11, 60), 4: (21, 99), 5: (101, 999)}
"""Pieces that are bought, or hours that are travelled."""
PRICES = {1: (2, 9), 2: (3, 12), 3: (101, 400), 4: (101, 999), 5: (101, 999)}
"""Coins for a piece, or kilometres in an hour."""
PARTS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3}
"""Products that are added."""


def _pairs(difficulty: int, rng: random.Random) -> list[tuple[int, int]]:
    """Two factors for each part."""
    counts, prices = COUNTS[difficulty], PRICES[difficulty]
    parts = range(PARTS[difficulty])
    return [(rng.randint(*counts), rng.randint(*prices)) for _ in parts]


def _sum(pairs: list[tuple[int, int]]) -> str:
    return " + ".join(f"{a} * {b}" for a, b in pairs)


def _work(pairs: list[tuple[int, int]], whole: str) -> tuple[str, ...]:
    """Each product, their sum, and the whole."""
    return steps(*(f"{a} * {b}" for a, b in pairs), _sum(pairs), whole)


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def shopping(difficulty: int, rng: random.Random) -> Question:
    """What somebody pays; from difficulty 4 with a discount, at 5 the change."""
    pairs = _pairs(difficulty, rng)
    name, goods = rng.choice(NAMES), rng.sample(GOODS, len(pairs))
    bought = [f"{a} {what} for {b} coins each" for what, (a, b) in zip(goods, pairs, strict=True)]
    text, whole = f"{name} buys {_list(bought)}.", _sum(pairs)
    total = sum(a * b for a, b in pairs)
    ask = f"What does {name} pay?"
    if difficulty >= 4:
        off = rng.randint(100, 999)
        text, whole, total = f"{text} {off} coins are taken off.", f"{whole} - {off}", total - off
    if difficulty >= 5:
        given = total + rng.randint(1000, 99999)
        text = f"{text} {name} gives {given} coins."
        whole, total, ask = f"{given} - ({whole})", given - total, f"What does {name} get back?"
    return Question(f"{text} {ask}", str(total), _work(pairs, whole))


def travel(difficulty: int, rng: random.Random) -> Question:
    """How far something goes; from difficulty 4 it goes back a part, at 5 what is left."""
    pairs = _pairs(difficulty, rng)
    ride = rng.choice(RIDES)
    legs = [f"{a} hours at {b} km per hour" for a, b in pairs]
    text, whole = f"A {ride} goes {_list(legs)}.", _sum(pairs)
    total, ask = sum(a * b for a, b in pairs), "How many km is that?"
    if difficulty >= 4:
        back = rng.randint(100, 999)
        text, whole = f"{text} It goes back {back} km.", f"{whole} - {back}"
        total, ask = total - back, "How many km is it from its start?"
    if difficulty >= 5:
        way = total + rng.randint(1000, 99999)
        text, whole = f"{text} The way is {way} km.", f"{way} - ({whole})"
        total, ask = way - total, "How many km are left?"
    return Question(f"{text} {ask}", str(total), _work(pairs, whole))


WORDS = {
    "shopping": Family("what a purchase costs", shopping),
    "travel": Family("how far a journey goes", travel),
}

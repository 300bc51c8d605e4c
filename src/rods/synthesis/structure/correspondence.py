"""What a variant has where the human task that it reworks has a value.

Owns pairs of values that stand in the same places of two tasks, and whether a changed value is
computed or composed of others as its model is. Never runs a call, never looks at messages.

    pairs = list(leaf_pairs(before.leaves, after.leaves))   # [(457.23, 449.57)]
    composed("now $457.23", "now $449.57", pairs)           # True
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from rods.synthesis.structure.sources import NUMBER, normal
from rods.synthesis.structure.trace import Leaf, Scalar

NEAR = 1e-4
"""How near computed numbers must come."""
Pair: TypeAlias = tuple[Scalar, Scalar]
"""A value of the human task, and the variant's in its place."""


def is_number(value: Scalar) -> bool:
    """Whether it is a number and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaf_pairs(theirs: Sequence[Leaf], mine: Sequence[Leaf]) -> Iterator[Pair]:
    """Scalars at the same paths of two values."""
    there = {leaf.path: leaf.value for leaf in mine}
    return ((x.value, there[x.path]) for x in theirs if x.path in there)


def side_by_side(theirs: object, mine: object) -> Iterator[Pair]:
    """Names and values in the same places of two configurations, whose names may differ."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        rows = [list(cast("dict[str, object]", node).items()) for node in (theirs, mine)]
        if len(rows[0]) != len(rows[1]) or theirs.keys() == mine.keys():
            rows = [[row for row in node if row[0] in mine and row[0] in theirs] for node in rows]
            rows = [sorted(node, key=lambda row: row[0]) for node in rows]
        for (name, inner), (other, there) in zip(*rows, strict=True):
            yield name, other
            yield from side_by_side(inner, there)
    elif isinstance(theirs, list) and isinstance(mine, list):
        for pair in zip(cast("list[object]", theirs), cast("list[object]", mine), strict=False):
            yield from side_by_side(*pair)
    elif not isinstance(theirs, dict | list) and not isinstance(mine, dict | list):
        yield cast("Scalar", theirs), cast("Scalar", mine)


def computed(old: float, new: float, pairs: Sequence[Pair]) -> bool:
    """Whether a number comes from the variant's numbers as another one from the model's.

    It is one of them rounded or inside a text, or what one is short of another.
    """
    digits = len(repr(old).partition(".")[2]) if isinstance(old, float) else 0
    known = set(_numbers(pairs))
    if any(round(a, digits) == old and round(b, digits) == new for a, b in known):
        return True
    return any(
        abs(a - less - old) < NEAR and abs(b - fewer - new) < NEAR
        for a, b in known
        for less, fewer in known
    )


def _numbers(pairs: Iterable[Pair]) -> Iterator[tuple[float, float]]:
    """Pairs of numbers, those inside texts by their place among the text's numbers."""
    for old, new in pairs:
        if is_number(old) and is_number(new):
            yield float(cast("float", old)), float(cast("float", new))
        elif isinstance(old, str) and isinstance(new, str):
            texts = [[float(x.replace(",", "")) for x in NUMBER.findall(t)] for t in (old, new)]
            if len(texts[0]) == len(texts[1]):
                yield from zip(*texts, strict=True)


def composed(old: str, new: str, pairs: Sequence[Pair]) -> bool:
    """Whether a text is another one with the variant's values in place of the model's."""
    old, new = (NUMBER.sub(lambda m: normal(m.group().replace(",", "")), t) for t in (old, new))
    known: dict[str, set[str]] = {}
    for theirs, mine in (*pairs, *_numbers(pairs)):
        if str(theirs) in old and len(str(theirs)) > 1:
            known.setdefault(str(theirs), set()).add(str(mine))
    forms = "|".join(re.escape(x) for x in sorted(known, key=len, reverse=True))
    parts = re.split(rf"(?<!\w)({forms})(?!\w)", old) if known else [old]
    either = [
        "|".join(map(re.escape, sorted(known[part]))) if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    ]
    return re.fullmatch("".join(f"(?:{text})" for text in either), new) is not None

"""New numbers, and new names and codes from the tables of an environment.

Codes which go together in a call still exist together, and a name keeps its own codes. A number
that something is computed from stays, and no name is invented.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import string
from collections.abc import Mapping, Sequence, Set

from rods.synthesis.structure.domains import Table
from rods.synthesis.structure.sources import NUMBER, in_digits
from rods.writers.resample.rebind import Knowledge
from rods.writers.resample.sketch import New, Sketch

SMALL_RANGE = 120  # Kinds of no larger value take the whole range, unless `scaled`
_MEASURED = re.compile(rf"({NUMBER.pattern}) ([A-Za-z]{{3,}}s)\b")  # A number with its unit
KEEP = 0.06  # Chance that a number stays as it is
YEARS = range(1900, 2100)

SUPERLATIVES = ("highest", "lowest", "top priority", "critical")


def assign_numbers(
    sketch: Sketch, values: list[New], knowledge: Knowledge, rng: random.Random, keep: float
) -> None:
    """Fill the slots of numbers in `values`; what must not move stays None."""
    groups: dict[str, list[tuple[float, int]]] = {}
    taken = {*knowledge.landmarks, *sketch.found.numbers}
    bound = knowledge.frozen | _reckoned(sketch)
    for index, (kind, key) in enumerate(sketch.slots):
        if kind == "counter" and not knowledge.keep_counters:
            old = float(key)
            values[index] = old + rng.randint(1, 40_000 if old >= 1000 else 880)
        elif kind == "number" and movable(sketch, float(key), bound):
            kinds = sorted(sketch.found.numbers[float(key)])
            if rng.random() > keep or sketch.domains.numbers[kinds[0]].ordered:
                groups.setdefault(kinds[0], []).append((float(key), index))
    for kind, members in groups.items():
        news = _group(sketch, kind, sorted(members), knowledge.landmarks, taken, rng)
        for (_, index), new in zip(sorted(members), news, strict=True):
            values[index] = new


def _reckoned(sketch: Sketch) -> set[float]:
    """Numbers of one unit, one of which stays: `add 30 gallons so that I end with 40 gallons`."""
    found: set[float] = set()
    for text in in_digits(sketch.found.prose, sketch.domains.number_words).splitlines():
        units: dict[str, set[float]] = {}
        for number, unit in _MEASURED.findall(text):
            units.setdefault(unit.lower(), set()).add(float(number.replace(",", "")))
        for numbers in units.values():
            found |= numbers if len(numbers) > 1 and numbers - set(sketch.found.numbers) else set()
    return found


def movable(sketch: Sketch, value: float, frozen: Set[float]) -> bool:
    """Whether this number may get a new value: large enough not to occur by chance, not frozen."""
    if value in frozen or value <= 0:
        return False
    times = sketch.said[sketch.slot("number", repr(value))]
    if sketch.domains.inferred:  # one thing is no plural, and a number said twice may be two
        return times == 1 and value >= 2 and value not in YEARS
    if value >= 10 or (not times and value not in sketch.argued_numbers):
        return True
    kinds = sketch.found.numbers[value]
    small = all(sketch.domains.numbers[kind].small for kind in kinds)
    prose = sketch.found.prose.lower()
    return times == 1 and small and not any(word in prose for word in SUPERLATIVES)


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


ATTEMPTS = 40  # Draws of a whole set of names before the old ones are kept


def assign_listed(
    sketch: Sketch, values: list[New], knowledge: Knowledge, rng: random.Random
) -> None:
    """Fill the slots of listed names and codes in `values`; what cannot move stays None."""
    domains = sketch.domains
    if not any(kind in domains.listed for kind, _ in sketch.slots):
        return
    for name, table in domains.tables.items():
        moved = (
            _open(sketch, name, table, knowledge.pinned, rng)
            if table.open
            else _Names(sketch, name, table, knowledge).drawn(rng)
        )
        for index, (kind, key) in enumerate(sketch.slots):
            if kind == name or (table.open and kind in table.codes):
                values[index] = moved.get(key)
            elif kind in table.codes:
                owner = table.owners[kind].get(key, "")
                values[index] = table.codes[kind].get(moved.get(owner, ""))


class _Names:
    """The draw of new names for those that one task knows, by name or by a code of theirs."""

    def __init__(self, sketch: Sketch, kind: str, table: Table, knowledge: Knowledge):
        self.table, self.pairs, slots = table, knowledge.pairs, sketch.slots
        self.needs = {
            code: {owned[key] for k, key in slots if k == code and key in owned}
            for code, owned in table.owners.items()
        }
        """Names whose new one must have a code of this kind."""
        named = {key for k, key in slots if k == kind and key in table.names}
        needed = (code for owner, code in table.needs.items() if owner in sketch.start.owners)
        for code in itertools.islice(needed, 1):
            self.needs[code] |= named & table.codes[code].keys()
        self.old = named.union(*self.needs.values())
        codes, pinned = table.codes.values(), knowledge.pinned
        self.fixed = {n for n in self.old if {n, *(c.get(n, n) for c in codes)} & pinned}

    def drawn(self, rng: random.Random) -> Mapping[str, str]:
        """Old name to new name, one to one."""
        moving = sorted(self.old - self.fixed)
        pool = self.table.names
        for _ in range(ATTEMPTS):
            fresh = rng.sample(pool, len(moving)) if len(moving) <= len(pool) else []
            choice = dict(zip(moving, fresh, strict=False)) | {name: name for name in self.fixed}
            if len(choice) < len(self.old) or len(set(choice.values())) < len(self.old):
                continue
            if self._fits(choice):
                return {name: new for name, new in choice.items() if name not in self.fixed}
        return self._by_pair(rng)

    def _fits(self, choice: Mapping[str, str]) -> bool:
        """Whether the new names have the codes that are needed, and the pairs of codes exist."""
        return all(
            choice.get(name, name) in self.table.codes[kind]
            for kind, names in self.needs.items()
            for name in names
        ) and all(
            (self._code(known.code, a, choice), self._code(known.code, b, choice)) in known
            for known in self.table.pairs
            for a, b in self.pairs.get(known.code, ())
        )

    def _code(self, kind: str, old: str, choice: Mapping[str, str]) -> str:
        name = self.table.owners[kind].get(old, "")
        return self.table.codes[kind].get(choice.get(name, name), old)

    def _by_pair(self, rng: random.Random) -> Mapping[str, str]:
        """Draw one existing pair and move the names of the first pair of the task to it."""
        wanted = [
            (p, pair) for p in self.table.pairs for pair in sorted(self.pairs.get(p.code, ()))
        ]
        if not wanted:
            return {}
        known, (a, b) = wanted[0]
        owned, ordered = self.table.owners[known.code], sorted(known.known)
        for _ in range(ATTEMPTS):
            pair = rng.choice(ordered)
            ends = pair if not known.either_way or rng.random() < 0.5 else pair[::-1]
            if not all(code in owned for code in (a, b, *ends)):
                continue
            choice = {owned[a]: owned[ends[0]], owned[b]: owned[ends[1]]}
            rest = sorted(self.old - choice.keys() - self.fixed)
            others = sorted(set(self.table.names) - set(choice.values()) - self.fixed)
            drawn = rng.sample(others, min(len(rest), len(others)))
            choice |= dict(zip(rest, drawn, strict=False))
            clash = set(choice) & self.fixed or set(choice.values()) & self.fixed
            if not clash and self._fits(choice | {name: name for name in self.fixed}):
                return choice
        return {}


def _open(
    sketch: Sketch, name: str, table: Table, pinned: Set[str], rng: random.Random
) -> Mapping[str, str]:
    """Old code or name to new: listed ones are permuted, others get a fresh code."""
    [(kind, codes)] = table.codes.items()
    listed = set(codes.values())
    slots = {key for k, key in sketch.slots if k == kind}
    slots |= {codes[key] for k, key in sketch.slots if k == name and key in codes}
    known = sorted((slots & listed) - pinned)
    free = sorted(listed - pinned)
    result = dict(zip(known, rng.sample(free, len(known)), strict=True)) if known else {}
    if known and slots >= set(free):
        shuffled = list(known)
        rng.shuffle(shuffled)
        result = dict(zip(known, shuffled, strict=True))
    for code in sorted(slots - listed - pinned):
        if 2 <= len(code) <= 5 and code.isupper():
            count = rng.choice((3, 4, 4))
            result[code] = "".join(rng.choice(string.ascii_uppercase) for _ in range(count))
    names = {old: table.owners[kind][result[c]] for old, c in codes.items() if c in result}
    return {**result, **names}

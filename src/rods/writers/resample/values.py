"""New names and codes from the tables of an environment: things and what they are called.

Owns the rule that codes which go together in a call still exist together, and that a name keeps
its own codes. Never invents a name; a code alone where its table is open.

    assign_listed(sketch, values, pinned=frozenset(), pairs={}, rng=rng)
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from rods.synthesis.structure.domains import CodePairs, Table
from rods.writers.resample.sketch import New, Sketch

ATTEMPTS = 40
"""Draws of a whole set of names before the old ones are kept."""

Together: TypeAlias = Mapping[str, Set[tuple[str, str]]]
"""Kind of a code to the pairs of codes that a task's ground truth calls with."""


def assign_listed(
    sketch: Sketch, values: list[New], pinned: Set[str], pairs: Together, rng: random.Random
) -> None:
    """Fill the slots of listed names and codes in `values`; what cannot move stays None."""
    domains = sketch.domains
    if not any(kind in domains.listed for kind, _ in sketch.slots):
        return
    for name, table in domains.tables.items():
        moved = (
            _open(sketch, name, table, pinned, rng)
            if table.open
            else _Names(sketch, name, table, pinned, pairs).drawn(rng)
        )
        for index, (kind, key) in enumerate(sketch.slots):
            if kind == name:
                values[index] = moved.get(key)
            elif kind in table.codes:
                values[index] = (
                    moved.get(key)
                    if table.open
                    else table.codes[kind].get(moved.get(table.owners[kind].get(key, ""), ""))
                )


@dataclass
class _Names:
    """The draw of new names for those that one task knows, by name or by a code of theirs."""

    sketch: Sketch
    kind: str
    table: Table
    pinned: Set[str]
    pairs: Together
    needs: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Names whose new one must have a code of this kind."""
    old: set[str] = field(default_factory=set[str])
    fixed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        table, slots = self.table, self.sketch.slots
        for kind, owned in table.owners.items():
            self.needs[kind] = {owned[key] for k, key in slots if k == kind and key in owned}
        named = {key for kind, key in slots if kind == self.kind and key in table.names}
        for owner, kind in table.needs.items():
            if owner in self.sketch.start.owners:
                self.needs[kind] |= {name for name in named if name in table.codes[kind]}
                break
        self.old = named.union(*self.needs.values())
        codes = table.codes.values()
        self.fixed = {n for n in self.old if {n, *(c.get(n, n) for c in codes)} & self.pinned}

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
            ends = _ends(known, ordered, rng)
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


def _ends(
    pairs: CodePairs, ordered: Sequence[tuple[str, str]], rng: random.Random
) -> tuple[str, str]:
    pair = rng.choice(ordered)
    return pair if not pairs.either_way or rng.random() < 0.5 else (pair[1], pair[0])


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

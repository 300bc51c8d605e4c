"""The gate that reads messages back: each call is asked for, and nothing else is.

Owns two ways to know what a message asks for: it reworks a human turn, whose calls are known; or it
is made of the environment's templates, which can be read back. Other wording is the judge's.

    calls_are_asked_for(case)                               # None, or what is wrong
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rods.synthesis.gates.case import Case, SourceTurn
from rods.synthesis.templates.phrases import Phrases, phrases_of
from rods.synthesis.templates.reading import DONE, END, foreign, pattern, pieces
from rods.types import ToolCall


def calls_are_asked_for(case: Case) -> str | None:
    """A turn calls what its message asks for: no call more, none less, in this order.

    A reworked message asks for what its model asks for. A message made of templates is read back.
    """
    phrases = phrases_of(case.variant.environment)
    for index, turn in enumerate(case.variant.task.turns):
        source_turn = case.source_turns[index]
        problem = _misread(phrases, case, index, source_turn)
        if problem is None and source_turn is not None:
            problem = _unlike(source_turn, turn.ground_truth)
        if problem is not None:
            return f"turn {index}: {problem}"
    return None


def _unlike(source_turn: SourceTurn, calls: Sequence[ToolCall]) -> str | None:
    mine, theirs = [c.name for c in calls], [c.name for c in source_turn.turn.ground_truth]
    if mine == theirs:
        return None
    origin = source_turn.facts.task.provenance.origin
    return f"calls {mine}; turn {source_turn.place} of {origin}, which it reworks, calls {theirs}"


def _misread(
    phrases: Phrases, case: Case, index: int, source_turn: SourceTurn | None
) -> str | None:
    """What is wrong with a message that is made of templates; None for other wording.

    A reworked message counts as one where clauses cover it, but not the message of its model.
    """
    reading = case.readings[index]
    calls = case.variant.asked(index)
    written = calls and all(phrases.knows(call.name) for call in calls)
    if not written or reading is None or reading.complete:
        return None
    clauses = _clauses(phrases, tuple(case.variant.specs))
    other, rest = _cut(clauses, reading.rest)
    strange = bool(foreign(rest))
    if source_turn is not None and (
        strange or not foreign(_cut(clauses, source_turn.turn.user)[1])
    ):
        return None
    if other and not (reading.unsaid and strange):
        return f"the message asks for {', '.join(other)} with values of no call"
    if reading.unsaid and not strange:
        missing = ", ".join(str(case.variant.steps[number].call) for number in reading.unsaid)
        return f"the message does not ask for {missing}"
    return None


def _cut(clauses: Sequence[Clause], text: str) -> tuple[list[str], str]:
    """The tools that a message asks for with any values, and the rest of it."""
    found: list[str] = []
    lower = text.lower()
    for clause in clauses:
        text, count = clause.cut_from(text, lower)
        found += [clause.tool] * count
    return found, text


class Clause(NamedTuple):
    """A template in which any values may stand."""

    tool: str
    pattern: re.Pattern[str]
    pieces: tuple[str, ...]
    """Its fixed texts, in lower case: a quick look before a slow one."""

    def cut_from(self, text: str, lower: str) -> tuple[str, int]:
        """The text without this clause, and how often it stood there."""
        if not all(piece in lower for piece in self.pieces):
            return text, 0
        return self.pattern.subn(DONE, text)


@lru_cache(maxsize=256)
def _clauses(phrases: Phrases, tools: tuple[str, ...]) -> tuple[Clause, ...]:
    """Every template of these tools, the wordiest first."""
    found: list[Clause] = []
    for tool in tools:
        wording = phrases.wording(tool)
        optional = wording.optional if wording is not None else {}
        for say in wording.clauses if wording is not None else ():
            ends = [pattern(f, {}) for forms in optional.values() for f in forms]
            tail = f"(?:(?: (?:{'|'.join(ends)}))+{END}|{END})" if ends else END
            whole = re.compile(pattern(say, {}) + tail, re.I)
            found.append(Clause(tool, whole, pieces(say)))
    return tuple(sorted(found, key=lambda c: (-len(c.pattern.pattern), c.tool)))

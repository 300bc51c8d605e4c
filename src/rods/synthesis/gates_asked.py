"""The gate that reads messages back: each call is asked for, and nothing else is.

Owns two ways to know what a message asks for: it reworks a human turn, whose calls are known; or it
is made of the environment's templates, which can be read back. Other wording is the judge's.

    calls_are_asked_for(case)                               # None, or what is wrong
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rods.synthesis.clarity import place_of
from rods.synthesis.flow import Step, normal
from rods.synthesis.gates_case import Case, Kin, gate
from rods.synthesis.phrases import Giver, Phrases, Wording, frame_words, load_phrases, ways
from rods.types import ToolCall, Value

_WORD = re.compile(r"[a-z']+")
_SLOT = re.compile(r"\{(\w+)\}")
_FRAME = frame_words()
OPEN = "[^\\x01]{1,300}?"
"""Any value."""
_END = r"(?:(?=[.?!](?:\s|$)|\s*$| as well\b|, (?:please|too)\b|\x01)|(?<=[.?!]')(?=\s))"
"""What follows a clause."""
CUT = "\x00"
"""Stands where a clause was, while its optional parts are looked for."""
DONE = "\x01"
"""Stands where a clause was, so that no clause is found across it."""


@gate("asked")
def calls_are_asked_for(case: Case) -> str | None:
    """A turn calls what its message asks for: no call more, none less, in this order.

    A reworked message asks for what its model asks for. A message made of templates is read back.
    """
    phrases = load_phrases(case.variant.environment.name)
    for index, turn in enumerate(case.variant.task.turns):
        kin = case.kins[index]
        if kin is not None:
            problem = _unlike(kin, turn.ground_truth)
        elif turn.user.strip() and not case.variant.answers(index):
            problem = _misread(phrases, case, index)
        else:
            problem = None
        if problem is not None:
            return f"turn {index}: {problem}"
    return None


def _unlike(kin: Kin, calls: Sequence[ToolCall]) -> str | None:
    mine, theirs = [c.name for c in calls], [c.name for c in kin.turn.ground_truth]
    if mine == theirs:
        return None
    origin = kin.facts.task.provenance.origin
    return f"calls {mine}; turn {kin.place} of {origin}, which it reworks, calls {theirs}"


def _misread(phrases: Phrases, case: Case, index: int) -> str | None:
    """What is wrong with a message that is made of templates; None for other wording."""
    steps = case.variant.steps
    place = case.variant.answer(index)
    unsaid = [number for number, step in enumerate(steps) if step.turn == place]
    if not unsaid or not all(phrases.knows(steps[n].call.name) for n in unsaid):
        return None
    rest = case.variant.task.turns[index].user
    for scene in phrases.scenes:
        rest = rest.replace(scene, " ")
    for texts in (_values, _ways):
        for number in tuple(unsaid):
            wording = phrases.wording(steps[number].call.name)
            filled = {} if wording is None else texts(steps, number, wording)
            shorter = None if wording is None else _without(rest, filled, wording)
            if shorter is not None:
                unsaid.remove(number)
                rest = shorter
    if not unsaid and not _foreign(rest):
        return None
    other: list[str] = []
    lower = rest.lower()
    for clause in _clauses(phrases, tuple(case.variant.specs)):
        rest, count = clause.cut_from(rest, lower)
        other += [clause.tool] * count
    if other and not (unsaid and _foreign(rest)):
        return f"the message asks for {', '.join(other)} with values of no call"
    if unsaid and not _foreign(rest):
        missing = ", ".join(str(steps[number].call) for number in unsaid)
        return f"the message does not ask for {missing}"
    return None


def _foreign(text: str) -> set[str]:
    """Words that no frame around a clause has."""
    return set(_WORD.findall(text.lower())) - _FRAME


def _values(steps: Sequence[Step], number: int, wording: Wording) -> dict[str, str]:
    """How each argument of a step is said, as a pattern."""
    call = steps[number].call
    return {name: _one_of(wording.texts(name, value)) for name, value in call.arguments.items()}


def _ways(steps: Sequence[Step], number: int, wording: Wording) -> dict[str, str]:
    """The same, where values may also be meant, by what showed them, or left open."""
    filled: dict[str, str] = {}
    for name, value in steps[number].call.arguments.items():
        filled[name] = _one_of(ways(wording, name, value, _givers(steps[:number], value)))
    return filled


def _givers(steps: Iterable[Step], value: Value) -> list[Giver]:
    if isinstance(value, list | dict | ToolCall):
        return []
    key = normal(value)
    shown = [step for step in steps if any(normal(leaf.value) == key for leaf in step.leaves)]
    places = [Giver(step.call, place) for step in shown if (place := place_of(step, value))]
    return [*(Giver(step.call) for step in shown), *places]


def _without(text: str, filled: Mapping[str, str], wording: Wording) -> str | None:
    """The message without the clause that says a call so; None without one.

    Args:
        text: the message, or what is left of it.
        filled: a pattern for each argument of the call.
        wording: of its tool.
    """
    lower = text.lower()
    for say in sorted(wording.say, key=len, reverse=True):
        if not all(piece in lower for piece in _pieces(say)) or not _slots(say) <= filled.keys():
            continue
        cut = re.sub(_pattern(say, filled) + r"(?!\w)", CUT, text, count=1, flags=re.I)
        if cut == text:
            continue
        for name, forms in wording.optional.items():
            longer = f"{CUT} (?:{'|'.join(_pattern(form, filled) for form in forms)})"
            shorter = re.sub(longer, CUT, cut, count=1, flags=re.I) if name in filled else cut
            if name in filled and shorter == cut:
                return None
            cut = shorter
        return cut.replace(CUT, DONE)
    return None


def _one_of(texts: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"


@lru_cache(maxsize=4096)
def _pieces(template: str) -> tuple[str, ...]:
    """The fixed texts of a template, in lower case, the longest first."""
    return tuple(sorted((piece.lower() for piece in _SLOT.split(template)[::2]), key=len))[::-1]


@lru_cache(maxsize=4096)
def _slots(template: str) -> set[str]:
    return {match[1] for match in _SLOT.finditer(template)}


def _pattern(template: str, filled: Mapping[str, str]) -> str:
    """A template as a regular expression; a slot that is not filled takes any value."""
    parts: list[str] = []
    at = 0
    for match in _SLOT.finditer(template):
        parts += [re.escape(template[at : match.start()]), filled.get(match[1], OPEN)]
        at = match.end()
    return "".join([*parts, re.escape(template[at:])])


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
        for say in wording.say if wording is not None else ():
            ends = [_pattern(f, {}) for forms in optional.values() for f in forms]
            tail = f"(?:(?: (?:{'|'.join(ends)}))+{_END}|{_END})" if ends else _END
            pattern = re.compile(_pattern(say, {}) + tail, re.I)
            found.append(Clause(tool, pattern, _pieces(say)))
    return tuple(sorted(found, key=lambda c: (-len(_SLOT.sub("", c.pattern.pattern)), c.tool)))

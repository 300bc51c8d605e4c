"""The language of an environment's templates, as gates read it back.

Owns what is wrong with a message that is made of templates, and the gate that every word of one is
explained. Never judges other wording.

    Gatekeeper(environment, training_tasks, held_out_tasks, language=TemplateLanguage(environment))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from rods.env import Environment
from rods.synthesis.gates.case import Case, Language, TurnFacts, of_turns
from rods.synthesis.structure.domains import domains_of
from rods.writers.templates.phrases import Phrases, phrases_of
from rods.writers.templates.reading import (
    DONE,
    END,
    ReadBack,
    Strict,
    foreign,
    pattern,
    pieces,
    read,
)


class TemplateLanguage(Language):
    """Of the templates that an environment brings, and of those made of its tools' descriptions."""

    def __init__(self, environment: Environment) -> None:
        """Read them."""
        self.phrases = phrases_of(environment)
        self.verbs = self.phrases.verbs
        self.clauses = {name: w.clauses for name, w in self.phrases.wordings.items()}

    @cached_property
    def text(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Every clause and every scene."""
        return "\n".join(self.phrases.texts)

    def explains(self, turn: TurnFacts) -> bool:
        """Whether templates say a message to its last word: all of its calls and nothing else."""
        reading = _read_back(self.phrases, turn)
        return reading is not None and reading.complete

    def misread(self, case: Case, turn: TurnFacts) -> str | None:
        """What is wrong with a message that is made of templates; None for other wording.

        A reworked message counts as one where clauses cover it, but not the message of its model.
        """
        reading, model = _read_back(self.phrases, turn), case.model(turn)
        written = turn.asked and all(call.name in self.phrases.wordings for call in turn.asked)
        if not written or reading is None or reading.complete:
            return None
        clauses = _clauses(self.phrases, tuple(case.variant.specs))
        other, rest = _cut(clauses, reading.rest)
        strange = bool(foreign(rest))
        if model is not None and (strange or not foreign(_cut(clauses, model.text)[1])):
            return None
        if other and not (reading.unsaid and strange):
            return f"the message asks for {', '.join(other)} with values of no call"
        if reading.unsaid and not strange:
            missing = ", ".join(str(case.variant.steps[number].call) for number in reading.unsaid)
            return f"the message does not ask for {missing}"
        return None


@lru_cache(maxsize=64)
def _read_back(phrases: Phrases, turn: TurnFacts) -> ReadBack | None:
    """What is left of a message without its calls' clauses; None where it asks for nothing."""
    asks = turn.steps and turn.text.strip() and not turn.answers
    return read(phrases, turn) if asks else None


def _cut(clauses: Sequence[Clause], text: str) -> tuple[list[str], str]:
    """The tools that a message asks for with any values, and the rest of it."""
    found: list[str] = []
    lower = text.lower()
    for clause in clauses:
        if all(piece in lower for piece in clause.pieces):  # a quick look first
            text, count = clause.pattern.subn(DONE, text)
            found += [clause.tool] * count
    return found, text


class Clause(NamedTuple):
    """A template in which any values may stand."""

    tool: str
    pattern: re.Pattern[str]
    pieces: tuple[str, ...]
    """Its fixed texts, in lower case."""


@lru_cache(maxsize=256)
def _clauses(phrases: Phrases, tools: tuple[str, ...]) -> tuple[Clause, ...]:
    """Every template of these tools, the wordiest first."""
    found: list[Clause] = []
    for tool in tools:
        wording = phrases.wordings.get(tool)
        optional = wording.optional if wording is not None else {}
        for say in wording.clauses if wording is not None else ():
            ends = [pattern(f, {}) for forms in optional.values() for f in forms]
            tail = f"(?:(?: (?:{'|'.join(ends)}))+{END}|{END})" if ends else END
            whole = re.compile(pattern(say, {}) + tail, re.I)
            found.append(Clause(tool, whole, pieces(say)))
    return tuple(sorted(found, key=lambda c: (-len(c.pattern.pattern), c.tool)))


@of_turns
def templates_say_all(case: Case, turn: TurnFacts) -> str | None:
    """Templates explain every message to its last word."""
    phrases, steps = phrases_of(case.variant.environment), turn.facts.steps
    if not turn.text.strip():
        return None
    if turn.answers:
        given = ((call, name) for call in turn.turn.ground_truth for name in call.arguments)
        known = any(turn.text in phrases.answers(call, name) for call, name in given)
        return None if known else "no template gives a value in these words"
    opens = turn.answer != turn.place and not turn.turn.withheld
    reading = read(phrases, turn, Strict(domains_of(case.variant.environment), opens))
    if reading.unsaid:
        return f"no template says {', '.join(str(steps[number].call) for number in reading.unsaid)}"
    places = [reading.begins[number] for number in turn.steps]
    if places != sorted(places):
        return "the message asks for its calls in another order"
    if not reading.complete:
        return f"no template says {' '.join(sorted(foreign(reading.rest)))}"
    return None

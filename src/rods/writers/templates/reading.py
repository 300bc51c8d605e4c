"""Messages of templates read back: which calls they say, and what is left of them.

A message that is read to its last word asks for these calls and for nothing else, no matter who
wrote it. Other wording is not judged here.

"That order" has one meaning where the result of this turn or the one before shows one such value,
and no later call or result another. "The branch nearest to Rome" repeats what was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

from rods.env import Environment
from rods.synthesis.gates.case import Case, Language, TurnFacts, of_turns
from rods.synthesis.planned import LOOSE, Producer
from rods.synthesis.structure.domains import Domains, domains_of
from rods.synthesis.structure.sources import fields_with, has_rival, normal, place_of, values_of
from rods.synthesis.structure.trace import Scalar, TraceStep
from rods.synthesis.structure.words import SLOT, noun, thing, wholes
from rods.types import ToolCall, Value
from rods.writers.templates.cautious import cautious
from rods.writers.templates.described import from_description
from rods.writers.templates.phrases import Phrases, frame_words, phrases_of
from rods.writers.templates.wording import Wording, ways


def clear_producer(
    steps: Sequence[TraceStep],
    began: Sequence[int],
    call: ToolCall,
    name: str,
    phrases: Phrases,
    domains: Domains,
) -> Producer | None:
    """The latest call that showed an argument so that words can mean it; None: it must be said.

    `steps` were called before; `began` are the first steps of the turn before and of this turn.
    Another book is a rival whatever its argument is called.
    """
    value = call.arguments[name]
    if isinstance(value, dict) and steps and _shows_alone(steps[-1], value):
        return Producer(steps[-1].call)
    if isinstance(value, bool | list | dict | ToolCall) or value is None:
        return None
    kind = domains.parameter(call.name, name)

    def alike_in(other: ToolCall) -> list[str]:
        known = () if kind in LOOSE else other.arguments
        return [n for n in known if domains.parameter(other.name, n) == kind]

    for number in range(len(steps) - 1, -1, -1):
        fields = fields_with(steps[number], value)
        made = steps[number].call
        own = "" in fields and thing(name) in noun(made.name).split()  # `register_patient`: "P5"
        if not fields or (domains.inferred and name not in fields and not own):
            continue
        alone = any(len(values_of(steps[number], field)) == 1 for field in fields)
        named = phrases.names_its_producer(call, name, made)
        alike = [n for n, step in enumerate(steps) if step.call.name == made.name and n != number]
        turn = max((first for first in began if first <= number), default=0)
        if not named and any(n >= turn for n in alike):
            return None
        only = not alike
        producer = Producer(made, "" if alone or named else place_of(steps[number], value), only)
        if not phrases.can_refer(call, name, producer):
            return None
        if named:
            return producer
        later = steps[number + 1 :]
        rivals = any(has_rival(s, {name, *fields}, value, alike_in(s.call)) for s in later)
        if domains.inferred:  # "the same rental" may be one that was named before
            given = (pair for s in steps[:number] for pair in s.call.arguments.items())
            rivals |= any(v != value and name in wholes(n) for n, v in given)
        return producer if number >= began[0] and (alone or producer.place) and not rivals else None
    return None


def _shows_alone(step: TraceStep, value: Mapping[str, Value]) -> bool:
    """True if a result is one record, or a list of one, that has these values: "the one"."""
    rows = step.parsed if isinstance(step.parsed, list) else [step.parsed]
    row = rows[0] if len(rows) == 1 else None
    return isinstance(row, dict) and all(
        str(row.get(k)).startswith(str(v)) for k, v in value.items()
    )


_WORD = re.compile(r"[a-z']+")
OPEN = "[^\\x01]{1,300}?"  # Any value
END = r"(?:(?=[.?!](?:\s|$)|\s*$| as well\b|, (?:please|too)\b|\x01)|(?<=[.?!]')(?=\s))"
"""What follows a clause."""
MEANING = r"(?:the|that|this|those|its|my|your) [a-z][a-z' ]{1,60}?"  # It points, and is no value
DONE = "\x01"  # Stands for each letter of a clause that was found: none is found across it


class Strict(NamedTuple):
    """How templates must have been used for a message to be read."""

    domains: Domains  # What arguments mean: a reference to one of several books has no meaning
    opens: bool = False  # Whether the message may leave a value open


class ReadBack(NamedTuple):
    """What reading back came to."""

    unsaid: Sequence[int]  # Steps that no clause says
    rest: str  # The message without the clauses that were found
    begins: Mapping[int, int]  # Steps to the places of their clauses

    @property
    def complete(self) -> bool:
        """Whether the message says all of its calls and nothing else."""
        return not self.unsaid and not foreign(self.rest)


def read(phrases: Phrases, turn: TurnFacts, strict: Strict | None = None) -> ReadBack:
    """Take the clauses of its calls out of a message.

    Args:
        phrases: templates of the environment; tools without any get their descriptions'.
        turn: the message, with what references may point back to.
        strict: a value that is not said is left open where that is allowed, or meant by a template
            that has one meaning there; None: any words that point may mean what a result showed.
    """
    unsaid, rest = list(turn.steps), turn.text
    specs, steps = turn.facts.specs, turn.facts.steps
    begins: dict[int, int] = {}
    for scene in phrases.scenes:
        rest = rest.replace(scene, " ")
    opens = strict is None or strict.opens
    for referred in (False, True):
        for number in tuple(unsaid):
            call = steps[number].call
            wording = phrases.wordings.get(call.name)
            if wording is None and call.name not in specs:
                continue
            made = (how(specs[call.name], call.arguments) for how in (from_description, cautious))
            for say in [wording] if wording else made:
                if referred and strict is not None and not say.described:
                    filled = _clear_ways(phrases, steps, number, say, strict)
                else:
                    filled = _ways(steps, number, say, referred)
                found = _clause(rest, filled, say, open_too=referred and opens)
                if found is not None:
                    unsaid.remove(number)
                    begins[number] = found.start()
                    rest = rest[: found.start()] + DONE * len(found[0]) + rest[found.end() :]
                    break
    return ReadBack(unsaid, rest, begins)


def foreign(text: str) -> set[str]:
    """Words that no frame around a clause has."""
    return set(_WORD.findall(text.lower())) - frame_words()


def _ways(
    steps: Sequence[TraceStep], number: int, wording: Wording, referred: bool
) -> dict[str, str]:
    """Patterns of each argument's words; `referred`: it may be meant by a result, or left open."""
    filled: dict[str, str] = {}
    for name, value in steps[number].call.arguments.items():
        producers = _producers(steps[:number], value) if referred else ()
        texts = ways(wording, name, value, producers) if referred else wording.texts(name, value)
        text = value.lower() if referred and isinstance(value, str) and len(value) > 2 else None
        meant = producers or (
            text and any(text in s.result.content.lower() for s in steps[:number])
        )
        filled[name] = f"(?:{_one_of(texts)}|{MEANING})" if meant else _one_of(texts)
    return filled


def _clear_ways(
    phrases: Phrases, steps: Sequence[TraceStep], number: int, wording: Wording, strict: Strict
) -> dict[str, str]:
    """Ways by references that can be understood; open where values may be left open."""
    call = steps[number].call
    turns = sorted({step.turn for step in steps[: number + 1]})
    began = [next(i for i, s in enumerate(steps) if s.turn == t) for t in turns[-2:]]
    filled: dict[str, str] = {}
    for name, value in call.arguments.items():
        producer = clear_producer(steps[:number], began, call, name, phrases, strict.domains)
        referred = producer is not None and _same_field(steps[:number], producer, name, value)
        texts = wording.in_words(name, value)
        texts += wording.references(name, producer) if referred else ()
        filled[name] = _one_of(texts + (wording.opened(name) if strict.opens else []))
    return filled


def _same_field(steps: Sequence[TraceStep], producer: Producer, name: str, value: Value) -> bool:
    """Whether a result that has a field of the argument's name shows the value there."""
    step = next(step for step in reversed(steps) if step.call == producer.call)
    named = {normal(leaf.value) for leaf in step.leaves if leaf.path and leaf.path[-1] == name}
    return not named or normal(cast("Scalar", value)) in named


def _producers(steps: Iterable[TraceStep], value: Value) -> list[Producer]:
    if isinstance(value, list | dict | ToolCall):
        return []
    key = normal(value)
    shown = [step for step in steps if any(normal(leaf.value) == key for leaf in step.leaves)]
    places = [Producer(step.call, place) for step in shown if (place := place_of(step, value))]
    return [*(Producer(step.call) for step in shown), *places]


def _clause(
    text: str, filled: Mapping[str, str], wording: Wording, *, open_too: bool
) -> re.Match[str] | None:
    """The clause that says a call so, some argument left out where `open_too`; None without one."""
    lower = text.lower()
    says = set(wording.clauses_for(filled))
    if open_too:
        says |= {wording.without(say, name) for say in says for name in wording.drop}
    for say in sorted(says, key=lambda text: (-len(text), text)):
        if not all(piece.strip() in lower for piece in pieces(say)):  # a quick look first
            continue
        if not set(SLOT.findall(say)) <= filled.keys():
            continue
        whole = pattern(say, filled)
        for name, forms in wording.optional.items():
            if name in filled:
                whole += f" (?:{'|'.join(pattern(form, filled) for form in forms)})"
        found = re.search(whole + END, text, re.I)
        if found is not None:
            return found
    return None


def _one_of(texts: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"


@lru_cache(maxsize=4096)
def pieces(template: str) -> tuple[str, ...]:
    """The fixed texts of a template, in lower case, the longest first."""
    return tuple(sorted((piece.lower() for piece in SLOT.split(template)[::2]), key=len))[::-1]


def pattern(template: str, filled: Mapping[str, str]) -> str:
    """A template as a regular expression; a slot that is not filled takes any value."""
    parts: list[str] = []
    at = 0
    for match in SLOT.finditer(template):
        value = filled.get(match[1], OPEN)
        fixed = re.escape(template[at : match.start()])
        if fixed.endswith("\\ ") and re.fullmatch(value, ""):
            fixed, value = fixed[:-2], f"(?:\\ {value})?"  # left out, with the space before it
        parts += [fixed, value]
        at = match.end()
    return "".join([*parts, re.escape(template[at:])])


class TemplateLanguage(Language):
    """Language of an environment's templates, and of those made of its tools' descriptions."""

    def __init__(self, environment: Environment) -> None:
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
    pieces: tuple[str, ...]  # Its fixed texts, in lower case


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
    opens = turn.answer != turn.place and not turn.facts.task.given_back(turn.answer)
    reading = read(phrases, turn, Strict(domains_of(case.variant.environment), opens))
    if reading.unsaid:
        return f"no template says {', '.join(str(steps[number].call) for number in reading.unsaid)}"
    places = [reading.begins[number] for number in turn.steps]
    if places != sorted(places):
        return "the message asks for its calls in another order"
    if not reading.complete:
        return f"no template says {' '.join(sorted(foreign(reading.rest)))}"
    return None

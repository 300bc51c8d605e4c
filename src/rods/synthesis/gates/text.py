"""Gates on wording: nothing repeated, unfilled or leaked, nothing that the calls contradict.

What stands in the words of an ancestor is tolerated: a human wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from rods.synthesis.gates.case import Case, TurnFacts, of_turns
from rods.synthesis.gates.overlap import ALIKE, Neighbors
from rods.synthesis.gates.usage import Measure, units
from rods.synthesis.structure.mentions import find_dates, iso
from rods.synthesis.structure.sources import Argument, Source, texts_taken
from rods.synthesis.structure.trace import Scalar, by_identity
from rods.types import ToolCall, ToolSpec

LITERALS = (
    r"\{[a-z_ ]+\}",
    r"<[a-z_ ]{2,}>",
    r"\[(?:[A-Z][A-Z_ ]*|your [a-z ]+|insert [a-z ]+)\]",
    r"(?<=[\w,'\"] )None\b(?! of)|'None'|\"None\"",
    r"\bundefined\b",
    r"\bNaN\b",
    r"(?i:\bas an ai\b)",
    r"(?i:\b(?:function|tool) calls?\b)",
    r"(?im:^\s*(?:user|assistant|system|tool)\s*:)",
    r"<\|\w+\|>|</?(?:think|tool_call|answer)>",
    r"```",
    r"\{\s*\"\w+\"\s*:",
)
"""Traces of a template, a program or a model in what a user should have said."""
_LITERAL = re.compile("|".join(LITERALS))
_SENTENCE = re.compile(r"[^.!?]+")
_THAT = r"(?:it|that|this|all|anything|everything|all of (?:it|that|this)|(?:it|that|this) all)"
_RETRACTION = re.compile(
    r"(?:(?:but|and|or|so|well|oh|no|wait|hold on|sorry|actually|rather|on second thoughts?|come to"
    r" think of it|please|just|better),? )*"
    rf"(?:(?:forget|disregard|ignore|skip|drop|scratch)(?: about)? {_THAT}|never ?mind(?: {_THAT})?"
    r"|(?:do|change|touch) (?:none of (?:it|that|this)|nothing)"
    rf"|(?:do not|don't|never) (?:do|change|touch|bother with) (?:any of )?{_THAT}"
    r"|i (?:do not|don't|no longer) (?:want|need) (?:any of )?(?:it|that|this)"
    rf"|leave {_THAT} (?:be|alone|as (?:it|they) (?:is|are))|i(?:'ve| have)? changed my mind"
    rf"|i take {_THAT} back|i did(?:n't| not) mean {_THAT})"
    r"(?:,? (?:at all|after all|please|now|then|anyway|instead|altogether|again))*",
    re.I,
)
"""A sentence that does nothing but take back what was said."""
_IDENTIFIER = re.compile(r"[A-Za-z]+\d*(?:_\w+)+|[a-z]+\d*(?:[A-Z][a-z0-9]*)+")
_WORD = re.compile(r"\w+")


def is_new(case: Case) -> str | None:
    """The variant repeats no seed and no earlier variant: neither calls with values nor words."""
    mine, pool = case.variant.prints, case.pool or Neighbors()
    seed = Neighbors(known=[case.seed.prints])  # a variant itself is not in the pool
    if found := seed.repeated(mine) or pool.repeated(mine):
        return f"repeats a seed: {found}"
    found = Neighbors(known=case.seen).repeated(mine)
    return found and f"repeats an earlier variant: {found}"


def is_diverse(case: Case) -> str | None:
    """Few of its seed's are like it but for ids: one may be another problem, more hardly are."""
    ours = {facts.task.id: facts.prints for facts in (case.seed, *case.ancestors)}
    look = case.variant.prints.look
    alike = sum(theirs.look == look for theirs in (*ours.values(), *case.seen))
    found = f"{alike} tasks, of the seed task and its variants, have it but for ids and numbers"
    return found if alike >= ALIKE else None


@of_turns
def reads_like_a_message(case: Case, turn: TurnFacts) -> str | None:
    """No placeholder, None, role tag, code fence, talk of tool calls, unless humans say it."""
    found = (match.group() for match in _LITERAL.finditer(turn.text))
    odd = next((t for t in found if not _is_human(case, turn, t) and not _is_value(case, t)), None)
    return None if odd is None else f"the message says {odd!r}"


@of_turns
def nothing_leaks(case: Case, turn: TurnFacts) -> str | None:
    """No message names a function or a parameter by its identifier."""
    names = _identifiers(case.variant.specs)
    for word in _WORD.findall(turn.text):
        if word in names and not _is_human(case, turn, word) and not _is_value(case, word):
            return f"the message says {word!r}, the name of a tool or parameter"
    return None


def _is_human(case: Case, turn: TurnFacts, text: str) -> bool:
    """Tell whether the reworked message says it; for new wording, whether an ancestor does."""
    if (model := case.model(turn)) is not None:
        return text in model.text
    return any(text in facts.speech for facts in case.ancestors)


def _is_value(case: Case, text: str) -> bool:
    return any(text in value for value in texts_taken(case.variant.calls))


@by_identity
def _identifiers(specs: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Names of functions and parameters that are not plain words."""
    names = {*specs, *(name for spec in specs.values() for name in spec.properties)}
    return frozenset(name for name in names if _IDENTIFIER.fullmatch(name))


@of_turns
def nothing_contradicts(case: Case, turn: TurnFacts) -> str | None:
    """Numbers, quoted texts and codes in a message stand in calls, results or configuration.

    A reworked turn may keep what its model says by the way, and have as many values that are known
    nowhere; new wording may have as many as the seed's turn at its place. A reworked turn names no
    more values that its calls do not take than its model does. No sentence takes the rest back.
    """
    if _taken_back(case, turn):
        return "the message takes back what it asks for"
    model, loose = case.model(turn), turn.unexplained
    if model is not None:
        loose = tuple(t for t in loose if t not in model.remarks)
    beside = model or next(iter(case.seed.turns[turn.place :]), None)
    allowed = set(beside.unexplained).difference(turn.tokens) if beside and loose else ()
    if len(loose) > len(allowed):
        return f"{_list(loose)} stand in no call, result or configuration"
    if model is None:
        return None
    if len(turn.strays) > len(model.strays):
        return f"{_list(turn.strays)} are not values of its calls"
    unsaid = _unsaid(turn, model)
    return unsaid and f"the message does not say {unsaid.name}={unsaid.value!r}"


def _taken_back(case: Case, turn: TurnFacts) -> bool:
    """Tell whether a whole sentence says that nothing is wanted, and no ancestor's message does."""
    text = turn.text
    for value in texts_taken(turn.asked):
        text = text.replace(value, "x")
    found = [s for s in _SENTENCE.findall(text) if _RETRACTION.fullmatch(s.strip())]
    return bool(found) and not all(_is_human(case, turn, s.strip()) for s in found)


def _unsaid(turn: TurnFacts, model: TurnFacts) -> Argument | None:
    """An argument that the message does not say, although its model says its own there."""
    mine, theirs = (
        [a for a in side.facts.arguments if a.turn == side.place] for side in (turn, model)
    )
    if [(a.name, a.path) for a in mine] != [(a.name, a.path) for a in theirs]:
        return None
    for new, old in zip(mine, theirs, strict=True):
        text = isinstance(old.value, str) and len(old.value) > 2
        if text and old.source is Source.TURN and new.source is not Source.TURN:
            return new
        if _says_day(model.text, old.value) and not _says_day(turn.text, new.value):
            return new
    return None


def _says_day(text: str, value: Scalar) -> bool:
    """Tell whether a text says the day of a date without its month: `July 6th to 10th`."""
    if not isinstance(value, str) or (date := iso(value)) is None:
        return False
    for mention in reversed(find_dates(text)):
        text = f"{text[: mention.start]} {text[mention.end :]}"
    return re.search(rf"\b{date.day}(?:st|nd|rd|th)\b", text) is not None


def _list(tokens: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {text!r}" for kind, text in tokens)


_MEASURE = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)[ -]?"
    r"(?:(?:us|degrees?|°|additional|extra|more|full|whole) ?)?([a-z]+)\b",
    re.I,
)
_Measures: TypeAlias = Sequence[tuple[float, Measure]]
_PRICE = re.compile(r"([$€£]) ?(\d[\d,]*(?:\.\d+)?)")


@of_turns
def units_agree(case: Case, turn: TurnFacts) -> str | None:
    """A number said in one unit is not given to a parameter of another one as it is."""
    problem = _unit_problem(turn)
    model = case.model(turn) if problem is not None else None
    return None if model is not None and _unit_problem(model) is not None else problem


def _unit_problem(turn: TurnFacts) -> str | None:
    measures = _measures(turn.text)
    for call in turn.asked if measures else ():
        spec = turn.facts.specs.get(call.name)
        problem = None if spec is None else _other_unit(call, spec, measures)
        if problem is not None:
            return problem
    return None


def _measures(text: str) -> _Measures:
    found = [(m[1], units().get(m[2].lower())) for m in _MEASURE.finditer(text)]
    found += [(m[2], units()[m[1]]) for m in _PRICE.finditer(text)]
    return [(float(n.replace(",", "")), unit) for n, unit in found if unit is not None]


def _other_unit(call: ToolCall, spec: ToolSpec, pairs: _Measures) -> str | None:
    for name, value in call.arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        units = [unit for number, unit in pairs if number == value]
        families = {unit.family for unit in units}
        taken = {unit for unit in _units_of(spec, name) if unit.family in families}
        if taken and not taken & set(units):
            wrong = next(unit for unit in units if unit.family == min(taken).family)
            return f"{call.name} takes {name} in {min(taken).name}s, said in {wrong.name}s"
    return None


def _units_of(spec: ToolSpec, name: str) -> frozenset[Measure]:
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    text = f"{split} {spec.properties.get(name, {}).get('description', '')}".lower()
    known = units()
    return frozenset(known[word] for word in re.findall(r"[a-z]+", text) if word in known)

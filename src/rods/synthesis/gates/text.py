"""Gates on wording: nothing unfilled, nothing leaked, nothing said that the calls contradict.

Owns what can be told of messages without a model. What stands in the words of an ancestor is
tolerated: a human wrote it. Never judges whether a message reads well.

    nothing_leaks(case)                                     # None, or what is wrong
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from rods.synthesis.gates.case import Case, Facts, SourceTurn
from rods.synthesis.structure.sources import Argument, Source
from rods.synthesis.structure.trace import by_identity, leaves
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


def reads_like_a_message(case: Case) -> str | None:
    """No placeholder, None, role tag, code fence, talk of tool calls, unless humans say it."""
    for index, turn in enumerate(case.variant.task.turns):
        for match in _LITERAL.finditer(turn.user):
            text = match.group()
            if not _is_human(case, index, text) and not _is_value(case, text):
                return f"turn {index}: the message says {text!r}"
    return None


def nothing_leaks(case: Case) -> str | None:
    """No message names a function or a parameter by its identifier."""
    names = _identifiers(case.variant.specs)
    for index, turn in enumerate(case.variant.task.turns):
        for word in _WORD.findall(turn.user):
            known = word not in names or _is_human(case, index, word) or _is_value(case, word)
            if not known:
                return f"turn {index}: the message says {word!r}, the name of a tool or parameter"
    return None


def _is_human(case: Case, index: int, text: str) -> bool:
    """Whether the message that is reworked says it; for new wording, whether an ancestor does."""
    source_turn = case.source_turns[index]
    if source_turn is not None:
        return text in source_turn.turn.user
    return any(text in facts.speech for facts in case.ancestors)


def _is_value(case: Case, text: str) -> bool:
    values = (leaf.value for call in case.variant.calls for leaf in leaves(call))
    return any(isinstance(value, str) and text in value for value in values)


@by_identity
def _identifiers(specs: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Names of functions and parameters that are not plain words."""
    names = {*specs, *(name for spec in specs.values() for name in spec.properties)}
    return frozenset(name for name in names if _IDENTIFIER.fullmatch(name))


def nothing_contradicts(case: Case) -> str | None:
    """Numbers, quoted texts and codes in a message stand in calls, results or configuration.

    A reworked turn may keep what its model says by the way, and have as many values that are known
    nowhere; new wording may have as many as the seed's turn at its place. A reworked turn names no
    more values that its calls do not take than its model does. No sentence takes the rest back.
    """
    for index, tokens in enumerate(case.variant.tokens):
        if _taken_back(case, index):
            return f"turn {index}: the message takes back what it asks for"
        model = case.counterpart(index) if tokens else None
        loose = case.variant.unexplained(index) if tokens else ()
        source_turn = case.source_turns[index]
        if source_turn is not None:
            remarks = source_turn.facts.remarks(source_turn.place)
            loose = tuple(t for t in loose if t not in remarks)
        known = model.facts.unexplained(model.place) if model and loose else ()
        if len(loose) > len(set(known) - set(tokens)):
            return f"turn {index}: {_list(loose)} stand in no call, result or configuration"
        strays = case.variant.strays(index) if source_turn is not None and tokens else ()
        if source_turn is not None and len(strays) > len(
            source_turn.facts.strays(source_turn.place)
        ):
            return f"turn {index}: {_list(strays)} are not values of its calls"
        unsaid = _unsaid(case, index, source_turn) if source_turn is not None else None
        if unsaid is not None:
            return f"turn {index}: the message does not say {unsaid.name}={unsaid.value!r}"
    return None


def _taken_back(case: Case, index: int) -> bool:
    """Whether a whole sentence says that nothing is wanted, and no ancestor's message does."""
    text = case.variant.task.turns[index].user
    for call in case.variant.asked(index):
        for leaf in leaves(call):
            text = text.replace(leaf.value, "x") if isinstance(leaf.value, str) else text
    found = [s for s in _SENTENCE.findall(text) if _RETRACTION.fullmatch(s.strip())]
    return bool(found) and not all(_is_human(case, index, s.strip()) for s in found)


def _unsaid(case: Case, index: int, source_turn: SourceTurn) -> Argument | None:
    """An argument that the message does not say, although its model says its own there."""
    mine = [a for a in case.variant.arguments if a.turn == index]
    theirs = [a for a in source_turn.facts.arguments if a.turn == source_turn.place]
    if [(a.name, a.path) for a in mine] != [(a.name, a.path) for a in theirs]:
        return None
    for new, old in zip(mine, theirs, strict=True):
        text = isinstance(old.value, str) and len(old.value) > 2
        if text and old.source is Source.TURN and new.source is not Source.TURN:
            return new
    return None


def _list(tokens: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {text!r}" for kind, text in tokens)


class _Unit(NamedTuple):
    family: str
    name: str


@functools.cache
def _units() -> Mapping[str, _Unit]:
    """The units of `units.toml`, by each of their forms."""
    listed = files("rods").joinpath("synthesis", "gates", "units.toml").read_text(encoding="utf-8")
    return {
        form: _Unit(family, name)
        for family, names in tomllib.loads(listed).items()
        for name, forms in names.items()
        for form in forms.split()
    }


_MEASURE = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)[ -]?(?:(?:us|degrees?|°) ?)?([a-z]+)\b", re.I
)
_SIGNS = {"$": _Unit("money", "dollar"), "€": _Unit("money", "euro"), "£": _Unit("money", "pound")}
_PRICE = re.compile(r"([$€£]) ?(\d[\d,]*(?:\.\d+)?)")


def units_agree(case: Case) -> str | None:
    """A number said in one unit is not given to a parameter of another one as it is."""
    for index in range(len(case.variant.task.turns)):
        problem = _unit_problem(case.variant, index)
        if problem is None:
            continue
        source_turn = case.source_turns[index]
        if source_turn is None or _unit_problem(source_turn.facts, source_turn.place) is None:
            return f"turn {index}: {problem}"
    return None


def _unit_problem(facts: Facts, index: int) -> str | None:
    said = _measures(facts.task.turns[index].user)
    for call in facts.asked(index) if said else ():
        spec = facts.specs.get(call.name)
        problem = None if spec is None else _other_unit(call, spec, said)
        if problem is not None:
            return problem
    return None


def _measures(text: str) -> list[tuple[float, _Unit]]:
    found = [(m[1], _units().get(m[2].lower())) for m in _MEASURE.finditer(text)]
    found += [(m[2], _SIGNS[m[1]]) for m in _PRICE.finditer(text)]
    return [(float(n.replace(",", "")), unit) for n, unit in found if unit is not None]


def _other_unit(call: ToolCall, spec: ToolSpec, said: Sequence[tuple[float, _Unit]]) -> str | None:
    for name, value in call.arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        units = [unit for number, unit in said if number == value]
        families = {unit.family for unit in units}
        taken = {unit for unit in _units_of(spec, name) if unit.family in families}
        if taken and not taken & set(units):
            wrong = next(unit for unit in units if unit.family == min(taken).family)
            return f"{call.name} takes {name} in {min(taken).name}s, said in {wrong.name}s"
    return None


def _units_of(spec: ToolSpec, name: str) -> frozenset[_Unit]:
    """Units that a parameter's name and description speak of."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    text = f"{split} {spec.properties.get(name, {}).get('description', '')}".lower()
    known = _units()
    return frozenset(known[word] for word in re.findall(r"[a-z]+", text) if word in known)

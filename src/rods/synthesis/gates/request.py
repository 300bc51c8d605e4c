"""Gates on requests: a message wants something, wants its calls, no more than them, and no others.

Owns what can be found out about free wording without a model. What is asked for is known where a
message reworks a human turn or is made of templates. Other wording is the judge's.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files

from rods.synthesis.gates.case import Case, TurnFacts, of_turns
from rods.synthesis.gates.usage import VALUE, TextCounts
from rods.synthesis.structure.sources import NUMBER_WORD, Shown, amount, numbers_taken, texts_taken
from rods.synthesis.structure.trace import Scalar, by_identity, leaves
from rods.synthesis.structure.words import verb_of
from rods.types import ToolCall, ToolSpec

_PLAIN = str.maketrans({"\u2019": "'", "\u2013": "-", "\u2014": "-"})
"""Apostrophes and dashes as keyboards write them."""
_NOT = "(?:do not|don't|never|not|avoid|refrain from)"
_ALL = (
    r"(?:(?:any|all|some|one) of )?(?:this|that|it|so|these|those|the following|what follows"
    r"|anything|any such thing|nothing)\b"
)
_DO = (
    "(?:do|perform|carry out|execute|act (?:up)?on|follow|fulfil|touch|go (?:ahead|on) with|start)"
)
_TAKEN_BACK = re.compile(
    rf"\b{_NOT} (?:\w+ ){{0,2}}{_DO} (?:\w+ ){{0,1}}?{_ALL}"
    r"|\b(?:do|does|did|would) ?(?:not|n't) (?:want|need|like|wish) (?:for )?"
    rf"(?:(?:you|anybody|anyone) )to {_DO}\b"
    r"|\bunder no circumstances\b|\b(?:do|is) nothing of the (?:kind|sort)\b|\bdo the opposite\b",
    re.I,
)
"""Words which say that what stands beside them is not to be done."""
_WISHES = "want|wish|need|require|intend|hope|plan|aim|propose|request|ask|expect"
_PLANS = (
    "hoping|looking|planning|aiming|interested|curious|wondering|keen|eager|trying|going|thinking"
    "|considering|ready"
)
_ASKS = re.compile(
    r"\?|\b(?:please|kindly|(?:could|can|would|will|might) you|may i|let'?s|let (?:us|me)|help"
    r"|assist"
    rf"|i (?:\w+ )?(?:{_WISHES}|shall|should|must|could use)"
    r"|i(?:'?d| would| should) (?:\w+ )?(?:like|love|appreciate|prefer|be|require)"
    rf"|i(?:'?m| am) (?:\w+ )?(?:{_PLANS})|we (?:\w+ )?(?:need|want|should|must|have to)"
    r"|(?:and|also|but) (?:need|require|must|request)|request (?:that )?you"
    r"|(?:can|could) (?:now )?be \w+ed|could benefit"
    r"|you (?:should|must|may|can|could|have to|need to)|should be|must be|needs? to"
    r"|ha(?:s|ve) to|make sure|it'?s time|(?:it|that)(?: would|'?d) be|go ahead|proceed)\b",
    re.I,
)
"""Words that ask, wish or plan."""
_REFUSED = re.compile(
    r"(?:(?:please|kindly) (?:do not|don't|never)"
    r"|(?:could|can|would|will) you (?:(?:please|kindly) )?not"
    rf"|(?:{_WISHES}|like|prefer)(?:ed|ing)? (?:(?:for )?you )?(?:please )?not to)"
    r"\b[^.!?;]*?(?:[.!?;]|,? (?:but|and then|instead)\b|$)",
    re.I,
)
"""A wish for the opposite, to the end of its clause."""
_GOOD = re.compile(
    rf"{_NOT} (?:\w+ )?(?:forget|hesitate|miss|fail|overlook|worry|mind|neglect)", re.I
)
"""Negated words that still want it done."""
_BEGINS = re.compile(
    r"(?:^|[.!?:;,\n-] *|\b(?:and|then|but|so|also|to|now|next|first|just|therefore|\w+ly) )"
    r"(?=(\w+))",
    re.I,
)
"""The first word of a sentence or a clause."""


@of_turns
def wants_something(case: Case, turn: TurnFacts) -> str | None:
    """A message that calls answer asks for something; none says that it is not to be done.

    Tolerated where the human turn that is reworked does it too.
    """
    if not turn.text.strip():
        return None
    verbs = _verbs() | case.variant.language.verbs | _tool_verbs(case.variant.specs)
    problem, model = _problem(_bare(turn), verbs, asks=not turn.answers), case.model(turn)
    tolerated = problem and model is not None and _problem(model.text, verbs, asks=True) is not None
    return None if tolerated else problem


def _bare(turn: TurnFacts) -> str:
    """A message without the values of its calls: what is quoted is not asked."""
    text = turn.text
    for value in sorted(set(texts_taken(turn.asked)), key=len, reverse=True):
        if len(value) > 2:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "x", text, flags=re.I)
    return text


def _problem(text: str, verbs: frozenset[str], *, asks: bool) -> str | None:
    plain = _GOOD.sub("", text.translate(_PLAIN))
    if (found := _TAKEN_BACK.search(plain)) is not None:
        return f"the message says that nothing is to be done: {found[0]!r}"
    if not asks:
        return None
    rest = _REFUSED.sub("", plain)
    if _ASKS.search(rest) or any(word.lower() in verbs for word in _BEGINS.findall(rest)):
        return None
    return "the message asks " + ("that something be not done" if rest != plain else "for nothing")


@functools.cache
def _verbs() -> frozenset[str]:
    """Words with which people begin an order, whatever the tools are."""
    listed = files("rods").joinpath("synthesis", "gates", "verbs.txt").read_text(encoding="utf-8")
    return frozenset(listed.split())


@by_identity
def _tool_verbs(specs: Mapping[str, ToolSpec]) -> frozenset[str]:
    """The first words of the tools' names and descriptions: a loan is closed by `closeLoan`."""
    named = {re.split(r"_|(?<=[a-z])(?=[A-Z])", name)[0].lower() for name in specs}
    return frozenset(named | {verb_of(spec) for spec in specs.values()})


@of_turns
def calls_are_asked_for(case: Case, turn: TurnFacts) -> str | None:
    """A turn calls what its message asks for: no call more, none less, in this order.

    A reworked message asks for what its model asks for. A message made of templates is read back.
    """
    model, problem = case.model(turn), case.variant.language.misread(case, turn)
    if problem is not None or model is None or turn.names == model.names:
        return problem
    theirs = f"turn {model.place + 1} of {model.facts.task.provenance.origin}, which it reworks"
    return f"calls {turn.names}; {theirs}, calls {model.names}"


_WIDER = re.compile(
    r"\b(?:the (?:others|other ones|rest|remainder|remaining \w+s)|(?:every|any)(?:thing|one|body)"
    r" else|(?:all|every|each)(?: of)?(?: the)? other \w+)\b",
    re.I,
)
"""More than what was named."""
_NARROWER = re.compile(
    r"\b(?:except(?: for)?|excluding|all but|but (?:not|leave out|skip|without)|leaving? out"
    r"|other than|apart from|with the exception of)\b",
    re.I,
)
"""Less than what was named."""
_SENTENCE = re.compile(r"[^.!?]+")
SHORT = 12
"""Words of a sentence that only adds to what was asked before, if it names no value."""


@of_turns
def nothing_more_is_meant(case: Case, turn: TurnFacts) -> str | None:
    """No message asks for others too, leaves some out or counts what its calls do not have.

    Tolerated where the message that is reworked says so, or calls repeat a tool or take a list.
    """
    calls, model = turn.asked, case.model(turn)
    if not calls or not turn.text.strip():
        return None
    known = model.text.lower() if model is not None else ""
    tools, values = _tools(calls), [v for call in calls for v in call.arguments.values()]
    lists = any(isinstance(value, list) and len(value) > 1 for value in values)
    for number, sentence in enumerate(_SENTENCE.findall(turn.masked)):
        found = _WIDER.search(sentence) or _NARROWER.search(sentence)
        loose = number > 0 and VALUE not in sentence and len(sentence.split()) <= SHORT
        several = not loose and (len(tools) < len(calls) or lists)
        if found is not None and not several and found[0].lower() not in known:
            return f"{found[0]!r}, but the calls name all that is meant"
    for found in NUMBER_WORD.finditer(turn.masked):
        word = found[0].lower()
        usual = word in known or case.usage.count_only(tools, {word})
        if not usual and not _counts(calls, amount(word)):
            return f"the message says {found[0]!r}, its calls have no such number"
    return None


def _counts(calls: Sequence[ToolCall], number: int) -> bool:
    """Tell whether an argument is this number, or so many calls, items or like arguments are."""
    sizes = {len(calls), *Counter(call.name for call in calls).values()}
    for call in calls:
        sizes |= {len(v) for v in call.arguments.values() if isinstance(v, list)}
        sizes |= set(Counter(name.rstrip("0123456789AB") for name in call.arguments).values())
    return number in sizes or float(number) in numbers_taken(calls)


MARGIN = 12.0
"""By how much two messages must fit better when they change places, in nats."""
SAID = 3.0
"""Weight of a value that only one of two turns takes, in nats."""


def messages_stand_at_their_calls(case: Case) -> str | None:
    """No two messages fit better when they change places, unless their models stand so, too."""
    asked = {turn.place: turn for turn in case.variant.turns if turn.text.strip() and turn.asked}
    fits = _fits(case.usage, asked)
    for i, j in itertools.combinations(asked, 2):
        if _tools(asked[i].asked) == _tools(asked[j].asked):
            continue
        gain = fits[i, j] + fits[j, i] - fits[i, i] - fits[j, j]
        answer = asked[i].answers or asked[j].answers  # it says a value and little else
        better = fits[i, j] > fits[i, i] and fits[j, i] > fits[j, j]
        if gain > MARGIN and (better or not answer):
            return f"turn {i + 1}: its message fits turn {j + 1}'s calls, and that one's its calls"
    return None


def _tools(calls: Sequence[ToolCall]) -> frozenset[str]:
    return frozenset(call.name for call in calls)


def _fits(usage: TextCounts, asked: Mapping[int, TurnFacts]) -> dict[tuple[int, int], float]:
    """Return how well each message asks for the calls of each turn: by its words and its values."""
    found: dict[tuple[int, int], float] = {}
    tools = {j: _tools(turn.asked) for j, turn in asked.items()}
    values = {j: _values(turn.asked) for j, turn in asked.items()}
    for i, turn in asked.items():
        words, shown = set(turn.marked_words), Shown(turn.facts.number_words)
        shown.hear(turn.text)
        stated = {v: shown.turn_with(v) is not None for v in {v for j in asked for v in values[j]}}
        for j in asked:
            found[i, j] = usage.fit(tools[j], words) + SAID * sum(stated[v] for v in values[j])
    return found


def _values(calls: Sequence[ToolCall]) -> set[Scalar]:
    found = {x.value for call in calls for x in leaves(call) if not isinstance(x.value, bool)}
    return {v for v in found if not isinstance(v, str) or len(v) > 2}

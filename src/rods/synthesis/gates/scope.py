"""The gate on how much a message asks for: others too, all but one, three where the calls do two.

Owns words of extent and number, which any tool can have. Never reads what a message means.

    nothing_more_is_meant(case)                             # None, or what is wrong
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rods.synthesis.gates.case import Case
from rods.synthesis.gates.usage import VALUE
from rods.synthesis.structure.sources import numbers_taken
from rods.types import ToolCall

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
_NUMBER_WORDS = "two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {w: n for n, w in enumerate(_NUMBER_WORDS.split(), start=2)} | {"dozen": 12}
_NUMBER = re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b", re.I)


def nothing_more_is_meant(case: Case) -> str | None:
    """No message asks for others too, leaves some out or counts what its calls do not have.

    Tolerated where the message that is reworked says so, or calls repeat a tool or take a list.
    """
    facts = case.variant
    for index, turn in enumerate(facts.task.turns):
        calls = facts.asked(index)
        if not calls or not turn.user.strip():
            continue
        text = facts.masked[index]
        source_turn = case.source_turns[index]
        model = source_turn.turn.user.lower() if source_turn is not None else ""
        for number, sentence in enumerate(_SENTENCE.findall(text)):
            found = _WIDER.search(sentence) or _NARROWER.search(sentence)
            loose = number > 0 and VALUE not in sentence and len(sentence.split()) <= SHORT
            several = not loose and (len({c.name for c in calls}) < len(calls) or _lists(calls))
            if found is not None and not several and found[0].lower() not in model:
                return f"turn {index}: {found[0]!r}, but the calls name all that is meant"
        for found in _NUMBER.finditer(text):
            word = found[0].lower()
            known = word in model or case.usage.said_for({c.name for c in calls}, {word})
            if not known and not _counts(calls, _NUMBERS[word]):
                return f"turn {index}: the message says {found[0]!r}, its calls have no such number"
    return None


def _lists(calls: Sequence[ToolCall]) -> bool:
    lists = (value for call in calls for value in call.arguments.values())
    return any(isinstance(value, list) and len(value) > 1 for value in lists)


def _counts(calls: Sequence[ToolCall], number: int) -> bool:
    """Whether an argument is this number, or there are as many calls, items or like arguments."""
    sizes = {len(calls), *Counter(call.name for call in calls).values()}
    for call in calls:
        sizes |= {len(v) for v in call.arguments.values() if isinstance(v, list)}
        sizes |= set(Counter(name.rstrip("0123456789AB") for name in call.arguments).values())
    return number in sizes or float(number) in numbers_taken(calls)

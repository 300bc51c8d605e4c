"""The gate on messages that stand at each other's place: each fits the other one's calls better.

Owns how well a message fits calls: by the words with which people ask for these tools, and by the
values that it says. Never reads what a message means.

    messages_stand_at_their_calls(case)                     # None, or what is wrong
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from rods.synthesis.gates.case import Case, Facts
from rods.synthesis.gates.contrast import name_words, stem_of
from rods.synthesis.gates.usage import Usage, words_of
from rods.synthesis.structure.sources import Shown
from rods.synthesis.structure.trace import leaves
from rods.types import ToolCall

MARGIN = 12.0
"""By how much two messages must fit better when they change places, in nats."""
SAID = 3.0
"""What a value that only one of two turns takes is worth, in nats."""


def messages_stand_at_their_calls(case: Case) -> str | None:
    """No two messages fit better when they change places, unless their models stand so, too."""
    facts = case.variant
    asked = [i for i, t in enumerate(facts.task.turns) if t.user.strip() and facts.asked(i)]
    fits = {(i, j): _fit(facts, case.usage, i, facts.asked(j)) for i in asked for j in asked}
    for i, j in itertools.combinations(asked, 2):
        if _tools(facts.asked(i)) == _tools(facts.asked(j)):
            continue
        gain = fits[i, j] + fits[j, i] - fits[i, i] - fits[j, j]
        answer = facts.answers(i) or facts.answers(j)  # it says a value and little else
        better = fits[i, j] > fits[i, i] and fits[j, i] > fits[j, j]
        if gain > MARGIN and (better or not answer):
            return f"turn {i}: its message fits the calls of turn {j}, and that one's its calls"
    return None


def _tools(calls: Sequence[ToolCall]) -> frozenset[str]:
    return frozenset(call.name for call in calls)


def _fit(facts: Facts, usage: Usage, index: int, calls: Sequence[ToolCall]) -> float:
    """How well a message asks for these calls: log-likelihood of its words beside all messages."""
    text = facts.task.turns[index].user
    tools = _tools(calls)
    named = {word for tool in tools for word in name_words(tool)}
    total = usage.share_of(tools)
    found = 0.0
    for word in {w for w in words_of(text, facts.calls) if w[0].isalpha()}:
        near, usual = usage.share(tools, word), usage.share(None, word)
        if stem_of(word) in named:
            near = max(near, 0.5)
        if usual or stem_of(word) in named:
            weight = total / (total + 4)
            found += math.log((weight * near + 0.2 * max(usual, 0.01)) / (max(usual, 0.01)))
    shown = Shown()
    shown.hear(text)
    values = {x.value for call in calls for x in leaves(call) if not isinstance(x.value, bool)}
    long = [v for v in values if not isinstance(v, str) or len(v) > 2]
    return found + SAID * sum(shown.in_text(value) is not None for value in long)

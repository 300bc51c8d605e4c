"""The gate on messages that stand at each other's place: each fits the other one's calls better.

Owns how well a message fits calls: by the words with which people ask for these tools, and by the
values that it says. Never reads what a message means.

    messages_stand_at_their_calls(case)                     # None, or what is wrong
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rods.synthesis.gates.case import Case, Facts
from rods.synthesis.gates.usage import TextCounts
from rods.synthesis.structure.sources import Shown
from rods.synthesis.structure.trace import Scalar, leaves
from rods.types import ToolCall

MARGIN = 12.0
"""By how much two messages must fit better when they change places, in nats."""
SAID = 3.0
"""What a value that only one of two turns takes is worth, in nats."""


def messages_stand_at_their_calls(case: Case) -> str | None:
    """No two messages fit better when they change places, unless their models stand so, too."""
    facts = case.variant
    asked = [i for i, t in enumerate(facts.task.turns) if t.user.strip() and facts.asked(i)]
    fits = _fits(facts, case.usage, asked)
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


def _fits(facts: Facts, usage: TextCounts, asked: Sequence[int]) -> dict[tuple[int, int], float]:
    """How well each message asks for the calls of each turn: by its words and its values."""
    found: dict[tuple[int, int], float] = {}
    tools = {j: _tools(facts.asked(j)) for j in asked}
    values = {j: _values(facts.asked(j)) for j in asked}
    for i in asked:
        words, shown = set(facts.heard[i]), Shown()
        shown.hear(facts.task.turns[i].user)
        said = {v: shown.said_in(v) is not None for v in {v for j in asked for v in values[j]}}
        for j in asked:
            found[i, j] = usage.fit(tools[j], words) + SAID * sum(said[v] for v in values[j])
    return found


def _values(calls: Sequence[ToolCall]) -> set[Scalar]:
    """What calls take, without what is too short to be told from other words."""
    found = {x.value for call in calls for x in leaves(call) if not isinstance(x.value, bool)}
    return {v for v in found if not isinstance(v, str) or len(v) > 2}

"""Gates on messages that have an ancestor's words, with other values.

Owns what a message promises that is nearly an ancestor's: all else is the same (`worded`, for every
writer). A writer that retells alone promises it of each message, and brings `retells` as a gate of
its own. Never reads what a message means, never asks who wrote it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from rods.synthesis.gates.alignment import AlignedPairs, Retelling
from rods.synthesis.gates.case import Case, TurnFacts, of_turns

CANDIDATES = 3
"""Human turns that are looked at for one message: those that share the most words."""
ALIKE = 0.3
"""Share of common words, values among them, from which messages are compared word by word."""
NEAR = 0.7
"""Share of two messages, values aside, from which one is nearly the other."""


class Retold(NamedTuple):
    """A turn beside the human turn that it is most like."""

    near: bool
    """Whether nearly all words are the same."""
    wording: str | None
    """Which word is not."""
    problem: str | None
    """Why it does not retell that turn, with its own values."""


def nearly_retold(case: Case) -> str | None:
    """A message that is nearly an ancestor's has the same words, but for names.

    Where all messages are, each has its own values where its model has them.
    """
    said = [turn for turn in case.variant.turns if turn.text.strip()]
    explains = case.variant.language.explains
    free = [turn for turn in said if not explains(turn)]
    own = [t.place for t in free if any(t.shared(x) >= ALIKE for x in _models(case, t)[:1])]
    found = _retold(case) if own else ()
    whole = all(turn.place in own and found[turn.place].near for turn in said)
    for index in own:
        retold = found[index]
        problem = retold.problem if whole else retold.wording
        if retold.near and problem is not None:
            return f"turn {index}: {problem}"
    return None


@of_turns
def retells(case: Case, turn: TurnFacts) -> str | None:
    """Every message is an ancestor's, word for word, with its own values in their places."""
    return _retold(case)[turn.place].problem


@functools.lru_cache(maxsize=1)
def _retold(case: Case) -> Sequence[Retold]:
    """Each turn beside the likest turn of an ancestor that makes the same calls."""
    found: list[Retold] = []
    pairs: dict[str, AlignedPairs] = {}
    for turn in case.variant.turns:
        best: Retold | None = None
        for model in _models(case, turn):
            known = pairs.setdefault(model.facts.task.id, AlignedPairs({}, {}))
            retelling = Retelling(model, turn, known)
            if (problem := retelling.problem()) is None:
                known.turns[turn.place] = model.place
                if turn.turn.ground_truth:
                    known.steps.update(zip(turn.steps, model.steps, strict=False))
                best = Retold(True, None, None)
                break
            near = retelling.likeness >= NEAR
            if best is None or near > best.near:
                best = Retold(near, retelling.wording, problem)
        missing = "no turn of an ancestor makes these calls"
        found.append(best or Retold(False, missing, missing))
    return found


def _models(case: Case, turn: TurnFacts) -> list[TurnFacts]:
    """Turns of ancestors that make the same calls in the same place of a gap, the likest first."""
    theirs = (other for facts in case.ancestors for other in facts.turns)
    found = [other for other in theirs if _shape(other) == _shape(turn)]
    return sorted(found, key=turn.shared, reverse=True)[:CANDIDATES]


def _shape(turn: TurnFacts) -> object:
    names = [call.name for call in turn.asked]
    return names, bool(turn.turn.ground_truth), bool(turn.text.strip())

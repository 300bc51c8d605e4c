"""Gates on messages that have an ancestor's words, with other values.

Owns what a message promises that is nearly an ancestor's: all else is the same (`worded`, for every
writer). A writer that retells alone promises it of each message, and brings `retells` as a gate of
its own. Never reads what a message means, never asks who wrote it.

    nearly_retold(case)                                     # None, or what is wrong
"""

from __future__ import annotations

from rods.synthesis.gates.alignment import AlignedPairs, Retelling
from rods.synthesis.gates.case import Case, Facts, Retold, SourceTurn

CANDIDATES = 3
"""Human turns that are looked at for one message: those that share the most words."""
ALIKE = 0.3
"""Share of common words, values among them, from which messages are compared word by word."""
NEAR = 0.7
"""Share of two messages, values aside, from which one is nearly the other."""


def nearly_retold(case: Case) -> str | None:
    """A message that is nearly an ancestor's has the same words, but for names.

    Where all messages are, each has its own values where its model has them.
    """
    said = [i for i, turn in enumerate(case.variant.task.turns) if turn.user.strip()]
    own = [i for i in said if not case.templated(i) and _resembles(case, i)]
    found = _retold(case) if own else {}
    whole = all(i in own and found[i].near for i in said)
    for index in own:
        retold = found[index]
        problem = retold.problem if whole else retold.wording
        if retold.near and problem is not None:
            return f"turn {index}: {problem}"
    return None


def _resembles(case: Case, index: int) -> bool:
    """Whether some ancestor's turn with the same calls has many of the words."""
    models = _models(case, index)[:1]
    return any(_share(case, index, source_turn) >= ALIKE for source_turn in models)


def retells(case: Case) -> str | None:
    """Every message is an ancestor's, word for word, with its own values in their places."""
    found = _retold(case).items()
    return next((f"turn {i}: {r.problem}" for i, r in found if r.problem is not None), None)


def _retold(case: Case) -> dict[int, Retold]:
    """Each turn beside the likest turn of an ancestor that makes the same calls."""
    if case.retold:
        return case.retold
    pairs: dict[str, AlignedPairs] = {}
    for index in range(len(case.variant.task.turns)):
        best: Retold | None = None
        for source_turn in _models(case, index):
            known = pairs.setdefault(source_turn.facts.task.id, AlignedPairs({}, {}))
            retelling = Retelling(*source_turn, case.variant, index, known)
            problem = retelling.problem()
            if problem is None:
                known.add(*source_turn, case.variant, index)
                best = Retold(True, None, None)
                break
            near = retelling.likeness >= NEAR
            if best is None or near > best.near:
                best = Retold(near, retelling.wording, problem)
        missing = "no turn of an ancestor makes these calls"
        case.retold[index] = best or Retold(False, missing, missing)
    return case.retold


def _models(case: Case, index: int) -> list[SourceTurn]:
    """Turns of ancestors that make the same calls in the same place of a gap, the likest first."""
    shape = _shape(case.variant, index)
    found = [
        SourceTurn(facts, place)
        for facts in case.ancestors
        for place in range(len(facts.task.turns))
        if _shape(facts, place) == shape
    ]
    return sorted(found, key=lambda m: _share(case, index, m), reverse=True)[:CANDIDATES]


def _share(case: Case, index: int, source_turn: SourceTurn) -> float:
    mine, theirs = case.variant.words[index], source_turn.facts.words[source_turn.place]
    return len(mine & theirs) / max(1, len(mine | theirs))


def _shape(facts: Facts, index: int) -> object:
    turn = facts.task.turns[index]
    names = [call.name for call in facts.asked(index)]
    return names, bool(turn.ground_truth), bool(turn.user.strip())

"""Gates on whose words a message has: an ancestor's, with other values, or those of templates.

Owns what a message promises that is nearly an ancestor's: all else is the same (`worded`, for every
writer). A writer that retells alone, or fills templates alone, promises it of each message, and
brings that as a gate of its own. Never reads what a message means, never asks who wrote it.

    nearly_retold(case)                                     # None, or what is wrong
"""

from __future__ import annotations

from rods.synthesis.gates.alignment import AlignedPairs, Retelling
from rods.synthesis.gates.case import Case, Facts, Retold, SourceTurn
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.templates.phrases import Phrases, phrases_of
from rods.synthesis.templates.reading import Strict, foreign, read

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
    own = [i for i in said if not _templated(case, i) and _resembles(case, i)]
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


def _templated(case: Case, index: int) -> bool:
    """Whether templates explain a message: there are few ways to ask for a book."""
    reading = case.readings[index]
    return reading is not None and reading.complete


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


def templates_say_all(case: Case) -> str | None:
    """Templates explain every message to its last word."""
    facts = case.variant
    phrases, domains = phrases_of(facts.environment), domains_of(facts.environment)
    for index, turn in enumerate(facts.task.turns):
        if not turn.user.strip():
            continue
        if facts.answers(index):
            if turn.user not in _answers(phrases, facts, index):
                return f"turn {index}: no template gives a value in these words"
            continue
        place = facts.answer(index)
        steps = [n for n, step in enumerate(facts.steps) if step.turn == place]
        opens = place != index and not turn.withheld
        strict = Strict(domains, opens)
        reading = read(phrases, facts.specs, facts.steps, steps, turn.user, strict)
        if reading.unsaid:
            unsaid = ", ".join(str(facts.steps[number].call) for number in reading.unsaid)
            return f"turn {index}: no template says {unsaid}"
        places = [reading.begins[number] for number in steps]
        if places != sorted(places):
            return f"turn {index}: the message asks for its calls in another order"
        if not reading.complete:
            return f"turn {index}: no template says {' '.join(sorted(foreign(reading.rest)))}"
    return None


def _answers(phrases: Phrases, facts: Facts, index: int) -> set[str]:
    """Everything that gives one value of this turn's calls."""
    return {
        text
        for call in facts.task.turns[index].ground_truth
        for name in call.arguments
        for text in phrases.answers(call, name)
    }

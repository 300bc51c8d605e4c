"""The gate on who worded a message: a writer without a model says nothing of its own.

Owns the promise of two writers. `resample` retells human turns, so every message is one of an
ancestor's, word by word, with other values; `graph` fills templates, so every message is read back
to its last word. Other wording is a language model's. Never reads what a message means.

    worded_as_promised(case)                                # None, or what is wrong
"""

from __future__ import annotations

from rods.synthesis.gates.alignment import Pairs, Retelling
from rods.synthesis.gates.case import Case, Facts, SourceTurn
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.templates.phrases import Phrases, phrases_of
from rods.synthesis.templates.reading import Strict, foreign, read

CANDIDATES = 3
"""Human turns that are looked at for one message: those that share the most words."""


def worded_as_promised(case: Case) -> str | None:
    """Every message is what its writer can have said: a retold turn, or templates."""
    recipe = case.variant.task.provenance.recipe
    if recipe.startswith("resample"):
        return _retold(case)
    if recipe.startswith("graph"):
        return _templates(case)
    return None


def _retold(case: Case) -> str | None:
    """What is wrong with the first message that retells no turn of an ancestor."""
    pairs: dict[str, Pairs] = {}
    for index in range(len(case.variant.task.turns)):
        problems: list[str] = []
        for source_turn in _models(case, index):
            known = pairs.setdefault(source_turn.facts.task.id, Pairs({}, {}))
            problem = Retelling(*source_turn, case.variant, index, known).problem()
            if problem is None:
                known.add(*source_turn, case.variant, index)
                break
            problems.append(problem)
        else:
            problem = problems[0] if problems else "no turn of an ancestor makes these calls"
            return f"turn {index}: {problem}"
    return None


def _models(case: Case, index: int) -> list[SourceTurn]:
    """Turns of ancestors that make the same calls in the same place of a gap, the likest first."""
    shape = _shape(case.variant, index)
    mine = case.variant.words[index]

    def share(source_turn: SourceTurn) -> float:
        theirs = source_turn.facts.words[source_turn.place]
        return len(mine & theirs) / max(1, len(mine | theirs))

    found = [
        SourceTurn(facts, place)
        for facts in case.ancestors
        for place in range(len(facts.task.turns))
        if _shape(facts, place) == shape
    ]
    return sorted(found, key=share, reverse=True)[:CANDIDATES]


def _shape(facts: Facts, index: int) -> object:
    turn = facts.task.turns[index]
    names = [call.name for call in facts.asked(index)]
    return names, bool(turn.ground_truth), bool(turn.user.strip())


def _templates(case: Case) -> str | None:
    """What is wrong with the first message that templates do not explain to its last word."""
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

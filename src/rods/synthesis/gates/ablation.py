"""Gates that play the ground truth again without a call: what is needed, what is really missing.

Owns ablation and the deliberate gaps of the two kinds. What the seed has as well is tolerated: the
benchmark's own tasks are not perfect. Never runs a call that cannot be superfluous twice.

    every_call_is_needed(case)                              # None, or what is wrong
"""

from __future__ import annotations

from collections.abc import Collection

from rods.synthesis.gates.case import Case, Facts, TurnFacts
from rods.synthesis.structure.sources import Shown
from rods.synthesis.structure.trace import trace
from rods.task import MISS_PARAM


def changes(facts: Facts, left_out: Collection[int]) -> bool:
    """Whether a state or another call's result differs without these steps."""
    played = trace(facts.environment, facts.task, left_out)
    if not all(verdict.state for verdict in played.verdicts):
        return True
    kept = (step for number, step in enumerate(facts.steps) if number not in left_out)
    return any(
        a.result.content != b.result.content for a, b in zip(kept, played.steps, strict=True)
    )


def superfluous(facts: Facts) -> list[int]:
    """Steps that change nothing and whose result an earlier call gave already.

    A result that stands alone is needed, so only repeated results cost a run.
    """
    seen: set[str] = set()
    found: list[int] = []
    for number, step in enumerate(facts.steps):
        if step.result.content in seen and not changes(facts, [number]):
            found.append(number)
        seen.add(step.result.content)
    return found


def every_call_is_needed(case: Case) -> str | None:
    """Dropping any one call changes a state or loses a result that no other call gives.

    Tolerated where the seed has the same redundancy at the same place, or the turn that is reworked
    has it.
    """
    steps = case.variant.steps
    for number in superfluous(case.variant):
        if case.aligned and number in superfluous(case.seed):
            continue
        step = steps[number]
        model = case.source_turns[step.turn]
        if model is not None and _has(model, step.call.name):
            continue
        return f"turn {step.turn}: {step.call} changes nothing and tells what was told before"
    return None


def _has(model: TurnFacts, name: str) -> bool:
    """Whether the reworked turn has a superfluous call of this function."""
    theirs = [model.facts.steps[number] for number in superfluous(model.facts)]
    return any(step.turn == model.place and step.call.name == name for step in theirs)


def gaps_are_real(case: Case) -> str | None:
    """What a missing value's turn leaves open is told by nothing before, but by the next message.

    Tolerated where the turn reworks a gap that is none either, names no more values than it, and
    the next message no fewer.
    """
    if case.variant.task.category != MISS_PARAM:
        return None
    for index in gaps(case.variant):
        model = case.source_turns[index]
        if not opens(case.variant, index) and (
            model is None or not _as_loose(case.variant.turns[index], model)
        ):
            return f"turn {index}: nothing is missing, or the next message does not give it"
    return None


def _as_loose(gap: TurnFacts, model: TurnFacts) -> bool:
    """Whether the reworked gap is none either, and values stand where they stood."""
    if model.place not in gaps(model.facts) or opens(model.facts, model.place):
        return False
    told, theirs = (side.facts.turns[side.place + 1] for side in (gap, model))
    fewer = len(gap.tokens) <= len(model.tokens) and len(told.tokens) >= len(theirs.tokens)
    return fewer and bool(told.words & theirs.words or theirs.tokens)


def gaps(facts: Facts) -> list[int]:
    """Turns without ground truth that another turn follows."""
    turns = facts.task.turns
    return [i for i, turn in enumerate(turns[:-1]) if not turn.ground_truth]


def opens(facts: Facts, gap: int) -> bool:
    """Whether some argument of the next turn is unknown at the gap and known one message later."""
    shown = Shown()
    for turn in facts.task.turns[: gap + 1]:
        shown.hear(turn.user)
    for number, step in enumerate(facts.steps):
        if step.turn <= gap:
            shown.read(number, step)
    after = Shown()
    after.hear(facts.task.turns[gap + 1].user)
    return any(
        shown.said_in(argument.value) is None
        and shown.in_result(argument.value) is None
        and after.said_in(argument.value) is not None
        for argument in facts.arguments
        if argument.turn == gap + 1 and not isinstance(argument.value, bool)
    )


def withheld_is_needed(case: Case) -> str | None:
    """Withheld functions are given back, called then, and the turn fails without them.

    Tolerated where the same function is withheld as idly in an ancestor, as long as another one is
    needed, or none is in that ancestor either.
    """
    mine = idle(case.variant)
    alone = mine.keys() >= withheld(case.variant)
    for name, problem in mine.items():
        models = [facts for facts in case.ancestors if name in idle(facts)]
        if alone:
            models = [facts for facts in models if idle(facts).keys() >= withheld(facts)]
        if not models:
            return problem
    return None


def withheld(facts: Facts) -> set[str]:
    """Every function that some turn withholds."""
    return {name for turn in facts.task.turns for name in turn.withheld}


def idle(facts: Facts) -> dict[str, str]:
    """Withheld functions that do not matter, and why."""
    turns = facts.task.turns
    found: dict[str, str] = {}
    for name in sorted(withheld(facts)):
        last = max(i for i, turn in enumerate(turns) if name in turn.withheld)
        back = last + 1
        steps = [n for n, step in enumerate(facts.steps) if step.call.name == name]
        if back == len(turns):
            found[name] = f"{name} is never given back"
        elif turns[last].ground_truth:
            found[name] = f"turn {last}: {name} is withheld, but no turn without calls shows it"
        elif not any(facts.steps[n].turn == back for n in steps):
            found[name] = f"turn {back}: {name} is given back and not called"
        elif trace(facts.environment, facts.task, steps).verdicts[back].solved:
            found[name] = f"turn {back}: the turn is solved without {name}"
    return found

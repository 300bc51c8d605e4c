"""Gates of question tasks: the kind, the side and the answer of another question are right.

Owns the conditions for tasks that have an answer instead of ground-truth calls, and which tasks
those are. Never makes a question: the environment does, if it is a `rods.abilities.QuestionSource`.

    is_question(seed)                                       # then `QUESTION_GATES` are asked
    answer_replays(case)                                    # None, or what is wrong
"""

from __future__ import annotations

from collections.abc import Mapping

from rods.abilities import QuestionSource, ability
from rods.synthesis.gates import structure
from rods.synthesis.gates.case import Case, Gate
from rods.task import Task


def is_question(task: Task) -> bool:
    """One turn without ground-truth calls, and an answer in the world."""
    answer = task.world.get("answer")
    return len(task.turns) == 1 and not task.turns[0].ground_truth and isinstance(answer, str)


def is_asked_alike(case: Case) -> str | None:
    """It is a question with an answer, of the seed's environment and category."""
    seed, variant = case.seed.task, case.variant.task
    if not is_question(variant) or not variant.turns[0].user.strip():
        return "it is not a question with an answer"
    if (seed.env, seed.category) != (variant.env, variant.category):
        return f"{variant.env}/{variant.category} is not the seed's {seed.env}/{seed.category}"
    return None


def is_as_hard(case: Case) -> str | None:
    """Family and difficulty are the seed's: the distance is 0."""
    mine, theirs = (
        tuple(facts.task.world.get(key) for key in ("family", "difficulty"))
        for facts in (case.variant, case.seed)
    )
    return None if mine == theirs else f"{mine[0]} at {mine[1]} is not the seed's {theirs}"


def is_not_asked_yet(case: Case) -> str | None:
    """Its text is not a seed's, an original's or an earlier variant's."""
    text = case.variant.prints.text
    if text == case.seed.prints.text or (case.pool is not None and text in case.pool.texts):
        return "a task with this text exists"
    if any(text == earlier.text for earlier in case.seen):
        return "an earlier variant has this text"
    return None


def is_on_its_side(case: Case) -> str | None:
    """No held-out task has its text, and its seed is of the side of the seed task's."""
    if case.variant.prints.text in case.corpus.texts:
        return "a held-out task has this text"
    source = ability(case.variant.environment, QuestionSource)
    if source is not None:
        sides = [source.is_held_out(facts.task) for facts in (case.seed, case.variant)]
        if sides[0] is not sides[1]:
            return f"it is of the {'held-out' if sides[1] else 'training'} side, its seed is not"
    return None


def answer_replays(case: Case) -> str | None:
    """Its answer comes out again where the environment can work it out."""
    source = ability(case.variant.environment, QuestionSource)
    if source is None:
        return f"the environment {case.variant.environment.name} cannot work out answers"
    return source.replay(case.variant.task)


QUESTION_GATES: Mapping[str, Gate] = {
    "ancestry": structure.names_its_ancestors,
    "held_out_scenario": structure.no_held_out_scenario,
    "question_form": is_asked_alike,
    "question_kind": is_as_hard,
    "question_new": is_not_asked_yet,
    "question_side": is_on_its_side,
    "question_replay": answer_replays,
}
"""The gates of question tasks, in order."""

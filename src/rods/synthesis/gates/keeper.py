"""Deterministic gates: what a candidate must fulfil before it may be trained on.

Owns the order in which gates are asked, cheapest first, and the conditions of question tasks, which
have an answer instead of ground-truth calls. The other conditions stand in the modules beside it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rods.abilities import QuestionSource, ability
from rods.env import Environment
from rods.synthesis.gates import contrast, request, structure, text, worded
from rods.synthesis.gates.case import Case, Facts, Gate, Language
from rods.synthesis.gates.overlap import Corpus, Neighbors, Prints
from rods.synthesis.gates.usage import TextCounts
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.profile import distance
from rods.synthesis.structure.trace import usual_failures
from rods.task import Task


def is_question(task: Task) -> bool:
    """One turn without ground-truth calls, and an answer in the world."""
    answer = task.world.get("answer")
    return len(task.turns) == 1 and not task.turns[0].ground_truth and isinstance(answer, str)


def is_asked_alike(case: Case) -> str | None:
    """The variant is a question with an answer, of the seed's environment and category."""
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
    """The variant's text is not a seed's, an original's or an earlier variant's."""
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
    if (source := ability(case.variant.environment, QuestionSource)) is not None:
        splits = [source.is_held_out(facts.task) for facts in (case.seed, case.variant)]
        if splits[0] is not splits[1]:
            return f"it is of the {'held-out' if splits[1] else 'training'} split, its seed is not"
    return None


def answer_replays(case: Case) -> str | None:
    """The variant's answer comes out again where the environment can work it out."""
    if (source := ability(case.variant.environment, QuestionSource)) is None:
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

GATES: Mapping[str, Gate] = {
    "ancestry": structure.names_its_ancestors,
    "held_out_scenario": structure.no_held_out_scenario,
    "structure": structure.structure_holds,
    "world": structure.world_opens,
    "offered": structure.calls_are_offered,
    "sizes": structure.arguments_are_small,
    "typed": structure.arguments_have_their_types,
    "literals": text.reads_like_a_message,
    "leaks": text.nothing_leaks,
    "novelty": text.is_new,
    "diversity": text.is_diverse,
    "held_out_overlap": structure.no_held_out_overlap,
    "execution": structure.nothing_fails,
    "request": request.wants_something,
    "asked": request.calls_are_asked_for,
    "outcome": structure.outcomes_are_alike,
    "replay": structure.replays,
    "provenance": structure.arguments_can_be_found,
    "gap": structure.gaps_are_real,
    "contradiction": text.nothing_contradicts,
    "units": text.units_agree,
    "contrast": contrast.nothing_is_misnamed,
    "order": request.messages_stand_at_their_calls,
    "scope": request.nothing_more_is_meant,
    "worded": worded.nearly_retold,
    "withheld": structure.withheld_is_needed,
    "minimal": structure.every_call_is_needed,
    "distance": structure.profile_is_near,
}
"""All gates of tasks with calls, cheapest first: text, then one run, then runs without one call."""


class GateVerdict(NamedTuple):
    """Verdict of the gates."""

    rejection: Rejection | None
    distance: float
    """Profile distance to the seed; 1.0 where an earlier gate rejected the candidate."""


@dataclass
class Gatekeeper:
    """Asks all gates in order."""

    environment: Environment
    training: Sequence[Task]
    held_out: Sequence[Task] = ()
    language: Language = field(default_factory=Language)
    """Language of templates, to read their messages back (`rods.writers.assembly.keeper_of`)."""

    def __post_init__(self) -> None:
        self._corpus = Corpus(self.training, self.held_out)
        self._pool = Neighbors(self.training)
        self._by_id = {task.id: task for task in self.training}
        self._facts: dict[str, Facts] = {}
        self._usual: dict[str, frozenset[str]] = {}

    @functools.cached_property
    def usage(self) -> TextCounts:
        """Return how the training tasks and templates speak of the tools."""
        return TextCounts(self.training, self.language.clauses)

    def facts(self, task: Task) -> Facts:
        """Facts of a seed or donor, kept."""
        if (known := self._facts.get(task.id)) is None:
            if len(self._facts) >= 4096:
                self._facts.clear()
            known = self._facts[task.id] = Facts(self.environment, task, self.language)
        return known

    def usual(self, tool: str) -> frozenset[str]:
        """Return the fields of a tool's results that are no failure of it; replays its tasks."""
        if tool not in self._usual:
            theirs = (t for t in self.training if any(c.name == tool for c in t.calls))
            made = usual_failures(step for task in theirs for step in self.facts(task).steps)
            self._usual[tool] = made.get(tool, frozenset())
        return self._usual[tool]

    def case(self, seed: Task, variant: Task, seen: Sequence[Prints] = ()) -> Case:
        """A candidate as gates look at it."""
        producers = [self._by_id[i] for i in variant.provenance.ancestors if i in self._by_id]
        return Case(
            seed=self.facts(seed),
            variant=Facts(self.environment, variant, self.language),
            ancestors=[self.facts(t) for t in dict.fromkeys([seed, *producers])],
            corpus=self._corpus,
            seen=seen,
            pool=self._pool,
            usage=self.usage,
            usual=self.usual,
        )

    def check(
        self,
        seed: Task,
        variant: Task,
        seen: Sequence[Prints] = (),
        promised: Mapping[str, Gate] | None = None,
    ) -> GateVerdict:
        """Ask every gate, and what the writer promises besides; the first that fails rejects."""
        case, recipe = self.case(seed, variant, seen), variant.provenance.recipe
        for name, gate in {**gates_for(seed), **(promised or {})}.items():
            if (problem := gate(case)) is not None:
                place = re.match(r"turn ([1-9]\d*)", problem)
                index = min(int(place[1]) - 1 if place else 0, len(variant.turns) - 1)
                said = variant.turns[index].user if variant.turns else ""
                return GateVerdict(Rejection("gate", name, problem, recipe, message=said), 1.0)
        if is_question(seed) or seed.is_stage:
            return GateVerdict(None, 0.0)
        return GateVerdict(None, distance(case.seed.profile, case.variant.profile))


def gates_for(seed: Task) -> Mapping[str, Gate]:
    """The gates that variants of a seed, or seed tasks for a stage, have to pass, in order."""
    if seed.is_stage:
        return SEED_GATES
    return QUESTION_GATES if is_question(seed) else GATES


OF_SEEDS = ("ancestry", "structure", "diversity", "outcome", "distance")
"""Gates that compare a variant with its seed: a task that is made from nothing has none."""
SEED_GATES: Mapping[str, Gate] = {
    "form": structure.is_a_seed,
    **{name: gate for name, gate in GATES.items() if name not in OF_SEEDS},
    "foreseen": structure.nothing_is_foreseen,
}
"""All gates of seed tasks that are made from nothing, for a stage (`Task.is_stage`)."""

TEXTUAL = frozenset(itertools.takewhile(lambda name: name != "execution", GATES))
"""Gates that need no run."""

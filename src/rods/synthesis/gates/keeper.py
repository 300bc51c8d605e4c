"""Deterministic gates: what a proposal must fulfil before it may be trained on.

Owns the order in which gates are asked, cheapest first, so that yields can be told by gate. The
conditions stand in the modules beside this one, one small function each; question tasks have gates
of their own (`question.py`). Never changes a proposal, never asks a model.

    keeper = Gatekeeper(environment, training_tasks, held_out_tasks)
    keeper.check(seed, variant).rejection                   # None: it passes every gate
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rods.env import Environment
from rods.errors import ConfigError
from rods.synthesis.gates import ablation, asked, request, structure, text, worded
from rods.synthesis.gates.case import GATES, Case, Facts
from rods.synthesis.gates.overlap import Corpus, Neighbours, Prints
from rods.synthesis.gates.question import QUESTION_ORDER, is_question
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.profile import distance
from rods.task import Task

__all__ = ["Case", "Facts", "GateVerdict", "Gatekeeper", "gate_names"]

SUBJECTS = (structure, text, request, asked, worded, ablation)
"""Where gates are registered."""
ORDER = (
    "ancestry",
    "held_out_scenario",
    "structure",
    "world",
    "offered",
    "sizes",
    "typed",
    "literals",
    "leaks",
    "novelty",
    "held_out_overlap",
    "execution",
    "request",
    "asked",
    "outcome",
    "replay",
    "provenance",
    "gap",
    "contradiction",
    "units",
    "worded",
    "withheld",
    "minimal",
    "distance",
)
"""All gates, cheapest first: text, then one run, then runs without one call."""


def gate_names() -> tuple[str, ...]:
    """All gates, in order."""
    return ORDER


class GateVerdict(NamedTuple):
    """What the gates say."""

    rejection: Rejection | None
    distance: float
    """Profile distance to the seed; 1.0 where an earlier gate turned the proposal down."""


@dataclass
class Gatekeeper:
    """Asks all gates in order."""

    environment: Environment
    training: Sequence[Task]
    """Originals of the training side."""
    held_out: Sequence[Task] = ()
    max_distance: float = 0.25
    names: Sequence[str] = field(default_factory=gate_names)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.names) - set(GATES))
        if unknown:
            raise ConfigError(f"unknown gates {unknown}; known: {', '.join(ORDER)}.")
        self._corpus = Corpus(self.training, self.held_out)
        self._pool = Neighbours(self.training)
        self._by_id = {task.id: task for task in self.training}
        self._facts: dict[str, Facts] = {}

    def facts(self, task: Task) -> Facts:
        """Facts of a seed or donor, kept."""
        known = self._facts.get(task.id)
        if known is None:
            if len(self._facts) >= 4096:
                self._facts.clear()
            known = self._facts[task.id] = Facts(self.environment, task)
        return known

    def case(self, seed: Task, variant: Task, seen: Sequence[Prints] = ()) -> Case:
        """A proposal as gates look at it."""
        producers = [self._by_id[i] for i in variant.provenance.ancestors if i in self._by_id]
        return Case(
            seed=self.facts(seed),
            variant=Facts(self.environment, variant),
            ancestors=[self.facts(t) for t in dict.fromkeys([seed, *producers])],
            corpus=self._corpus,
            max_distance=self.max_distance,
            seen=seen,
            pool=self._pool,
        )

    def check(self, seed: Task, variant: Task, seen: Sequence[Prints] = ()) -> GateVerdict:
        """Ask every gate; the first that is not passed rejects."""
        case = self.case(seed, variant, seen)
        for name in self._asked(seed):
            problem = GATES[name](case)
            if problem is not None:
                recipe = variant.provenance.recipe
                return GateVerdict(Rejection("gate", name, problem, recipe), 1.0)
        if is_question(seed):
            return GateVerdict(None, 0.0)
        return GateVerdict(None, distance(case.seed.profile, case.variant.profile))

    def _asked(self, seed: Task) -> Sequence[str]:
        return QUESTION_ORDER if is_question(seed) else self.names

    def each(
        self, seed: Task, variant: Task, seen: Sequence[Prints] = ()
    ) -> Iterator[tuple[str, str | None]]:
        """Ask every gate, whatever the others say: its name, and what is wrong or None."""
        case = self.case(seed, variant, seen)
        return ((name, GATES[name](case)) for name in self._asked(seed))


TEXTUAL = frozenset(ORDER[: ORDER.index("execution")])
"""Gates that need no run."""

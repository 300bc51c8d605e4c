"""The writer that plans on the API graph: new calls in the seed's structure, worded by templates.

It renames the seed, walks the graph in its structure and words the turns.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rods.env import Environment
from rods.errors import TaskError
from rods.synthesis.base import Base
from rods.synthesis.gates.case import Gate
from rods.synthesis.planned import PlannedTurn, TurnTexts, assemble, signed
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.profile import MAX_DISTANCE, Profile, distance
from rods.synthesis.structure.trace import owners, usual_failures
from rods.synthesis.writer import Groundwork, Writer
from rods.task import Task
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.scratch import ScratchWalk, category_of
from rods.writers.graph.walk import Planner, Walk
from rods.writers.inference import domains_for
from rods.writers.resample.assign import Materials
from rods.writers.resample.writer import ResampleWriter
from rods.writers.templates.cautious import cautious
from rods.writers.templates.phrases import phrases_of
from rods.writers.templates.reading import templates_say_all
from rods.writers.templates.vocabulary import Vocabulary

DRAFTS = 6  # Walks over the graph before a candidate is given up
RECIPE = "graph:walk"


def _graph(originals: Sequence[Task], environment: Environment) -> ApiGraph:
    """The graph of a pool; its value edges from one task of each scenario, as they repeat."""
    graph = ApiGraph.of(originals, lambda task: owners(environment, task))
    scenarios = {task.provenance.scenario: task for task in reversed(originals)}
    bases = [Base(environment, task) for task in scenarios.values()]
    for base in bases:
        graph.learn_feeds(base.steps, base.arguments)
    graph.usual = usual_failures(step for base in bases for step in base.steps)
    return graph


class GraphWriter(Writer, Groundwork):
    """Proposes variants with new calls, from a pool of tasks that are all of the training split."""

    name = "graph"
    promises: Mapping[str, Gate] = MappingProxyType({"templates": templates_say_all})

    def __init__(self, pool: Sequence[Task], environment: Environment, *, roam: bool = False):
        """`pool`: tasks that may give words, texts, edges of the graph: originals of training.

        The environment's worlds can be read (`base.Readable`). `roam`: drafts need not be near
        their seed (`walk.Planner.roam`).
        """
        originals = tuple(task for task in pool if task.is_original)
        self._environment = environment
        renamer = ResampleWriter(pool, environment, recombine_share=0.0, cut_share=0.0)
        self.rename = renamer.propose
        self.planner = Planner(
            environment,
            _graph(originals, environment),
            domains_for(environment, originals),
            phrases_of(environment),
            renamer.materials,
            roam,
        )
        self.may_blur = self.planner.may_blur
        self.references = self.planner.phrases.references
        self._profiles: dict[str, Profile] = {}

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One variant of `seed`, ready for the gates."""
        number = rng.getrandbits(31)
        rng = random.Random(number)
        made = self.plan(seed, rng, history)
        if isinstance(made, Rejection):
            return dataclasses.replace(made, recipe=RECIPE)
        base, planned = made
        draft = dataclasses.replace(base, turns=assemble(planned, self.word(planned, rng, seed)))
        return signed(draft, seed, base.provenance, RECIPE, number)

    def unusable(self, stages: Sequence[Task]) -> Mapping[str, str]:
        """Why no call of a tool can be worded plainly in any of these worlds, for each tool."""
        found: dict[str, str] = {}
        for stage in stages:
            walk = ScratchWalk(self.planner, Base(self._environment, stage), random.Random(0))
            found |= walk.unusable({tool for tool, reason in found.items() if not reason})
        return found

    def plan(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> tuple[Task, list[PlannedTurn]] | Rejection:
        """A renamed seed and executed calls near its profile, without tools that history blames."""
        blocked = frozenset(failure.tool for failure in history if failure.tool)
        if seed.is_stage:
            return self._from_scratch(seed, rng, blocked)
        renamed = self.rename(seed, rng)
        if isinstance(renamed, Rejection):
            return renamed
        try:
            base = Base.of(self._environment, renamed)
        except TaskError as error:
            return Rejection("plan", ErrorClass.NO_PATTERN, str(error))
        problem = Rejection("plan", ErrorClass.DECOMPOSE_FAILED, "no draft is near its seed")
        for _ in range(DRAFTS):
            planned = Walk(self.planner, base, rng, blocked).run()
            if isinstance(planned, Rejection):
                problem = planned
            elif self.planner.roam or self._near(seed, renamed, planned):
                return renamed, planned
        return problem

    def _from_scratch(
        self, stage: Task, rng: random.Random, blocked: frozenset[str]
    ) -> tuple[Task, list[PlannedTurn]] | Rejection:
        """A task for a stage, and its calls; it is of the stage's scenario, or one of its own."""
        materials = Materials(Vocabulary(coins=False), self.planner.materials.donors)
        known, names = self.planner.domains, ("forms", "texts", "fields")
        own = {n: {**getattr(known, n), **getattr(known.scratch, n)} for n in names}
        known = known.model_copy(update=own)
        planner = dataclasses.replace(self.planner, materials=materials, domains=known)
        planned = ScratchWalk(planner, Base(self._environment, stage), rng, blocked).run()
        if isinstance(planned, Rejection):
            return planned
        return dataclasses.replace(stage, category=category_of(planned)), planned

    def word(
        self, planned: Sequence[PlannedTurn], rng: random.Random, seed: Task | None = None
    ) -> list[TurnTexts]:
        """Messages from templates, cautious ones for a stage: nobody has seen its tools at work."""
        phrases = self.planner.phrases
        if seed and seed.is_stage:
            phrases = phrases.with_words_of(cautious, self.planner.domains.scratch.vague)
        texts: list[TurnTexts] = []
        for turn in planned:
            text = phrases.turn(turn.worded, rng, first=not texts, owner=turn.owner)
            answer = ""
            if turn.left_open is not None:
                index, name = turn.left_open
                answer = rng.choice(phrases.answers(turn.requests[index].call, name))
            texts.append(TurnTexts(text, answer))
        return texts

    def _near(self, seed: Task, renamed: Task, planned: Sequence[PlannedTurn]) -> bool:
        """Judged on plain wording, which the final one resembles in what it says and refers to."""
        if seed.id not in self._profiles:
            self._profiles[seed.id] = Base(self._environment, seed).profile
        texts = self.word(planned, random.Random(0))
        draft = dataclasses.replace(renamed, turns=assemble(planned, texts))
        theirs = Base(self._environment, draft).profile
        return distance(self._profiles[seed.id], theirs) <= MAX_DISTANCE

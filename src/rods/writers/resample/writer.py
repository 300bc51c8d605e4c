"""The writer without a model: variants from human language, by renaming and recombining.

It cuts, recombines or extends the seed's turns with turns of other training tasks, gives every
entity a new value, and lets arguments follow the new results.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import cast

from rods.abilities import InitialState, state_access
from rods.env import Environment
from rods.synthesis.base import Base
from rods.synthesis.gates.case import Gate
from rods.synthesis.gates.worded import retells
from rods.synthesis.planned import descent
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.profile import MAX_DISTANCE, distance
from rods.synthesis.writer import Writer
from rods.task import LONG_CONTEXT, Task, Turn
from rods.types import Json
from rods.writers.inference import with_amounts
from rods.writers.resample import recombine
from rods.writers.resample.assign import Materials, assign
from rods.writers.resample.entities import written
from rods.writers.resample.rebind import Knowledge, analyze, rebind
from rods.writers.resample.recombine import ResamplePlan
from rods.writers.resample.sketch import Sketch
from rods.writers.resample.values import KEEP
from rods.writers.templates.vocabulary import Vocabulary

CACHED = 2048  # Analyzed plans (a seed, or a recombination) that are kept

PLANS = 3  # Recombinations that are looked at before the seed itself is renamed
DRAWS = 3  # Draws of values until one executes like its plan
KEEP_AMOUNTS = (*(KEEP,) * 5, 0.5, 0.5, 1.0)
"""Chance that a number stays, by draw: own tools may refuse new amounts, so the last keeps all."""
COURTESY = 0.12  # How often a greeting or a closing is added to a turn
SAME_COURTESY = 0.6  # The same, for a turn in which nothing else could change


class AnalyzedTask(Base):
    """A plan made ready to be rendered many times; sketched when it is rendered first."""

    def __init__(self, environment: Environment, task: Task, domains: Domains):
        super().__init__(environment, task)
        self._domains = domains

    @cached_property
    def knowledge(self) -> Knowledge:
        """What holds its values together."""
        return analyze(self, self._domains)

    @cached_property
    def sketch(self) -> Sketch:
        """Template of the seed task."""
        access = state_access(self.environment)
        return Sketch(self.task, self._domains, access, self.knowledge.extra)


class ResampleWriter(Writer):
    """Proposes variants of seeds from a pool of tasks, all of the training split."""

    name = "resample"
    promises: Mapping[str, Gate] = MappingProxyType({"retold": retells})

    def __init__(
        self,
        pool: Sequence[Task],
        environment: Environment,
        *,
        recombine_share: float = 0.35,
        cut_share: float = 0.2,
    ):
        """`pool`: tasks that may give words, texts and turns: originals of the training split.

        `recombine_share`: how often turns of another task are taken in; `cut_share`: left out.
        """
        self._pool = tuple(task for task in pool if task.is_original)
        self._environment = environment
        self._access = state_access(environment)
        self._domains: Domains = with_amounts(environment, self._pool)
        self._shares = (recombine_share, cut_share)
        keep, coins = self._domains.keep, not self._domains.inferred  # people read their own tools
        words = Vocabulary.from_tasks(self._pool, keep, coins=coins)
        self.materials = Materials(words, self._donor_texts())
        self._recombiner = recombine.Recombiner(self._pool, environment, _listed(self._domains))
        self._prepared: dict[str, AnalyzedTask | Rejection] = {}

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One variant of `seed`; its recipe is in the provenance, ready for the gates."""
        plan = self._plan(seed, rng)
        prepared = self._prepare(plan.task)
        recipe = "resample:rename" + (f"+{plan.recipe}" if plan.recipe else "")
        if isinstance(prepared, Rejection):
            return dataclasses.replace(prepared, recipe=recipe)
        draft: Task | Rejection = Rejection("write", ErrorClass.NO_PATTERN)
        guessed = self._domains.inferred and any(k == "number" for k, _ in prepared.sketch.slots)
        for keep in KEEP_AMOUNTS if guessed else (KEEP,) * DRAWS:
            number = rng.getrandbits(31)
            draft = self._draft(prepared, random.Random(number), keep)
            if not isinstance(draft, Rejection):
                provenance = descent(seed, recipe, number, plan.donors)
                return dataclasses.replace(draft, provenance=provenance)
        return dataclasses.replace(draft, recipe=recipe)

    def _plan(self, seed: Task, rng: random.Random) -> ResamplePlan:
        """The seed, or a recombination of it that is near enough to it and can be executed."""
        recombined, cut = self._shares
        draw = rng.random()
        for _ in range(PLANS):
            plan: ResamplePlan | None = None
            if draw < recombined:
                plan = self._recombiner.recombine(seed, rng)
            elif draw < recombined + cut:
                shorter = recombine.cut(seed, self._recombiner.units(seed), rng)
                if shorter is not None:
                    plan = ResamplePlan(shorter, "cut")
            if plan is not None and self._near(seed, plan.task):
                return plan
        return ResamplePlan(seed, "")

    def _near(self, seed: Task, task: Task) -> bool:
        ours, theirs = self._prepare(seed), self._prepare(task)
        if isinstance(ours, Rejection) or isinstance(theirs, Rejection):
            return False
        return distance(ours.profile, theirs.profile) <= MAX_DISTANCE

    def _prepare(self, task: Task) -> AnalyzedTask | Rejection:
        if (known := self._prepared.get(task.id)) is not None:
            return known
        if len(self._prepared) >= CACHED:
            self._prepared.clear()
        made: AnalyzedTask | Rejection
        made = AnalyzedTask(self._environment, self._materialized(task), self._domains)
        if failed := next((step for step in made.steps if step.result.failed), None):
            detail = f"turn {failed.turn + 1}: {failed.call}: {failed.result.content[:200]}"
            made = Rejection("write", ErrorClass.CONVERSATION_CONSTRUCT_FAILED, detail)
        self._prepared[task.id] = made
        return made

    def _draft(self, prepared: AnalyzedTask, rng: random.Random, keep: float) -> Task | Rejection:
        sketch, knowledge = prepared.sketch, prepared.knowledge
        values = assign(sketch, self.materials, knowledge, rng, keep)
        numbers = {
            float(key): cast("float", new)
            for (kind, key), new in zip(sketch.slots, values, strict=True)
            if kind == "number" and new is not None
        }
        draft = self._reseeded(sketch.render(values), rng)
        task = rebind(self._environment, draft, knowledge, numbers)
        return task if isinstance(task, Rejection) else self._courteous(task, sketch.task, rng)

    def _courteous(self, task: Task, before: Task, rng: random.Random) -> Task:
        polite = self.materials.vocabulary.courteous
        turns: list[Turn] = []
        for index, (turn, old) in enumerate(zip(task.turns, before.turns, strict=True)):
            share = SAME_COURTESY if turn.user == old.user else COURTESY
            text = polite(turn.user, rng, share, first=index == 0)
            turns.append(dataclasses.replace(turn, user=text))
        return dataclasses.replace(task, turns=tuple(turns))

    def _reseeded(self, task: Task, rng: random.Random) -> Task:
        """Give every class that draws at random a seed of its own."""
        start = self._access.initial_state(task)
        fresh = dict(start.values)
        for name in start.owners:
            if name in self._domains.seeded:
                node = cast("dict[str, Json]", fresh.get(name, {}))
                fresh[name] = {**node, self._domains.seeded[name]: rng.randint(1, 2_000_000)}
        return self._access.with_initial_state(task, InitialState(start.owners, fresh))

    def _materialized(self, task: Task) -> Task:
        """Write what a class shows by default into its configuration."""
        start = self._access.initial_state(task)
        fresh = dict(start.values)
        for name, defaults in self._domains.defaults.items():
            node = cast("dict[str, Json]", start.values.get(name, {}))
            if name in start.owners:
                fresh[name] = cast("Json", {**defaults, **node})
        return self._access.with_initial_state(task, InitialState(start.owners, fresh))

    def _donor_texts(self) -> Mapping[str, Sequence[str]]:
        texts: dict[str, set[str]] = {}
        for task in self._pool:
            if task.category == LONG_CONTEXT:
                continue
            for body, parameter in written(task, self._domains).items():
                plain = 2 <= len(body.split()) <= 30 and "\n" not in body
                if plain and not any(char.isdigit() for char in body):
                    texts.setdefault(parameter, set()).add(body)
        return {parameter: sorted(found) for parameter, found in sorted(texts.items())}


def _listed(domains: Domains) -> list[str]:
    """Names and codes by which people go on with a story; a number alone may be anything."""
    found: set[str] = set()
    for table in domains.tables.values():
        codes = {code for owned in table.owners.values() for code in owned}
        found |= {*table.names, *table.aliases} | {c for c in codes if not c.isdigit()}
    return sorted(found)

"""The writer that plans on the API graph: new calls in the seed's structure, worded by templates.

Owns the planning of calls by a walk over the API graph, their execution in a live world as they are
planned, and the deliberate gaps. The wording is `phrases.py`'s, the values are `ground.py`'s. Never
sees a held-out task, never decides whether a draft is good.

    writer = GraphWriter(training_tasks, BfclEnvironment())
    variant = writer.propose(training_tasks[0], random.Random(7))
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from rods.env import Environment, World
from rods.errors import TaskError
from rods.synthesis.apigraph import ApiGraph
from rods.synthesis.flow import (
    Argument,
    Source,
    Step,
    all_tools,
    owners,
    read_result,
    sources,
    trace,
)
from rods.synthesis.ground import Grounder, Live
from rods.synthesis.phrases import Ask, Phrases, load_phrases
from rods.synthesis.profile import Profile, distance, profile
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.writers import recombine
from rods.synthesis.writers.analysis import Knowledge, analyse
from rods.synthesis.writers.domains import NUMERIC, Domains, load_domains
from rods.synthesis.writers.rebind import find_leaf, put_leaf, typed_like
from rods.synthesis.writers.resample import ResampleWriter
from rods.task import Task, Turn
from rods.types import Json, ToolCall, ToolSpec, Value

DRAFTS = 6
"""Walks over the graph before a proposal is given up."""
TRIES = 16
"""Calls that are tried for one place of the plan."""
KEEP = 0.3
"""How often a call of the renamed seed stays where nothing depends on it."""
KEEP_LINKED = 0.9
"""The same for a call that gives a value to another one, or takes one."""
_AMOUNTS = NUMERIC - {"id"}
"""Kinds with a unit behind the number: a clause that leaves them open reads badly."""
CHANCE_REFER = 0.6
"""How often a value that a result has just shown is meant without being said."""


class Readable(World, Protocol):
    """A world whose state can be looked up as plain values."""

    def public_state(self) -> Mapping[str, Json]:
        """Public state of each class."""
        ...


@dataclass
class _Base:
    """A renamed seed, analysed: the structure that a draft fills."""

    task: Task
    units: Sequence[recombine.Unit]
    knowledge: Knowledge
    linked: frozenset[int]
    """Steps that give a value to another step or take one."""
    owners: Mapping[str, str]
    specs: Mapping[str, ToolSpec]


@dataclass
class _Planned:
    """One call of a draft and what it returned."""

    call: ToolCall
    step: Step
    kept: bool
    shown: frozenset[str] = frozenset()


@dataclass
class _Draft:
    """What was planned so far."""

    world: Readable
    planned: list[_Planned] = field(default_factory=list["_Planned"])
    turns: list[Turn] = field(default_factory=list[Turn])
    done: set[str] = field(default_factory=set[str])
    last: dict[str, str] = field(default_factory=dict[str, str])
    """Tool that was called last, by class."""
    blocked: set[str] = field(default_factory=set[str])

    @property
    def steps(self) -> list[Step]:
        return [p.step for p in self.planned]


class GraphWriter:
    """Proposes variants with new calls, from a pool of tasks that are all of the training side."""

    name = "graph"

    def __init__(
        self,
        pool: Sequence[Task],
        environment: Environment,
        *,
        max_distance: float = 0.25,
        phrases: Phrases | None = None,
    ):
        """Prepare the pool.

        Args:
            pool: Tasks that may give words, texts, edges of the graph: originals of training.
            environment: Opens their worlds; they can be read (`Readable`).
            max_distance: Largest profile distance of a draft to its seed.
            phrases: Templates of messages; None: those of the environment.
        """
        self._pool = tuple(task for task in pool if task.is_original)
        self._environment = environment
        self._domains: Domains = load_domains(environment.name)
        self._phrases = phrases or load_phrases(environment.name)
        self._renamer = ResampleWriter(pool, environment, recombine_share=0.0, cut_share=0.0)
        self._graph = ApiGraph.of(self._pool, lambda task: owners(environment, task))
        self._max_distance = max_distance
        self._profiles: dict[str, Profile] = {}

    def propose(self, seed: Task, rng: random.Random) -> Task | Rejection:
        """One variant of `seed`, ready for the gates."""
        number = rng.getrandbits(31)
        rng = random.Random(number)
        renamed = self._renamer.propose(seed, rng)
        if isinstance(renamed, Rejection):
            return dataclasses.replace(renamed, recipe="graph:walk")
        try:
            base = self._analyse(renamed)
        except TaskError as error:
            return Rejection("plan", ErrorClass.NO_PATTERN, str(error), "graph:walk")
        problem = Rejection("plan", ErrorClass.DECOMPOSE_FAILED, "no draft is near its seed")
        for _ in range(DRAFTS):
            draft = self._draft(base, rng)
            if isinstance(draft, Rejection):
                problem = draft
            elif self._near(seed, draft):
                origin = renamed.provenance
                origin = dataclasses.replace(origin, recipe="graph:walk", seed=number)
                return dataclasses.replace(draft, provenance=origin)
        return dataclasses.replace(problem, recipe="graph:walk")

    def _near(self, seed: Task, draft: Task) -> bool:
        if seed.id not in self._profiles:
            self._profiles[seed.id] = profile(self._environment, seed)
        theirs = profile(self._environment, draft)
        return distance(self._profiles[seed.id], theirs) <= self._max_distance

    def _analyse(self, task: Task) -> _Base:
        steps = trace(self._environment, task).steps
        specs = all_tools(self._environment, task)
        arguments = sources(task, steps, specs)
        owned = owners(self._environment, task)
        return _Base(
            task,
            recombine.facts(task, arguments, owned).units,
            analyse(task, steps, arguments, self._domains),
            _linked(arguments),
            owned,
            specs,
        )

    def _draft(self, base: _Base, rng: random.Random) -> Task | Rejection:
        stage = dataclasses.replace(base.task, turns=(Turn(""),))
        world = cast("Readable", self._environment.open(stage))
        grounder = Grounder(
            self._domains, base.specs, self._graph.exemplars, self._renamer.materials
        )
        walk = _Walk(self, base, grounder, _Draft(world), rng)
        try:
            world.begin_turn(0)
            for unit in base.units:
                problem = walk.unit(unit)
                if problem is not None:
                    return problem
        finally:
            world.close()
        return dataclasses.replace(base.task, turns=tuple(walk.draft.turns))

    @property
    def graph(self) -> ApiGraph:
        """The pool's API graph."""
        return self._graph

    @property
    def phrases(self) -> Phrases:
        """Templates of the messages."""
        return self._phrases

    @property
    def domains(self) -> Domains:
        """Kinds of the environment."""
        return self._domains


def _linked(arguments: Sequence[Argument]) -> frozenset[int]:
    found: set[int] = set()
    for argument in arguments:
        if argument.source is Source.RESULT and argument.feeder is not None:
            found |= {argument.step, argument.feeder}
    return frozenset(found)


class _Walk:
    """One walk over the graph, executed as it goes."""

    def __init__(
        self,
        writer: GraphWriter,
        base: _Base,
        grounder: Grounder,
        draft: _Draft,
        rng: random.Random,
    ):
        self._writer, self._base, self._grounder = writer, base, grounder
        self.draft, self._rng = draft, rng

    def unit(self, unit: recombine.Unit) -> Rejection | None:
        """Plan, execute and word the turns of one unit."""
        turn = self._base.task.turns[unit.last]
        if not turn.ground_truth or unit.last - unit.first > 1:
            return Rejection("plan", ErrorClass.NO_PATTERN, "gaps that nothing follows up on")
        planned: list[_Planned] = []
        for call in turn.ground_truth:
            made = self._keep(call) or self._sample(call, {p.call.name for p in planned})
            if made is None:
                detail = f"turn {unit.last}: nothing fits in the place of {call.name}"
                return Rejection("execute", ErrorClass.FUNC_SAMPLE_FAILED, detail)
            planned.append(made)
            self.draft.planned.append(made)
            self.draft.done.add(str(made.call))
            self.draft.last[self._owner(made.call)] = made.call.name
        return self._word(unit, planned)

    def _owner(self, call: ToolCall) -> str:
        return self._base.owners.get(call.name, "")

    def _keep(self, call: ToolCall) -> _Planned | None:
        step = len(self.draft.planned)
        share = KEEP_LINKED if step in self._base.linked else KEEP
        if self._rng.random() > share or not self._writer.phrases.can_say(call):
            return None
        bound = self._bound(step, call)
        if bound is None or str(bound[0]) in self.draft.done:
            return None
        return self._execute(bound[0], kept=True, shown=bound[1])

    def _bound(self, step: int, call: ToolCall) -> tuple[ToolCall, frozenset[str]] | None:
        """The seed's call with the values that its givers show now; None if a giver is gone."""
        arguments: dict[str, Value] = dict(call.arguments)
        shown: set[str] = set()
        for (name, path), links in self._base.knowledge.links.get(step, {}).items():
            alive = [k for k in links if self.draft.planned[k.step].kept and not k.token]
            values = [find_leaf(self.draft.planned[k.step].step.parsed, k.path) for k in alive]
            present = [value for value in values if value is not None]
            if not present or any(k.decimals is not None for k in alive):
                return None
            old = next((v for v in present if v == arguments[name]), present[-1])
            current = arguments[name]
            scalar = current if not isinstance(current, list | dict | ToolCall) else old
            arguments[name] = put_leaf(current, path, typed_like(old, scalar))
            if not path:
                shown.add(name)
        return ToolCall(call.name, arguments), frozenset(shown)

    def _sample(self, call: ToolCall, used: set[str]) -> _Planned | None:
        owner = self._owner(call)
        tools = [t for t, o in self._base.owners.items() if o == owner and t not in used]
        before = self.draft.last.get(owner, "")
        failures: dict[str, int] = {}
        for _ in range(TRIES):
            free = [t for t in tools if t not in self.draft.blocked and failures.get(t, 0) < 3]
            if not free:
                return None
            tool = self._rng.choices(free, self._writer.graph.ranked(before, free))[0]
            live = Live(self.draft.world.public_state(), self.draft.steps)
            live.look(self._writer.domains)
            made = self._grounder.fill(tool, live, self._rng)
            if made is None or str(made) in self.draft.done:
                failures[tool] = failures.get(tool, 0) + 1
                continue
            shown = self._referable(made, live)
            planned = None
            if self._writer.phrases.can_say(made):
                planned = self._execute(made, kept=False, shown=shown)
            if planned is not None:
                return planned
            failures[tool] = failures.get(tool, 0) + 1
        return None

    def _referable(self, call: ToolCall, live: Live) -> frozenset[str]:
        """Arguments that the latest result shows under the same name, to be meant by words."""
        found: set[str] = set()
        for name, value in call.arguments.items():
            latest = live.shown(name)[:1]
            fits = bool(latest) and str(latest[0]) == str(value)
            fits = fits and self._writer.phrases.can_refer(call.name, name)
            if fits and self._rng.random() < CHANCE_REFER:
                found.add(name)
        return frozenset(found)

    def _execute(self, call: ToolCall, *, kept: bool, shown: frozenset[str]) -> _Planned | None:
        """Run the call; None if it fails or tells and changes nothing new."""
        world = self.draft.world
        before = world.snapshot()
        result = world.call(call)
        if result.failed:
            return None
        told = any(p.step.result.content == result.content for p in self.draft.planned)
        if (told or not result.content.strip()) and world.snapshot() == before:
            return None
        turn = len(self.draft.turns)
        step = Step(turn, call, result, *read_result(result.content))
        return _Planned(call, step, kept, shown)

    def _word(self, unit: recombine.Unit, planned: Sequence[_Planned]) -> Rejection | None:
        rng, phrases = self._rng, self._writer.phrases
        specs = self._base.specs
        asks = [Ask(p.call, specs[p.call.name], p.shown) for p in planned]
        first = not self.draft.turns
        owner = self._owner(planned[0].call)
        calls = tuple(p.call for p in planned)
        if unit.first == unit.last:
            self.draft.turns.append(Turn(phrases.turn(asks, rng, first=first, owner=owner), calls))
            return None
        gap = self._base.task.turns[unit.first]
        if gap.withheld:
            text = phrases.turn(asks, rng, first=first, owner=owner)
            return self._missing_function(planned, text)
        return self._missing_value(asks, calls, first=first, owner=owner)

    def _missing_function(self, planned: Sequence[_Planned], text: str) -> Rejection | None:
        earlier = {p.call.name for p in self.draft.planned[: -len(planned)]}
        free = [p.call.name for p in planned if p.call.name not in earlier]
        if not free:
            detail = "every function was called before"
            return Rejection("augment", ErrorClass.DUPLICATE_FUNC, detail)
        withheld = (self._rng.choice(free),)
        self.draft.turns = [dataclasses.replace(t, withheld=withheld) for t in self.draft.turns]
        self.draft.turns.append(Turn(text, (), withheld))
        self.draft.turns.append(Turn("", tuple(p.call for p in planned)))
        return None

    def _missing_value(
        self, asks: Sequence[Ask], calls: tuple[ToolCall, ...], *, first: bool, owner: str
    ) -> Rejection | None:
        rng, phrases = self._rng, self._writer.phrases
        heard = [t.user for t in self.draft.turns] + [s.result.content for s in self._old]
        known = "\n".join(heard).lower()
        places = [
            (index, name)
            for index, ask in enumerate(asks)
            for name, value in ask.call.arguments.items()
            if name in cast("Sequence[str]", ask.spec.parameters.get("required", []))
            and name not in ask.shown
            and phrases.can_blur(ask.call.name, name)
            and self._writer.domains.parameter(ask.call.name, name) not in _AMOUNTS
            and isinstance(value, str | int | float)
            and not isinstance(value, bool)
            and str(value).lower() not in known
            and sum(str(value) in str(call) for call in calls) == 1
        ]
        if not places:
            return Rejection("augment", ErrorClass.QUERY_GEN_FAILED, "no value can be left open")
        index, name = rng.choice(places)
        blurred = [a._replace(blurred=name) if i == index else a for i, a in enumerate(asks)]
        text = phrases.turn(blurred, rng, first=first, owner=owner)
        value = asks[index].call.arguments[name]
        self.draft.turns.append(Turn(text, ()))
        self.draft.turns.append(Turn(phrases.answer(name, value, rng), calls))
        return None

    @property
    def _old(self) -> list[Step]:
        turn = len(self.draft.turns)
        return [step for step in self.draft.steps if step.turn < turn]

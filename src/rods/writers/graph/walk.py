"""Planning on the API graph, executed as it goes: new calls in the structure of a renamed seed.

planned = Walk(planner, base, random.Random(3)).run()   # list[PlannedTurn], or a Rejection
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from rods.abilities import result_key
from rods.env import Environment, called
from rods.synthesis.base import Base, Readable, Unit
from rods.synthesis.planned import CallRequest, PlannedTurn, Producer, with_gap
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure import trace
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.sources import normal
from rods.types import ToolCall, Value
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.fresh import listed
from rods.writers.graph.ground import FROM_LIST, PASSING, Grounder
from rods.writers.graph.live import Live
from rods.writers.resample.assign import Materials
from rods.writers.resample.rebind import find_leaf, put_leaf, typed_like
from rods.writers.templates.phrases import Phrases
from rods.writers.templates.reading import clear_producer

TRIES = 16  # Calls that are tried for one place of the plan
FAILURES = 3  # How often a tool may fail in one place before it is given up there
KEEP = 0.3  # How often a call of the renamed seed stays where nothing depends on it
KEEP_LINKED = 0.9  # The same for a call that gives a value to another one, or takes one
EVEN = 0.7  # Share of the choices of a roaming walk for which all tools are alike
REFER = 0.6  # How often a value that a result has just shown is meant without being said
LONG_NUMBER = 8  # Letters of a number that is pointed at or not used at all
LONGEST = 200  # Letters of a value that nobody would type


@dataclass(frozen=True)
class Planner:
    """What every walk of one pool shares."""

    environment: Environment
    graph: ApiGraph
    domains: Domains
    phrases: Phrases
    materials: Materials
    roam: bool = False
    """Walks keep nothing of their seed but its world and the shape of its turns, and take rare
    tools nearly as often as others: for pretraining, which wants all that a world can do."""

    def may_blur(self, tool: str, name: str) -> bool:
        """Whether a message still reads well when it leaves this argument open."""
        kind = self.domains.parameter(tool, name)
        known = self.graph.exemplars.get((tool, name), ()) if self.domains.inferred else ()
        amount = kind in self.domains.numbers and kind != "id"  # a unit stands behind the number
        amount = amount or any(isinstance(value, int | float) for value in known)
        wording = self.phrases.wordings.get(tool)
        return not amount if wording is None else bool(wording.open.get(name))


class Walk:
    """One walk over the graph."""

    grounder: type[Grounder] = Grounder  # What fills in arguments

    def __init__(
        self,
        planner: Planner,
        base: Base,
        rng: random.Random,
        blocked: frozenset[str] = frozenset(),
    ):
        """Begin to fill a structure; `blocked` tools are not planned."""
        self._planner, self._base, self._rng, self._blocked = planner, base, rng, blocked
        self._grounder = self.grounder(
            planner.domains, base.specs, planner.graph, planner.materials, base.owners
        )
        feeds = ((a.feeder, a.step) for a in base.arguments if a.feeder is not None)
        self._linked = {step for pair in feeds for step in pair}
        """Steps of the seed that give a value to another step or take one."""
        self._world: Readable  # Opened by `run`
        self._steps: list[trace.TraceStep] = []
        self._kept: set[int] = set()  # Steps that are the seed's
        self._producers: list[Mapping[str, Producer]] = []
        """Calls that showed what each step's message may mean without saying it, by argument."""
        self._done: set[str] = set()
        self._began: list[int] = []  # First calls of the turn before and of this one
        self._last: dict[str, str] = {}  # Tool that was called last, by class

    def run(self) -> list[PlannedTurn] | Rejection:
        """Plan and execute all turns; a rejection says what could not be found."""
        turns: list[PlannedTurn] = []
        with trace.stage_world(self._planner.environment, self._base.task) as world:
            self._world = cast("Readable", world)
            for unit in self._base.units:
                turn = self._unit(unit, turns)
                if isinstance(turn, Rejection):
                    return turn
                turns.append(turn)
        return turns

    def _unit(self, unit: Unit, turns: Sequence[PlannedTurn]) -> PlannedTurn | Rejection:
        seeded = self._base.task.turns[unit.last]
        if not seeded.ground_truth or unit.last - unit.first > 1:
            return Rejection("plan", ErrorClass.NO_PATTERN, "gaps that nothing follows up on")
        before = len(self._steps)
        self._began = [*self._began[-1:], before]
        for call in seeded.ground_truth:
            used = {step.call.name for step in self._steps[before:]}
            if not (self._keep(call) or self._sample(self._owner(call), used)):
                detail = f"turn {unit.last + 1}: nothing fits in the place of {call.name}"
                return Rejection("execute", ErrorClass.FUNC_SAMPLE_FAILED, detail)
        turn = self._planned(before)
        may_blur, kind_of = self._planner.may_blur, self._planner.domains.parameter
        return with_gap(self._base.task, unit, turn, turns, may_blur, kind_of, self._rng)

    def _planned(self, before: int) -> PlannedTurn:
        """The calls since a step as a turn."""
        fresh = self._steps[before:]
        requests = tuple(self._request(number) for number in range(before, len(self._steps)))
        results = tuple(step.result.content for step in fresh)
        return PlannedTurn(requests, self._owner(fresh[0].call), results)

    def _owner(self, call: ToolCall) -> str:
        return self._base.owners.get(call.name, "")

    def _keep(self, call: ToolCall) -> bool:
        """Call what the seed calls, if it still fits; whether that was done."""
        step = len(self._steps)
        share = KEEP_LINKED if step in self._linked else KEEP
        if self._planner.roam or self._rng.random() > share or call.name in self._blocked:
            return False
        bound = self._bound(step, call)
        if bound is None or any(len(str(value)) > LONGEST for value in bound.arguments.values()):
            return False
        return not self._strays(bound) and self._execute(bound, kept=True)

    def _strays(self, call: ToolCall) -> bool:
        """Whether a call of the seed is about something else than what took its fellows' place."""
        kinds = self._planner.domains
        shown = [n for n in call.arguments if kinds.parameter(call.name, n) not in PASSING]
        for step in reversed(self._steps):
            mine = step.call.arguments
            shared = [name for name in shown if name in mine]
            if step.call.name != call.name and len(shared) > 1:
                return any(mine[name] != call.arguments[name] for name in shared)
        live = Live({}, self._steps)
        return any(
            kinds.parameter(call.name, name) == "ident" and value in live.taken(name)
            for name, value in call.arguments.items()
            if isinstance(value, str)
        )

    def _bound(self, step: int, call: ToolCall) -> ToolCall | None:
        """The seed's call with the values that its producers show now; None if one is gone."""
        arguments: dict[str, Value] = dict(call.arguments)
        for (name, path), links in self._base.links.get(step, {}).items():
            alive = [k for k in links if k.step in self._kept and not k.token]
            values = [find_leaf(self._steps[k.step].parsed, k.path) for k in alive]
            present = [value for value in values if value is not None]
            if not present or any(k.decimals is not None for k in alive):
                return None
            current = arguments[name]
            old = next((v for v in present if v == current), present[-1])
            scalar = current if not isinstance(current, list | dict | ToolCall) else old
            arguments[name] = put_leaf(current, path, typed_like(old, scalar))
        linked = {name for name, _ in self._base.links.get(step, {})}
        for name in arguments if self._planner.domains.inferred else ():
            free = listed("texts", name) if name not in linked else ()
            if free and isinstance(arguments[name], str) and self._rng.random() < FROM_LIST:
                arguments[name] = self._rng.choice(free)
        return ToolCall(call.name, arguments)

    def _sample(self, owner: str, used: set[str]) -> bool:
        """Call another tool of a class; whether one fitted."""
        tools = [t for t, o in self._base.owners.items() if o == owner and t not in used]
        before = self._last.get(owner, "")
        failures: dict[str, int] = dict.fromkeys(self._blocked, FAILURES)
        for _ in range(TRIES):
            free = [tool for tool in tools if failures.get(tool, 0) < FAILURES]
            if not free:
                return False
            tool = self._rng.choices(free, self._weights(before, free))[0]
            live = Live(self._world.public_state(), self._steps)
            live.look(self._planner.domains)
            if self._execute(self._grounder.fill(tool, live, self._rng), kept=False):
                return True
            failures[tool] = failures.get(tool, 0) + 1
        return False

    def _weights(self, before: str, tools: Sequence[str]) -> list[float]:
        usual = [self._planner.graph.weight(before, tool) for tool in tools]
        if not self._planner.roam:
            return usual
        return [(1 - EVEN) * w / sum(usual) + EVEN / len(usual) for w in usual]

    def _request(self, number: int) -> CallRequest:
        call, before = self._steps[number].call, self._steps[:number]
        known = {normal(leaf.value) for s in before for leaf in (*s.leaves, *trace.leaves(s.call))}
        given = call.arguments.items()
        plain = ((n, v) for n, v in given if not isinstance(v, list | dict | ToolCall))
        return CallRequest(
            call,
            self._base.specs[call.name],
            frozenset(self._producers[number]),
            producers=self._producers[number],
            used=frozenset(n for n, v in plain if normal(v) in known),
            last=before[-1].call if before else None,
        )

    def _meant(self, call: ToolCall, *, kept: bool) -> dict[str, Producer]:
        """What can be meant by words: arguments whose value one earlier result shows clearly."""
        found: dict[str, Producer] = {}
        phrases, domains = self._planner.phrases, self._planner.domains
        for name, value in call.arguments.items():
            producer = clear_producer(self._steps, self._began, call, name, phrases, domains)
            own = [step.call for step in self._steps[self._began[-1] :]] if domains.inferred else []
            always = kept or _long(value) or (producer and producer.call in own)  # nobody knows it
            if producer is not None and (always or self._rng.random() < REFER):
                found[name] = producer
        return found

    def _execute(self, call: ToolCall | None, *, kept: bool) -> bool:
        """Run a call that can be said and was not made yet; False if it fails, or tells and changes
        nothing new.
        """
        if call is None or str(call) in self._done or not self._planner.phrases.can_say(call):
            return False
        producers = self._meant(call, kept=kept)
        if any(_long(value) and name not in producers for name, value in call.arguments.items()):
            return False
        before = self._world.snapshot()
        result = called(self._world, call)
        if trace.reports_failure(
            call, result, self._planner.graph.usual.get(call.name, frozenset())
        ):
            return False
        step = trace.TraceStep(len(self._steps), call, result, *trace.read_result(result.content))
        key = result_key(self._planner.environment)
        known = key(result.content) in {key(other.result.content) for other in self._steps}
        known = known or all(leaf.value in ("", None) for leaf in step.leaves)
        if known and self._world.snapshot() == before:
            return False
        self._kept |= {len(self._steps)} if kept else set()
        self._steps.append(step)
        self._producers.append(producers)
        self._done.add(str(call))
        self._last[self._owner(call)] = call.name
        return True


def _long(value: Value) -> bool:
    """Whether it is a number with more digits than anybody would say."""
    return isinstance(value, float) and len(str(value)) > LONG_NUMBER

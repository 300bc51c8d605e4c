"""Seed tasks from nothing: a walk over an API in a world that no task describes.

Tools go on with what earlier calls were about. A call that no plain sentence asks for is not made.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias, cast

from rods.env import World, called
from rods.synthesis.base import Readable
from rods.synthesis.planned import PlannedTurn, Producer, missing_function, missing_value
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure import trace
from rods.synthesis.structure.words import noun, thing, verb_of
from rods.task import BASE, MISS_FUNC, MISS_PARAM
from rods.types import ToolCall, ToolResult
from rods.writers.graph.fresh import lists
from rods.writers.graph.ground import PASSING
from rods.writers.graph.inventor import Inventor
from rods.writers.graph.live import Live
from rods.writers.graph.walk import TRIES, Walk
from rods.writers.templates.cautious import cautious, unsure

TURNS = (2, 3, 3, 4)  # Turns of a conversation, each drawn alike
SECOND = 0.25  # How often a turn asks for another call behind one that changed nothing
STAY = 0.8  # How often a turn is about the class of the turn before
GOES_ON = 20.0  # How much likelier a tool is that goes on with what earlier calls were about
LITTLE = 12  # What anybody may add to anything
AGAIN = 0.02  # The same for each time that it was called before
GAPS = {BASE: 3, MISS_FUNC: 1, MISS_PARAM: 1}  # How often each category is planned

_State: TypeAlias = Mapping[trace.Path, trace.Scalar]


def category_of(planned: Sequence[PlannedTurn]) -> str:
    """The category of a conversation with these turns."""
    if any(turn.withheld for turn in planned):
        return MISS_FUNC
    return MISS_PARAM if any(turn.left_open for turn in planned) else BASE


def _words(tool: str) -> set[str]:
    return set(noun(tool).split())


def _matter(name: str) -> str:
    """What an argument is about: `bed` of `new_bed`."""
    return thing(name).removeprefix("new ").removeprefix("target ")


def _things(call: ToolCall) -> set[str]:
    """What a call is about: its texts and codes, but not who asks."""
    given = {n: v for n, v in call.arguments.items() if noun(n).split()[-1] not in lists()["own"]}
    named = {n: v for n, v in given.items() if isinstance(v, str) or noun(n) != thing(n)}
    return {str(leaf.value) for leaf in trace.leaves(ToolCall(call.name, named))}


def _counts(field: str, value: trace.Scalar) -> bool:
    """True for the next number to be given; an id in letters says what belongs together."""
    words = {*noun(field).split()} & lists()["counts"]
    return bool(words - {"id"}) or (bool(words) and not isinstance(value, str))


def _grows(call: ToolCall, before: _State, now: _State) -> bool:
    """True if a call adds as much again to a number: 3,600 hours to a machine's 4,120."""
    given = [v for v in call.arguments.values() if isinstance(v, int | float) and v > LITTLE]
    return any(
        isinstance(old, int | float) and now.get(at) == old + value and 2 * value >= old > 0
        for at, old in before.items()
        for value in given
    )


class ScratchWalk(Walk):
    """One walk that no seed guides."""

    grounder = Inventor
    _odd = False  # Whether a call spoils what another one has done

    def run(self) -> list[PlannedTurn] | Rejection:
        """Plan and execute all turns; a rejection says what could not be found."""
        turns: list[PlannedTurn] = []
        self._acts: list[tuple[trace.TraceStep, set[trace.Path]]] = []
        with trace.stage_world(self._planner.environment, self._base.task) as world:
            self._world = cast("Readable", world)
            start = self._world.snapshot()
            for _ in range(self._rng.choice(TURNS)):
                before, state = len(self._steps), self._world.snapshot()
                self._began = [*self._began[-1:], before]
                owner, used = self._next_owner(), set[str]()
                for _ in range(1 + (self._rng.random() < SECOND)):
                    # Nobody asks at once for a thing and for what comes of it.
                    if self._world.snapshot() != state or not self._sample(owner, used):
                        break
                    used.add(self._steps[-1].call.name)
                if len(self._steps) == before:
                    break
                turns.append(self._planned(before))
            changed = not start or self._world.snapshot() != start
        if len(turns) < 2 or not changed or self._odd:
            what = "a call spoils another" if self._odd else "two turns, or a change, are missing"
            return Rejection("plan", ErrorClass.NO_PATTERN, what)
        return self._with_gap(turns)

    def unusable(self, known: Container[str]) -> dict[str, str]:
        """Why no call of each tool can be worded plainly; empty where one can. Without `known`."""
        found: dict[str, str] = {}
        inventor = cast("Inventor", self._grounder)
        with trace.stage_world(self._planner.environment, self._base.task) as world:
            live = self._live(world)
            for tool in [tool for tool in self._base.specs if tool not in known]:
                calls = [inventor.fill(tool, live, self._rng) for _ in range(TRIES)]
                why = inventor.lacks(tool) or unsure(self._base.specs[tool])
                why = why or "no call of it can be worded in this state"
                found[tool] = "" if any(map(self._plainly, calls)) else why
        return found

    def _live(self, world: World) -> Live:
        live = Live(cast("Readable", world).public_state())
        live.look(self._planner.domains)
        return live

    def _plainly(self, call: ToolCall | None) -> ToolCall | None:
        """The call, without optional arguments where these read odd; None where it reads odd so."""
        if call is None:
            return None
        if wording := self._planner.phrases.wordings.get(call.name):
            scratch = self._planner.domains.scratch
            more = {n: self._rng.choice(v) for n, v in scratch.stated.get(call.name, {}).items()}
            call = ToolCall(call.name, {**call.arguments, **more})
            return None if scratch.vague >= {*wording.clauses_for(call.arguments)} else call
        spec = self._base.specs[call.name]
        said = {n: v for n, v in call.arguments.items() if not unsure(spec, (n,))}
        return None if unsure(spec) else ToolCall(call.name, said)

    def _execute(self, call: ToolCall | None, *, kept: bool) -> bool:
        before, call = self._state(), self._plainly(call)
        if (call and self._is_unasked(call)) or not super()._execute(call, kept=kept):
            return False
        step, now = self._steps[-1], self._state()
        inventor = cast("Inventor", self._grounder)
        inventor.asked = {**inventor.asked, **step.call.arguments} if now == before else {}
        if now != before:
            changed = {at for at, value in before.items() if now.get(at) != value}
            self._odd |= self._spoils(step, changed) or _grows(step.call, before, now)
            self._acts.append((step, changed))
        elif any(self._is(what, step.call) for what in ("ends", "revises", "sets")):
            self._odd = True  # moved to where it is
        else:  # nobody looks at what was cancelled
            gone = (_things(act.call) for act, _ in self._acts if self._is("ends", act.call))
            self._odd |= any(_things(step.call) & things for things in gone)
        if not self._planner.domains.inferred:
            empty = {at[-2] for at, v in before.items() if v == "" and at[1:] and not now.get(at)}
            useless = empty & _things(step.call) and not self._is("ends", step.call)  # a new file
            refused = not step.call.arguments and all(v is False for _, v in step.leaves)
            self._odd |= bool(useless) or (refused and now == before)  # not logged in
        return True

    def _is_unasked(self, call: ToolCall) -> bool:
        """True if it is about the user's own account, or takes what is not new, or no file."""
        domains, state = self._planner.domains, self._world.public_state().get(self._owner(call))
        top = ((trace.field_of(at), value) for at, value in trace.leaves(state) if len(at) == 1)
        mine = {value for name, value in top if {*noun(name).split()[-1:]} & lists()["own"]}
        named = {trace.field_of(at) for at, value in trace.leaves(state) if value in mine}
        given = {n: v for n, v in call.arguments.items() if isinstance(v, str)}
        own = {v.lstrip("@") for v in _things(call)} & mine or named & {*given.values()}
        files = {n for n in given if domains.endings.get(n) in given or "file" in noun(n).split()}
        codes = (n for n in given if domains.parameter(call.name, n) == "ident")
        shown = {leaf.value for step in self._steps for leaf in step.leaves}
        old = any(given[n] in shown for n in codes if domains.fields.get(n) == [])
        wrong = bool(own) or old or any("." not in given[n] for n in files)
        return wrong and not domains.inferred

    def _state(self) -> dict[trace.Path, trace.Scalar]:
        """Every value of the state by its place, without what counts."""
        found = trace.leaves(dict(self._world.public_state()))
        return {v.path: v.value for v in found if not _counts(trace.field_of(v.path), v.value)}

    def _spoils(self, step: trace.TraceStep, changed: set[trace.Path]) -> bool:
        """True if a call repeats or undoes earlier ones, or ends or revises what is new."""
        things, ends = _things(step.call), self._is("ends", step.call)
        new = ends or self._is("revises", step.call)
        known = () if self._planner.domains.inferred else self._steps[:-1]
        shown = [leaf for seen in known if _things(seen.call) & things for leaf in seen.leaves]
        if {str(v).lower() for at, v in shown if trace.field_of(at) == "status"} & lists()["over"]:
            return True
        for other, places in self._acts:
            theirs = _things(other.call)
            old = set[str]() if self._is("begins", other.call) else theirs
            came = ({str(leaf.value) for leaf in other.leaves} | theirs) - old
            again = other.call.name == step.call.name or ends or self._is("ends", other.call)
            again |= new and not self._planner.domains.inferred  # copied, and then moved
            again |= any({*noun(trace.field_of(at)).split()} & lists()["settled"] for at in places)
            there = theirs if self._planner.domains.inferred else came | theirs
            both = len(things & there) > 1  # signed up for an event, and withdrawn from it
            if changed & places or both or (again and things & theirs) or (new and things & came):
                return True
        return False

    def _is(self, what: str, call: ToolCall) -> bool:
        spec = self._base.specs[call.name]
        name = noun(call.name).split()
        words = {name[0], "_".join(name[:2]), verb_of(spec)}  # a stop of a bus ends nothing
        words |= {*_words(call.name), *spec.properties} & lists()["breaks"]
        return bool(words & lists()[what])

    def _meant(self, call: ToolCall, *, kept: bool) -> dict[str, Producer]:
        """Only what the last call showed, and not in a list: an appointment has a pet, too."""
        found = super()._meant(call, kept=kept)
        alone = self._planner.domains.inferred or len(self._steps) - 1 in self._began
        found = {n: p for n, p in found.items() if alone and p.call is self._steps[-1].call}
        if not found or call.name in self._planner.phrases.wordings:
            return found
        last = self._steps[-1]
        single = (leaf for leaf in last.leaves if all(isinstance(at, str) for at in leaf.path))
        plain = {leaf.value for leaf in (*single, *trace.leaves(last.call))}
        return {name: p for name, p in found.items() if call.arguments[name] in plain}

    def _may_blur(self, tool: str, name: str) -> bool:
        """True if a clause reads well that leaves an argument open: `move an animal`."""
        domains = self._planner.domains
        if tool in self._planner.phrases.wordings:
            text = domains.parameter(tool, name) == "body"  # an agent can write it itself
            text &= f"{tool}.{name}" not in domains.fresh
            copy = domains.endings.get(name) in self._base.specs[tool].properties  # `to a folder`
            return not (text or copy) and self._planner.may_blur(tool, name)
        opened = cautious(self._base.specs[tool]).open.get(name, ("",))[0]
        return opened.startswith(("a ", "an ", "another "))

    def _next_owner(self) -> str:
        last = self._owner(self._steps[-1].call) if self._steps else ""
        left = {self._owner(s.call) for s in self._steps if _words(s.call.name) & lists()["leaves"]}
        every = [owner for owner in dict.fromkeys(self._base.owners.values()) if owner not in left]
        stays = last in every and self._rng.random() < STAY
        return last if stays else self._rng.choice(every or [""])

    def _weights(self, before: str, tools: Sequence[str]) -> list[float]:
        """Tools that take what earlier calls took or showed, and new ones, come first."""
        domains, weights = self._planner.domains, list[float]()
        calls = [step.call for step in self._steps]
        names = {name for call in calls for name in call.arguments}
        names |= {trace.field_of(leaf.path) for step in self._steps for leaf in step.leaves}
        kinds = {domains.parameter(c.name, n) for c in calls for n in c.arguments} - PASSING
        for tool in tools:
            takes = self._base.specs[tool].required
            goes_on = any(n in names or domains.parameter(tool, n) in kinds for n in takes)
            uses = sum(call.name == tool for call in calls)
            words = _words(tool)
            inside = [c for c in calls if self._owner(c) == self._base.owners.get(tool)]
            back = any(c.name != tool and _words(c.name) == words for c in calls)  # a_to_b, b_to_a
            late, soon = words & lists()["enters"] and before, words & lists()["leaves"]
            rare = back or late or (soon and len(inside) < 3)
            weights.append(0.0001 if rare else (GOES_ON if goes_on else 1.0) * AGAIN**uses)
        return weights

    def _with_gap(self, turns: list[PlannedTurn]) -> list[PlannedTurn]:
        """The turns, one of them with a gap where one was drawn and is possible."""
        category = self._rng.choices(list(GAPS), list(GAPS.values()))[0]
        for place in self._rng.sample(range(len(turns)), len(turns) if category != BASE else 0):
            made = self._missing(category, turns[place], turns[:place])
            if isinstance(made, PlannedTurn):
                return [*turns[:place], made, *turns[place + 1 :]]
        return turns

    def _missing(
        self, category: str, turn: PlannedTurn, before: Sequence[PlannedTurn]
    ) -> PlannedTurn | Rejection | None:
        """The turn with a gap, if an honest agent can do nothing until it is closed."""
        if len(turn.requests) != 1:
            return None  # The agent could do a part of it
        if category == MISS_FUNC:
            acts = [step.call for step, _ in self._acts]
            free = turn.requests[0].call in acts and not self._replaceable(turn, before)
            return missing_function(turn, before, self._rng) if free else None
        kinds, near = self._planner.domains, 1 if self._planner.domains.inferred else len(before)
        made = missing_value(turn, before, self._may_blur, kinds.parameter, self._rng, near)
        shown = isinstance(made, PlannedTurn) and self._shown_alone(made, before)
        return None if shown else made

    def _replaceable(self, turn: PlannedTurn, before: Sequence[PlannedTurn]) -> bool:
        """True if another tool changes the world as the only call of a turn does."""
        call = turn.requests[0].call
        if self._planner.domains.scratch.alike.get(call.name, set()) & self._base.specs.keys():
            return True
        wanted = {_matter(name): value for name, value in call.arguments.items()}
        alike = [call]
        for tool, spec in self._base.specs.items():
            names = {_matter(name): name for name in spec.required}
            if tool != call.name and names.keys() == wanted.keys():
                alike.append(ToolCall(tool, {n: wanted[what] for what, n in names.items()}))
        states = [self._tried(other, before)[1].configuration for other in alike]
        return states[0] in states[1:]

    def _tried(self, call: ToolCall, before: Sequence[PlannedTurn]) -> tuple[ToolResult, Live]:
        """The result of a call behind these turns, and the world as it leaves it."""
        with trace.stage_world(self._planner.environment, self._base.task) as world:
            for request in (request for turn in before for request in turn.requests):
                called(world, request.call)
            return called(world, call), self._live(world)

    def _shown_alone(self, turn: PlannedTurn, before: Sequence[PlannedTurn]) -> bool:
        """True if a tool that needs only what was said shows the open value, and no other fits."""
        assert turn.left_open is not None
        _, name = turn.left_open  # of the only call
        call, domains = turn.requests[0].call, self._planner.domains
        kind, owner = domains.parameter(call.name, name), self._owner(call)
        said = [request.call for earlier in before for request in earlier.requests]
        known = {n: v for c in (*said, call) for n, v in c.arguments.items() if n != name}
        value, live = str(call.arguments[name]), self._tried(call, before)[1]
        there = {str(v): v for v in live.existing(kind, name, owner) if str(v) != value}
        shown_before = (
            "" if domains.inferred else " ".join(text for t in before for text in t.results)
        )
        if sum(text in shown_before for text in there) == 1:
            return True  # an agent takes the only one that was seen
        needs = {tool: spec.required for tool, spec in self._base.specs.items()}
        for tool in (tool for tool in needs if {*needs[tool]} <= known.keys()):
            look = ToolCall(tool, {n: known[n] for n in needs[tool]})
            shown = self._tried(look, before)[0].content
            others = (there[text] for text in there if text in shown)
            calls = (ToolCall(call.name, {**call.arguments, name: v}) for v in others)
            if value in shown and all(
                trace.reports_failure(c, self._tried(c, before)[0]) for c in calls
            ):
                return True
        return False

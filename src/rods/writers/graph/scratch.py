"""Seed tasks from nothing: a walk over an API in a world that no task describes.

Tools go on with what earlier calls were about. Where no task and no `domains.toml` says what a
parameter may take, it takes keys of a mapping that is called like it, values of fields of its name,
and `scratch.toml` for the rest.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from rods.synthesis.base import Readable
from rods.synthesis.planned import PlannedTurn, Producer, missing_function, missing_value
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of, leaves, stage_world
from rods.synthesis.structure.words import noun, order_of, patterns, thing, verb_of, word_lists
from rods.task import BASE, MISS_FUNC, MISS_PARAM
from rods.types import Json, ToolCall, Value, json_choices, json_type
from rods.writers.graph.fresh import PATTERNS, examples, later, listed, lists, word_of
from rods.writers.graph.ground import PASSING, Grounder
from rods.writers.graph.live import Live, typed
from rods.writers.graph.walk import Walk
from rods.writers.templates.described import from_description
from rods.writers.templates.wording import singular

TURNS = (2, 3, 3, 4)  # Turns of a conversation, each drawn alike
SECOND = 0.25  # How often a turn asks for another call behind one that changed nothing
STAY = 0.8  # How often a turn is about the class of the turn before
GOES_ON = 20.0  # How much likelier a tool is that goes on with what earlier calls were about
AGAIN = 0.02  # The same for each time that it was called before
GAPS = {BASE: 3, MISS_FUNC: 1, MISS_PARAM: 1}  # How often each category is planned
GO_ON = 0.85  # How often an argument takes what an earlier call was about
KNOWN_DAY = 0.5  # How often a day is one that the state holds
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"[012]\d:[0-5]\d")
_PERSON = re.compile(r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)+")

Records = Mapping[str, Mapping[str, Json]]


def tables(node: Json, name: str = "") -> Iterator[tuple[str, Records]]:
    """Mappings of records in a state, by their fields."""
    if isinstance(node, dict):
        if name and node and all(isinstance(value, dict) for value in node.values()):
            yield name, cast("Records", node)
        for key, value in node.items():
            yield from tables(value, key)


def records_named(name: str, description: str, live: Live) -> Records:
    """Records by their keys, of the mapping that a parameter takes keys of; empty: of none.

    It is called like it, its keys stand in fields of the parameter's name, or the description
    speaks of it: `licence plate of the car`; or it is an id and there is no other mapping.
    """
    words = re.findall(r"[a-z]+", description.lower())
    held = set(live.held(name))
    found = [*tables(cast("Json", dict(live.configuration)))]
    for field, records in found:
        if singular(field.rpartition("_")[2]) == thing(name).rpartition(" ")[2]:
            return records
        if held and held <= records.keys():
            return records
    coded = noun(name) != thing(name) or {"id", "code", "number", "plate", "key"} & {*words}
    first = [w for w in words if w not in ("the", "a", "an", "which")][:1]
    alone = len(found) == 1 and noun(name) != thing(name)
    matter = words if coded else first
    spoken = (t for f, t in found if not held and (alone or singular(f) in matter))
    return next(spoken, {})


class Inventor(Grounder):
    """Fills in arguments without kinds and without tasks; where kinds are known, as `Grounder`."""

    _record: Mapping[str, Json] = {}  # What the call that is filled in is about
    _name = ""  # Who it brings in
    _moment = ""  # The latest day or time in it
    _place = 0  # Which of several examples it takes: those of its arguments belong together
    asked: Mapping[str, Value] = {}  # What was looked for since something was changed

    def fill(self, tool: str, live: Live, rng: random.Random) -> ToolCall | None:
        """A call with an argument for every required parameter and some of the others."""
        self._record, self._name, self._moment, self._place = {}, "", "", rng.randrange(60)
        call, spec = super().fill(tool, live, rng), self._specs[tool]
        switches = (json_type(spec.properties[name]) == "boolean" for name in spec.required)
        if self._domains.inferred and any(switches):
            return None  # nobody says `set whether it is open (open: no)`
        sentence = order_of(spec).split() if self._domains.inferred else ()
        named = {n for n in spec.properties if n not in spec.required and thing(n) in sentence}
        nowhere = named and call and not named & call.arguments.keys()  # nobody moves a thing so
        return None if nowhere else call

    def _carried(self, tool: str) -> dict[str, Value]:
        """A moved appointment is not moved to its own day: nothing is taken over as it was."""
        return {} if self._domains.inferred else super()._carried(tool)

    def _share(self, tool: str, name: str) -> float:
        """An optional yes or no is left alone: nobody knows how one asks for it."""
        schema = self._specs[tool].properties[name]
        quiet = json_type(schema) in ("boolean", "array", "object")
        quiet |= name.rpartition("_")[2] in lists()["written"]  # it would fit nothing
        return 0.0 if quiet and self._domains.inferred else super()._share(tool, name)

    def _number(self, kind: str, declared: str) -> Scalar:
        """A number that somebody says: 280 rather than 278.08."""
        low, high = self._domains.numbers[kind].range
        drawn = float(super()._number(kind, declared) or 0)
        step = 10 if drawn >= 100 else 5 if drawn >= 20 else 1
        value = min(max(round(drawn / step) * step, low), high)
        return int(value) if declared == "integer" else float(value)

    def _value(self, tool: str, name: str, schema: Mapping[str, Any]) -> Value:
        declared = json_type(schema)
        items = cast("Mapping[str, Any]", schema.get("items", {}))
        inner = items if declared == "array" else schema
        known = not self._domains.inferred or json_choices(inner) or declared == "boolean"
        if known or json_type(inner) not in ("string", "integer", "number"):
            return super()._value(tool, name, schema)
        row = {"description": schema.get("description", ""), **inner}
        if declared != "array":
            return self._invented(tool, name, row)
        drawn = [self._invented(tool, singular(name), row) for _ in range(2)]
        return cast("Value", list(dict.fromkeys(v for v in drawn if v is not None))) or None

    def _invented(self, tool: str, name: str, schema: Mapping[str, Any]) -> Scalar:
        declared, description = json_type(schema), str(schema.get("description", ""))
        if found := records_named(name, description, self._live):
            taken = self._live.taken(name)
            free = (v for v in found if v not in taken and typed(v, declared) is not None)
            known = {v: found[v] for v in free}
            chosen = self._of_the_matter(known)
            self._record = known.get(str(chosen), {})
            if known or declared == "string":
                return typed(chosen, declared)
        if name in self.asked:
            return typed(cast("Scalar", self.asked[name]), declared)
        if declared == "string":
            return self._text(tool, name, description)
        own = self._record.get(name)
        held = [own] if own else self._live.held(name)
        near = [v for v in held if isinstance(v, int | float)]
        usual = listed("numbers", name)
        usual = [v for v in usual if not near or min(near) / 2 <= v <= max(near) * 1.5]
        if span := patterns(*PATTERNS)["span"].search(description):  # `from 1 to 5 stars`
            step = 1 if int(span[2]) < 50 else 5
            usual = [*range(int(span[1]), int(span[2]) + 1, step)]
        value = self._rng.choice(usual or [1])
        if near and max(near) > 0 and (own or not usual):  # as the state has them there
            drawn = self._rng.choice(near) * self._rng.uniform(0.8, 1.1)
            value = round(drawn, int(drawn < 20 and any(v % 1 for v in near))) or 1
            value = round(value, -max(len(str(int(value))) - 2, 0))  # 2600 rather than 2572
        return int(value) if declared == "integer" else float(value)

    def _text(self, tool: str, name: str, description: str) -> Scalar:
        live, rng = self._live, self._rng
        used = {str(v) for step in live.steps for v in step.call.arguments.values()}
        held = [v for v in live.held(name) if isinstance(v, str)]
        last, first = noun(name).split()[-1], noun(tool).split()[0]
        if "YYYY-MM-DD" in description or any(map(_DATE.fullmatch, held)):
            found = later(self._day(held), self._moment, rng)
            self._moment = found or self._moment
            return found
        if "HH:MM" in description or any(map(_TIME.fullmatch, held)):
            hours = sorted(int(v[:2]) for v in held if _TIME.fullmatch(v)) or [9, 16]
            hour, minute = rng.randint(hours[0], hours[-1]), rng.choice(("00", "15", "30", "45"))
            found = later(f"{hour:02d}:{minute}", self._moment, rng)
            self._moment = found or self._moment
            return found
        new = first in lists()["creates"] or re.match(r"\w+ an? new ", order_of(self._specs[tool]))
        changed = last != "name" and "new " in description.lower()  # nobody moves to a known number
        if (new or changed) and last in lists()["identities"]:
            return self._new(tool, last) or None
        named, complete = examples(description)
        if named and (complete or new):
            return named[self._place % len(named)]
        if last in lists()["written"]:
            held = [v for v in held if v not in used]
        if held:
            return self._of_the_matter({value: {} for value in held})
        finds = {first, verb_of(self._specs[tool])} & lists()["finds"]
        wanted = finds or not (new or named or last in lists()["written"])
        if last in lists()["searches"] and wanted:
            state = leaves(cast("Json", dict(live.configuration)))
            return word_of({"": [leaf.value for leaf in state]}, rng)
        found = listed("texts", name)
        return named[self._place % len(named)] if named else rng.choice(found) if found else None

    def _new(self, tool: str, what: str) -> str:
        """A name or an address of somebody or something that is not there yet."""
        made = set(noun(tool).split())
        theirs = [
            str(record[what])
            for field, records in tables(cast("Json", dict(self._live.configuration)))
            for record in records.values()
            if record.get(what) and made & {field, singular(field)}
        ]
        theirs = theirs or [str(value) for value in self._live.held(what) if what != "name"]
        ends = [(text.split()[0], text.partition(" ")[2]) for text in theirs]
        mixed = sorted({f"{a} {b}" for a, _ in ends for _, b in ends if b} - {*theirs})
        if what == "name" and mixed and not {a for a, _ in ends} & {*word_lists().first_names}:
            return self._rng.choice(mixed)  # a wine: nobody's name fits it
        first, last = self._words.first_name, self._words.surname
        self._name = self._name or f"{first(self._rng)} {last(self._rng)}"
        if what == "email":
            domain = theirs[0].partition("@")[2] if theirs else "mail.example"
            return f"{self._name.replace(' ', '.')}@{domain}".lower()
        if what not in ("name", "email"):
            return theirs[0][:4] + self._words.like(theirs[0][4:], self._rng) if theirs else ""
        plain = theirs and not any(map(_PERSON.fullmatch, theirs))
        return self._name.partition(" ")[0] if plain else self._name

    def _of_the_matter(self, known: Records) -> Scalar:
        """One of several things: that which the conversation is about, or that belongs to it."""
        latest = reversed(self._live.steps) if self._rng.random() < GO_ON else ()
        seen = [str(leaf.value) for s in latest for leaf in (*s.leaves, *leaves(s.call))]
        for value in seen:
            if value in known:
                return value
        for value in seen:
            if linked := [key for key, record in known.items() if value in record.values()]:
                return self._rng.choice(linked)
        return self._rng.choice(list(known)) if known else None

    def _day(self, held: Iterable[str]) -> str:
        """A day that the state holds, or one soon after the latest."""
        days = sorted({day for day in held if _DATE.fullmatch(day)})
        state = leaves(cast("Json", dict(self._live.configuration)))
        every = sorted(str(leaf.value) for leaf in state if _DATE.fullmatch(str(leaf.value)))
        if days and self._rng.random() < KNOWN_DAY:
            return str(self._of_the_matter({day: {} for day in days}))
        latest = datetime.date.fromisoformat((days or every or ["2026-03-02"])[-1])
        return (latest + datetime.timedelta(self._rng.randint(1, 12))).isoformat()


def category_of(planned: Sequence[PlannedTurn]) -> str:
    """The category of a conversation with these turns."""
    if any(turn.withheld for turn in planned):
        return MISS_FUNC
    return MISS_PARAM if any(turn.left_open for turn in planned) else BASE


def _words(tool: str) -> set[str]:
    return set(noun(tool).split())


def _things(call: ToolCall) -> set[str]:
    """What a call is about: its texts and codes, but not who asks."""
    given = {n: v for n, v in call.arguments.items() if noun(n).split()[-1] not in lists()["own"]}
    named = {n: v for n, v in given.items() if isinstance(v, str) or noun(n) != thing(n)}
    return {str(leaf.value) for leaf in leaves(ToolCall(call.name, named))}


class ScratchWalk(Walk):
    """One walk that no seed guides."""

    grounder = Inventor
    _odd = False  # Whether a call spoils what another one has done

    def run(self) -> list[PlannedTurn] | Rejection:
        """Plan and execute all turns; a rejection says what could not be found."""
        turns: list[PlannedTurn] = []
        self._acts: list[tuple[TraceStep, set[object]]] = []
        with stage_world(self._planner.environment, self._base.task) as world:
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

    def _execute(self, call: ToolCall | None, *, kept: bool) -> bool:
        before = self._state()
        if not super()._execute(call, kept=kept):
            return False
        step, now = self._steps[-1], self._state()
        inventor = cast("Inventor", self._grounder)
        inventor.asked = {**inventor.asked, **step.call.arguments} if now == before else {}
        if now != before:
            changed = {at for at, value in before.items() if now.get(at) != value}
            self._odd |= self._spoils(step, changed)
            self._acts.append((step, changed))
        elif any(self._is(what, step.call) for what in ("ends", "revises", "sets")):
            self._odd = True  # moved to where it is
        return True

    def _state(self) -> dict[object, Scalar]:
        """Every value of the state by its place, without what counts."""
        found = leaves(cast("Json", dict(self._world.public_state())))
        counts = lists()["counts"]
        return {v.path: v.value for v in found if not counts & {*noun(field_of(v.path)).split()}}

    def _spoils(self, step: TraceStep, changed: set[object]) -> bool:
        """Whether a call repeats or undoes earlier ones, or ends or revises what is new."""
        things, ends = _things(step.call), self._is("ends", step.call)
        new = ends or self._is("revises", step.call)
        for other, places in self._acts:
            theirs = _things(other.call)
            old = set[str]() if self._is("begins", other.call) else theirs
            came = ({str(leaf.value) for leaf in other.leaves} | theirs) - old
            again = other.call.name == step.call.name or ends or self._is("ends", other.call)
            if changed & places or (again and things & theirs) or (new and things & came):
                return True
        return False

    def _is(self, what: str, call: ToolCall) -> bool:
        spec = self._base.specs[call.name]
        words = {noun(call.name).split()[0], verb_of(spec)}  # a stop of a bus ends nothing
        words |= {*_words(call.name), *spec.properties} & lists()["breaks"]
        return bool(words & lists()[what])

    def _meant(self, call: ToolCall, *, kept: bool) -> dict[str, Producer]:
        """Only what the last call showed, and not in a list: an appointment has a pet, too."""
        found = super()._meant(call, kept=kept)
        found = {name: p for name, p in found.items() if p.call is self._steps[-1].call}
        if not found or call.name in self._planner.phrases.wordings:
            return found
        last = self._steps[-1]
        single = (leaf for leaf in last.leaves if all(isinstance(at, str) for at in leaf.path))
        plain = {leaf.value for leaf in (*single, *leaves(last.call))}
        return {name: p for name, p in found.items() if call.arguments[name] in plain}

    def _may_blur(self, tool: str, name: str) -> bool:
        """Whether a clause reads well that leaves an argument open: a person, a thing, a place."""
        if tool in self._planner.phrases.wordings:
            return self._planner.may_blur(tool, name)
        spec = self._base.specs[tool]
        schema = spec.properties[name]
        wording = from_description(spec)
        ends = wording.say[0].endswith(f" to {{{name}}}") and "new" in str(schema)  # `to a seat`
        if ends or wording.noun(name) not in order_of(spec).lower():
            return False  # nobody says `with a name`
        about, last = str(schema.get("description", "")), noun(name).split()[-1]
        special = (
            last in lists()["spoken"] | lists()["identities"]
            or "YYYY-MM-DD" in about
            or "HH:MM" in about
        )
        return json_type(schema) == "string" and not json_choices(schema) and not special

    def _next_owner(self) -> str:
        """The class of the next turn."""
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
        names |= {field_of(leaf.path) for step in self._steps for leaf in step.leaves}
        kinds = {domains.parameter(c.name, n) for c in calls for n in c.arguments} - PASSING
        for tool in tools:
            takes = self._base.specs[tool].required
            goes_on = any(n in names or domains.parameter(tool, n) in kinds for n in takes)
            uses = sum(call.name == tool for call in calls)
            weight = (GOES_ON if goes_on else 1.0) * AGAIN**uses
            words = _words(tool)
            inside = [c for c in calls if self._owner(c) == self._base.owners.get(tool)]
            back = any(c.name != tool and _words(c.name) == words for c in calls)  # a_to_b, b_to_a
            late, soon = words & lists()["enters"] and before, words & lists()["leaves"]
            if back or late or (soon and len(inside) < 3):
                weight = 0.0001
            weights.append(weight)
        return weights

    def _with_gap(self, turns: list[PlannedTurn]) -> list[PlannedTurn]:
        """The turns, one of them with a gap where one was drawn and is possible."""
        category = self._rng.choices(list(GAPS), list(GAPS.values()))[0]
        for place in self._rng.sample(range(len(turns)), len(turns) if category != BASE else 0):
            turn, before = turns[place], turns[:place]
            made = (
                missing_function(turn, before, self._rng)
                if category == MISS_FUNC
                else missing_value(
                    turn, before, self._may_blur, self._planner.domains.parameter, self._rng
                )
            )
            if isinstance(made, PlannedTurn):
                return [*before, made, *turns[place + 1 :]]
        return turns

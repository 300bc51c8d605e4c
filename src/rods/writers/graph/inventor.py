"""Values for calls where no task and no `domains.toml` says what a parameter may take.

It takes keys of a mapping that is called like it, values of fields of its name, and `scratch.toml`
for the rest.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from rods.synthesis.structure.trace import Scalar, field_of, leaves
from rods.synthesis.structure.words import noun, order_of, patterns, thing, verb_of, word_lists
from rods.types import Json, ToolCall, ToolSpec, Value, json_choices, json_type
from rods.writers.graph.fresh import PATTERNS, examples, later, listed, lists, word_of
from rods.writers.graph.ground import Grounder
from rods.writers.graph.live import Live, Records, tables, typed
from rods.writers.graph.walk import TRIES
from rods.writers.templates.wording import singular

GO_ON = 0.85  # How often an argument takes what an earlier call was about
KNOWN_DAY = 0.5  # How often a day is one that the state holds
HOW = 'name it like a field or mapping of the state, or describe it: `e.g. "fuel"`, `from 1 to 5`'
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"[012]\d:[0-5]\d")
_RENEWED = re.compile(r"^(?:new|to|target)_")
_PERSON = re.compile(r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)+")


def records_named(name: str, schema: Mapping[str, object], live: Live, spec: ToolSpec) -> Records:
    """Records by their keys, of the mapping that a parameter takes keys of; empty: of none.

    It is called like it, its keys stand in fields of the parameter's name, or the description
    speaks of it: `licence plate of the car`; or it is an id and there is no other mapping; or it
    is called as a key is (`slug`) and the tool speaks of it, but makes none: publish a story.
    """
    words = re.findall(r"[a-z]+", str(schema.get("description", "")).lower())
    held = set(live.held(name))
    found = [*tables(dict(live.configuration))]
    for field, records in found:
        many = field.rpartition("_")[2]  # courses, buses
        if thing(name).rpartition(" ")[2] in (singular(many), many[:-1]):
            return records
        if held and held <= records.keys():
            return records
    opaque = {*noun(name).split()} & lists()["opaque"]
    coded = opaque or noun(name) != thing(name) or lists()["codes"] & {*words}
    first = [w for w in words if w not in ("the", "a", "an", "which")][:1]
    alone = len(found) == 1 and noun(name) != thing(name)
    matter = words if coded else first
    if opaque and noun(spec.name).split()[0] not in lists()["creates"]:
        matter = [*matter, *noun(spec.name).split(), *order_of(spec).lower().split()]
    spoken = (t for w in matter for f, t in found if not held and singular(f) == w)
    return found[0][1] if alone and not held else next(spoken, {})


def _counted(schema: Mapping[str, object]) -> list[str]:
    """What a number counts: `How many tickets are sold`."""
    return re.findall(r"(?:number of|how many) (\w+)", str(schema.get("description", "")).lower())


def _is_over(record: Mapping[str, Json]) -> bool:
    """Whether a thing was cancelled, sold or the like."""
    ended = lists()["over"]
    said = (v for n, v in record.items() if noun(n).split()[-1] in ("status", "state"))
    return any(str(v).lower() in ended for v in said) or any(record.get(n) is True for n in ended)


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
        named = {
            n
            for n, schema in spec.properties.items()
            if n not in spec.required and {thing(n), *_counted(schema)} & {*sentence}
        }
        nowhere = named and call and not named & call.arguments.keys()  # nobody moves a thing so
        return None if nowhere else call

    def lacks(self, tool: str) -> str:
        """Why a required argument of a tool has no value in the world that was filled in last."""
        for name in self._specs[tool].required:
            schema = self._specs[tool].properties[name]
            if json_type(schema) == "boolean":
                return f"`{name}` is a yes or no that each request would have to state"
            if all(self._value(tool, name, schema) in (None, "") for _ in range(TRIES)):
                there = records_named(name, schema, self._live, self._specs[tool])
                none = f"nothing says what `{name}` may be; {HOW}"
                return f"the state has no usable `{name}` left" if there else none
        return ""

    def _carried(self, tool: str) -> dict[str, Value]:
        """A moved appointment is not moved to its own day: nothing is taken over as it was."""
        return {} if self._domains.inferred else super()._carried(tool)

    def _share(self, tool: str, name: str) -> float:
        """An optional yes or no is left alone: nobody knows how one asks for it."""
        schema = self._specs[tool].properties[name]
        quiet = json_type(schema) in ("boolean", "array", "object", "integer", "number")
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
        if found := records_named(name, schema, self._live, self._specs[tool]):
            taken = self._live.taken(name) | self._present(tool, name)
            free = (v for v in found if v not in taken and typed(v, declared) is not None)
            known = self._fitting(tool, {v: found[v] for v in free})
            if found and not known and declared == "string":
                return None
            chosen = self._of_the_matter(known)
            self._record = known.get(str(chosen), {})
            if known or declared == "string":
                return typed(chosen, declared)
        if name in self.asked:
            return typed(cast("Scalar", self.asked[name]), declared)
        if declared == "string":
            return self._text(tool, name, description)
        owed = (v for n, v in self._record.items() if noun(n).split()[-1] in lists()["owed"])
        owed = [v for v in owed if isinstance(v, int | float) and v > 0]
        if owed and noun(name).split()[-1] in lists()["money"]:
            return typed(owed[0], declared)  # nobody pays 5 euros of a rent
        counted = _counted(schema)
        fields = (name, _RENEWED.sub("", name), *counted)
        own = next((self._record[n] for n in fields if self._record.get(n)), None)
        held = [own] if own else self._held(tool, name, description)
        taken = verb_of(self._specs[tool]) in ("reserve", "book", "order", "sell", "buy", "rent")
        near = [v for v in held if isinstance(v, int | float) and not (counted and taken)]
        usual = listed("numbers", name.partition("_per_")[0])
        usual = [v for v in usual if not near or min(near) / 2 <= v <= max(near) * 1.5]
        named, _ = examples(description)
        if numbers := [float(v) for v in named if re.fullmatch(r"\d+(?:\.\d+)?", v)]:
            return (int if declared == "integer" else float)(self._rng.choice(numbers))
        plain = re.sub(r"\s*\([^()]*\)", "", description)  # 1 (worst) to 10 (best)
        if span := patterns(*PATTERNS)["span"].search(plain):  # `from 1 to 5 stars`
            step = 1 if int(span[2]) < 50 else 5
            usual = [*range(int(span[1]), int(span[2]) + 1, step)]
        known = near or counted or {*noun(name).split()} & lists()["counted"]
        if not known and usual == listed("numbers", "else"):
            return None  # an insurance value of 3 dollars
        value = self._rng.choice(usual or [1])
        if any(near) and (own or not usual):  # as the state has them there
            value = self._near(near[0] if own else 0, [*near, *self._held(tool, name, description)])
        return int(value) if declared == "integer" else float(value)

    def _near(self, own: float, held: Iterable[Scalar]) -> float:
        """A number as the state has them in a field, and near what the thing itself has there."""
        held = [v for v in held if isinstance(v, int | float)]
        sign = -1 if own < 0 or max(held) <= 0 else 1  # a cold store has -18 degrees
        own, known = abs(own), [v * sign for v in held if v * sign > 0]
        low, high = min(known), max(known)
        if own:
            near = own * 0.15 if own % 1 or own > 20 else 3
            low, high = sorted((max(low, own - near), min(high, own + near)))
        value = self._rng.uniform(low, high)
        places = max(len(str(v).partition(".")[2]) for v in known if v % 1 or v == known[0])
        value = round(value, places if value < 20 else 0)
        value = round(value, 2 - len(str(int(value)))) if value >= 100 else value or 1  # no 2572
        return value * sign

    def _text(self, tool: str, name: str, description: str) -> Scalar:
        live, rng = self._live, self._rng
        used = {str(v) for step in live.steps for v in step.call.arguments.values()}
        held = [v for v in self._held(tool, name, description) if isinstance(v, str)]
        there = self._present(tool, name)
        held = [v for v in held if v not in there]
        last, first = noun(name).split()[-1], noun(tool).split()[0]
        if "YYYY-MM-DD" in description or any(map(_DATE.fullmatch, held)):
            days = [str(v) for v in self._record.values() if _DATE.fullmatch(str(v))]
            if {first, verb_of(self._specs[tool])} & lists()["delays"]:
                self._moment = max([self._moment, *days])
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
        new = new or noun(name) in ("name", "title", "full name")  # who is called so is not there
        new = bool(new and not {first, verb_of(self._specs[tool])} & lists()["finds"])
        changed = last != "name" and "new " in description.lower()  # nobody moves to a known number
        if (new or changed) and last in lists()["identities"]:
            return self._new(tool, last) or None
        named, complete = examples(description)
        named = [v for v in named if v not in there]
        if named and (complete or new):
            return named[self._place % len(named)]
        if last in lists()["written"]:
            held = [v for v in held if v not in used]
        if held:
            return self._of_the_matter({value: {} for value in held})
        finds = {first, verb_of(self._specs[tool])} & lists()["finds"]
        wanted = finds or not (new or named or last in lists()["written"])
        if last in lists()["searches"] and wanted:
            state = leaves(dict(live.configuration))
            named = [v.value for v in state if field_of(v.path) in ("name", "title", "subject")]
            return word_of({"": named}, rng)
        found = listed("texts", name) if last in lists()["anything"] else ()
        return named[self._place % len(named)] if named else rng.choice(found) if found else None

    def _present(self, tool: str, name: str) -> set[Value]:
        """What a thing has already: it is moved to another room, and gets a new price."""
        field, verbs = _RENEWED.sub("", name), {noun(tool).split()[0], verb_of(self._specs[tool])}
        new = field != name or verbs & (lists()["revises"] | lists()["sets"])
        there = self._record.get(field)
        return {there} if new and isinstance(there, str) else set()

    def _fitting(self, tool: str, known: Records) -> Records:
        """Records that are not over, and that agree with the other one of the call.

        A bag of one blood type is not for an order of another.
        """
        looks = {noun(tool).split()[0], verb_of(self._specs[tool])} & lists()["finds"]
        free = looks or noun(tool).startswith("re")  # reopen, restore
        shared = {n: v for n, v in self._record.items() if isinstance(v, str) and v}
        shared = {n: v for n, v in shared.items() if n not in lists()["kinds"]}
        return {
            key: record
            for key, record in known.items()
            if (free or not _is_over(record))
            and all(record.get(n) in (None, "", v) for n, v in shared.items())
        }

    def _held(self, tool: str, name: str, description: str) -> list[Scalar]:
        """What the state holds for an argument, but not in records that the tool is not about.

        The amounts of invoices say nothing of the credits that a member gets.
        """
        spec = self._specs[tool]
        said = (
            f"{noun(tool)} {spec.description} {description} {' '.join(map(noun, spec.properties))}"
        )
        words = {w for word in re.findall("[a-z]+", said.lower()) for w in (word, singular(word))}
        others = (t for f, t in self._tables() if not {*noun(f).split(), singular(f)} & words)
        apart = [record.get(name) for records in others for record in records.values()]
        return [value for value in self._live.held(name) if value not in apart]

    def _tables(self) -> Iterator[tuple[str, Records]]:
        return tables(dict(self._live.configuration))

    def _new(self, tool: str, what: str) -> str:
        """A name or an address of somebody or something that is not there yet."""
        made = set(noun(tool).split())
        theirs = [
            str(record[what])
            for field, records in self._tables()
            for record in records.values()
            if record.get(what) and made & {field, singular(field)}
        ]
        theirs = theirs or [str(value) for value in self._live.held(what) if what != "name"]
        ends = [(text.split()[0], text.partition(" ")[2]) for text in theirs]
        mixed = sorted({f"{a} {b}" for a, _ in ends for _, b in ends if b} - {*theirs})
        if what == "title":
            return self._rng.choice(mixed or [""])
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
        state = leaves(dict(self._live.configuration))
        every = sorted(str(leaf.value) for leaf in state if _DATE.fullmatch(str(leaf.value)))
        if days and self._rng.random() < KNOWN_DAY:
            return str(self._of_the_matter({day: {} for day in days}))
        latest = datetime.date.fromisoformat((days or every or ["2026-03-02"])[-1])
        return (latest + datetime.timedelta(self._rng.randint(1, 12))).isoformat()

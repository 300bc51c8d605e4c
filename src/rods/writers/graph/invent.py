"""Arguments for an API that nobody described: from the state, from results, from lists.

Owns what a parameter may take when no task and no `domains.toml` says it: keys of a mapping that is
called like it, values of fields of its name, and `scratch.toml` for the rest. Never executes a call:
the caller finds out whether the world accepts it.

    Inventor(domains, specs, graph, materials).fill("lend", live, rng)
"""

from __future__ import annotations

import datetime
import functools
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

from rods.synthesis.structure.trace import Scalar, field_of, leaves
from rods.synthesis.structure.words import noun, thing
from rods.types import Json, ToolCall, Value, json_choices, json_type
from rods.writers.graph.fresh import word_of
from rods.writers.graph.ground import Grounder
from rods.writers.graph.live import Live, typed

GO_ON = 0.85
"""How often an argument takes what an earlier call was about."""
KNOWN_DAY = 0.5
"""How often a day is one that the state holds."""
DATE = re.compile(r"\d{4}-\d\d-\d\d")
TIME = re.compile(r"[012]\d:[0-5]\d")
_PERSON = re.compile(r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)+")
_SPAN = re.compile(r"\b(\d+)(?: ?- ?|\.\.| to | and )(\d+)\b")


@functools.cache
def lists() -> Mapping[str, Any]:
    """The lists of `scratch.toml`; its texts as sets of words."""
    listed = files("rods").joinpath("writers", "graph", "scratch.toml")
    data = tomllib.loads(listed.read_text(encoding="utf-8"))
    return {k: frozenset(v.split()) if isinstance(v, str) else v for k, v in data.items()}


def listed(kind: str, name: str) -> Sequence[Any]:
    """Values of the first list for a word of a parameter's name, the last word first."""
    for word in (*reversed(noun(name).split()), ""):
        for row in cast("list[Mapping[str, Any]]", lists()[kind]):
            if word in (row["names"].split() or [""]):
                return row["values"]
    return ()


class State:
    """What a world's public state holds, by the names under which it stands."""

    def __init__(self, configuration: Mapping[str, Json]) -> None:
        self.keyed: dict[str, dict[str, Mapping[str, Json]]] = {}
        """Records by their keys, by the field that holds them."""
        self.records: dict[str, list[Mapping[str, Json]]] = {}
        """The records of each mapping or list, the same way."""
        self.values: dict[str, list[Scalar]] = {}
        """Values of each field."""
        for node in configuration.values():
            self._read("", node)

    def _read(self, name: str, node: Json) -> None:
        if isinstance(node, dict):
            if name and node and all(isinstance(value, dict) for value in node.values()):
                self.keyed.setdefault(name, {}).update(cast("Any", node))
                self.records.setdefault(name, []).extend(cast("Any", node.values()))
            for key, value in node.items():
                self._read(key, value)
        elif isinstance(node, list):
            rows = [row for row in node if isinstance(row, dict)]
            self.records.setdefault(name, []).extend(rows)
            for value in node:
                self._read(name, value)
        elif node not in (None, "") and not isinstance(node, bool):
            self.values.setdefault(name, []).append(node)

    def references(self, name: str, description: str) -> Mapping[str, Mapping[str, Json]]:
        """Records by their keys, of the mapping whose records a parameter names; empty where it names none.

        It is called like it, its keys stand in fields of the parameter's name, or the parameter's
        description speaks of it: `licence plate of the car`.
        """
        words = set(re.findall(r"[a-z]+", description.lower()))
        held = set(map(str, self.values.get(name, ())))
        for field, keys in self.keyed.items():
            if singular(field.rpartition("_")[2]) == thing(name).rpartition(" ")[2]:
                return keys
            if held and held <= keys.keys():
                return keys
        for field, keys in self.keyed.items():
            if not held and singular(field) in words and noun(name) != thing(name):
                return keys
        return {}

    def held(self, name: str) -> list[Scalar]:
        """Values of fields of a parameter's name, or of its last word."""
        found = self.values.get(name) or self.values.get(noun(name).split()[-1], [])
        return list(dict.fromkeys(found))

    def records_of(self, tool: str) -> list[Mapping[str, Json]]:
        """Records of what a tool makes: the mapping or list that stands in its name."""
        words = set(noun(tool).split())
        fields = [f for f in self.records if words & {f, singular(f)}]
        return self.records[fields[0]] if fields else []


def singular(field: str) -> str:
    """`entries` and `pets` as one of them."""
    field = noun(field)
    if field.endswith("ies"):
        return field[:-3] + "y"
    return field[:-1] if field.endswith("s") else field


class Inventor(Grounder):
    """Fills in arguments without kinds and without tasks; where kinds are known, as `Grounder`."""

    _record: Mapping[str, Json] = {}
    """What the call that is filled in is about."""
    _name = ""
    """Who it brings in."""

    def fill(self, tool: str, live: Live, rng: random.Random) -> ToolCall | None:
        """A call with an argument for every required parameter and some of the others."""
        self._record, self._name = {}, ""
        return super().fill(tool, live, rng)

    def _carried(self, tool: str, live: Live, rng: random.Random) -> dict[str, Value]:
        """A moved appointment is not moved to its own day: nothing is taken over as it was."""
        return {} if self._domains.inferred else super()._carried(tool, live, rng)

    def _share(self, tool: str, name: str) -> float:
        """An optional yes or no is left alone: nobody knows how one asks for it."""
        schema = self._specs[tool].properties[name]
        quiet = self._domains.inferred and json_type(schema) in ("boolean", "array", "object")
        return 0.0 if quiet else super()._share(tool, name)

    def _value(
        self, tool: str, name: str, schema: Mapping[str, Any], live: Live, rng: random.Random
    ) -> Value:
        declared = json_type(schema)
        plain = declared in ("string", "integer", "number", "array") and not json_choices(schema)
        if not (self._domains.inferred and plain):
            return super()._value(tool, name, schema, live, rng)
        state = State(live.configuration)
        if declared != "array":
            return self._invented(tool, name, schema, live, state, rng)
        inner = cast("Mapping[str, Any]", schema.get("items", {}))
        if options := json_choices(inner):
            return cast("Value", rng.sample(options, min(2, len(options))))
        row = {"description": schema.get("description", ""), **inner}
        drawn = (
            self._invented(tool, singular(name).replace(" ", "_"), row, live, state, rng)
            for _ in range(rng.choice((1, 2, 2)))
        )
        return cast("Value", list(dict.fromkeys(v for v in drawn if v is not None))) or None

    def _invented(
        self,
        tool: str,
        name: str,
        schema: Mapping[str, Any],
        live: Live,
        state: State,
        rng: random.Random,
    ) -> Scalar:
        declared, description = json_type(schema), str(schema.get("description", ""))
        if not declared or declared == "object":
            return None
        found = state.references(name, description)
        if found:
            taken = live.taken(name)
            known = {v: found[v] for v in found if v not in taken and typed(v, declared) is not None}
            chosen = self._of_the_matter(known, live, rng)
            self._record = known.get(str(chosen), {})
            return typed(chosen, declared)
        if declared in ("integer", "number"):
            return self._amount(name, schema, live, state, rng)
        return self._text(tool, name, description, live, state, rng)

    def _of_the_matter(
        self, known: Mapping[str, Mapping[str, Json]], live: Live, rng: random.Random
    ) -> Scalar:
        """One of several things: that which the conversation is about, or that belongs to it."""
        seen = [str(value) for value in _seen(live)] if rng.random() < GO_ON else []
        for value in seen:
            if value in known:
                return value
        for value in seen:
            if linked := [key for key, record in known.items() if value in record.values()]:
                return rng.choice(linked)
        return rng.choice(list(known)) if known else None

    def _amount(
        self, name: str, schema: Mapping[str, Any], live: Live, state: State, rng: random.Random
    ) -> Scalar:
        """A number as the state has them there, within what the description allows."""
        whole = json_type(schema) == "integer"
        span = _SPAN.search(str(schema.get("description", "")))
        low, high = schema.get("minimum"), schema.get("maximum")
        if span is not None and int(span[1]) < int(span[2]):
            low, high = int(span[1]), int(span[2])
        if isinstance(low, int | float) and isinstance(high, int | float) and high - low < 1000:
            return rng.randint(int(low), int(high))
        own = self._record.get(name)
        near = [own] if own else state.held(name) if name in state.values else []
        near = [v for v in near if isinstance(v, int | float) and v > 0]
        if near:
            drawn = rng.choice(near) * rng.uniform(0.8, 1.25)
            fine = drawn < 20 and not all(float(v).is_integer() for v in near)
            value = round(drawn, 1) if fine else float(round(drawn))
            return int(value) or 1 if whole else value or 1.0
        value = rng.choice(listed("numbers", name))
        return value if whole else float(value)

    def _text(
        self,
        tool: str,
        name: str,
        description: str,
        live: Live,
        state: State,
        rng: random.Random,
    ) -> Scalar:
        held = [v for v in state.held(name) if isinstance(v, str)]
        last, first = noun(name).split()[-1], noun(tool).split()[0]
        if "YYYY-MM-DD" in description or any(map(DATE.fullmatch, held)):
            return self._day(held, state, live, rng)
        if "HH:MM" in description or any(map(TIME.fullmatch, held)):
            return f"{rng.randint(8, 17):02d}:{rng.choice(('00', '15', '30', '45'))}"
        makes = first in lists()["creates"]
        if makes and last in lists()["identities"]:
            return self._new(tool, last, state, rng)
        if last in lists()["searches"] and not held:
            return word_of({k: v for k, v in state.values.items() if k}, rng)
        used = {v for step in live.steps for v in map(str, step.call.arguments.values())}
        held = [v for v in held if v not in used or last not in lists()["written"]]
        if held:
            return self._of_the_matter({value: {} for value in held}, live, rng)
        found = listed("texts", name)
        return rng.choice(found) if found else None

    def _day(
        self, held: Sequence[str], state: State, live: Live, rng: random.Random
    ) -> str | None:
        """A day that the state holds, or one soon after the latest."""
        every = [str(v) for values in state.values.values() for v in values]
        days = sorted({text[:10] for text in every if DATE.match(text)})
        if held and rng.random() < KNOWN_DAY:
            return str(self._of_the_matter({day: {} for day in sorted(held)}, live, rng))
        latest = datetime.date.fromisoformat(days[-1] if days else "2026-03-02")
        return (latest + datetime.timedelta(rng.randint(1, 12))).isoformat()

    def _new(self, tool: str, what: str, state: State, rng: random.Random) -> str:
        """A name or an address of somebody or something that is not there yet."""
        words = self._words
        rows = state.records_of(tool)
        theirs = [str(row[field]) for row in rows for field in row if noun(field) == what]
        self._name = self._name or f"{words.first_name(rng)} {words.surname(rng)}"
        first, _, last = self._name.partition(" ")
        if what in ("email", "mail"):
            domain = theirs[0].partition("@")[2] if theirs else ""
            return f"{first}.{last}@{domain or 'mail.example'}".lower()
        if what == "phone":
            form = theirs[0] if theirs else "555-0100"
            return re.sub(r"\d{3,4}$", lambda match: str(rng.random())[2 : 2 + len(match[0])], form)
        if what in ("title", "label"):
            return f"{words.noun(rng).capitalize()} {words.noun(rng)}"
        return first if theirs and not any(map(_PERSON.fullmatch, theirs)) else f"{first} {last}"


def _seen(live: Live) -> Iterator[Scalar]:
    """What earlier calls took or showed, the latest first; of a list that was shown, its first."""
    for step in reversed(live.steps):
        yield from (leaf.value for leaf in step.leaves)
        yield from (leaf.value for leaf in leaves(step.call))

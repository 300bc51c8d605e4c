"""Arguments for an API that nobody described: from the state, from results, from lists.

Owns what a parameter may take when no task and no `domains.toml` says it: keys of a mapping that is
called like it, values of fields of its name, and `scratch.toml` for the rest. Never executes: the
caller finds out whether the world accepts a call.

    Inventor(domains, specs, graph, materials).fill("lend", live, rng)
"""

from __future__ import annotations

import datetime
import functools
import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

from rods.synthesis.structure.trace import Scalar, leaves
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

Records = Mapping[str, Mapping[str, Json]]


@functools.cache
def lists() -> Mapping[str, Any]:
    """The lists of `scratch.toml`; its texts as sets of words."""
    listed = files("rods").joinpath("writers", "graph", "scratch.toml")
    data = tomllib.loads(listed.read_text(encoding="utf-8"))
    return {k: frozenset(v.split()) if isinstance(v, str) else v for k, v in data.items()}


def listed(kind: str, name: str) -> Sequence[Any]:
    """Values of the first list for a word of a parameter's name, the last word first."""
    for word in (*reversed(noun(name).split()), "else"):
        for row in lists()[kind]:
            if word in row["names"].split():
                return row["values"]
    return ()


def singular(field: str) -> str:
    """`entries` and `pets` as one of them."""
    return re.sub(r"ies$", "y", field) if field.endswith("ies") else field.removesuffix("s")


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
    alone = len(found) == 1 and noun(name) != thing(name)
    spoken = (table for field, table in found if not held and (alone or singular(field) in words))
    return next(spoken, {})


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
        several = declared == "array"
        inner = cast("Mapping[str, Any]", schema.get("items", {})) if several else schema
        known = not self._domains.inferred or json_choices(inner) or declared == "boolean"
        if known or json_type(inner) not in ("string", "integer", "number"):
            return super()._value(tool, name, schema, live, rng)
        row = {"description": schema.get("description", ""), **inner}
        if not several:
            return self._invented(tool, name, row, live, rng)
        drawn = [self._invented(tool, singular(name), row, live, rng) for _ in range(2)]
        return cast("Value", list(dict.fromkeys(v for v in drawn if v is not None))) or None

    def _invented(
        self, tool: str, name: str, schema: Mapping[str, Any], live: Live, rng: random.Random
    ) -> Scalar:
        declared, description = json_type(schema), str(schema.get("description", ""))
        if found := records_named(name, description, live):
            taken = live.taken(name)
            known = {
                v: found[v] for v in found if v not in taken and typed(v, declared) is not None
            }
            chosen = _of_the_matter(known, live, rng)
            self._record = known.get(str(chosen), {})
            return typed(chosen, declared)
        if declared == "string":
            return self._text(tool, name, description, live, rng)
        own = self._record.get(name)
        near = [v for v in ([own] if own else live.held(name)) if isinstance(v, int | float)]
        value = rng.choice(listed("numbers", name))
        if near and max(near) > 0:  # as the state has them there
            drawn = max(near) * rng.uniform(0.8, 1.1)
            value = round(drawn, int(drawn < 20 and any(v % 1 for v in near))) or 1
        return int(value) if declared == "integer" else float(value)

    def _text(
        self, tool: str, name: str, description: str, live: Live, rng: random.Random
    ) -> Scalar:
        used = {str(v) for step in live.steps for v in step.call.arguments.values()}
        held = [v for v in live.held(name) if isinstance(v, str)]
        last, first = noun(name).split()[-1], noun(tool).split()[0]
        if "YYYY-MM-DD" in description or any(map(DATE.fullmatch, held)):
            return _day(held, live, rng)
        if "HH:MM" in description or any(map(TIME.fullmatch, held)):
            return f"{rng.randint(8, 17):02d}:{rng.choice(('00', '15', '30', '45'))}"
        if first in lists()["creates"] and last in lists()["identities"]:
            return self._new(tool, last, live, rng)
        if last in lists()["written"]:
            held = [v for v in held if v not in used]
        if held:
            return _of_the_matter({value: {} for value in held}, live, rng)
        if last in lists()["searches"]:
            state = leaves(cast("Json", dict(live.configuration)))
            return word_of({"": [leaf.value for leaf in state]}, rng)
        found = listed("texts", name)
        return rng.choice(found) if found else None

    def _new(self, tool: str, what: str, live: Live, rng: random.Random) -> str:
        """A name or an address of somebody or something that is not there yet."""
        made = set(noun(tool).split())
        theirs = [
            str(record[what])
            for field, records in tables(cast("Json", dict(live.configuration)))
            for record in records.values()
            if what in record and made & {field, singular(field)}
        ]
        self._name = self._name or f"{self._words.first_name(rng)} {self._words.surname(rng)}"
        if what == "email":
            domain = theirs[0].partition("@")[2] if theirs else "mail.example"
            return f"{self._name.replace(' ', '.')}@{domain}".lower()
        plain = theirs and not any(map(_PERSON.fullmatch, theirs))
        return self._name.partition(" ")[0] if plain else self._name


def _of_the_matter(known: Records, live: Live, rng: random.Random) -> Scalar:
    """One of several things: that which the conversation is about, or that belongs to it."""
    latest = reversed(live.steps) if rng.random() < GO_ON else ()
    seen = [str(leaf.value) for s in latest for leaf in (*s.leaves, *leaves(s.call))]
    for value in seen:
        if value in known:
            return value
    for value in seen:
        if linked := [key for key, record in known.items() if value in record.values()]:
            return rng.choice(linked)
    return rng.choice(list(known)) if known else None


def _day(held: Iterable[str], live: Live, rng: random.Random) -> str:
    """A day that the state holds, or one soon after the latest."""
    days = sorted({day for day in held if DATE.fullmatch(day)})
    if days and rng.random() < KNOWN_DAY:
        return str(_of_the_matter({day: {} for day in days}, live, rng))
    latest = datetime.date.fromisoformat(days[-1] if days else "2026-03-02")
    return (latest + datetime.timedelta(rng.randint(1, 12))).isoformat()

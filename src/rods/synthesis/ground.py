"""Arguments from the live world: what exists there, what results showed, what may be new.

Owns the choice of argument values by kind (`domains.toml`), enumeration or earlier use. Never
executes a call: the caller finds out whether the world accepts it.

    grounder = Grounder(domains, specs, exemplars, materials)
    call = grounder.fill("cd", live, rng)                   # None: nothing fits a required argument
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from rods.synthesis.flow import Scalar, Step, leaves
from rods.synthesis.fresh import Texts, makers, with_ending_of, word_of
from rods.synthesis.writers.assign import Materials
from rods.synthesis.writers.domains import NUMERIC, Domains
from rods.synthesis.writers.entities import kind_map
from rods.types import Json, ToolCall, ToolSpec, Value

OPTIONAL = 0.35
"""How often an optional argument is given."""
FRESH_NAME = 0.35
"""How often a name is new although names exist."""
FROM_RESULT = 0.7
"""How often a value that results show is preferred."""
ENROLS = frozenset(
    {"add", "create", "register", "enrol", "enroll", "new", "sign", "join", "invite"}
)
"""First words of tools that bring in somebody who is not there yet."""
JITTER = 0.7
"""How often a number without a kind differs from those that training tasks give."""
FROM_STATE = 0.7
"""How often a text without a kind is taken from the state's field of that name."""
WHOLE = frozenset({"shares", "fuel", "miles", "meters", "percent", "money", "quantity", "volume"})
"""Kinds whose new numbers are mostly whole."""
FROM_TEXT = 0.8
"""How often a search is for a word that stands in what exists."""


@dataclass
class Live:
    """What can be read of a world at one moment of a conversation."""

    configuration: Mapping[str, Json]
    """Public state of each class."""
    steps: Sequence[Step] = ()
    """Calls that were executed, with their results."""
    kinds: dict[str, dict[str, list[Scalar]]] = field(
        default_factory=dict[str, dict[str, list[Scalar]]]
    )
    """Values that exist, by kind and by the field that holds them; filled by `look`."""

    inferred: bool = False
    """Kinds are guesses: of values of a kind, those whose field fits the argument's name."""
    places: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Fields that hold what exists for an argument, where its kind has several; by `look`."""

    def look(self, domains: Domains) -> None:
        """Collect the entities of the state by kind."""
        self.inferred = domains.inferred
        self.places = domains.fields
        for owner, node in self.configuration.items():
            for name, value in _fields(_as_configured(node)).items():
                self._read(owner, name, value, domains)

    def _read(self, owner: str, name: str, node: Json, domains: Domains) -> None:
        below = name + "." if isinstance(node, dict) else name

        def put(kind: str, value: Scalar, at: str) -> None:
            if kind and value not in (None, "", "None"):
                values = self.kinds.setdefault(kind, {}).setdefault(at, [])
                if value not in values:
                    values.append(value)

        def leaf(kind: str, value: Scalar) -> Scalar:
            put(kind, value, below)
            return value

        def key(kind: str, text: str) -> str:
            numeric = kind == "id" and str(text).isdigit()
            put(kind, int(text) if numeric else text, name)
            return text

        kind_map(node, owner, name, domains, leaf, key)

    def existing(self, kind: str, name: str) -> list[Scalar]:
        """Values of a kind; of secrets and codes those whose field fits the argument's name."""
        fields = self.kinds.get(kind, {})
        if name in self.places:
            return [v for at in self.places[name] for v in fields.get(at, ())]
        if kind == "ident" or self.inferred:
            stem = name.removesuffix("_id").rpartition("_")[2]
            near = [values for at, values in fields.items() if at.rstrip(".") == name]
            near = near or [values for at, values in fields.items() if stem in at]
            if near or not self.inferred:
                return [value for values in near for value in values]
        return [value for values in fields.values() for value in values]

    def held(self, name: str) -> list[Scalar]:
        """Values that fields of the state with this name hold, or of the last part of it."""
        tail = name.rpartition("_")[2]
        found: dict[str, list[Scalar]] = {}
        for leaf in leaves(dict(self.configuration)):
            at = next((part for part in reversed(leaf.path) if isinstance(part, str)), "")
            if at in (name, tail) and leaf.value not in (None, ""):
                found.setdefault(at, []).append(leaf.value)
        return list(dict.fromkeys(found.get(name) or found.get(tail, [])))

    def shown(self, name: str) -> list[Scalar]:
        """Values that results showed under this name, the latest first."""
        return [
            leaf.value
            for step in reversed(self.steps)
            for leaf in step.leaves
            if leaf.path and leaf.path[-1] == name
        ]


def _fields(node: Json) -> Mapping[str, Json]:
    return node if isinstance(node, dict) else {}


def _as_configured(node: Json) -> Json:
    """A class's state with named folders as its configuration writes them: name to contents."""
    if not isinstance(node, dict):
        return node
    return {
        field: {str(value["name"]): value}
        if isinstance(value, dict) and {"type", "name", "contents"} <= value.keys()
        else value
        for field, value in node.items()
    }


class Grounder:
    """Fills in arguments."""

    def __init__(
        self,
        domains: Domains,
        specs: Mapping[str, ToolSpec],
        exemplars: Mapping[tuple[str, str], Sequence[Value]],
        materials: Materials,
    ) -> None:
        """Prepare.

        Args:
            domains: kinds of the environment.
            specs: all tools of the world.
            exemplars: values that training tasks give to (tool, parameter).
            materials: words and texts of the training side.
        """
        self._domains = domains
        self._specs = specs
        self._exemplars = exemplars
        self._makers = makers(domains, materials)
        self._texts = Texts(domains, materials)

    def fill(self, tool: str, live: Live, rng: random.Random) -> ToolCall | None:
        """A call with an argument for every required parameter and some of the others."""
        parameters = self._specs[tool].parameters
        properties = cast("Mapping[str, Mapping[str, Any]]", parameters.get("properties", {}))
        required = cast("Sequence[str]", parameters.get("required", []))
        arguments: dict[str, Value] = {}
        if {"travel_from", "travel_to"} <= properties.keys():
            arguments["travel_from"], arguments["travel_to"] = self._leg(rng)
        elif {"cityA", "cityB"} <= properties.keys() and self._domains.distances:
            pair = rng.choice(sorted(self._domains.distances))
            arguments["cityA"], arguments["cityB"] = rng.sample(pair, 2)
        for name, schema in properties.items():
            if name in arguments or (name not in required and rng.random() > OPTIONAL):
                continue
            value = self._value(tool, name, schema, live, rng)
            if value is not None:
                arguments[name] = value
            elif name in required:
                return None
        texts = [v for v in arguments.values() if isinstance(v, str)]
        if len(set(texts)) < len(texts):
            return None
        source, target = arguments.get("source"), arguments.get("destination")
        if isinstance(source, str) and target not in live.existing("name", "destination"):
            arguments["destination"] = with_ending_of(source, str(target))
        ordered = {name: arguments[name] for name in properties if name in arguments}
        return ToolCall(tool, ordered)

    def _leg(self, rng: random.Random) -> tuple[str, str]:
        return rng.choice(sorted(self._domains.routes))

    def _value(
        self, tool: str, name: str, schema: Mapping[str, Any], live: Live, rng: random.Random
    ) -> Value:
        kind = self._domains.parameter(tool, name)
        declared = str(schema.get("type", ""))
        if schema.get("enum"):
            return cast("Value", rng.choice(schema["enum"]))
        if declared == "boolean":
            return rng.random() < 0.5
        if declared in ("array", "list"):
            return self._items(tool, name, schema, kind, live, rng)
        if declared in ("dict", "object"):
            return self._exemplar(tool, name, rng)
        shown = live.shown(name) if self._may_be_shown(name, kind) else []
        if shown and rng.random() < FROM_RESULT:
            return _typed(shown[0], declared)
        return self._scalar(tool, name, kind, declared, live, rng)

    def _may_be_shown(self, name: str, kind: str) -> bool:
        """Whether a result's field of this name holds such values: an `amount` may be of shares."""
        held = self._domains.leaf("", name)
        return kind != "body" and held in ("", kind)

    def _items(
        self,
        tool: str,
        name: str,
        schema: Mapping[str, Any],
        kind: str,
        live: Live,
        rng: random.Random,
    ) -> Value:
        inner = cast("Mapping[str, Any]", schema.get("items", {}))
        wanted = str(inner.get("type", "string"))
        count = rng.choice((1, 2, 2, 3)) if kind != "quantity" else rng.choice((2, 3, 4))
        if inner.get("enum"):
            options = list(inner["enum"])
            return cast("Value", rng.sample(options, min(count, len(options))))
        if not kind:
            return self._exemplar(tool, name, rng)
        found = [self._scalar(tool, name, kind, wanted, live, rng) for _ in range(count)]
        return cast("Value", list(dict.fromkeys(v for v in found if v is not None))) or None

    def _scalar(
        self, tool: str, name: str, kind: str, declared: str, live: Live, rng: random.Random
    ) -> Scalar:
        if kind == "body" and f"{tool}.{name}" not in self._domains.fresh:
            return self._texts.draw(name, rng)
        if kind == "pattern" and rng.random() < FROM_TEXT:
            return word_of(live.kinds.get("name" if name == "name" else "body", {}), rng)
        existing = [v for v in live.existing(kind, name) if _typed(v, declared) is not None]
        maker = self._domains.fresh.get(f"{tool}.{name}") or self._domains.fresh.get(name, kind)
        fresh = self._makers.get(maker)
        if kind == "body" or (name in self._domains.fields and not existing):
            return None if fresh is None else fresh(rng)
        if fresh is not None and self._domains.inferred and tool.split("_")[0] in ENROLS:
            return fresh(rng)
        if kind in NUMERIC and kind != "id":
            return self._number(kind, declared, rng)
        if existing and (fresh is None or rng.random() > (FRESH_NAME if kind == "name" else 0.15)):
            return _typed(rng.choice(existing), declared)
        if fresh is not None:
            return fresh(rng)
        value = self._exemplar(tool, name, rng)
        if self._domains.inferred:
            value = self._guess(value, name, declared, live, rng)
        return value if isinstance(value, str | int | float) else None

    def _guess(
        self, seen: Value, name: str, declared: str, live: Live, rng: random.Random
    ) -> Value:
        """Without kinds: a number near one that training tasks give, a text of that field."""
        alike = [v for (_, n), values in self._exemplars.items() if n == name for v in values]
        if declared in ("integer", "number") and not isinstance(seen, bool):
            near = seen if isinstance(seen, int | float) else rng.choice(alike or [5])
            if isinstance(near, int | float) and rng.random() < JITTER:
                drawn = max(1.0, near * rng.uniform(0.5, 2.0))
                return round(drawn) if declared == "integer" else round(2 * drawn) / 2
            return near
        there = [value for value in live.held(name) if isinstance(value, str)]
        if there and (seen is None or rng.random() < FROM_STATE):
            return rng.choice(there)
        return seen if seen is not None else rng.choice(alike) if alike else None

    def _exemplar(self, tool: str, name: str, rng: random.Random) -> Value:
        known = self._exemplars.get((tool, name), ())
        return rng.choice(known) if known else None

    def _number(self, kind: str, declared: str, rng: random.Random) -> Scalar:
        low, high = self._domains.ranges.get(kind, (1.0, 100.0))
        high = min(high, 20 * low + 400)
        value = rng.uniform(low, high)
        if declared == "integer" or (kind in WHOLE and rng.random() < 0.7):
            return int(value) if declared == "integer" else float(int(value))
        return round(value, 2)


def _typed(value: Scalar, declared: str) -> Scalar:
    """A value as the parameter's type wants it; None where it cannot be had."""
    if declared == "string":
        return str(value)
    if isinstance(value, str) and declared in ("integer", "number", "float"):
        return int(value) if value.isdigit() else None
    if declared == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value

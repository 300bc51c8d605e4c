"""What can be read of a world at one moment: what exists in it, what its results showed.

live = Live(world.public_state(), steps)
live.look(domains)
live.existing("name", "document")                       # every file and folder
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of, leaves
from rods.synthesis.structure.words import thing
from rods.types import Json, Value
from rods.writers.resample.entities import kind_map

PERSONAL = frozenset({"user", "ident"})  # Kinds that say who somebody is, in one class

Kinds: TypeAlias = dict[str, dict[str, list[Scalar]]]
Records: TypeAlias = Mapping[str, Mapping[str, Json]]


def tables(node: Json, name: str = "") -> Iterator[tuple[str, Records]]:
    """Mappings of records in a state, by their fields."""
    if isinstance(node, dict):
        if name and node and all(isinstance(value, dict) for value in node.values()):
            yield name, cast("Records", node)
        for key, value in node.items():
            yield from tables(value, key)


@dataclass
class Live:
    """What can be read of a world at one moment of a conversation."""

    configuration: Mapping[str, Json]  # Public state of each class
    steps: Sequence[TraceStep] = ()  # Calls that were executed, with their results
    kinds: Kinds = field(default_factory=dict[str, "dict[str, list[Scalar]]"])
    """Values that exist, by kind and by the field that holds them; filled by `look`."""
    owned: dict[str, Kinds] = field(default_factory=dict[str, "Kinds"])
    """Kinds of each class alone: what exists in one says nothing of another."""
    inferred: bool = False  # Kinds are guesses: the field has to fit the argument's name, too
    places: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Fields that hold what exists for an argument, where its kind has several; by `look`."""

    def look(self, domains: Domains) -> None:
        """Collect the entities of the state by kind."""
        self.inferred = domains.inferred
        self.places = domains.fields
        for owner, node in self.configuration.items():
            for name, value in _as_configured(node).items():
                self._read(owner, name, value, domains)

    def _read(self, owner: str, name: str, node: Json, domains: Domains) -> None:
        below = name + "." if isinstance(node, dict) else name

        def put(kind: str, value: Scalar, at: str) -> None:
            if kind and value not in (None, "", "None"):
                for known in (self.kinds, self.owned.setdefault(owner, {})):
                    values = known.setdefault(kind, {}).setdefault(at, [])
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

    def own(self, owner: str, kind: str, name: str) -> Scalar:
        """Value that the class itself is set up for: its field of this name, `current_` or not."""
        stem = name.removesuffix("_id").removesuffix("name")
        fields = self.owned.get(owner, {}).get(kind, {})
        found = next((fields[at] for at in (name, f"current_{stem}") if fields.get(at)), [None])
        return found[0]

    def existing(self, kind: str, name: str, owner: str = "") -> list[Scalar]:
        """Values of a kind; codes by the argument's name, accounts and secrets of their class."""
        apart = kind in PERSONAL and owner and not self.inferred
        fields = (self.owned.get(owner, {}) if apart else self.kinds).get(kind, {})
        if name in self.places:
            return [v for at in self.places[name] for v in fields.get(at, ())]
        if kind == "ident" or self.inferred:
            stem = thing(name).rpartition(" ")[2]
            stem = stem if self.inferred else name.removesuffix("_id").rpartition("_")[2]
            near = [values for at, values in fields.items() if at.rstrip(".") == name]
            if self.inferred:  # a berth names the boat that lies there: others exist, too
                near += [
                    values for values in fields.values() if any({*n} < {*values} for n in near)
                ]
            near = near or [values for at, values in fields.items() if stem in at]
            if near or not self.inferred:
                return [value for values in near for value in values]
            if held := self.held(name):
                return held
        return [value for values in fields.values() for value in values]

    def recent(self, kind: str, domains: Domains) -> list[Scalar]:
        """Values of a kind that earlier calls took, the latest first."""
        calls = [step.call for step in reversed(self.steps)] if kind else []
        given = ((call.name, *pair) for call in calls for pair in call.arguments.items())
        alike = (value for tool, name, value in given if domains.parameter(tool, name) == kind)
        return [value for value in alike if isinstance(value, str | int | float)]

    def taken(self, name: str) -> set[Value]:
        """Texts that earlier calls took as something else: nobody writes to himself."""
        given = (pair for step in self.steps for pair in step.call.arguments.items())
        return {value for other, value in given if other != name and isinstance(value, str)}

    def held(self, name: str) -> list[Scalar]:
        """Values that fields of the state with this name hold, or of the last part of it."""
        tail = name.rpartition("_")[2]
        found: dict[str, list[Scalar]] = {}
        for leaf in leaves(dict(self.configuration)):
            at = field_of(leaf.path)
            if at in (name, tail) and leaf.value not in (None, ""):
                found.setdefault(at, []).append(leaf.value)
        return list(dict.fromkeys(found.get(name) or found.get(tail, [])))

    def beside(self, key: Value) -> Sequence[Scalar]:
        """Keys of the records among which one has this key."""
        held = (records for _, records in tables(dict(self.configuration)))
        return next((list(records) for records in held if str(key) in records), [])

    def records(self, fields: Set[str]) -> list[Mapping[str, Json]]:
        """Objects with all of these fields: those of the last result, else of the state's lists."""
        classes = (node for node in self.configuration.values() if isinstance(node, dict))
        lists = (held for node in classes for held in node.values() if isinstance(held, list))
        items = [item for held in lists for item in held if isinstance(item, dict)]
        last = self.steps[-1].parsed if self.steps else None
        shown = [item for item in items if isinstance(last, list) and item in last]
        return [item for item in shown or items if fields <= item.keys()]

    def shown(self, name: str, tools: Container[str] | None = None) -> list[Scalar]:
        """Values that results (of these tools) showed under this name, the latest first."""
        return [
            leaf.value
            for step in reversed(self.steps)
            if tools is None or step.call.name in tools
            for leaf in step.leaves
            if leaf.path and leaf.path[-1] == name
        ]


def _as_configured(node: Json) -> Mapping[str, Json]:
    """A class's state with named folders as its configuration writes them: name to contents."""
    return {
        field: {str(value["name"]): value}
        if isinstance(value, dict) and {"type", "name", "contents"} <= value.keys()
        else value
        for field, value in (node.items() if isinstance(node, dict) else ())
    }


def typed(value: Scalar, declared: str) -> Scalar:
    """A value as the parameter's type wants it; None where it cannot be had."""
    if declared == "string":
        return str(value)
    if isinstance(value, str) and declared in ("integer", "number", "float"):
        return int(value) if value.isdigit() else None
    if declared == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value

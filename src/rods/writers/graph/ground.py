"""Arguments from the live world: what exists there, what results showed, what may be new.

Values are chosen by kind (`domains.toml`), enumeration or earlier use. A call takes over values of
earlier ones, so that a conversation is about one matter: as the value edges of the API graph say,
or because two calls share more than one of their arguments. The caller finds out whether the world
accepts a call.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of
from rods.types import ToolCall, ToolSpec, Value, json_choices, json_type
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.fresh import Texts, draws, listed, lists, word_of
from rods.writers.graph.live import PERSONAL, Live, typed
from rods.writers.resample.assign import Materials

OPTIONAL = 0.35  # How often an optional argument is given of a tool that no training task calls
TOGETHER = 0.98  # How often a call is about all that an earlier one was: a loan, its day, its place
SAME = 0.7  # How often a call is about what an earlier one was about
PASSING = frozenset({"name", "body", "pattern", "id", ""})  # Kinds that say nothing of a matter
FRESH_NAME = 0.35  # How often a name is new although names exist
FROM_RESULT = 0.7  # How often a value that results show is preferred
JITTER = 0.7  # How often a number without a kind differs from those that training tasks give
FROM_STATE = 0.7  # How often a text without a kind is taken from the state's field of that name
FROM_LIST = 0.5  # How often a note, a reason or a problem is one of `scratch.toml`
PLURAL = 2.0  # Smallest number of what is counted: nobody buys 0 boxes, or `1 boxes`
MOSTLY = 0.7  # How often a number of a kind that is mostly whole is whole
FROM_TEXT = 0.8  # How often a search is for a word that stands in what exists


class Grounder:
    """Fills in arguments."""

    _live: Live
    _rng: random.Random  # What the call that is filled in is made from, set by `fill`

    def __init__(
        self,
        domains: Domains,
        specs: Mapping[str, ToolSpec],
        graph: ApiGraph,
        materials: Materials,
        owners: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; `owners`: the class of each tool, where the world has several."""
        self._domains = domains
        self._specs = specs
        self._owners = owners or {}
        self._graph = graph
        self._paired = {n for p in domains.pairs if p.either_way for n in p.parameters}
        self._draws, self._words = draws(domains, materials), materials.vocabulary
        self._texts = Texts(domains, materials)

    def fill(self, tool: str, live: Live, rng: random.Random) -> ToolCall | None:
        """A call with an argument for every required parameter and some of the others."""
        self._live, self._rng = live, rng
        properties, required = self._specs[tool].properties, self._specs[tool].required
        arguments = self._carried(tool)
        arguments |= self._own(tool)
        arguments |= self._together(tool, arguments)
        for name, schema in properties.items():
            if name in arguments or (
                name not in required and rng.random() > self._share(tool, name)
            ):
                continue
            value = self._value(tool, name, schema)
            if value is not None:
                arguments[name] = value
            elif name in required:
                return None
        optional = [n for n in properties if n not in required] if self._domains.inferred else []
        usual = sum(self._graph.given(tool, name) or 0 for name in optional)
        if usual >= 1 and not arguments.keys() & {*optional}:
            return None  # nobody moves a booking without a word of where to
        texts = [v for v in arguments.values() if isinstance(v, str)]
        if len(set(texts)) < len(texts):
            return None
        if self._domains.inferred and self._turned(tool, arguments):
            return None
        self._match_endings(arguments)
        ordered = {name: arguments[name] for name in properties if name in arguments}
        return ToolCall(tool, ordered)

    def _turned(self, tool: str, arguments: Mapping[str, Value]) -> bool:
        """Whether something ends before it begins, which it does in no training task."""
        kinds, known = self._domains, self._graph.exemplars
        moments = [n for n in arguments if kinds.parameter(tool, n) in ("date", "moment")]
        for one, other in itertools.combinations(moments, 2):
            firsts, lasts = known.get((tool, one), ()), known.get((tool, other), ())
            if len(firsts) != len(lasts) or str(arguments[one]) <= str(arguments[other]):
                continue
            if firsts and all(str(a) <= str(b) for a, b in zip(firsts, lasts, strict=True)):
                return True
        return False

    def _share(self, tool: str, name: str) -> float:
        """How often an optional argument is given: as the training tasks do."""
        known = self._graph.given(tool, name)
        return OPTIONAL if known is None else min(0.95, max(0.05, known))

    def _carried(self, tool: str) -> dict[str, Value]:
        """What an earlier call or its result hands on: a table is booked as it was asked for."""
        properties = self._specs[tool].properties
        found: dict[str, Value] = {}
        for name in properties:
            fed = self._fed(tool, name)
            if fed is not None and name not in self._paired and self._rng.random() <= SAME:
                step, found[name] = fed
                found.update({n: v for n, v in step.call.arguments.items() if n in properties})
        for step in reversed(self._live.steps):
            before, given = step.call.name, step.call.arguments
            shared = {n: v for n, v in given.items() if self._goes_on(tool, n, before)}
            if before != tool and len(shared) > 1:
                return shared | found if self._rng.random() < TOGETHER else found
        return found

    def _goes_on(self, tool: str, name: str, before: str) -> bool:
        kind = self._domains.parameter(tool, name)
        elsewhere = self._owners.get(tool) != self._owners.get(before)
        if kind in PASSING or (kind in PERSONAL and elsewhere):
            return False
        return name in self._specs[tool].properties

    def _fed(self, tool: str, name: str) -> tuple[TraceStep, Scalar] | None:
        """The latest result that gave such arguments in the training tasks, and its value."""
        producers = self._graph.feeds.get((tool, name), {})
        declared = json_type(self._specs[tool].properties[name])
        for step in reversed(self._live.steps):
            fields = {at for call, at in producers if call == step.call.name}
            for leaf in step.leaves if fields else ():
                value = typed(leaf.value, declared) if field_of(leaf.path) in fields else None
                if value not in (None, ""):
                    return step, value
        return None

    def _together(self, tool: str, carried: Mapping[str, Value]) -> dict[str, Value]:
        """Codes that exist together, rather those that were just shown, unless both are carried."""
        properties = self._specs[tool].properties
        found: dict[str, Value] = {}
        for pairs in self._domains.pairs:
            if not pairs.given(properties) or pairs.given(carried):
                continue
            chosen: Sequence[str]
            ordered = sorted(pairs.known)
            if pairs.either_way:
                late = self._live.steps[-4:]
                shown = {str(leaf.value) for step in late for leaf in step.leaves}
                most = max(len(shown.intersection(pair)) for pair in ordered)
                near = [pair for pair in ordered if len(shown.intersection(pair)) == most]
                chosen = self._rng.sample(self._rng.choice(near), 2)
            else:
                chosen = self._rng.choice(ordered)
            found |= dict(zip(pairs.parameters, chosen, strict=True))
        return found

    def _own(self, tool: str) -> dict[str, Value]:
        """Account and secret that the tool's class is set up for: nobody logs in as another."""
        found: dict[str, Value] = {}
        for name, schema in self._specs[tool].properties.items():
            kind, owner = self._domains.parameter(tool, name), self._owners.get(tool, "")
            value = self._live.own(owner, kind, name) if kind in PERSONAL else None
            if (own := typed(value, str(schema.get("type", "")))) not in (None, "None"):
                found[name] = own
        return found

    def _match_endings(self, arguments: dict[str, Value]) -> None:
        """A copy under a new name keeps the ending of what it is a copy of."""
        for copy, original in self._domains.endings.items():
            source, target = arguments.get(original), arguments.get(copy)
            if isinstance(source, str) and target not in self._live.existing("name", copy):
                stem = str(target).rpartition(".")[0] or str(target)
                arguments[copy] = stem + (source[source.rindex(".") :] if "." in source else "")

    def _value(self, tool: str, name: str, schema: Mapping[str, Any]) -> Value:
        kind, declared = self._domains.parameter(tool, name), json_type(schema)
        if choices := json_choices(schema):
            return cast("Value", self._rng.choice(choices))
        if declared == "boolean":
            return self._rng.random() < 0.5
        if declared in ("array", "list"):
            return self._items(tool, name, cast("Mapping[str, Any]", schema.get("items", {})))
        if declared in ("dict", "object"):
            return self._object(tool, self._exemplar(tool, name))
        owner = self._owners.get(tool) if kind in PERSONAL else None
        fellows = frozenset(t for t, o in self._owners.items() if o == owner) if owner else None
        held = self._domains.leaf("", name)  # an `amount` in a result may be of shares
        may_be_shown = kind != "body" and held in ("", kind)
        shown = self._live.shown(name, fellows) if may_be_shown else []
        if shown and self._rng.random() < FROM_RESULT:
            return typed(shown[0], declared)
        return self._scalar(tool, name, declared)

    def _object(self, tool: str, model: Value) -> Value:
        """One of the state's lists that has the fields of a training task's, else other values."""
        if not isinstance(model, dict):
            return model
        if there := self._live.records(model.keys()):
            chosen = self._rng.choice(there)
            short = {k for k, v in model.items() if re.fullmatch(r"\d\d:\d\d", str(v))}
            return {
                k: str(chosen[k])[:5] if k in short else cast("Value", chosen[k]) for k in model
            }
        found: dict[str, Value] = {}
        for key, value in model.items():
            kind = self._domains.parameter(tool, key)
            fresh = self._draws.get(self._domains.fresh.get(key, kind))
            if kind == "ident" and isinstance(value, str):
                fresh = partial(self._words.like, value)
            found[key] = fresh(self._rng) if fresh else self._object(tool, value)
        return found

    def _items(self, tool: str, name: str, inner: Mapping[str, Any]) -> Value:
        """A list of values that each have the schema `inner`."""
        kind = self._domains.parameter(tool, name)
        count = self._rng.choice((1, 2, 2, 3) if kind != "quantity" else (2, 3, 4))
        if options := json_choices(inner):
            return cast("Value", self._rng.sample(options, min(count, len(options))))
        if not kind:
            return self._exemplar(tool, name)
        found = [self._scalar(tool, name, json_type(inner) or "string") for _ in range(count)]
        return cast("Value", list(dict.fromkeys(v for v in found if v is not None))) or None

    def _scalar(self, tool: str, name: str, declared: str) -> Scalar:
        domains, live, rng = self._domains, self._live, self._rng
        kind, whole = domains.parameter(tool, name), f"{tool}.{name}"
        if kind == "body" and whole not in domains.fresh:
            return self._texts.draw(tool, name, rng)
        if kind == "pattern" and rng.random() < FROM_TEXT:
            return word_of(live.kinds.get("name" if name == "name" else "body", {}), rng)
        places = domains.fields.get(whole, domains.fields.get(name))
        others = live.taken(name) if kind == "ident" else ()
        there = live.existing(kind, name, self._owners.get(tool, "")) if places != [] else ()
        existing = [v for v in there if typed(v, declared) is not None and v not in others]
        if kind == "ident" and domains.inferred:  # all ids are of one kind: an order is no item
            models = self._graph.exemplars.get((tool, name), ())
            if models and (tool, name) not in self._graph.found:  # what is made has a new code
                return re.sub(r"\d", lambda _: rng.choice("0123456789"), str(rng.choice(models)))
            existing = _formed(existing, models)
        fresh = self._draws.get(domains.fresh.get(whole) or domains.fresh.get(name, kind))
        if kind == "body" or (places is not None and not existing):
            return None if fresh is None else fresh(rng)
        if fresh is not None and domains.inferred and tool.split("_")[0] in lists()["enrols"]:
            return fresh(rng)
        if kind in domains.numbers and kind != "id":
            return self._number(kind, declared)
        recent = [v for v in live.recent(kind, domains) if typed(v, declared) in existing]
        if kind in domains.about and recent and rng.random() < SAME:
            return typed(recent[0], declared)
        if existing and (fresh is None or rng.random() > (FRESH_NAME if kind == "name" else 0.15)):
            return typed(rng.choice(existing), declared)
        if fresh is not None:
            return fresh(rng)
        value = self._exemplar(tool, name)
        if domains.inferred:
            value = self._guess(value, name, declared)
        return value if isinstance(value, str | int | float) else None

    def _guess(self, seen: Value, name: str, declared: str) -> Value:
        """Without kinds: a number near one that training tasks give, a text of that field."""
        rng, exemplars = self._rng, self._graph.exemplars
        alike = [v for (_, n), values in exemplars.items() if n == name for v in values]
        if declared in ("integer", "number") and not isinstance(seen, bool):
            near = seen if isinstance(seen, int | float) else rng.choice(alike or [5])
            if isinstance(near, int | float) and rng.random() < JITTER:
                drawn = max(1.0, near * rng.uniform(0.5, 2.0))
                return round(drawn) if declared == "integer" else round(2 * drawn) / 2
            return near
        held = self._live.held(name) or self._live.beside(seen)
        there = [value for value in held if isinstance(value, str)]
        texts = listed("texts", name) if isinstance(seen, str) and not there else ()
        if texts and rng.random() < FROM_LIST:
            return rng.choice(texts)
        if there and (seen is None or rng.random() < FROM_STATE):
            return rng.choice(there)
        return seen if seen is not None else rng.choice(alike) if alike else None

    def _exemplar(self, tool: str, name: str) -> Value:
        known = self._graph.exemplars.get((tool, name), ())
        return self._rng.choice(known) if known else None

    def _number(self, kind: str, declared: str) -> Scalar:
        known = self._domains.numbers[kind]
        low, high = known.range
        value = self._rng.uniform(low, min(high, 20 * low + 400))
        value = max(value, PLURAL) if known.whole else value
        if declared == "integer":
            return int(value)
        if known.whole and self._rng.random() < MOSTLY:
            return float(int(value))
        return round(value, 2)


def _formed(codes: Sequence[Scalar], models: Sequence[Value]) -> Sequence[Scalar]:
    """The codes of the models' form: `B-12` as `B-7`, else `MAY26` as `VIP5`; else all of them."""
    for letters in ("", "[A-Za-z]+"):  # renamed codes may have other letters
        known, found = ([_form_of(v, letters) for v in vs] for vs in (models, codes))
        if alike := [code for code, form in zip(codes, found, strict=True) if form in known]:
            return alike
    return codes


def _form_of(code: object, letters: str) -> str:
    form = re.sub(r"\d+", "0", str(code))
    return re.sub(letters, "A", form) if letters else form

"""Augmented feedback: a wrapper of any world that says after a failed call what would help.

Owns the wrapper and what can be known of any tool: missing, unknown or mistyped parameters with the
signature, nearest names, where a value was found instead. What only one world knows it says by
itself (`HintSource`). Never touches a call that succeeded, a state or a verdict, never names a tool
that is not offered in this turn, never sees the ground truth. From Environment Tuning
(arXiv 2510.10197), whose released environment says such things within its errors.

    world = hinted(environment.open(task))
    world.call(ToolCall("cat", {"file_name": "a.txt"})).content     # "... Hint: 'a.txt' is in ..."
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol, runtime_checkable

from rods.abilities import Wrapper, ability
from rods.dialects.base import nested, signature
from rods.env import HintSource, World, called
from rods.errors import EnvError
from rods.types import ToolCall, ToolResult, ToolSpec, allows_null, json_choices, json_type

MARK = "\nHint: "  # Between what the world said and the hint
CUTOFF = 0.6  # Likeness from which a name is near
MOST_CHARS = 80  # Longer names and values are never quoted: what is quoted exists as it stands
MOST_NAMES = 2_000  # Names of a state that are compared with a value
DEPTH = 12
_SECRET = re.compile(r"token|passw|secret|credential", re.IGNORECASE)
TYPES: Mapping[str, tuple[type, ...]] = {  # Python's types of JSON's; the last one is the usual one
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "array": (list,), "object": (dict,),
}  # fmt: skip


class HintedWorld(Wrapper[World]):
    """A world whose failed calls are answered with hints; all else is the world's own."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self.begin_turn, self.offered, self.close = inner.begin_turn, inner.offered, inner.close
        self.end_turn, self.snapshot = inner.end_turn, inner.snapshot  # they know of no hint

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call; the very result where it succeeded or nothing would help."""
        result = called(self.inner, call)
        found = hint_of(self.inner, call, result) if result.failed else ""
        return ToolResult(f"{result.content}{MARK}{found}", failed=True) if found else result


hinted = HintedWorld  # Puts a world, which must be in no turn yet, into a wrapper that gives hints


@runtime_checkable
class _Shown(Protocol):
    """A world whose state can be looked at."""

    def public_state(self) -> Mapping[str, object]: ...


def hint_of(world: World, call: ToolCall, result: ToolResult) -> str:
    """Hint after a failed call, or nothing: of the call itself, of what the world knows,
    of where its values are. A tool that is not offered was not run: its name alone is looked at.
    """
    offered = {spec.name: spec for spec in world.offered()}
    found = call_hint(call, offered)
    if any(one.name not in offered for one in nested(call)):
        return found
    if not found and (source := ability(world, HintSource)):
        found = source.hint(call, result)
    if not found and (shown := ability(world, _Shown)):
        with suppress(EnvError):  # of a state that cannot be read nothing is known
            found = value_hint(call, result.content, shown.public_state())
    return found


def call_hint(call: ToolCall, offered: Mapping[str, ToolSpec]) -> str:
    """Fault of a call, nested ones included, by the descriptions of tools alone."""
    for one in nested(call):
        spec = offered.get(one.name)
        if spec is None:
            folded = {other.casefold(): other for other in offered}
            near = difflib.get_close_matches(one.name[:MOST_CHARS].casefold(), folded, 2, CUTOFF)
            tools = " and ".join(signature(offered[folded[other]]) for other in near)
            return f"The nearest that can be called now: {tools}." if near else ""
        if found := _argument_hint(one, spec):
            return found
    return ""


def _argument_hint(call: ToolCall, spec: ToolSpec) -> str:
    known = spec.properties
    missing = [name for name in known if name in spec.required and name not in call.arguments]
    surplus = [name for name in call.arguments if name not in known]
    open_ended = spec.parameters.get("additionalProperties") not in (None, False)
    faults = [f"{name} is missing" for name in missing]
    for name in [] if open_ended else surplus:
        near = difflib.get_close_matches(name[:MOST_CHARS], known, 1, CUTOFF)
        instead = f"; the nearest is {near[0]}" if near else ""
        faults.append(f"there is no such parameter as {name[:MOST_CHARS]}{instead}")
    for name, value in call.arguments.items():
        fault = _value_fault(name, value, known.get(name, {}), name in spec.required)
        faults += [fault] if fault else []
    if not faults:
        return ""
    optional = "" if set(known) <= set(spec.required) else "; what has a ? may be left out"
    return f"{'; '.join(faults[:3])}. The function is {signature(spec)}{optional}."


def has_type(value: object, kind: str) -> bool:
    """True if a value is of this type of JSON; any value is of a type that is not known."""
    numeric = kind in ("integer", "number")
    return isinstance(value, TYPES.get(kind, object)) and not (numeric and isinstance(value, bool))


def _value_fault(name: str, value: object, schema: Mapping[str, object], required: bool) -> str:
    """Why a value cannot be right by its schema, or nothing."""
    if isinstance(value, ToolCall) or (value is None and (allows_null(schema) or not required)):
        return ""
    kind, choices = json_type(schema), json_choices(schema)
    if not has_type(value, kind):
        return f"{name} must be of type {kind}"
    if choices and value not in choices:
        return f"{name} must be one of {quoted(choices)}"
    return ""


def value_hint(call: ToolCall, error: str, state: Mapping[str, object]) -> str:
    """Where the values of a call are in a public state, or the nearest names that are there.

    Only names are looked at: keys, and what stands under `id`, `name`, `..._id` or `..._name`, or
    as a text in a list. A value that is there is only told of where the error speaks of it, and
    tokens and passwords are compared with nothing.
    """
    texts = [
        (name, item)
        for name, value in call.arguments.items()
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, str) and 0 < len(item) <= MOST_CHARS and not _SECRET.search(name)
    ]
    places: dict[str, str] = {}
    for text, place in islice(_names(state, "", 0), MOST_NAMES):
        places.setdefault(text, place)
    found: list[str] = []
    for name, text in texts:
        near = [] if text in places else difflib.get_close_matches(text, places, 2, CUTOFF)
        if near:
            found.append(f"nearest to {name} are {quoted(near)}")
        elif text in places and text in error:
            found.append(f"{text!r} is in {places[text]}")
    return f"{'; '.join(found[:2])}." if found else ""


def _names(value: object, place: str, depth: int) -> Iterator[tuple[str, str]]:
    """Names in a plain value, each with the place where it stands."""
    if depth > DEPTH:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{place}.{key}" if place else str(key)
            if depth > 1 and len(str(key)) <= MOST_CHARS:  # classes and attributes are not values
                yield str(key), place
            named = str(key) in ("id", "name") or str(key).endswith(("_id", "_name"))
            if named and isinstance(item, str | int) and len(str(item)) <= MOST_CHARS:
                yield str(item), place
            yield from _names(item, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, str) and len(item) <= MOST_CHARS:
                yield item, place
            yield from _names(item, place, depth + 1)


def quoted(values: Sequence[object], most: int = 12) -> str:
    """Values as a program writes them, separated by commas; `...` stands for more than so many."""
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")

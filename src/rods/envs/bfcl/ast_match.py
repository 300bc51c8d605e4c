"""The benchmark's match of single-turn calls: are calls among the accepted ones?

Owns the rules of values. A call names the function, gives every required parameter and none that
is unknown; each value has the declared type (or that of an accepted value) and is among the
accepted ones. Texts are compared without case, spaces and ,./-_*^ (in lists and objects one level
deep). An accepted value `""` says that the parameter, or the key, may be left out. Nothing is
executed.

    fault([ToolCall("f", {"x": 1})], functions, [{"f": {"x": [1, 2]}}], "simple_python")    # ""
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rods.dialects.base import mapped
from rods.types import ToolCall, Value

Accepted: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]
"""One call: its function's name, and the accepted values of each parameter."""

LEFT_OUT = ""  # An accepted value that allows the parameter to be missing
_TYPES: Mapping[str, type[Any]] = {
    "string": str, "any": str, "integer": int, "float": float, "boolean": bool, "array": list,
    "tuple": list, "dict": dict,
}  # fmt: skip
_NESTING = ("array", "tuple")
_IGNORED = re.compile(r"[ ,./\-_*^]")


def fault(
    calls: Sequence[ToolCall],
    functions: Sequence[Mapping[str, object]],
    accepted: Sequence[Accepted],
    category: str,
) -> str:
    """Why calls are not the accepted ones, in a few words; empty where they are.

    `functions` is the benchmark's documentation. Calls of a parallel category may be in any order.
    """
    if len(calls) != len(accepted):
        return "wrong number of calls"
    if "parallel" not in category:
        return _call_fault(calls[0], functions, accepted[0])
    left = list(calls)
    for wanted in accepted:
        faults = [_call_fault(call, functions, wanted) for call in left]
        if "" not in faults:
            return "a call is missing or differs"
        del left[faults.index("")]  # by place: f(x=2) equals f(x=2.0), but may not be accepted
    return ""


def _call_fault(call: ToolCall, functions: Sequence[Mapping[str, Any]], accepted: Accepted) -> str:
    ((name, values),) = accepted.items()
    function = next((f for f in functions if f["name"] == name), None)
    if function is None or call.name != name:
        return "wrong function"
    schema = function["parameters"]
    given = {key: plain(value) for key, value in call.arguments.items()}
    if any(key not in given for key in schema.get("required", ())):
        return "a required parameter is missing"
    for key, value in given.items():
        if key not in schema["properties"] or key not in values:
            return "an unexpected parameter"
        why = _value_fault(value, schema["properties"][key], values[key])
        if why:
            return why
    if any(key not in given and LEFT_OUT not in options for key, options in values.items()):
        return "a parameter is missing"
    return ""


def plain(value: Value) -> Any:
    """A value as the benchmark's reader has it: a nested call is an object, or its text."""
    return mapped(value, _plain_call)


def _plain_call(call: ToolCall) -> object:
    arguments = {key: plain(inner) for key, inner in call.arguments.items()}
    return {call.name: arguments} if arguments else str(call)


def _value_fault(value: Any, schema: Mapping[str, Any], accepted: Sequence[Any]) -> str:
    kind = _TYPES.get(schema["type"])
    inner = _TYPES.get(schema.get("items", {}).get("type")) if schema["type"] in _NESTING else None
    whole = kind is float and type(value) is int and abs(value) < 2**1023  # a float can hold it
    value = float(value) if whole else value
    theirs = _kind_of(accepted)
    if type(value) is kind:
        if inner is not None and not _items_fit(value, inner, accepted):
            return "a value has the wrong type"
        # Where the accepted values are of another type they stand for a variable.
        literal = theirs is None or theirs is kind
    elif theirs is not None and type(value) is theirs:
        literal = False
    else:
        return "a value has the wrong type"
    if literal and kind is dict:
        right = _object_among(value, accepted)
    elif literal and kind is list and inner is dict:
        same = (zip(value, one, strict=True) for one in accepted if len(one) == len(value))
        right = any(all(_object_among(item, [its]) for item, its in pairs) for pairs in same)
    elif literal and kind is str:
        right = _bare(value) in [_bare(one) for one in accepted if isinstance(one, str)]
    elif literal and kind is list:
        right = [*map(_bare, value)] in [[*map(_bare, one)] for one in accepted]
    else:
        right = value in accepted
    return "" if right else "a value is wrong"


def _kind_of(accepted: Sequence[object]) -> type[Any] | None:
    """Type of the first accepted value; None: they only say that it may be left out."""
    return next((type(one) for one in accepted if one != LEFT_OUT), None)


def _items_fit(value: Sequence[object], inner: type, accepted: Sequence[object]) -> bool:
    """True if all items have the declared type, or that of the items of one accepted list."""
    return any(
        not isinstance(one, list) or all(type(item) in (inner, _kind_of(one)) for item in value)
        for one in accepted
    )


def _object_among(value: object, accepted: Sequence[Any]) -> bool:
    return any(one != LEFT_OUT and _object_fits(value, one) for one in accepted)


def _object_fits(value: object, wanted: Mapping[str, Sequence[Any]]) -> bool:
    """True if each key's value is among those that are accepted for it, and no key is missing."""
    if not isinstance(value, dict):
        return False
    given: dict[str, Any] = value
    for key, found in given.items():
        if key not in wanted or _bare(found) not in [_bare(one) for one in wanted[key]]:
            return False
    return all(key in given or LEFT_OUT in options for key, options in wanted.items())


def _bare(value: object) -> Any:
    """A text without case and what is ignored; anything else as it is."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value

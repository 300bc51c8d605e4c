"""Checks arguments against their types: JSON types, lists of options, dates, codes, ranges.

Owns the form of a value in a tool's documentation. It reads the schema first, then the plain words
of the description. Never looks at a world, so it does not know which values exist there.

    mistyped(spec, {"day": "2026-10-32"})       # ["day='2026-10-32' is not a date (YYYY-MM-DD)"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from rods.synthesis.structure.mentions import iso
from rods.types import ToolCall, ToolSpec, allows_null, json_choices, json_type

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "float": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "dict": (dict,),
    "object": (dict,),
}
"""What a declared type may hold; a boolean is not a number."""
_OPTIONS = re.compile(r"\b(?:options|possible values|allowed values)(?: are)?: *([\w, '\"]+)", re.I)
_BETWEEN = re.compile(r"between (-?\d+(?:\.\d+)?)(?: \([^)]*\))? and (-?\d+(?:\.\d+)?)")
_MULTIPLE = re.compile(r"multiple of (\d+)")
_ISO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")


def _is_month(text: str) -> bool:
    found = re.fullmatch(r"(\d\d)/(\d{4})", text)
    return found is not None and 1 <= int(found[1]) <= 12


def _is_time(text: str) -> bool:
    found = re.fullmatch(r"(\d\d?):(\d\d)(?::(\d\d))?", text)
    return found is not None and int(found[1]) < 24 and int(found[2]) < 60 > int(found[3] or 0)


FORMS: tuple[tuple[re.Pattern[str], str, Callable[[str], bool]], ...] = (
    (re.compile(r"YYYY-MM-DD"), "a date (YYYY-MM-DD)", lambda text: iso(text) is not None),
    (re.compile(r"MM/YYYY"), "a month (MM/YYYY)", _is_month),
    (re.compile(r"HH:MM"), "a time (HH:MM)", _is_time),
    (
        re.compile(r"\bzip ?code\b", re.I),
        "a zip code of five digits",
        lambda text: re.fullmatch(r"\d{5}(?:-\d{4})?", text) is not None,
    ),
    (
        re.compile(r"\b(?:3|three)[ -]letter code\b", re.I),
        "a code of three capitals",
        lambda text: re.fullmatch(r"[A-Z]{3}", text) is not None,
    ),
)
"""What a description speaks of, what that is called, and which texts are one."""


def mistyped(spec: ToolSpec, arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the form of these arguments, one line each; unknown names are not told."""
    properties = spec.properties
    return [
        f"{name}={value!r} is not {wanted}"
        for name, value in arguments.items()
        if name in properties and not isinstance(value, ToolCall)
        for wanted in _wanted(value, properties[name], name)
    ]


def _wanted(value: object, schema: Mapping[str, Any], name: str) -> Iterator[str]:
    """What a value should be and is not."""
    if value is None and allows_null(schema):
        return
    declared = json_type(schema)
    types = TYPES.get(declared)
    boolean = isinstance(value, bool) and declared != "boolean"
    if types and (boolean or not isinstance(value, types)):
        yield f"of type {declared}"
        return
    options = _options(schema)
    if options and value not in options:
        yield f"one of {options}"
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in cast("list[object]", value):
            yield from _wanted(item, cast("Mapping[str, Any]", schema["items"]), name)
    text = str(schema.get("description", ""))
    if isinstance(value, str):
        yield from _form(value, text, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _range(value, schema, text)


def _options(schema: Mapping[str, Any]) -> list[object]:
    """What the value may be, where that is listed; empty: anything."""
    if choices := json_choices(schema):
        return [*choices]
    found = _OPTIONS.search(str(schema.get("description", "")))
    words = re.findall(r"\w+", found[1]) if found else []
    return [word for word in words if word not in ("and", "or")]


def _form(value: str, description: str, name: str) -> Iterator[str]:
    for pattern, what, fits in FORMS:
        if pattern.search(description):
            if not fits(value):
                yield what
            return
    if (
        re.search(r"(?:^|_)date(?:$|_)|Date\b", name)
        and _ISO.fullmatch(value)
        and iso(value) is None
    ):
        yield "a date of the calendar"


def _range(value: float, schema: Mapping[str, Any], description: str) -> Iterator[str]:
    between = _BETWEEN.search(description)
    low = schema.get("minimum", float(between[1]) if between else None)
    high = schema.get("maximum", float(between[2]) if between else None)
    if (low is not None and value < low) or (high is not None and value > high):
        yield f"between {low} and {high}"
    step = _MULTIPLE.search(description)
    if step and value % int(step[1]):
        yield f"a multiple of {step[1]}"

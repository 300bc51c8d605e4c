"""Checks arguments against their types: JSON types, lists of options, dates, codes, ranges.

It reads the schema first, then the plain words of the description. It knows no world.

    mistyped(spec, {"day": "2026-10-32"})       # ["day='2026-10-32' is not a date (YYYY-MM-DD)"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from rods.synthesis.structure.mentions import iso
from rods.types import ToolCall, ToolSpec, allows_null, json_choices, json_type

TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "float": (int, float), "number": (int, float),
    "boolean": (bool,), "array": (list,), "dict": (dict,), "object": (dict,),
}  # fmt: skip
"""What a declared type may hold; a boolean is not a number."""
_OPTIONS = re.compile(r"\b(?:options|possible values|allowed values)(?: are)?: *([\w, '\"]+)", re.I)
_BETWEEN = re.compile(r"between (-?\d+(?:\.\d+)?)(?: \([^)]*\))? and (-?\d+(?:\.\d+)?)")
_MULTIPLE = re.compile(r"multiple of (\d+)")
_ISO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")

_DAY, _TIME = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", r"(?:[01]\d|2[0-3]):[0-5]\d\S*"
_FORMS = (
    (r"YYYY-MM-DDTHH:MM", "a day with a time (YYYY-MM-DDTHH:MM)", f"{_DAY}T{_TIME}"),
    (r"YYYY-MM-DD HH:MM", "a day with a time (YYYY-MM-DD HH:MM)", f"{_DAY} {_TIME}"),
    (r"YYYY-MM-DD", "a date (YYYY-MM-DD)", ""),
    (r"MM/YYYY", "a month (MM/YYYY)", r"(?:0[1-9]|1[0-2])/\d{4}"),
    (r"HH:MM", "a time (HH:MM)", r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?"),
    (r"(?i)\bzip ?code\b", "a zip code of five digits", r"\d{5}(?:-\d{4})?"),
    (r"(?i)\b(?:3|three)[ -]letter code\b", "a code of three capitals", r"[A-Z]{3}"),
)
"""What a description speaks of, its name, and which texts are one (of dates, the calendar's)."""


def mistyped(spec: ToolSpec, arguments: Mapping[str, object]) -> list[str]:
    """Faults in the form of these arguments, one line each; unknown names are left out."""
    properties = spec.properties
    return [
        f"{name}={value!r} is not {wanted}"
        for name, value in arguments.items()
        if name in properties and not isinstance(value, ToolCall)
        for wanted in _wanted(value, properties[name], name)
    ]


def _wanted(value: object, schema: Mapping[str, Any], name: str) -> Iterator[str]:
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
        for item in value:
            yield from _wanted(item, cast("Mapping[str, Any]", schema["items"]), name)
    text = str(schema.get("description", ""))
    if isinstance(value, str):
        yield from _form(value, text, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _range(value, schema, text)


def _options(schema: Mapping[str, object]) -> list[object]:
    """Return what the value may be, where that is listed; empty: anything."""
    if choices := json_choices(schema):
        return [*choices]
    found = _OPTIONS.search(str(schema.get("description", "")))
    words = re.findall(r"\w+", found[1]) if found else []
    return [word for word in words if word not in ("and", "or")]


def _form(value: str, description: str, name: str) -> Iterator[str]:
    for pattern, what, form in _FORMS:
        if re.search(pattern, description):
            if not (re.fullmatch(form, value) if form else iso(value)):
                yield what
            return
    named = re.search(r"(?:^|_)date(?:$|_)|Date\b", name)
    if named and _ISO.fullmatch(value) and iso(value) is None:
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

"""Noun phrases of arguments, made of their names and descriptions.

noun_phrase("member_id", schema, "lend a book to a member")        # ("member", "")
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rods.infra.files import toml_of
from rods.synthesis.structure.words import article, noun, patterns, thing
from rods.types import json_choices, json_type

_WHERE = ("writers", "templates", "described.toml")
_P, _DATA = patterns(*_WHERE), toml_of(*_WHERE)
_BY, _WHEN, _CODE, _UNITS = (_DATA[name] for name in ("by", "when", "codes", "units"))
_GIVEN = _P["given"].pattern


def moments(schema: Mapping[str, object]) -> set[str]:
    """Whether a text is a day or a time of day."""
    return {*re.findall("YYYY|HH:MM", str(schema.get("description", "")))}


def noun_phrase(name: str, schema: Mapping[str, object], base: str) -> tuple[str, str]:
    """What an argument is called, and its unit: `code` of `Cancel a booking` is a `booking`."""
    about, kind = about_of(schema), json_type(schema)
    if kind in ("integer", "number") and (measured := _measured(name, schema, base)):
        return measured
    kinds = {"date": "YYYY", "day": "YYYY", "time": "HH:MM"}
    for moment in _P["moment"].finditer(base):
        if kinds[moment[1]] in moments(schema):
            return moment[1], ""
    phrase = _P["around"].sub("", about)  # the new phone number, ID of the duplicate ticket
    if " " in phrase and re.search(rf"\b{re.escape(phrase)}\b", base):
        return phrase, ""
    which = re.match(r"which (\w+)", about)  # `sku` says which item of `Ship an item`
    if which and re.search(rf"\ban? {which[1]}\b", base):
        return which[1], ""
    if re.search(rf"\b{noun(name)}\b", base) and not _P["before"].match(noun(name)):
        return noun(name), ""
    last = noun(name).rpartition(" ")[2]
    if re.search(rf"\b(?:another|an? (?:different|new|other)) {last}\b", base):
        return last, ""  # to another fridge
    what = thing(name)
    what += "s" if kind in ("array", "list") and re.search("[a-z]{2}[b-z]$(?<!s)", what) else ""
    if re.search(rf"(?<![\w{{]){re.escape(what)}(?![\w}}])", base, re.I):
        return what, ""
    one = rf"\b(?:an?|another) {_GIVEN}?(?!new\b)"
    pairs = re.findall(rf"{one}(\w+ \w+)", base)  # a team member
    for other in pairs + re.findall(rf"{one}(\w+)", base) + re.findall(rf"{one}\w+ (\w+)", base):
        code = rf"\b(?:{_CODE}|\w*name) of (the|an?) {other}\b|^the {other}\b"
        code = rf"\b{other} (?:{_CODE})\b|{code}"
        own = re.search(rf"\b{re.escape(what)} of\b", about)
        if (re.search(code, about) and not own) or (other == "name" and "name" in about.split()):
            return other, ""
    return what, ""


def _measured(name: str, schema: Mapping[str, object], base: str) -> tuple[str, str] | None:
    """What a number counts, or what it measures in which unit."""
    if counted := _P["counted"].match(about_of(schema)):
        last = counted[1].split()[-1]  # extra nights
        return last if f"number of {last}" in base else counted[1], ""
    stated = re.split(r"[.,;:(]", str(schema.get("description", "")))[0].strip()
    unit = _P["unit"].search(str(schema.get("description", "")))
    stated = stated if " in " in f" {stated}" else ""
    for text in (stated, noun(name), f"{noun(name)} {unit[1]}" if unit else ""):
        if (measured := _P["measured"].fullmatch(text)) is None:
            continue
        what = _P["of_what"].sub("", _P["to_what"].sub("", (measured[1] or "").lower()))
        what = what if len(what.split()) < 4 else noun(name)
        short = [] if re.search(r" (?:to|for|from|in|between) ", what) else what.split()[-1:]
        held = (x for x in (noun(name), *short) if re.search(rf"\b{re.escape(x)}\b", base))
        what = next(held, what)
        known = what in base or measured[2] == "seconds"
        lasts = _P["lasts"].search(what) and not known
        if not what or what == measured[2] or lasts or base.partition(" ")[0] in _BY:
            return measured[2], ""
        return what, measured[2]
    return None


def value_phrase(name: str, what: str, unit: str, schema: Mapping[str, object], found: str) -> str:
    """The noun phrase around a value, whose place in the sentence holds `found`."""
    kind, about = json_type(schema), about_of(schema)
    number, one = kind in ("integer", "number"), article(what)
    mark = rf"\b(?:{_CODE})s?\b|^(?:the|which) {re.escape(what)}\b"
    if kind in ("dict", "object", "boolean"):
        return f"{what} set to {{}}" if kind == "boolean" else f"the {what} ({{}})"
    if number and unit and not found.endswith("money"):
        return f"{found or f'{one} {what}'} of {{}} {unit}"
    if number and unit:
        return f"{{}} {unit}"
    if number and (_P["many"].search(what) or re.fullmatch(_UNITS, what, re.I)):
        whose = "" if found.endswith((what, "money", "percentage")) else found and f"{found} of "
        return f"{whose}{{}} {what}"
    coded = (number and _P["nth"].match(about)) or re.search(rf" (?:{_CODE})$", what)
    if found and (coded or (what != noun(name) and re.search(mark, f"{noun(name)} {about}"))):
        return f"{'the ' * bool(_P['adjective'].match(what))}{what} {{}}"
    if found and number:
        return f"{found} of {{}}"
    if found and (kinds := _P["kinds"].match(about)) and what not in kinds[0]:
        return f"{found} of {kinds[1][:-4]} {{}}"
    adjective = found and all(str(v).islower() for v in json_choices(schema) or [""])
    return f"the {{}} {what}" if adjective else f"the {what} {{}}"


def preposition(what: str, schema: Mapping[str, object]) -> str:
    """What stands before a day or a time alone; empty before all else."""
    text = str(schema.get("description", ""))
    if "YYYY" in text and (_P["day"].match(about_of(schema)) or what in ("day", "date")):
        return "on"
    return _WHEN.get(what, "at" if "HH:MM" in text else "") if json_type(schema) == "string" else ""


def about_of(schema: Mapping[str, object]) -> str:
    """The first sentence of a parameter's description, in lower case."""
    return re.split(r"[.,;:(]", str(schema.get("description", "")))[0].strip().lower()

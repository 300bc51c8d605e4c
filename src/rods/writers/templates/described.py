"""Templates of tools that nobody wrote any for, made of their own descriptions.

Owns where a value stands in the sentence of a description, and what it is called there. Never
chooses or executes a call; how templates are used is `phrases.py`'s.

    from_description(spec).say                              # ("lend {book_id} to {member_id}",)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rods.synthesis.structure.words import noun, order_of, thing
from rods.types import ToolSpec, json_choices, json_type
from rods.writers.templates.wording import Wording

_LEAD = r"(?:(?:a number of|an amount of|some|so many|a|an|another|one|the|its|their) )"
_RETURNED = re.compile(r",? and (?:returns?|gives? back|yields?) .*")
"""What a program gets, of which no user speaks."""
_GIVEN = r"(?:(?:given|certain|particular|specific|single) )"
_PARTS = "data|details|information|number|code|name|list|form|type|status|history|address|time|date"
"""Nouns before which another one says what kind they are: `contact data`."""
_CODE = "code|id|identifier|number|key|reference"
_COUNTED = re.compile(
    r"(?:(?:the )?(?:new |total )?number of|how many) (?!the\b)((?:\w+ )??(?:\w+s|people))\b"
)
"""A parameter's description that says what is counted: `How many people are coming`."""
_by = "extend shorten prolong increase decrease reduce raise lower delay postpone"
_BY = frozenset(_by.split())
_TO = frozenset(("change", "set", "update", "adjust", "resize", "limit"))
"""Verbs that take an amount with `by`, and with `to`."""
_ALSO = {"euros": "|money", "dollars": "|money", "amount": "|payment", "percent": "|percentage"}
"""What a sentence calls that of which a number says how much."""
_UNIT = re.compile(r"(?:^| )(km|kg|percent)$")
_WHEN = {"day": "on", "date": "on", "time": "at"}
_THEN = re.compile(r" and \w+ (?:the|it|its|their)\b")
"""A second thing that a tool does, behind which `with` is lost: `and take the car away`."""


def from_description(spec: ToolSpec, given: Collection[str] = ()) -> Wording:
    """Templates for a call with these arguments, and with all that are required.

    A value takes its place where the description names its thing: `Lend a book to a member` becomes
    `lend {book_id} to {member_id}`, said as `lend book B-7 to member M-2`. What is not named there
    follows the thing that it identifies, or stands at the end.
    """
    base, amounts = _RETURNED.sub("", order_of(spec)), ""
    then = _THEN.search(base)
    nouns: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for name, schema in spec.properties.items():
        if name not in spec.required and name not in given:
            continue
        what = nouns[name] = _noun(name, schema, base)
        also = f"{re.escape(_UNIT.sub('', what) or what)}{_ALSO.get(what, '')}"
        place = re.compile(
            rf"(?<![\w{{]){_LEAD}?{_GIVEN}?(?:{also})(?![\w}}])(?! (?:{_PARTS})\b)", re.I
        )
        required = name in spec.required and f"number of {what}" not in base
        found = place.search(base, 1) if required else None
        form, slot = _form(name, what, schema, found.group() if found else ""), f"{{{name}}}"
        named[name] = (form,)
        if found:
            after = base[found.end() :]
            after = re.sub("^ of ", " for ", after) if " of {}" in form else after
            base = base[: found.start()] + slot + after
        elif form.startswith("{} ") and not _UNIT.search(what):
            verb = base.partition(" ")[0]
            amounts += f" {'by' if verb in _BY else 'to' if verb in _TO else 'for'} {slot}"
        elif required and (near := _owner(schema, base)):
            base = base[: near.end()] + f" with {slot}" + base[near.end() :]
        elif what in _WHEN and what not in base:
            base, named[name] = f"{base} {_WHEN[what]} {slot}", ("{}",)
        elif " " not in base and what != noun(name):
            base += f" {slot}"
        else:
            rest.append(slot)
            named[name] = (form.removeprefix("the ") if then else form,)
    joined = " and ".join(filter(None, (", ".join(rest[:-1]), *rest[-1:])))
    last = f" ({joined})" if then else f" with {joined}"
    say = base + amounts + (last if rest else "")
    return Wording((say,), named=named, nouns=nouns, described=True)


def _noun(name: str, schema: Mapping[str, Any], base: str) -> str:
    """What an argument is called: its own thing, else one of the sentence that it identifies.

    `Cancel a booking` takes the `code` that is described as `The booking code`.
    """
    about, kind = _about(schema), json_type(schema)
    if kind in ("integer", "number") and (counted := _COUNTED.match(about)):
        return counted[1]
    what = thing(name)
    what += "s" if kind in ("array", "list") and not what.endswith("s") else ""
    if re.search(rf"(?<![\w{{]){re.escape(what)}(?![\w}}])", base, re.I):
        return what
    for other in re.findall(r"\ban? (\w+)", base):
        code = rf"\b{other} (?:{_CODE})\b|\b(?:{_CODE}) of (?:the|an?) {other}\b|^the {other}\b"
        if re.search(code, about) or (other == "name" and re.search(r"\bname\b", about)):
            return other
    label = re.fullmatch(r"(?:the |an? )?((?:[\w-]+ ){1,2}(\w+))", about)
    own = label and label[2] == noun(name).rpartition(" ")[2]
    if label and (own or re.match(r"(?:date|place|time|kind|type) of ", label[1])):
        return label[1]
    return noun(name) if re.search(rf" (?:{_CODE})$", noun(name)) and what == noun(name) else what


def _owner(schema: Mapping[str, Any], base: str) -> re.Match[str] | None:
    """Where the thing of an argument stands: `a free car` for the `licence plate of the car`."""
    of = re.search(r" of (?:the|an?) (\w+)$", _about(schema))
    return re.search(rf"\ban? (?:\w+ )?{of[1]}(?= (?!with\b)\w)", base) if of else None


def _form(name: str, what: str, schema: Mapping[str, Any], found: str) -> str:
    """The noun phrase around a value, whose place in the sentence holds `found`."""
    kind, about = json_type(schema), _about(schema)
    number = kind in ("integer", "number")
    mark = rf"\b(?:{_CODE})s?\b|^(?:the|which) {re.escape(what)}\b"
    if kind in ("dict", "object"):
        return f"the {what} ({{}})"
    if kind == "boolean":
        return f"{what} set to {{}}"
    if number and (unit := _UNIT.search(what)) and (unit.start() or not found):
        lead = f"{found or f'a {what[: unit.start()]}'} of " if unit.start() else ""
        return f"{lead}{{}} {unit[1]}"
    if number and what.startswith(("min ", "max ")):
        return f"at {'least' if what[1] == 'i' else 'most'} {{}} {what[4:]}"
    if number and (what.endswith("s") or what == "people"):
        return f"{{}} {what}"
    if found and what != noun(name) and re.search(mark, f"{noun(name)} {about}"):
        return f"{what} {{}}"
    if found and number:
        return f"{found if found.lower() != what else f'a {what}'} of {{}}"
    return f"the {{}} {what}" if found and json_choices(schema) else f"the {what} {{}}"


def _about(schema: Mapping[str, Any]) -> str:
    """The first sentence of a parameter's description, in lower case."""
    return re.split(r"[.,;:(]", str(schema.get("description", "")))[0].strip().lower()

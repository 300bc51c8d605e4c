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
"""Verbs by which, and to which, an amount is said."""


def from_description(spec: ToolSpec, given: Collection[str] = ()) -> Wording:
    """Templates for a call with these arguments, and with all that are required.

    A value takes its place where the description names its thing: `Lend a book to a member` becomes
    `lend {book_id} to {member_id}`, said as `lend book B-7 to member M-2`. What is not named there
    follows at the end.
    """
    base, amounts = _RETURNED.sub("", order_of(spec)), ""
    nouns: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for name, schema in spec.properties.items():
        if name not in spec.required and name not in given:
            continue
        what = nouns[name] = _noun(name, schema, base)
        place = re.compile(
            rf"(?<![\w{{]){_LEAD}?{_GIVEN}?{re.escape(what)}(?![\w}}])(?! (?:{_PARTS})\b)", re.I
        )
        told = name in spec.required and f"number of {what}" not in base
        found = place.search(base) if told else None
        form, slot = _form(name, what, schema, found.group() if found else ""), f"{{{name}}}"
        named[name] = (form,)
        if found and found.start():
            base = base[: found.start()] + slot + base[found.end() :]
        elif form.startswith("{} "):
            verb = base.partition(" ")[0]
            amounts += f" {'by' if verb in _BY else 'to' if verb in _TO else 'for'} {slot}"
        elif " " not in base and what != noun(name):
            base += f" {slot}"
        else:
            rest.append(slot)
    joined = " and ".join(filter(None, (", ".join(rest[:-1]), *rest[-1:])))
    say = base + amounts + (f" with {joined}" if rest else "")
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


def _form(name: str, what: str, schema: Mapping[str, Any], found: str) -> str:
    """The noun phrase around a value, whose place in the sentence holds `found`."""
    kind, about = json_type(schema), _about(schema)
    number = kind in ("integer", "number")
    mark = rf"\b(?:{_CODE})s?\b|^(?:the|which) {re.escape(what)}\b"
    if kind in ("dict", "object"):
        return f"the {what} ({{}})"
    if kind == "boolean":
        return f"{what} set to {{}}"
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

"""How one call is said: clauses with slots, and every text that may fill a slot.

Tools for which nobody wrote templates get wordings made of their own descriptions.

    ways(wording, "loan_id", 12345)                         # ["loan 12345", "my loan 12345"]
    from_description(spec).say                              # ("lend {book_id} to {member_id}",)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from rods.synthesis.planned import Producer
from rods.synthesis.structure.words import SLOT, literal, noun, order_of, thing
from rods.types import ToolSpec, Value, json_choices, json_type

FOUND = ("that {}", "the same {}")  # For a value where nobody wrote references for its tool
POINTING = ("that ", "those ", "the same ", "its ")  # Words that point to what was seen last
_LEADS = "using|paid with|paying with|charged to|with|at|of|on|in|from|to|for|under"
_BEFORE = rf"(?:,? (?:and )?(?:{_LEADS}) )"  # What goes with an argument that is dropped


class Wording(NamedTuple):
    """How one tool is asked for."""

    say: tuple[str, ...]  # Clauses in the imperative with a `{slot}` for each required argument
    optional: Mapping[str, tuple[str, ...]] = {}  # Parts to append for optional arguments
    instead: Mapping[str, tuple[str, ...]] = {}
    """Clauses in the place of `say` for a call with this optional argument: one writes a text
    into a file, but prints it where there is none."""
    words: Mapping[str, Mapping[str, str]] = {}  # What enumerated values are called
    named: Mapping[str, tuple[str, ...]] = {}  # Noun phrases around a value: `order {}`
    refer: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """What stands for a value that a result showed, by the tool that showed it. A `{slot}` takes
    an argument of that tool's call (`the branch nearest to {town}`), `{place}` a place in
    the list that it showed (`the {place} branch on it`)."""
    open: Mapping[str, tuple[str, ...]] = {}  # What stands for a value that is left open
    drop: frozenset[str] = frozenset()  # Mostly left open by saying nothing of them
    nouns: Mapping[str, str] = {}  # What an argument is called: `loan` for `loan_id`
    described: bool = False  # Made of a tool's description: general phrases

    @property
    def clauses(self) -> tuple[str, ...]:
        """Every clause."""
        return (*self.say, *(text for texts in self.instead.values() for text in texts))

    def clauses_for(self, names: Collection[str]) -> tuple[str, ...]:
        """The clauses that fit a call with these arguments."""
        return next((self.instead[name] for name in self.instead if name in names), self.say)

    def without(self, say: str, name: str) -> str:
        """A clause that says nothing of an argument; the clause itself where it cannot."""
        if name not in self.drop:
            return say
        slot = re.escape(f"{{{name}}}")
        if self.described:
            first = re.sub(rf"(?<=: ){slot}, |(?<= with ){slot} and ", "", say, count=1)
            rest = re.sub(rf"(?:{_LED}) {slot}(?: as the reason)?", "", say, count=1)
            return first if first != say else rest
        led = rf"^use {slot} (?:to|and) (?!\{{)|(?<=^use ){slot} and "
        short = re.sub(rf"{led}|{_BEFORE}{slot}| and {slot}$", "", say, count=1)
        return say if f"{{{name}}}" in short else short

    def noun(self, name: str) -> str:
        """What people call an argument."""
        return self.nouns.get(name, noun(name))

    def texts(self, name: str, value: Value) -> list[str]:
        """A value in each of its noun phrases."""
        words = self.words.get(name, {})
        forms = self.named.get(name, ("{}",))
        if isinstance(value, dict) and self.described:
            return [_object(form, value) for form in forms]
        if self.described and forms == ("the room {}",):
            forms = ("the {}" if re.fullmatch("[a-z ]+", str(value)) else "room {}",)
        elif self.described and isinstance(value, str) and re.match(r"[a-z]\S* |\S+ [a-z]", value):
            forms = tuple(form.replace("{}", "'{}'") for form in forms)
        elif self.described and (value == 1 or (isinstance(value, list) and len(value) == 1)):
            forms = tuple(map(singular, forms))
        return [_named(form, value, words) for form in forms]

    def asides(self, name: str, value: Value) -> list[str]:
        """A value behind the words that also leave it open: `a file of mine (plan.txt)`."""
        text = literal(value, self.words.get(name, {}))
        return [f"{form} ({text})" for form in self.open.get(name, ()) if _introduces(form)]

    def said(self, name: str, value: Value) -> list[str]:
        """Every text that says a value."""
        return [*self.texts(name, value), *self.asides(name, value)]

    def references(self, name: str, producer: Producer | None) -> list[str]:
        """What may stand for a value that this call's result showed; empty: it must be said."""
        if self.described:
            named = producer is None or name in producer.call.arguments
            return [form.format(self.noun(name)) for form in FOUND[: 1 + named]]
        if producer is None:
            return []
        known = {key: literal(value, {}) for key, value in producer.call.arguments.items()}
        known |= {"place": producer.place} if producer.place else {}
        return [
            SLOT.sub(lambda match: known[match[1]], form)
            for form in self.refer.get(name, {}).get(producer.call.name, ())
            if set(SLOT.findall(form)) <= known.keys()
            and ("{place}" in form) == bool(producer.place)
            and (producer.only or form.startswith(POINTING) or set(SLOT.findall(form)) - {"place"})
        ]

    def opened(self, name: str) -> list[str]:
        """What may stand for a value that is left open."""
        what = self.noun(name)
        one = "an" if what[:1] in "aeiou" else "a"
        one = "some" if self.described and re.search("[^su]s$", what) else one
        return list(self.open.get(name) or (f"{one} {what}",))


def _introduces(form: str) -> bool:
    """Whether words for an open value can stand before the value too."""
    return form.startswith(("my ", "the ", "one of my ")) or form.endswith((" of mine", " I like"))


def ways(
    wording: Wording, name: str, value: Value, producers: Iterable[Producer] = ()
) -> list[str]:
    """Every text that may stand for an argument: its value, a reference, a value left open."""
    found = [*wording.said(name, value), *wording.opened(name)]
    for producer in (*([None] if wording.described else ()), *producers):
        found += wording.references(name, producer)
    return list(dict.fromkeys(found))


def _named(form: str, value: Value, words: Mapping[str, str]) -> str:
    """A value in its noun phrase; each item of a list in quotes where the phrase has quotes."""
    if "'{}'" in form and isinstance(value, list):
        return form.replace("'{}'", literal([f"'{literal(item, words)}'" for item in value], {}))
    return form.replace("{}", literal(value, words))


def _object(form: str, value: Mapping[str, Value]) -> str:
    """An object as people write it down; what has a name by its name: `Femke (phone 06)`."""
    known = {key: literal(item, {}) for key, item in value.items() if item is not None}
    name = known.pop("name", "") if "(" in form else ""
    stated = ", ".join(v if _MOMENT.match(v) else f"{noun(k)} {v}" for k, v in known.items())
    return form.replace("{}", stated) if not name else f"{name} ({stated})" if stated else name


def singular(form: str) -> str:
    """A noun phrase that counts one: `{} day` for `{} days`, `the allergy {}`."""
    words = form.split()
    at = next((i for i in reversed(range(len(words))) if "{" not in words[i]), 0)
    one = {"people": "person"}.get(words[at], re.sub("ies$", "y", words[at]))
    words[at] = re.sub(r"(?<=[^s])s$", "", re.sub(r"(?<=[sxh])es$", "", one))
    return " ".join(words)


_Phrases: TypeAlias = dict[str, tuple[str, str]]  # by argument: its thing, its noun phrase
_file = files("rods").joinpath("writers", "templates", "described.toml")
_PARTS, _CODE, _BY, _TO, _TOWARD, _MAKES, _LASTING, _REPORTED, _ALONE, _WHEN, _ALSO = tomllib.loads(
    _file.read_text(encoding="utf-8")
).values()
_THEN = re.compile(r" and \w+ (?:the|it|its|their)\b")  # A second thing that a tool does
_LEAD = r"(?:(?:a number of|an amount of|some|so many|a|an|another|one|the|its|their) )"
_RETURNED = re.compile(r",? and (?:returns?|gives? back|yields?) .*")  # What a program gets
_BY_CODE = re.compile(r" (?:by|with|using|via) (?:its|their|the|an?) (?:code|id|number|key)$")
_GIVEN = r"(?:(?:given|certain|particular|specific|single) )"
_COUNTED = re.compile(
    r"(?:(?:the )?(?:new |total )?number of|how many) (?!the\b)((?:\w+ )??(?:\w+s|people))\b"
)
"""A parameter's description that says what is counted: `How many people are coming`."""
_UNIT = re.compile(r"(?:^| )(km|kg|percent)$")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d")
_BEHIND = re.compile(r" (?:(at|on|in|and)|of|for|from|to|near|by|until|called) $")
_ELSE = re.compile(r" to (?:another|a different|a new|a later|an earlier) [\w ]+$")
"""What stands for optional values: `to another day or another time`."""
_LED = ",|:| and| with| on| at| under the name| called|, giving"
_MADE = re.compile(rf"(?:{_MAKES}) an? (?:new )?\w+\b(?! of\b)")
_NAMED = re.compile(r"(?:the )?(?:last|full|family|first)? ?name of the \w+$")


def from_description(spec: ToolSpec, given: Collection[str] = ()) -> Wording:
    """Templates for a call with these arguments, and with all that are required.

    A value takes the place of its thing or stands at the end: `Lend a book to a member` becomes
    `lend {book_id} to {member_id}`, said as `lend book B-7 to member M-2`.
    """
    (base, followed), amounts = _clause(spec, given), ""
    verb = base.partition(" ")[0]
    nouns: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    rest: _Phrases = {}
    for name, schema in spec.properties.items():
        if name not in spec.required and name not in given:
            continue
        what = _noun(name, schema, base)
        if kinds := re.search(rf"\ban? (?!new\b|free\b|{_GIVEN})(\w+ {re.escape(what)})\b", base):
            what = kinds[1]  # a repair job
        nouns[name] = what
        also = f"{re.escape(_UNIT.sub('', what) or what)}{_ALSO.get(what, '')}"
        place = re.compile(
            rf"(?<![\w{{]){_LEAD}?{_GIVEN}?(?:{also})(?![\w}}])(?! (?:{_PARTS})\b)", re.I
        )
        required = name in spec.required and f"the number of {what}" not in base
        found = place.search(base, 1) if required else None
        form, slot = _form(name, what, schema, found.group() if found else ""), f"{{{name}}}"
        named[name] = (form,)
        if slot in base:
            named[name] = ("{}",)
        elif found:
            alone = what in _ALONE or re.match(rf"(?:the )?name of the {what}\b", _about(schema))
            if alone and (lead := _BEHIND.search(base[: found.start()])):
                named[name], on = ("{}",), f" {_WHEN.get(what, lead[1])} " if lead[1] else lead[0]
                base = base[: lead.start()] + on + base[found.start() :]
                found = place.search(base, lead.start() + len(on)) or found
            after = base[found.end() :]
            after = re.sub("^ of ", " for ", after) if " of {}" in form else after
            base = base[: found.start()] + slot + after
        elif noun(name) == "name" and (made := _MADE.match(base)):
            base, named[name] = f"{made[0]} called {slot}{base[made.end() :]}", ("{}",)
        elif _NAMED.match(_about(schema)) and " " in base:
            base, named[name] = f"{base} under the name {slot}", ("{}",)
        elif form.startswith("{} ") and not _UNIT.search(what):
            named[name] = ("{}",) if f"number of {what}" in base else (form,)
            whose = " for" if re.search(rf"\b(?:{_LASTING})$", what) else ","
            amounts += f"{' by' if verb in _BY else ' to' if verb in _TO else whose} {slot}"
        elif required and not _on(what, schema) and (near := _owner(schema, base)):
            its = re.sub("^an? ", "the ", near[0])
            base = f"{base[: near.start()]}{its} with {slot}{base[near.end() :]}"
        elif (on := _on(what, schema)) and what not in base and f" {on} {{" not in base:
            base, named[name] = f"{base} {on} {slot}", ("{}",)
        elif " " not in base and what != noun(name):
            base += f" {slot}"
            named[name] = (form.removeprefix("the "),)
        elif " " not in base.partition(" {")[0] and verb in _TOWARD:
            base, named[name] = f"{base} to {slot}", (form.removeprefix("the "),)
        else:
            rest[name] = (what, form)
    stated = _tail(rest, spec, named, followed)
    if (rest or amounts) and (then := _THEN.search(base)):
        amounts += f",{stated[1:]}," if rest else "," * amounts.startswith(",")
        base, amounts, stated = base[: then.start()] + amounts + base[then.start() :], "", ""
    bare = (name for name, forms in named.items() if forms == ("{}",))
    plain = {name for name in bare if re.search(rf" (?:on|at|name|called) {{{name}}}", base)}
    say, drop = base + amounts + (stated if rest else ""), frozenset({*plain, *rest})
    lists = {n: json_choices(spec.properties[n]) or () for n in named}  # flat tyre for flat_tyre
    words = {n: {v: v.replace("_", " ") for v in c if isinstance(v, str)} for n, c in lists.items()}
    return Wording((say,), named=named, nouns=nouns, described=True, drop=drop, words=words)


def _clause(spec: ToolSpec, given: Collection[str]) -> tuple[str, bool]:
    """A tool's order, with the day and time that it moves to, and whether it has a second one."""
    base = _BY_CODE.sub("", _RETURNED.sub("", order_of(spec)))
    base = re.sub(r"^search (?=an? |(the |all )?\w+s\b)", "search for ", base)
    base = re.sub(r" by name$", " called a name", base)
    followed, moved = _THEN.search(base) is not None, _ELSE.search(base)
    when = [n for n in _WHEN if n in given and moved and (n in moved[0] or " day" in moved[0])]
    if moved and when:
        says = (f" {_WHEN[n] if n != when[0] else 'to'} {{{n}}}" for n in when)
        base = base[: moved.start()] + "".join(says)
    return base, followed


def _tail(rest: _Phrases, spec: ToolSpec, named: dict[str, tuple[str, ...]], listed: bool) -> str:
    """Phrases for arguments that the sentence lacks; several stand behind a colon."""
    labels: list[bool] = []
    for name, (what, form) in rest.items():
        schema = spec.properties[name]
        kind, alone = json_type(schema), len(rest) == 1 and what in (*_REPORTED, "reason")
        listed = listed or len(rest) > 2 or kind in ("dict", "object") or what in _REPORTED
        short = kind in ("integer", "number") or what.endswith(("size", "code", "id"))
        labels.append(form.startswith("the ") and (short or bool(json_choices(schema))))
        named[name] = ("{}" if alone or kind in ("dict", "object") else form,)
    slots = [f"{{{name}}}" for name in rest]
    for name in rest if listed or any(labels) else ():
        named[name] = (named[name][0].removeprefix("the "),)
    if listed or any(labels):
        return f"{':' if listed else ','} {', '.join(slots)}"
    if [*rest] == ["reason"]:
        return f", giving {slots[0]} as the reason"
    only = next(iter(rest)) if len(rest) == 1 else ""
    if noun(only) != thing(only):
        return f" for {{{only}}}"
    lead = {"{} km": "after", "the room {}": "in"}.get(named.get(only, ("",))[0], "with")
    return f" {lead} {literal([*slots], {})}"


def _noun(name: str, schema: Mapping[str, Any], base: str) -> str:
    """What an argument is called: `code` of `Cancel a booking` is a `booking` there."""
    about, kind = _about(schema), json_type(schema)
    if kind in ("integer", "number") and (counted := _COUNTED.match(about)):
        return counted[1]
    if re.search(rf"\b{noun(name)}\b", base):
        return noun(name)
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
    return re.search(rf"\ban? (?:\w+ )?{of[1]}(?=$| (?!with\b|called\b)\w)", base) if of else None


def _form(name: str, what: str, schema: Mapping[str, Any], found: str) -> str:
    """The noun phrase around a value, whose place in the sentence holds `found`."""
    kind, about = json_type(schema), _about(schema)
    number = kind in ("integer", "number")
    mark = rf"\b(?:{_CODE})s?\b|^(?:the|which) {re.escape(what)}\b"
    if kind in ("dict", "object"):
        return f"the {what} ({{}})"
    if kind == "boolean":
        return f"{what} set to {{}}"
    if number and (unit := _UNIT.search(what)):
        lead = f"{found or f'a {what[: unit.start()]}'} of " if unit.start() else ""
        return f"{lead}{{}} {unit[1]}"
    if number and what.startswith(("min ", "max ")):
        some = f"at {'least' if what[1] == 'i' else 'most'} {{}}"
        return f"{some} {what[4:]}" if what.endswith("s") else f"a {what[4:]} of {some}"
    if number and (what.endswith("s") or what == "people"):
        return f"{{}} {what}"
    if found and re.search(rf" (?:{_CODE})$", what):
        return f"{what} {{}}"
    if found and what != noun(name) and re.search(mark, f"{noun(name)} {about}"):
        return f"{what} {{}}"
    if found and number:
        return f"{found if found.lower() != what else f'a {what}'} of {{}}"
    adjective = found and all(str(v).islower() for v in json_choices(schema) or [""])
    return f"the {{}} {what}" if adjective else f"the {what} {{}}"


def _on(what: str, schema: Mapping[str, Any]) -> str:
    """What stands before a day or a time alone; empty before all else."""
    said = str(schema.get("description", ""))
    day = r"(?:the )?(?:new |first )?(?:day\b|date( of the \w+)?$)"
    if "YYYY" in said and re.match(day, _about(schema)):
        return "on"
    return _WHEN.get(what, "at" if "HH:MM" in said else "")


def _about(schema: Mapping[str, Any]) -> str:
    """The first sentence of a parameter's description, in lower case."""
    return re.split(r"[.,;:(]", str(schema.get("description", "")))[0].strip().lower()

"""Wordings made of tools' own descriptions, where nobody wrote templates.

A request whose values have no place in the sentence is worded as `cautious.py` does.

    from_description(spec).say                              # ("lend {book_id} to {member_id}",)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import TypeAlias

from rods.infra.files import toml_of
from rods.synthesis.structure.words import article, noun, order_of, patterns, thing
from rods.types import ToolSpec, json_choices, json_type
from rods.writers.templates.cautious import cautious
from rods.writers.templates.nouns import about_of, moments, noun_phrase, preposition, value_phrase
from rods.writers.templates.wording import Wording

_Named: TypeAlias = dict[str, tuple[str, ...]]
_WHERE = ("writers", "templates", "described.toml")
_P, _DATA = patterns(*_WHERE), toml_of(*_WHERE)
_BY, _TO, _TOWARD, _ALONE, _WHEN, _ALSO = (
    _DATA[name] for name in ("by", "to", "toward", "alone", "when", "also")
)
_CODE, _PARTS = _DATA["codes"], _DATA["parts"]
_GIVEN, _OTHER = _P["given"].pattern, _P["other"].pattern


def from_description(spec: ToolSpec, given: Collection[str] = ()) -> Wording:
    """Templates for a call with these arguments, and with all that are required.

    A value takes the place of its thing or stands at the end: `Lend a book to a member` becomes
    `lend {book_id} to {member_id}`, said as `lend book B-7 to member M-2`.
    """
    draft = _Draft(spec, given)
    for name, schema in spec.properties.items():
        if name in spec.required or name in given:
            draft.add(name, schema)
    whole = draft.complete and not _P["relative"].search(draft.base)
    return draft.wording() if whole else cautious(spec, given)


class _Draft:
    def __init__(self, spec: ToolSpec, given: Collection[str]) -> None:
        self.required, self.properties = spec.required, spec.properties
        self.base, self.followed = _clause(spec, given)
        self.verb, self.makes = self.base.partition(" ")[0], _P["made"].match(self.base)
        self.amounts = ""  # Stand behind the clause: ` for {days}`
        self.nouns: dict[str, str] = {}
        self.named: _Named = {}
        self.complete = True  # Whether the sentence has a place for everything
        self.bare: set[str] = set()  # A name tells what they are: `taught by Rosa`

    def add(self, name: str, schema: Mapping[str, object]) -> None:
        base, about, slot = self.base, about_of(schema), f"{{{name}}}"
        what, unit = noun_phrase(name, schema, base)
        plain = rf"(?!{_OTHER}|{_P['adjective'].pattern})"
        if kinds := re.search(rf"\ban? {plain}(\w+ {re.escape(what)})\b", base):
            what = kinds[1]  # a repair job
        self.nouns[name] = what = noun(name) if what in self.nouns.values() else what
        self.complete &= not _P["extreme"].match(f"{noun(name)} ")  # at least 6 seats
        coded = noun(name) != thing(name) or re.search(rf"\b(?:{_CODE})\b", about)
        place = self._place(what, "an? \\w+'s " if coded else "an? ")  # a donor's appointment
        required = name in self.required and f"the number of {what}" not in base and what[1:]
        many = _P["counted"].match(about) and re.match(r"\w+ ", base) and f" {what}" in base
        found = place.search(base, 1) if required or many else None
        form = value_phrase(name, what, unit, schema, found.group() if found else "")
        self.named[name] = (form,)
        if slot in base:
            self.named[name] = ("{}",)
        elif (noun(name) != thing(name) or not found) and self._directed(name):  # it has its place
            pass
        elif made := self._made(name, about):
            self._put(name, f"{made[0]} called {slot}{base[made.end() :]}")
        elif self._becomes(found, f"{noun(name)} {about}", unit):
            self.amounts, self.named[name] = f"{self.amounts} to {slot}", (f"{{}} {unit}".strip(),)
        elif found and what not in _WHEN and (on := preposition(what, schema)):  # visit on Monday
            self._put(name, f"{base[: found.end()]} {on} {slot}{base[found.end() :]}")
        elif found:
            self._replace(name, what, about, found, place)
        elif _P["named"].match(about) and " " in base and not (self.followed or " name {" in base):
            self._put(name, f"{base} under the name {slot}")
        elif self._counted(name, what, form):
            pass
        elif (on := preposition(what, schema)) and what not in base and f" {on} {{" not in base:
            self._put(name, f"{base} {on} {slot}")
        elif " " not in base and what != noun(name):  # without a description
            self._put(name, f"{base} {slot}", form.removeprefix("the "))
        elif re.fullmatch(r"\w+ \{\w+\}", base) and self.verb in _TOWARD and not unit:
            self._put(name, f"{base} to {slot}", form.removeprefix("the "))
        else:
            self.complete = False

    def _directed(self, name: str) -> bool:
        """Say `to device D-5` for `to_device_id`; False if the device has another place."""
        word, _, what = thing(name).partition(" ")
        coded = noun(name) != thing(name)
        if not what or word not in ("to", "from", *("new", "target") * coded):
            return False
        side = "from" if word == "from" else "to"
        ends = rf"(?:{side} (?:an?|the|another)(?: \w+)?|between(?: \w+)?) {re.escape(what)}s?\b"
        ends += _P["whole"].pattern  # a `device group` is no device
        place, unsaid = re.search(f" {ends}", self.base), re.sub(r"\{\w+\}", "", self.base)
        if place is None and (word != side or re.search(rf"\b{re.escape(what)}", unsaid)):
            return False
        begin, end = place.span() if place else (len(self.base), len(self.base))
        self._put(name, f"{self.base[:begin]} {side} {{{name}}}{self.base[end:]}", f"{what} {{}}")
        return True

    def _put(self, name: str, base: str, form: str = "{}") -> None:
        self.base, self.named[name] = base, (form,)

    def _becomes(self, found: re.Match[str] | None, text: str, unit: str) -> bool:
        """Whether something is changed to a value: `the due date of a task`, no `new price`."""
        new, to = bool(re.search(r"\bnew\b", text)), self.verb in _TO
        if found is None or re.match("an? ", found.group()):
            return found is None and new and to and unit != ""
        owned = to and _P["owned"].match(self.base, found.end())
        return bool(owned) or (new and self.verb in (*_TO, *_BY))

    def _place(self, what: str, whose: str) -> re.Pattern[str]:
        """Where a thing stands as a whole, neither as `its id` nor before another noun."""
        also = f"{re.escape(what)}{_ALSO.get(what.rpartition(' ')[2], '')}"
        given = _GIVEN if self.makes else _OTHER
        whole = "" if _P["inner"].search(self.base) else _P["whole"].pattern
        before = rf"(?<![\w{{])(?:{whose}|{_P['lead'].pattern})?{given}?"
        return re.compile(rf"{before}(?:{also})(?![\w}}])(?! (?:{_PARTS})\b){whole}", re.I)

    def _made(self, name: str, about: str) -> re.Match[str] | None:
        """What is brought in, where an argument is its name: `add a driver`."""
        made = self.makes and _P["made"].match(self.base)
        if made is None or not re.match(_P["whole"].pattern, self.base[made.end() :]):
            return None  # a volunteer profile
        its = re.fullmatch(rf"(?:the |full )*name of the (?:new )?{made[1]}", about)
        its = its and re.search(r"\bnew\b", f"{made[0]} {about}")
        return made if noun(name) == "name" or its else None

    def _replace(
        self, name: str, what: str, about: str, found: re.Match[str], place: re.Pattern[str]
    ) -> None:
        """Say a value where its thing stands."""
        base, form = self.base, self.named[name][0]
        named = re.match(rf"(?:the )?name of the {what}\b", about) and what == noun(name)
        lead, kind = _P["behind"].search(base[: found.start()]), ""
        self.bare |= {name} if named and lead else set()
        if what in _ALONE and lead:
            on = f" {_WHEN.get(what, lead[1])} " if lead[1] else lead[0]
            self._put(name, base := base[: lead.start()] + on + base[found.start() :])
            found = place.search(base, lead.start() + len(on)) or found
        elif found.group().lower() == what and not _P["opens"].search(base[: found.start()]):
            if form.startswith("{} ") and (many := _P["kind"].search(base[: found.start()])):
                kind = many[1]  # 2 checked bags
                form = form.replace("{} ", f"{{}} {kind}")
            self.named[name] = (form.removeprefix("the "),)  # the company name X
        before, after = base[: found.start() - len(kind)], base[found.end() :]
        if " of {}" not in form and (one := _P["sorted"].search(before)):
            before = before[: one.start()]  # the pending report X-1
            self.named[name] = (f"the {one[1]}{self.named[name][0].removeprefix('the ')}",)
        after = re.sub("^ of ", " for ", after) if " of {}" in form else after
        self.base = f"{before}{{{name}}}{after}"

    def _counted(self, name: str, what: str, form: str) -> bool:
        """Put a number behind the clause: `by 3 days`, `for 3 people`; whether that was done."""
        if not form.startswith("{} "):
            return False
        if self.verb in _BY or self.verb in _TO:
            self.named[name] = ("{}",) if f"number of {what}" in self.base else (form,)
            new = re.search(r"\bnew\b", f"{noun(name)} {about_of(self.properties[name])}")
            self.amounts += f" {'by' if self.verb in _BY and not new else 'to'} {{{name}}}"
        elif re.search(rf"\b(?:{_DATA['lasting']})$", what):
            base = _P["period"].sub("", self.base)
            self.base = _P["group"].sub(rf"\g<0> of {{{name}}}", base)
            if self.base == base:
                self.amounts += f" {'and' if ' for ' in self.amounts else 'for'} {{{name}}}"
        else:
            return False
        return True

    def wording(self) -> Wording:
        base = _P["vague"].sub("", self.base) if self.amounts else self.base
        then = _P["then"].search(base) if self.followed else None
        end = then.start() if then else len(base)
        bare = (name for name, forms in self.named.items() if forms == ("{}",))
        drop = (name for name in bare if re.search(rf" (?:on|at|name|called) {{{name}}}", base))
        return self._said(base[:end] + self.amounts + base[end:], self.named, frozenset(drop))

    def _said(self, say: str, named: _Named, drop: frozenset[str]) -> Wording:
        words: dict[str, dict[str, str]] = {}  # flat tyre for flat_tyre
        for name in named:
            choices = json_choices(self.properties[name]) or ()
            words[name] = {v: v.replace("_", " ") for v in choices if isinstance(v, str)}
        for short in re.findall(r"\b[A-Z]{3,}\b", str(self.properties)):  # SKU, PIN
            word = re.compile(rf"\b{short}\b", re.I)
            named = {name: tuple(word.sub(short, form) for form in named[name]) for name in named}
        found = Wording((say,), words=words, named=named, drop=drop, nouns=self.nouns)
        return found._replace(described=True, bare=frozenset(self.bare))


def _clause(spec: ToolSpec, given: Collection[str]) -> tuple[str, bool]:
    """A tool's order, with the values that it moves between, and whether it has a second one."""
    base = order_of(spec)
    for name in ("aside", "based", "by_code", "from_to"):
        base = _P[name].sub("", base)
    base = _P["plain"].sub(lambda m: article(m[1]) + " ", base)
    base = re.sub(r"^search (?=an? |(?:(?:the|all|available|free) )*\w+s\b)", "search for ", base)
    base = _P["by_all"].sub(r"\1", base)
    base = re.sub(r" by name$", " called a name", base)
    if base.partition(" ")[0] in _TO:
        base = _P["renewed"].sub(r" the \1 of ", base, count=1)
    if (by := re.search(r" by (?:its |the |their )?(\w+)$", base)) and by[1] in map(noun, given):
        base = base[: by.start()]
    followed, moved = _P["then"].search(base) is not None, _P["else"].search(base)
    kinds = {
        n: noun(n).rpartition(" ")[2] for n in spec.properties if n in {*given, *spec.required}
    }
    ordered = [n for w in _WHEN for n in kinds if kinds[n] == w and moved]
    when = [n for n in ordered if moved and (kinds[n] in moved[0] or " day" in moved[0])]
    if moved and when:
        says = (f" {_WHEN[kinds[n]] if n != when[0] else 'to'} {{{n}}}" for n in when)
        base = base[: moved.start()] + "".join(says)
    texts = [n for n in spec.required if json_type(spec.properties[n]) == "string"]
    for one, other in pairwise(texts):  # from T1 to T3, between two days, of classes A and B
        alike = {*noun(one).split()} & {*noun(other).split()} or one[:-1] == other[:-1]
        first, pair = _P["origin"].match(noun(one)), _P["pair"].search(base)
        if pair and (first or (not pair[1] and (alike or len(texts) == 2))):
            moves = pair[1] or (pair[3] and first and base.partition(" ")[0] in _TOWARD)
            template = "from {{{}}} to {{{}}}" if moves else "between {{{}}} and {{{}}}"
            template = template if moves or not pair[4] else pair[4] + " {{{}}} and {{{}}}"
            base = base[: pair.start()] + template.format(one, other) + base[pair.end() :]
        elif first and moments(spec.properties[one]) & moments(spec.properties[other]):
            base = re.sub(rf" from [\w ]*{noun(one)} to [\w ]*{noun(other)}", "", base)
            base += f" from {{{one}}} to {{{other}}}"
    return base, followed

"""How one call is said: clauses with slots, and every text that may fill a slot.

Tools for which nobody wrote templates get wordings made of their descriptions (`described.py`).

    ways(wording, "loan_id", 12345)                         # ["loan 12345", "my loan 12345"]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from rods.synthesis.planned import Producer
from rods.synthesis.structure.words import SLOT, article, literal, noun, patterns
from rods.types import Value

FOUND = ("that {}", "the same {}")  # For a value where nobody wrote references for its tool
POINTING = ("that ", "those ", "the same ", "its ")  # Words that point to what was seen last
_LEADS = "using|paid with|paying with|charged to|with|at|of|on|in|from|to|for|under"
_LED = ",|:| and| with| on| at| under the name| called|, giving"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d")
_IS_CODE = re.compile(r"(?!\d{4}-\d\d-\d\d)[\w#-]*\d[\w#-]*")
_P = patterns("writers", "templates", "described.toml")
_ADJECTIVE, _ATTRIBUTE = _P["adjective"].pattern, _P["attribute"]
_CERTAIN = re.compile(rf"^the (?!{_ADJECTIVE}\w)(?!.* of {{}})(?=.*{{}}$)")
_PROPER = re.compile(r"[A-Z][\w.'-]+(?: [A-Z][\w.'-]+)*")  # Rosa, Ada Li
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
    bare: frozenset[str] = frozenset()  # Without their nouns where the value is a proper name
    firm: frozenset[str] = frozenset()  # With their article before a code: the vacant flat 12B

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
            first = re.sub(rf"(?<=: ){slot}, |(?<=\(){slot}, |(?<= with ){slot} and ", "", say)
            rest = re.sub(rf"(?:{_LED}) {slot}(?: as the reason)?| \({slot}\)", "", say)
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
        # Tank T4, but the station Mill.
        if self.described and name not in self.firm and _IS_CODE.fullmatch(str(value)):
            forms = tuple(_CERTAIN.sub("", form) for form in forms)
        if self.described and re.fullmatch(r"\d+|[A-Z]", str(value)):  # page 3, track B
            plain = f"the {self.noun(name)} {{}}"
            forms = tuple(form[4:] if form == plain else form for form in forms)
        if self.described and re.fullmatch("[a-z]+", str(value)):  # the north paddock
            forms = tuple(_ATTRIBUTE.sub(r"the {} \1", form) for form in forms)
        if name in self.bare and _PROPER.fullmatch(str(value)):
            forms = ("{}",)
        elif self.described and isinstance(value, str) and re.match(r"[a-z]\S* |\S+ [a-z]", value):
            forms = tuple(form.replace("{}", "'{}'") for form in forms)
        elif self.described and (value == 1 or (isinstance(value, list) and len(value) == 1)):
            forms = tuple(map(singular, forms))
        return [_named(form, value, words) for form in forms]

    def asides(self, name: str, value: Value) -> list[str]:
        """A value behind the words that also leave it open: `a file of mine (plan.txt)`."""
        text = literal(value, self.words.get(name, {}))
        before, behind = ("my ", "the ", "one of my "), (" of mine", " I like")
        forms = (f for f in self.open.get(name, ()) if f.startswith(before) or f.endswith(behind))
        return [f"{form} ({text})" for form in forms]

    def in_words(self, name: str, value: Value) -> list[str]:
        """Every text that says a value."""
        return [*self.texts(name, value), *self.asides(name, value)]

    def references(self, name: str, producer: Producer | None) -> list[str]:
        """What may stand for a value that this call's result showed; empty: it must be said."""
        if self.described:
            first = f"that {{{name}}}" in self.say[0]  # nobody says `that that plant`
            inside = not re.search(rf"(?:\(|, |: ){{{name}}}", self.say[0])
            last = inside * (1 + (producer is None or name in producer.call.arguments))
            return [form.format(self.noun(name)) for form in FOUND[first:last]]
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

    def the_one(self, name: str) -> list[str]:
        """An object that a result showed alone: `free slot: the one that you found`."""
        return [
            form.replace("{}", "the one that you found") for form in self.named.get(name, ("{}",))
        ]

    def opened(self, name: str) -> list[str]:
        """What may stand for a value that is left open."""
        what = self.noun(name)
        one = article(what)
        one = "some" if self.described and re.search("[^su]s$", what) else one
        return list(self.open.get(name) or (f"{one} {what}",))


def ways(
    wording: Wording, name: str, value: Value, producers: Iterable[Producer] = ()
) -> list[str]:
    """Every text that may stand for an argument: its value, a reference, a value left open."""
    found = [*wording.in_words(name, value), *wording.opened(name)]
    found += wording.the_one(name) if isinstance(value, dict) else []
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
    one = {"people": "person", "children": "child"}.get(words[at], re.sub("ies$", "y", words[at]))
    words[at] = re.sub(r"(?<=[^s])s$", "", re.sub(r"(?<=[sxh])es$", "", one))
    return " ".join(words)

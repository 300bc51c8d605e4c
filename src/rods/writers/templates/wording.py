"""How one call is said: clauses with slots, and every text that may fill a slot.

Owns `Wording` and the ways in which a value is said, meant or left open. The frames
around clauses and the files of templates are `phrases.py`'s. Never chooses or executes a call.

    ways(wording, "loan_id", 12345)                         # ["loan 12345", "my loan 12345"]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from rods.synthesis.planned import Producer
from rods.synthesis.structure.words import SLOT, literal, noun
from rods.types import Value

FOUND = ("that {}", "the same {}")
"""What stands for a value where nobody wrote references for its tool."""
POINTING = ("that ", "those ", "the same ", "its ")
"""Words that point to what was seen last."""
_LEADS = "using|paid with|paying with|charged to|with|at|of|on|in|from|to|for|under"
_BEFORE = rf"(?:,? (?:and )?(?:{_LEADS}) )"
"""What goes with an argument that is dropped."""


class Wording(NamedTuple):
    """How one tool is asked for."""

    say: tuple[str, ...]
    """Clauses in the imperative with a `{slot}` for each required argument."""
    optional: Mapping[str, tuple[str, ...]] = {}
    """Parts to append for optional arguments."""
    instead: Mapping[str, tuple[str, ...]] = {}
    """Clauses in the place of `say` for a call with this optional argument: one writes a text
    into a file, but prints it where there is none."""
    words: Mapping[str, Mapping[str, str]] = {}
    """What enumerated values are called."""
    named: Mapping[str, tuple[str, ...]] = {}
    """Noun phrases around a value (`order {}`), as a clause takes them; without: the value."""
    refer: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """What stands for a value that a result showed, by the tool that showed it. A `{slot}` takes
    an argument of that tool's call (`the branch nearest to {town}`), `{place}` a place in
    the list that it showed (`the {place} branch on it`)."""
    open: Mapping[str, tuple[str, ...]] = {}
    """What stands for a value that is left open."""
    drop: frozenset[str] = frozenset()
    """Arguments that are mostly left open by saying nothing of them."""
    nouns: Mapping[str, str] = {}
    """What an argument is called, where that is not its name: `loan` for `loan_id`."""
    described: bool = False
    """Made of a tool's description: references and open values get general phrases."""

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
        if self.described and isinstance(value, str) and re.match(r"[a-z]\S* |\S+ [a-z]", value):
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
            return [form.format(self.noun(name)) for form in FOUND]
        if producer is None:
            return []
        known = {key: literal(value, {}) for key, value in producer.call.arguments.items()}
        known |= {"place": producer.place} if producer.place else {}
        return [
            SLOT.sub(lambda match: known[match[1]], form)
            for form in self.refer.get(name, {}).get(producer.call.name, ())
            if set(SLOT.findall(form)) <= known.keys()
            and ("{place}" in form) == bool(producer.place)
            and (producer.only or _points_back(form))
        ]

    def opened(self, name: str) -> list[str]:
        """What may stand for a value that is left open."""
        what = self.noun(name)
        return list(self.open.get(name) or (f"{'an' if what[:1] in 'aeiou' else 'a'} {what}",))


def _points_back(form: str) -> bool:
    """Whether words mean the latest of several things, or say whose result they mean."""
    return form.startswith(POINTING) or bool(set(SLOT.findall(form)) - {"place"})


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


def singular(form: str) -> str:
    """A noun phrase that counts one: `{} day` for `{} days`, `the allergy {}`."""
    words = form.split()
    at = next((i for i in reversed(range(len(words))) if "{" not in words[i]), 0)
    one = {"people": "person"}.get(words[at], re.sub("ies$", "y", words[at]))
    words[at] = re.sub(r"(?<=[^s])s$", "", re.sub(r"(?<=[sxh])es$", "", one))
    return " ".join(words)

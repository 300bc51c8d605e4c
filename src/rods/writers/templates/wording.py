"""How one call is said: clauses with slots, and every text that may fill a slot.

Owns `Wording` and the ways in which a value is said, meant or left open. The frames
around clauses and the files of templates are `phrases.py`'s. Never chooses or executes a call.

    ways(wording, "loan_id", 12345)                         # ["loan 12345", "my loan 12345"]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NamedTuple

from rods.synthesis.planned import Producer
from rods.synthesis.structure.words import SLOT, literal, noun, order_of, thing
from rods.types import ToolSpec, Value, json_type

FOUND = ("the {} you just found", "the {} that came back", "the {} from that result")
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
        return [_named(form, value, words) for form in self.named.get(name, ("{}",))]

    def asides(self, name: str, value: Value) -> list[str]:
        """A value behind the words that also leave it open: `a file of mine (plan.txt)`."""
        text = literal(value, self.words.get(name, {}))
        return [f"{form} ({text})" for form in self.open.get(name, ()) if _introduces(form)]

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
    found = [*wording.texts(name, value), *wording.asides(name, value), *wording.opened(name)]
    for producer in (*([None] if wording.described else ()), *producers):
        found += wording.references(name, producer)
    return list(dict.fromkeys(found))


def _named(form: str, value: Value, words: Mapping[str, str]) -> str:
    """A value in its noun phrase; each item of a list in quotes where the phrase has quotes."""
    if "'{}'" in form and isinstance(value, list):
        return form.replace("'{}'", literal([f"'{literal(item, words)}'" for item in value], {}))
    return form.replace("{}", literal(value, words))


def from_description(spec: ToolSpec, referred: Set[str] = frozenset()) -> Wording:
    """Templates made of a tool's own description, for tools that nobody wrote any for.

    A value takes its place where the description names its thing: `Lend a book to a member` becomes
    `lend book {book_id} to member {member_id}`. What is not named there follows at the end. What
    stands for a value that is `referred` to is a phrase of its own.
    """
    base = order_of(spec)
    properties, required = spec.properties, spec.required
    rest: list[str] = []
    for name in required:
        placed = _placed(base, name, name in referred, properties.get(name, {}))
        if placed == base:
            rest.append(f"{{{name}}}" if name in referred else f"{noun(name)} {{{name}}}")
        base = placed
    joined = " and ".join(filter(None, (", ".join(rest[:-1]), *rest[-1:])))
    say = tuple(base + tail.format(joined) for tail in ((" with {}", ", {}") if rest else ("",)))
    optional = {n: _appended(n, s) for n, s in properties.items() if n not in required}
    nouns = {name: thing(name) for name in properties}
    return Wording(say, optional, nouns=nouns, described=True)


def _appended(name: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """How an optional argument is said."""
    what = noun(name)
    if json_type(schema) in ("integer", "number") and what.endswith("s"):
        return (f"for {{{name}}} {what}", f"({{{name}}} {what})")
    return (f"with {what} {{{name}}}",)


def _placed(base: str, name: str, referred: bool, schema: Mapping[str, Any]) -> str:
    """The sentence with a slot where it first names the parameter's thing."""
    what = thing(name)
    counted = json_type(schema) in ("integer", "number")
    lead = r"(?:(?:a number of|an amount of|some|so many|a|an|another|one|the|its|their) )"
    found = re.search(rf"(?<![\w{{]){lead}?{re.escape(what)}(?![\w}}])", base, re.IGNORECASE)
    if found is None or found.start() == 0:
        return base
    slot = f"{{{name}}}"
    if not referred and counted and what.endswith("s"):
        slot = f"{slot} {what}"
    elif not referred and not counted and (what != noun(name) or "enum" in schema):
        slot = f"the {slot} {what}" if "enum" in schema else f"{what} {slot}"
    elif not referred:
        slot = f"{_article(found.group(), what)} of {slot}" if counted else f"the {what} {slot}"
    return base[: found.start()] + slot + base[found.end() :]


def _article(found: str, what: str) -> str:
    """`an amount` as it was written; `the amount` where there was no article."""
    return found if found.lower() != what else f"a {what}"

"""New values by what they are: names, days, codes and short written texts.

A kind of `domains.toml` draws from its `[forms]`, its tables or a list for every environment.

    draws(domains, materials)["badge"](random.Random(3))            # "B-4829"
"""

from __future__ import annotations

import datetime
import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rods.errors import SynthesisError
from rods.infra.files import toml_of
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar
from rods.synthesis.structure.words import noun, patterns
from rods.writers.resample.assign import Materials
from rods.writers.templates.vocabulary import Vocabulary

EPOCH = datetime.date(2026, 1, 1)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
REWORDED = 0.35  # Share of the nouns of a training text that are exchanged
_SLOT = re.compile(r"\{([^{}]+)\}")
_RANGE = re.compile(r"(date )?(\d+)\.\.(\d+)")
PATTERNS = ("writers", "graph", "scratch.toml")  # Patterns of what descriptions state
_WORD = re.compile(r"[A-Za-z]{4,}")

Draw = Callable[[random.Random], Scalar]


def draws(domains: Domains, materials: Materials) -> Mapping[str, Draw]:
    """How a new value is drawn, by the name of a kind or one that stands in `[fresh]`."""
    words = materials.vocabulary

    def stem(rng: random.Random) -> str:
        return rng.choice("_-").join(words.word(rng) for _ in range(rng.choice((1, 1, 2))))

    slots = _slots(domains, words)
    return {
        **_listed(domains),
        "name": lambda rng: f"{stem(rng)}.{words.extension(rng)}",
        "folder": stem,
        "pattern": words.noun,
        "person": words.first_name,
        "surname": words.surname,
        "full_name": lambda rng: f"{words.first_name(rng)} {words.surname(rng)}",
        "date": lambda rng: _day_after(EPOCH, rng.randrange(30, 700)),
        **{kind: _form(form, slots) for kind, form in domains.forms.items()},
    }


def _listed(domains: Domains) -> Mapping[str, Draw]:
    """The names and codes of the environment's tables, by their kind."""
    found: dict[str, Draw] = {}
    for kind, table in domains.tables.items():
        found[kind] = _choice(table.complete)
        found |= {code: _choice(sorted(owned)) for code, owned in table.owners.items()}
    return found


def _choice(values: Sequence[str]) -> Draw:
    return lambda rng: rng.choice(values)


def _slots(domains: Domains, words: Vocabulary) -> Mapping[str, Draw]:
    """What may stand in braces, besides ranges and choices."""
    return {
        **_listed(domains),
        "word": words.word, "noun": words.noun,
        "Noun": lambda rng: words.noun(rng).capitalize(), "name": words.first_name,
        "surname": words.surname, "day": _choice(DAYS),
    }  # fmt: skip


def _form(form: str, slots: Mapping[str, Draw]) -> Callable[[random.Random], str]:
    """Fills the slots of a form from left to right; one that is not known is refused at once."""
    found = {slot: _slot(slot, slots) for slot in _SLOT.findall(form)}
    return lambda rng: _SLOT.sub(lambda match: str(found[match[1]](rng)), form)


def _slot(slot: str, slots: Mapping[str, Draw]) -> Draw:
    span = _RANGE.fullmatch(slot)
    if span is not None:
        first, last, width = int(span[2]), int(span[3]), len(span[2])
        if span[1]:
            return lambda rng: _day_after(
                datetime.date(rng.randint(first, last), 1, 1), rng.randrange(365)
            )
        return lambda rng: str(rng.randint(first, last)).zfill(width)
    if "|" in slot:
        return _choice(slot.split("|"))
    if slot not in slots:
        raise SynthesisError(
            f"domains.toml: the slot {{{slot}}} is not known; expected a range such as {{1..12}} or"
            f" {{date 1950..1999}}, a choice such as {{red|green}}, or one of {sorted(slots)}."
        )
    return slots[slot]


def _day_after(begin: datetime.date, days: int) -> str:
    return (begin + datetime.timedelta(days)).isoformat()


class Texts:
    """Draws short written texts for a parameter."""

    def __init__(self, domains: Domains, materials: Materials) -> None:
        self._domains, self._materials = domains, materials
        self._slots = _slots(domains, materials.vocabulary)
        for sentences in domains.texts.values():
            for sentence in sentences:
                _form(sentence, self._slots)  # refused here, not where the first one is drawn

    def draw(self, tool: str, name: str, rng: random.Random) -> str:
        """A sentence of the parameter's list, else a training text with some other words."""
        words = self._materials.vocabulary
        lists = self._domains.texts
        known = lists.get(f"{tool}.{name}") or lists.get(name) or ()
        if known:
            slots = {**self._slots, **self._things(rng)}
            return _form(rng.choice(list(known)), slots)(rng)
        donors = self._materials.donors.get(name) or self._materials.donors.get("content", ())
        if donors and rng.random() < 0.7:
            return words.reworded(rng.choice(donors), rng, REWORDED)
        return " ".join(words.word(rng) for _ in range(rng.randint(2, 7))).capitalize()

    def _things(self, rng: random.Random) -> Mapping[str, Draw]:
        """What texts are about: the environment's list; without one, a noun for the whole text."""
        things = self._domains.texts.get("noun") or (self._materials.vocabulary.noun(rng),)
        return {
            "noun": lambda rng: rng.choice(things),
            "Noun": lambda rng: rng.choice(things).capitalize(),
        }


def word_of(texts: Mapping[str, Sequence[Scalar]], rng: random.Random) -> str | None:
    """A word that stands in one of these texts; None where they have none."""
    prose = " ".join(v for values in texts.values() for v in values if isinstance(v, str))
    found = sorted(set(_WORD.findall(prose)))
    return rng.choice(found) if found else None


def examples(description: str) -> tuple[Sequence[str], bool]:
    """Values that a description names, and whether there are no others.

    `Why it is closed, e.g. "broken heating"`, `The carrier, one of "DHL" or "GLS"`.
    """
    known = patterns(*PATTERNS)
    if (found := known["examples"].search(description)) is None:
        if known["enumerated"].match(description.strip().rstrip(".")):  # beginner or advanced
            return known["between"].split(description.strip().rstrip(".")), True
        quoted = known["quoted"].findall(description)
        return (quoted, True) if len(quoted) > 1 else ((), False)
    complete = not found[1]
    values = known["quoted"].findall(found[2]) or known["between"].split(found[2].strip())
    plain = all(v and len(v.split()) < 4 for v in values) or known["quoted"].search(found[2])
    return (values, complete) if plain and (len(values) > 1 or not complete) else ((), False)


def later(moment: str, before: str, rng: random.Random) -> str | None:
    """A day or a time, after another one of the same kind: nothing ends as it starts.

    None: no quarter of an hour is left in the day.
    """
    if len(before) != len(moment) or moment > before:
        return moment
    if ":" in before:
        hour = min(int(before[:2]) + rng.randint(1, 3), 23)
        left = [m for m in ("15", "30", "45") if m > before[3:]]
        minute = before[3:] if hour > int(before[:2]) else rng.choice(left) if left else ""
        return f"{hour:02d}:{minute}" if minute else None
    return _day_after(datetime.date.fromisoformat(before), rng.randint(1, 5))


@functools.cache
def lists() -> Mapping[str, Any]:
    """The lists of `scratch.toml`; its texts as sets of words."""
    data = toml_of(*PATTERNS)
    return {k: frozenset(v.split()) if isinstance(v, str) else v for k, v in data.items()}


def listed(kind: str, name: str) -> Sequence[Any]:
    """Values of the first list for a word of a parameter's name, the last word first."""
    for word in (*reversed(noun(name).split()), "else"):
        for row in lists()[kind]:
            if word in row["names"].split():
                return row["values"]
    return ()

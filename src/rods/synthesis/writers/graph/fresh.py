"""New values by what they are: names, codes, days, places and short written texts.

Owns the makers that a kind of `domains.toml`, or its section `[fresh]`, names, and the sentences of
its section `[texts]` with their slots filled. Never looks at a world: what exists is `ground.py`'s.

    makers(domains, materials)["passport"](random.Random(3))        # "US482913"
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar
from rods.synthesis.templates.vocabulary import Vocabulary
from rods.synthesis.writers.resample.assign import Materials

EPOCH = datetime.date(2026, 1, 1)
BORN = (1950, 1999)
"""Years of birth of travelers."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
STREETS = ("Street", "Avenue", "Road", "Lane")
CITY = "city"
"""The slot of a place, and the table that fills it where an environment has one."""
REWORDED = 0.35
"""Share of the nouns of a training text that are exchanged."""
_SLOT = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[A-Za-z]{4,}")

Maker = Callable[[random.Random], Scalar]


def makers(domains: Domains, materials: Materials) -> Mapping[str, Maker]:
    """Every maker by its name, which is that of a kind or stands in `[fresh]`."""
    words = materials.vocabulary

    def day(rng: random.Random) -> str:
        return (EPOCH + datetime.timedelta(rng.randrange(30, 700))).isoformat()

    def birth(rng: random.Random) -> str:
        first = datetime.date(rng.randint(*BORN), 1, 1)
        return (first + datetime.timedelta(rng.randrange(365))).isoformat()

    def full_name(rng: random.Random) -> str:
        return f"{words.first_name(rng)} {words.surname(rng)}"

    def stem(rng: random.Random) -> str:
        return rng.choice("_-").join(words.word(rng) for _ in range(rng.choice((1, 1, 2))))

    def address(rng: random.Random) -> str:
        street = f"{rng.randrange(1, 990)} {words.noun(rng).capitalize()} {rng.choice(STREETS)}"
        return f"{street}, {_named(domains, CITY, words, rng)}"

    listed: dict[str, Maker] = {}
    for kind, table in domains.tables.items():
        listed[kind] = _choice(table.complete)
        listed |= {code: _choice(sorted(owned)) for code, owned in table.owners.items()}
    return {
        **listed,
        "name": lambda rng: f"{stem(rng)}.{words.extension(rng)}",
        "folder": stem,
        "pattern": words.noun,
        "person": words.first_name,
        "surname": words.surname,
        "full_name": full_name,
        "user": lambda rng: words.word(rng) + str(rng.randrange(10, 99)),
        "password": lambda rng: words.noun(rng).capitalize() + str(rng.randrange(100, 9999)),
        "passport": lambda rng: f"US{rng.randrange(100_000, 999_999)}",
        "card_number": lambda rng: f"4{rng.randrange(10**14, 10**15)}",
        "mention": lambda rng: "@" + words.word(rng),
        "tag": lambda rng: "#" + words.noun(rng).capitalize(),
        "date": day,
        "birth": birth,
        "expiry": lambda rng: f"{rng.randrange(1, 13):02d}/{rng.randrange(2027, 2032)}",
        "address": address,
    }


def _choice(values: Sequence[str]) -> Maker:
    return lambda rng: rng.choice(values)


def _named(domains: Domains, kind: str, words: Vocabulary, rng: random.Random) -> str:
    """A name of the environment's table of this kind; any proper name where it has none."""
    table = domains.tables.get(kind)
    return rng.choice(table.complete) if table is not None else words.surname(rng)


class Texts:
    """Draws short written texts for a parameter."""

    def __init__(self, domains: Domains, materials: Materials) -> None:
        self._domains, self._materials = domains, materials

    def draw(self, tool: str, name: str, rng: random.Random) -> str:
        """A sentence of the parameter's list, else a training text with some other words."""
        words = self._materials.vocabulary
        lists = self._domains.texts
        known = lists.get(f"{tool}.{name}") or lists.get(name) or ()
        if known:
            fill = self._fillers(rng)
            return _SLOT.sub(lambda match: fill[match[1]](), rng.choice(list(known)))
        donors = self._materials.donors.get(name) or self._materials.donors.get("content", ())
        if donors and rng.random() < 0.7:
            return words.reworded(rng.choice(donors), rng, REWORDED)
        return " ".join(words.word(rng) for _ in range(rng.randint(2, 7))).capitalize()

    def _fillers(self, rng: random.Random) -> Mapping[str, Callable[[], str]]:
        words = self._materials.vocabulary
        things = self._domains.texts.get("noun") or (words.noun(rng),)
        return {
            "noun": lambda: rng.choice(things),
            "Noun": lambda: rng.choice(things).capitalize(),
            "name": lambda: words.first_name(rng),
            "day": lambda: rng.choice(DAYS),
            CITY: lambda: _named(self._domains, CITY, words, rng),
        }


def with_ending_of(source: str, target: str) -> str:
    """A new file name with the ending of the file that it is a copy of."""
    stem = target.rpartition(".")[0] or target
    return stem + source[source.rindex(".") :] if "." in source else stem


def word_of(texts: Mapping[str, Sequence[Scalar]], rng: random.Random) -> str | None:
    """A word that stands in one of these texts; None where they have none."""
    found = sorted({word for values in texts.values() for word in _words(values)})
    return rng.choice(found) if found else None


def _words(values: Iterable[Scalar]) -> Iterable[str]:
    return (word for value in values for word in _WORD.findall(str(value)))

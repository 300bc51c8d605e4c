"""A generated world of people, towns, rivers, lakes, companies and books, and the texts about it.

Owns who exists, what is true of them, the documents, and the form of the sentences in
`relations.toml`: how each relation is asked, named and stated. Every fact stands in one document,
that of its subject; other documents name the same people and towns and say nothing that is asked.
Names are made of syllables, so nobody can know an answer without a search. The world is made of
provinces: facts never lead from one into another, so whole provinces can be held out. Same seed,
same world.

    atlas = make_atlas(provinces=2, seed=7)
    atlas.value("Okdal", "river"), atlas.documents[0].text
    BY_NAME["birthplace"].noun.format(x="Ana Velm") # "the birthplace of Ana Velm"
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from rods.envs.search.documents import Document, words
from rods.infra.files import toml_of

PERSON, TOWN, RIVER, LAKE, COMPANY, BOOK = "person", "town", "river", "lake", "company", "book"
NUMBER = "number"  # A value that nothing more can be asked about


class Relation(NamedTuple):
    """One thing that can be asked about a kind of entity."""

    name: str
    of: str
    """Kind of the subject."""
    to: str
    """Kind of the value."""
    ask: str
    """The question, with `{x}` for the subject."""
    query: str
    """Words to look for beside the subject's name."""
    stated: tuple[str, ...]
    """Sentences with `{x}` and `{y}`; a document uses one of them."""
    noun: str = ""
    """The value by a phrase, to stand for `{x}` in another question; empty for numbers."""
    unit: str = ""
    """Unit of a number."""


_TABLES = toml_of("envs", "search", "relations.toml")
RANGES: dict[str, tuple[int, int]] = {  # First and last of the numbers that a relation may have
    row["name"]: tuple(row.pop("range")) for row in _TABLES["relations"] if "range" in row
}
RELATIONS = tuple(
    Relation(**row)._replace(stated=tuple(row["stated"]))
    for row in cast("list[dict[str, Any]]", _TABLES["relations"])
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
BY_KIND = {
    kind: tuple(r for r in RELATIONS if r.of == kind)
    for kind in (PERSON, TOWN, RIVER, LAKE, COMPANY, BOOK)
}
OPENINGS: dict[str, tuple[str, ...]] = {k: tuple(v) for k, v in _TABLES["openings"].items()}
"""Sentences that say nothing that is asked."""
ASIDES: tuple[str, ...] = tuple(_TABLES["asides"])
"""Sentences that join a person and a town by nothing that is asked."""


PROVINCES, SEED = 64, 20260  # Provinces and seed of the bundled world: the same in every run
COUNTS = {PERSON: 10, TOWN: 6, RIVER: 4, LAKE: 3, COMPANY: 5, BOOK: 5}  # Entities of a province
HOUSES = 4  # Family names of a province; so several people share one
_ONSETS = ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st")
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("", "", "l", "n", "r", "s", "k", "m")
_COMPANIES = ("Mills", "Forge", "Traders", "Press")
_BOOKS = ("Letters to {}", "Songs of {}", "A Winter with {}", "Beyond {}")


@dataclass(frozen=True, slots=True)
class Province:
    """Entities that are related among themselves only."""

    number: int
    kinds: Mapping[str, str]
    """Kind of each entity by name."""
    facts: Mapping[tuple[str, str], str]
    """Value by subject and name of the relation."""


@dataclass(frozen=True, slots=True)
class Atlas:
    """A world and its documents."""

    provinces: tuple[Province, ...]
    documents: tuple[Document, ...]

    def value(self, subject: str, relation: str) -> str:
        """Object of a relation for a subject; raises `KeyError` if there is none."""
        for province in self.provinces:
            if (subject, relation) in province.facts:
                return province.facts[subject, relation]
        raise KeyError((subject, relation))


@lru_cache(maxsize=4)
def make_atlas(provinces: int = PROVINCES, seed: int = SEED) -> Atlas:
    """The world of a seed; the first provinces are the same whatever their number."""
    names = _Names(random.Random(f"rods-atlas-names-{seed}"))
    found: list[Province] = []
    documents: list[Document] = []
    for number in range(provinces):
        rng = random.Random(f"rods-atlas-{seed}-{number}")
        province = _province(number, names, rng)
        found.append(province)
        texts = [(e, _article(e, kind, province, rng)) for e, kind in province.kinds.items()]
        texts += _notes(province, rng)
        rng.shuffle(texts)  # no order that tells anything
        for title, text in texts:
            documents.append(Document(f"{number}-{len(documents)}", title, text))
    return Atlas(tuple(found), tuple(documents))


class _Names:
    """Words that no name of the world has had before, and no sentence of it has."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        sentences = [text for relation in RELATIONS for text in (*relation.stated, relation.query)]
        sentences += [text for texts in OPENINGS.values() for text in texts] + [*ASIDES, *_BOOKS]
        sentences += [relation.ask for relation in RELATIONS] + [*_COMPANIES, "Lake"]
        self._used = {word for text in sentences for word in words(text)}

    def word(self) -> str:
        rng = self._rng
        while True:
            parts = [
                rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
                for _ in range(rng.choice((2, 2, 3)))
            ]
            word = "".join(parts)
            if len(word) > 4 and word not in self._used:
                self._used.add(word)
                return word.capitalize()


def _province(number: int, names: _Names, rng: random.Random) -> Province:
    houses = [names.word() for _ in range(HOUSES)]
    made: dict[str, list[str]] = {
        PERSON: [f"{names.word()} {houses[i % HOUSES]}" for i in range(COUNTS[PERSON])],
        TOWN: [names.word() for _ in range(COUNTS[TOWN])],
        RIVER: [names.word() for _ in range(COUNTS[RIVER])],
        LAKE: [f"Lake {names.word()}" for _ in range(COUNTS[LAKE])],
        COMPANY: [f"{names.word()} {rng.choice(_COMPANIES)}" for _ in range(COUNTS[COMPANY])],
        BOOK: [rng.choice(_BOOKS).format(names.word()) for _ in range(COUNTS[BOOK])],
    }
    facts: dict[tuple[str, str], str] = {}
    for kind, entities in made.items():
        for subject in entities:
            for relation in BY_KIND[kind]:
                if relation.to == NUMBER:
                    value = str(rng.randint(*RANGES[relation.name]))
                else:
                    value = rng.choice([e for e in made[relation.to] if e != subject])
                facts[subject, relation.name] = value
    return Province(number, {e: kind for kind, all_ in made.items() for e in all_}, facts)


def _article(entity: str, kind: str, province: Province, rng: random.Random) -> str:
    facts = [
        rng.choice(relation.stated).format(x=entity, y=province.facts[entity, relation.name])
        for relation in BY_KIND[kind]
    ]
    if kind == PERSON:
        home = province.facts[entity, "birthplace"]
        towns = [e for e, k in province.kinds.items() if k == TOWN and e != home]
        facts.append(rng.choice(ASIDES).format(x=entity, y=rng.choice(towns)))
    rng.shuffle(facts)
    return " ".join([rng.choice(OPENINGS[kind]).format(x=entity), *facts])


def _notes(province: Province, rng: random.Random) -> list[tuple[str, str]]:
    """Documents that name people and towns without a fact."""
    people = [e for e, kind in province.kinds.items() if kind == PERSON]
    towns = [e for e, kind in province.kinds.items() if kind == TOWN]
    houses = sorted({person.split()[-1] for person in people})
    notes: list[tuple[str, str]] = []
    for house in houses:
        bearers = " ".join(f"{p} bears it." for p in people if p.endswith(house))
        notes.append((f"The name {house}", f"The name {house} is an old one. {bearers}"))
    first, second = rng.sample(towns, 2)
    road = f"The road from {first} to {second} is in good order. An inn stands half way."
    return [*notes, (f"The road to {second}", road)]

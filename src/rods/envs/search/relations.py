"""The relations of the generated world: how each is asked, named and stated.

Owns the sentences. Each relation gives a subject exactly one value, so a chain of them has exactly
one end. Never knows who exists; that is `atlas.py`.

    BY_NAME["river"].ask.format(x="Okdal")          # "Which river flows through Okdal?"
    BY_NAME["birthplace"].noun.format(x="Ana Velm") # "the birthplace of Ana Velm"
"""

from __future__ import annotations

from typing import NamedTuple

PERSON, TOWN, RIVER, LAKE, COMPANY, BOOK = "person", "town", "river", "lake", "company", "book"
NUMBER = "number"
"""A value that nothing more can be asked about."""


class Relation(NamedTuple):
    """One thing that can be asked about a kind of entity."""

    name: str
    of: str
    """Kind of the subject."""
    to: str
    """Kind of the value."""
    ask: str
    """The question, with `{x}` for the subject."""
    noun: str
    """The value by a phrase, to stand for `{x}` in another question."""
    query: str
    """Words to look for beside the subject's name."""
    stated: tuple[str, ...]
    """Sentences with `{x}` and `{y}`; a document uses one of them."""
    unit: str = ""
    """Of a number."""


RELATIONS = (
    Relation(
        "birthplace", PERSON, TOWN, "In which town was {x} born?", "the birthplace of {x}", "born",
        ("{x} was born in {y}.", "{y} is the town where {x} was born.",
         "The childhood home of {x}, who was born there, stands in {y}."),
    ),
    Relation(
        "birth year", PERSON, NUMBER, "In which year was {x} born?", "", "born year",
        ("The year of birth of {x} is {y}.", "{x} came into the world in {y}."),
    ),
    Relation(
        "employer", PERSON, COMPANY, "Which company does {x} work for?", "the employer of {x}",
        "works for company",
        ("{x} works for {y}.", "{y} has {x} on its staff.", "{x} earns a living at {y}."),
    ),
    Relation(
        "teacher", PERSON, PERSON, "Who taught {x}?", "the teacher of {x}", "taught teacher",
        ("{x} was taught by {y}.", "The teacher of {x} was {y}.", "{y} had {x} as a pupil."),
    ),
    Relation(
        "river", TOWN, RIVER, "Which river flows through {x}?", "the river of {x}", "river",
        ("{x} lies on the river {y}.", "The river {y} flows through {x}.",
         "The bridges of {x} cross the river {y}."),
    ),
    Relation(
        "mayor", TOWN, PERSON, "Who is the mayor of {x}?", "the mayor of {x}", "mayor",
        ("The mayor of {x} is {y}.", "{x} has {y} as its mayor.", "{y} leads {x} as mayor."),
    ),
    Relation(
        "town charter", TOWN, NUMBER, "In which year was {x} founded?", "", "founded year",
        ("{x} was founded in {y}.", "The charter of {x}, by which it was founded, is of {y}."),
    ),
    Relation(
        "lake", RIVER, LAKE, "Into which lake does {x} flow?", "the lake that {x} flows into",
        "flows lake",
        ("The river {x} flows into {y}.", "{y} takes in the water of the river {x}.",
         "The river {x} ends in {y}."),
    ),
    Relation(
        "length", RIVER, NUMBER, "How many kilometres long is {x}?", "", "long kilometres",
        ("The river {x} is {y} kilometres long.",
         "From its spring to its mouth the river {x} runs {y} kilometres."),
        "kilometres",
    ),
    Relation(
        "depth", LAKE, NUMBER, "How many metres deep is {x}?", "", "deep metres",
        ("{x} is {y} metres deep.", "The bottom of {x} lies {y} metres down."), "metres",
    ),
    Relation(
        "seat", COMPANY, TOWN, "In which town is {x} based?", "the seat of {x}", "based seat",
        ("{x} is based in {y}.", "The seat of {x} is {y}.", "{y} is home to {x}."),
    ),
    Relation(
        "founder", COMPANY, PERSON, "Who founded {x}?", "the founder of {x}", "founded founder",
        ("{x} was founded by {y}.", "{y} founded {x}.", "The founder of {x} is {y}."),
    ),
    Relation(
        "author", BOOK, PERSON, "Who wrote {x}?", "the author of {x}", "wrote author",
        ("{x} was written by {y}.", "{y} wrote {x}.", "The author of {x} is {y}."),
    ),
    Relation(
        "pages", BOOK, NUMBER, "How many pages does {x} have?", "", "pages",
        ("{x} has {y} pages.", "There are {y} pages in {x}."), "pages",
    ),
)  # fmt: skip

BY_NAME = {relation.name: relation for relation in RELATIONS}
BY_KIND = {
    kind: tuple(r for r in RELATIONS if r.of == kind)
    for kind in (PERSON, TOWN, RIVER, LAKE, COMPANY, BOOK)
}

RANGES = {
    "birth year": (1700, 1999),
    "town charter": (900, 1699),
    "length": (20, 999),
    "depth": (5, 399),
    "pages": (60, 999),
}
"""First and last of the numbers that a relation may have."""

OPENINGS = {
    PERSON: ("{x} is remembered in the province.", "Little else is written of {x}."),
    TOWN: ("{x} is a town with a market.", "Travellers know the town {x} for its bread."),
    RIVER: ("The river {x} is quiet in summer.", "Boats have used the river {x} for long."),
    LAKE: ("{x} freezes in hard winters.", "Fishers come to {x} in spring."),
    COMPANY: ("{x} keeps its books with care.", "The company {x} is known for steady work."),
    BOOK: ("{x} is a book that many own.", "The book {x} is still read."),
}
"""Sentences that say nothing that is asked."""

ASIDES = (
    "{x} once spent a summer in {y}.",
    "A letter from {x} to a friend in {y} is kept in an archive.",
    "{x} is said to have walked to {y} in a single day.",
)
"""Sentences that join a person and a town by nothing that is asked."""

"""The relations of the generated world: how each is asked, named and stated.

Owns the form of the sentences in `relations.toml`. Each relation gives a subject exactly one value,
so a chain of them has exactly one end. Never knows who exists; that is `atlas.py`.

    BY_NAME["river"].ask.format(x="Okdal")          # "Which river flows through Okdal?"
    BY_NAME["birthplace"].noun.format(x="Ana Velm") # "the birthplace of Ana Velm"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple, cast

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
    query: str
    """Words to look for beside the subject's name."""
    stated: tuple[str, ...]
    """Sentences with `{x}` and `{y}`; a document uses one of them."""
    noun: str = ""
    """The value by a phrase, to stand for `{x}` in another question; empty for numbers."""
    unit: str = ""
    """Of a number."""


def _read() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("relations.toml").read_text("utf-8"))


_TABLES = _read()
RANGES: dict[str, tuple[int, int]] = {
    row["name"]: tuple(row.pop("range")) for row in _TABLES["relations"] if "range" in row
}
"""First and last of the numbers that a relation may have."""
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

"""Lists of words: names, nouns, courtesy, words and phrases that make sense in each other's place.

Owns reading `words.toml`. Never draws, never judges.

    alike_words()["trip"]                                   # ("journey", "tour")
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class WordLists:
    """The lists of `words.toml`."""

    first_names: tuple[str, ...]
    surnames: tuple[str, ...]
    nouns: tuple[str, ...]
    extensions: tuple[str, ...]
    greetings: tuple[str, ...]
    connectors: tuple[str, ...]
    closings: tuple[str, ...]
    openers: tuple[tuple[str, ...], ...]
    alike: tuple[tuple[str, ...], ...]
    """Words that make sense in each other's place."""


@functools.cache
def word_lists() -> WordLists:
    """The lists that are shipped."""
    listed = files("rods").joinpath("synthesis", "structure", "words.toml")
    data = tomllib.loads(listed.read_text(encoding="utf-8"))
    openers, alike = (tuple(map(tuple[str, ...], data.pop(k))) for k in ("openers", "alike"))
    plain = {key: tuple(words) for key, words in data.items()}
    return WordLists(**plain, openers=openers, alike=alike)


@functools.cache
def alike_words() -> Mapping[str, tuple[str, ...]]:
    """Each word to those of its group that take the same article, in the same number."""
    listed = word_lists().alike
    plurals = ([_plural(word) for word in group if not word.endswith("s")] for group in listed)
    groups = [*listed, *plurals]
    return {w: tuple(o for o in g if o != w and _vowel(o) == _vowel(w)) for g in groups for w in g}


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("ch", "sh", "x")) else "s")


def _vowel(word: str) -> bool:
    return word[0] in "aeiou"

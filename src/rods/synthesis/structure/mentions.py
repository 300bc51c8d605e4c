"""Values that a message says: numbers, quoted texts, dates, file names, codes, mentions, tags.

Owns finding them in text and looking them up. Never says what they should be.

    tokens_in("Buy 40 shares of 'ACME'")                    # number 40.0, quoted acme
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import NamedTuple

from rods.synthesis.structure.sources import numbers_in

_PATTERNS = (
    ("date", re.compile(r"(?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-])")),
    (
        "quoted",
        re.compile(r"(?<!\w)'([^'\n]{1,120})'(?!\w)|\"([^\"\n]{1,120})\"|“([^”\n]{1,120})”"),
    ),
    ("mention", re.compile(r"(?<!\w)@\w+")),
    ("tag", re.compile(r"(?<!\w)#\w+")),
    ("file", re.compile(r"(?<![\w.])[\w-]+\.[A-Za-z][A-Za-z0-9]{1,4}(?![\w.]*\w)")),
    ("code", re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{3,}(?![\w-])")),
    ("capitals", re.compile(r"(?<!\w)[A-Z]{3,5}(?!\w)")),
)
_ORDINAL = re.compile(r"\d+(st|nd|rd|th|s|am|pm|k|m|x)", re.I)
_STRIP = " .,;:!?\"'"


class Token(NamedTuple):
    """One value in a message."""

    kind: str
    text: str
    """In lower case, without punctuation around it."""


def tokens_in(text: str) -> tuple[Token, ...]:
    """The values that a text says, each once."""
    found: dict[Token, None] = {}
    rest = text
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(rest):
            said = next((g for g in match.groups() if g), match.group()).strip(_STRIP).lower()
            if said and not _ORDINAL.fullmatch(said):
                found[Token(kind, said)] = None
        rest = pattern.sub(" ", rest)
    found.update((Token("number", repr(number)), None) for number in sorted(numbers_in(rest)))
    return tuple(found)


class KnownTexts:
    """Texts in which values are looked up."""

    def __init__(self, texts: Iterable[str], acronyms: Collection[str] = ()):
        """Args: the texts; words in capitals (given in lower case) that are known anyway."""
        self._text = "\n".join(texts).lower()
        self._acronyms = acronyms

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self._text))

    @cached_property
    def _numbers(self) -> set[float]:
        return numbers_in(self._text) | {float(w) for w in self._words if w.isdecimal()}

    def __contains__(self, token: Token) -> bool:
        """Whether a text holds it; short words must stand alone."""
        if token.kind == "number":
            return float(token.text) in self._numbers
        if token.kind == "capitals" and token.text in self._acronyms:
            return True
        needle = token.text.lstrip("@#")
        if needle.isalnum() and len(needle) <= 5:
            return needle in self._words
        return needle in self._text

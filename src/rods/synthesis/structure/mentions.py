"""Values that a text says: dates in any form that people write, numbers, quoted texts, codes, tags.

[m] = find_dates("on March 3rd, 2026")
m.render(date(2027, 11, 12))                          # "November 12th, 2027"
tokens_in("Buy 40 shares of 'ACME'")                    # number 40.0, quoted acme
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import NamedTuple

from rods.synthesis.structure.sources import numbers_in

_NAMES = "January February March April May June July August September October November December"
_MONTHS = _NAMES.split()
_INDEX = {name[:3].lower(): number for number, name in enumerate(_MONTHS, 1)}
_MONTH = r"(?P<month>" + "|".join(f"{m}|{m[:3]}" for m in _MONTHS) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?P<suffix>st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_FORMS = (
    rf"(?<![\w-]){_YEAR}(?P<sep>[-/])(?P<mm>\d{{1,2}})(?P=sep)(?P<dd>\d{{1,2}})(?![\w-])",
    rf"(?<![\w/])(?P<mm>\d{{1,2}})(?P<sep>/)(?P<dd>\d{{1,2}})(?P=sep){_YEAR}(?![\w/])",
    rf"(?<!\w){_MONTH} (?:the )?{_DAY}(?:(?P<gap>,? (?:of )?){_YEAR})?(?!\w)",
    rf"(?<!\w){_DAY} (?P<of>of )?{_MONTH}(?:(?P<gap>,? ){_YEAR})?(?!\w)",
)
_DATES = tuple(re.compile(form, re.I) for form in _FORMS)


def only_dates(words: Iterable[str]) -> bool:
    """Tell whether words are nothing but the names of months and numbers of days and years."""
    found = [word.lower().strip(".,") for word in words]
    months = [word for word in found if word[:3] in _INDEX and word.isalpha()]
    numbers = [word for word in found if re.fullmatch(r"\d{1,4}(?:st|nd|rd|th)?", word)]
    return bool(months) and len(months) + len(numbers) == len(found)


class DateMention(NamedTuple):
    """One date in a text."""

    start: int
    end: int
    month: int
    day: int
    year: int | None
    """None where the text names month and day alone."""
    text: str
    form: int
    """Which of the surface forms it is written in."""

    def matches(self, date: datetime.date) -> bool:
        """Tell whether it can mean this date."""
        return (self.month, self.day) == (date.month, date.day) and self.year in (None, date.year)

    def render(self, date: datetime.date) -> str:
        """Another date in the same form."""
        if (match := _DATES[self.form].fullmatch(self.text)) is None:
            return self.text
        text, fields = self.text, _fields(match, date).items()
        found = [(*match.span(group), value) for group, value in fields if match[group] is not None]
        for start, end, value in sorted(found, reverse=True):
            text = text[:start] + value + text[end:]
        return text


def _fields(match: re.Match[str], date: datetime.date) -> dict[str, str]:
    groups = match.re.groupindex
    values: dict[str, str] = {}
    if "year" in groups:
        values["year"] = str(date.year)
    if "mm" in groups:
        values["mm"] = str(date.month).zfill(len(match.group("mm")))
        values["dd"] = str(date.day).zfill(len(match.group("dd")))
        return values
    name = _MONTHS[date.month - 1]
    old = match.group("month")
    values["month"] = name if len(old) > 3 or old == "May" else name[:3]
    values["day"] = str(date.day)
    if match.group("suffix"):
        last = 0 if 11 <= date.day <= 13 else date.day % 10
        values["suffix"] = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return values


def find_dates(text: str) -> list[DateMention]:
    """All dates of a text that exist in a calendar, in order, without overlaps."""
    found: list[DateMention] = []
    for form, pattern in enumerate(_DATES):
        for match in pattern.finditer(text):
            taken = any(match.start() < m.end and m.start < match.end() for m in found)
            mention = None if taken else _mention(match, form)
            if mention is not None:
                found.append(mention)
    return sorted(found)


def _mention(match: re.Match[str], form: int) -> DateMention | None:
    groups = match.groupdict()
    year = int(groups["year"]) if groups.get("year") else None
    if "mm" in groups:
        month, day = int(groups["mm"]), int(groups["dd"])
    else:
        month, day = _INDEX[groups["month"][:3].lower()], int(groups["day"])
    try:
        datetime.date(year or 2024, month, day)
    except ValueError:
        return None
    return DateMention(match.start(), match.end(), month, day, year, match.group(), form)


def iso(text: str) -> datetime.date | None:
    """The date of a `YYYY-MM-DD` string, None for anything else."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


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
            value = next((g for g in match.groups() if g), match.group()).strip(_STRIP).lower()
            if value and not _ORDINAL.fullmatch(value):
                found[Token(kind, value)] = None
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
        """Tell whether a text holds it; short words must stand alone."""
        if token.kind == "number":
            return float(token.text) in self._numbers
        if token.kind == "capitals" and token.text in self._acronyms:
            return True
        needle = token.text.lstrip("@#")
        if needle.isalnum() and len(needle) <= 5:
            return needle in self._words
        return needle in self._text

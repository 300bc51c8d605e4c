"""Dates in texts: found in every form that people write, rendered in the same form.

Owns the surface forms of calendar dates. Never decides which date comes instead.

    [m] = find_dates("on March 3rd, 2026")
    m.render(date(2027, 11, 12))                          # "November 12th, 2027"
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import NamedTuple

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
_PATTERNS = tuple(re.compile(form, re.I) for form in _FORMS)


def only_dates(words: Iterable[str]) -> bool:
    """Whether words are nothing but the names of months and numbers of days and years."""
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
        """Whether it can mean this date."""
        return (self.month, self.day) == (date.month, date.day) and self.year in (None, date.year)

    def render(self, date: datetime.date) -> str:
        """Another date in the same form."""
        match = _PATTERNS[self.form].fullmatch(self.text)
        if match is None:
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
        values["suffix"] = _suffix(date.day)
    return values


def _suffix(day: int) -> str:
    if 11 <= day <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def find_dates(text: str) -> list[DateMention]:
    """All dates of a text that exist in a calendar, in order, without overlaps."""
    found: list[DateMention] = []
    taken: list[tuple[int, int]] = []
    for form, pattern in enumerate(_PATTERNS):
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            mention = _mention(match, form)
            if mention is not None:
                found.append(mention)
                taken.append(match.span())
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

r"""Units behind answers: which ones two answers name, and the answers without them.

Owns which words are units that can differ. Never converts one into another.

    without_units(r"12 \text{ cm}^2", "12 cm²")     # ("12", "12")
    without_units("12 cm", r"12\text{ cm}^2")       # None: another unit
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAMES = {
    name: names.split()[0]
    for names in [
        "mm millimeter millimetre", "cm centimeter centimetre", "m meter metre",
        "km kilometer kilometre", "in inch inches",
        "ft foot feet", "yd yard", "mi mile", "mg milligram", "g gram", "kg kilogram", "oz ounce",
        "lb", "pound", "£ gbp", "ton", "deg degree \\circ \\degree", "rad radian",
        "ms millisecond", "s sec second", "min minute", "h hr hour", "day", "week", "month",
        "year", "ml milliliter millilitre", "l liter litre", "mph", "km/h kph kmh",
        "kwh",
        "am a.m. a.m", "pm p.m. p.m", "dollar usd \\$ $", "euro €", "cent ¢",
    ]
    for name in names.split()
}  # fmt: skip
"""The symbol of each word without its plural; other words behind a number name no known unit."""
_PART = (
    r"(?:(?:[Ss]q(?:uare)?|[Cc]u(?:bic)?)\.?\s+)?(?:[AaPp]\.[Mm]\.?|[A-Za-z]+|¢)"
    r"(?:\s*\^\s*\{?[23]\}?)?"
)
_BEHIND = re.compile(
    rf"(?P<head>.*(?:[\d)}}%$]|\\pi))(?P<gap>(?:\s|\\[,;:! ]|~)*)"
    r"(?:(?P<set>\\(?:text(?:rm|bf|normal)?|mathrm|mbox|operatorname)\s*\{)[\s~]*)?"
    rf"(?P<unit>{_PART}(?:\s*(?:/|per\s)\s*{_PART})?)\s*(?(set)[\s~]*\}})"
    r"(?:\s*\^\s*\{?(?P<power>[23])\}?)?[\s.$]*",
    re.DOTALL,
)
_INSIDE = re.compile(r"^\s*\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}\s*$")
_NO_LETTERS = re.compile(r"\\(?:text|mathrm)\s*\{[^{}]*\}|\\[A-Za-z]+|.*=")
_ONE = re.compile(r"\s*(?:(sq|cu)\w*\.?\s+)?([^\s^]+)(?:\s*\^\s*\{?([23])\}?)?\s*")
_SIGN = re.compile(
    r"\\\$|\A\s*\$(?=[^$]+\Z)|[£¥¢\u20a0-\u20cf]|\\circ\s*\}?\s*(?:\\(?:text|mathrm)\s*\{\s*)?[CF]\b"
    r"|\\circ(?![A-Za-z])|\\degree"
)
_EITHER = ({"pound", "lb"}, {"pound", "£"}, {"deg", "C"}, {"deg", "F"})
"""Units of which the one may mean the other: a pound of money or of flour, a degree of heat."""


class _Answer(NamedTuple):
    """An answer with the unit that it names, or an empty text."""

    text: str
    head: str
    unit: str = ""
    sure: bool = True
    """Whether it cannot be a variable: `3h` can, `3 h` hardly."""
    gap: bool = False


def without_units(answer: str, reference: str) -> tuple[str, str] | None:
    """Both texts without known units; None where their units differ."""
    mine, theirs = _read(answer), _read(reference)
    same = mine.unit == theirs.unit or {mine.unit, theirs.unit} in _EITHER
    if mine.unit and theirs.unit and not same:
        return None
    return (
        mine.head if same or mine.sure or mine.gap else mine.text,
        theirs.head if same or theirs.sure else theirs.text,
    )


def _read(text: str) -> _Answer:
    match = _BEHIND.fullmatch(_INSIDE.sub(r"\1", text))
    if match is None or not (unit := _symbol(match["unit"], match["power"] or "")):
        sign = _SIGN.search(text)
        return _Answer(text, text, _NAMES.get(sign[0], sign[0][-1]) if sign else "")
    head = match["head"]
    if re.search("[A-Za-z]", _NO_LETTERS.sub("", head)):  # a product of letters
        return _Answer(text, text)
    if re.search(r"\\(?:text|mathrm)", head):  # 3 ft 2 in
        return _Answer(text, text, unit)
    sure = bool(match["set"]) or "/" in unit or len(unit.rstrip("23")) > 1
    return _Answer(text, re.sub(r"(?<!\\)\$", "", head), unit, sure, bool(match["gap"]))


def _symbol(words: str, power: str) -> str:
    """One spelling of a unit: `cm2`, `km/h`; an empty text for an unknown one."""
    found: list[str] = []
    for part in re.split(r"/|\bper\s", words.lower()):
        match = _ONE.fullmatch(part)
        name = _NAMES.get(match[2]) or _NAMES.get(match[2].removesuffix("s")) if match else None
        if match is None or name is None:
            return ""
        found.append(name + (match[3] or {"sq": "2", "cu": "3"}.get(match[1], "")))
    return "/".join(found).replace("mph", "mi/h") + power

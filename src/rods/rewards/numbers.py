r"""Numbers of answers: one spelling for what LaTeX can spell in many ways, and their values.

Owns what counts as a number that is worked out. Reads and never evaluates, so nothing can blow up.

    tidy(r"x = \dfrac12")               # r"\frac{1}{2}"
    read_number(r"1\frac{1}{2} \text{ cm}").value       # Fraction(3, 2)
    read_number("2^{10}")               # None: still to be worked out

A thousands separator is a comma between whole groups of three digits, without blanks and never in
a list. So `0,100`, `1, 100` and `(1,100)` are lists. LaTeX also writes it `{,}`, `,\!` or `\,`.
Nothing else joins digits: `1\;000` and `$1$ $3$` are two numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from rods.rewards.latex import as_latex
from rods.rewards.verifier import LONGEST

Form = Literal["decimal", "scientific", "repeating", "fraction", "mixed"]
"""How a number is written; an integer is a decimal."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number and how it is written."""

    value: Fraction
    """Without its percent sign."""
    form: Form
    percent: bool = False
    exact: bool = True
    """False: a decimal with a point, so it may have been rounded."""
    reduced: bool = True
    """False: a fraction that is not in lowest terms."""

    @property
    def real(self) -> Fraction:
        """The value, hundredths where there is a percent sign."""
        return self.value / 100 if self.percent else self.value

    @property
    def written(self) -> tuple[Form, bool]:
        """What kind of number it is for a question that asks for another kind."""
        return self.form, self.percent


_MONEY = dict.fromkeys((0xA3, 0xA5, *range(0x20A0, 0x20D0)), "$")
APART = "\x01"
"""Stands between numbers beside each other, which are not one."""
_SPACE = r"(?:\s|\\[,;:! ]|\\q?quad|~)"
_UNSEEN = (
    rf"(?:{_SPACE}|\\(?:left|right)(?![a-z])|\\(?:thin|en)space|\^\{{?\\circ\}}?|\\degree|"
    r"\\displaystyle|\\[()\[\]]|(?:\bUS)?\\?\$)"
)
"""What changes no value; currencies are dollars here."""
_GROUPED = re.compile(
    r"(?<!\\,)(?<!\{,\})(?<![\d.!])[1-9]\d{0,2}(?:(?:\{,\}|,\\!\s*|\\,)\d{3})+(?!\d)", re.ASCII
)
_SPELT: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(old), new)
    for old, new in (
        (r"\{,\}", ","),
        (r"\\varnothing|\\\{\s*\\\}", r"\\emptyset "),
        (r"(\.\d{3,20})(?:\.{3}|\\[lc]?dots)", r"\1"),  # a decimal that goes on
        (r"\\(?:text|math)(?:bf|it|rm|sf|tt|normal)?\s*\{([^{}]*)\}", r" \1 "),
        (r"\\(?:mbox|boldsymbol|underline)\s*\{([^{}]*)\}|\{\\bf\s([^{}]*)\}", r" \1\2 "),
        (r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
        (r"\\[dtc]?frac\s*(\d)\s*(?=\d)", r"\\frac{\1}"),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\div(?![A-Za-z])|\bdivided by\b", "/"),
        (rf"(?<=\d){_SPACE}+(?=\d+\s*/\s*\d|\\frac)", "&"),  # a mixed number: 1 1/2
        (r"(?<=\d)\s*\\?%", "%"),
        (r"(?<=\d)\s*(?:per\s?cent|pct)\b", "%"),
        (r"(?<=\d)\s*\^\s*\{?\s*(?:th|st|nd|rd)\b\s*\}?", ""),
        (rf"{_UNSEEN}+", " "),
        (r",? (?:and|or) | ?, | ,|;", ";"),  # a comma of lists alone
        (r"(?<=\d)(?: \.? ?|\. )(?=\d)", APART),
        (" ", ""),
        (r"\\frac(\d)(?=\{)", r"\\frac{\1}"),
        (r"\\frac(\{[^{}]*\})(\d)", r"\\frac\1{\2}"),
        (r"\\sqrt(\w)", r"\\sqrt{\1}"),
    )
)
_OVER = re.compile(r"(\A|\$)\s*(-?\d{1,60})\s*\\over\s*(\d{1,60})\s*(?=\$|\Z)")
_NAMED = re.compile(
    r"(?:[A-Za-z](?:\([A-Za-z]\))?|\([A-Za-z](?:[,;][A-Za-z])+\))=(?=[^=])|[A-Za-z]\\in(?=[\\(\[])"
)
_ABOUT = re.compile(r"\\(?:approx|simeq|sim)(?![A-Za-z])")
_AROUND = re.compile(r"\(([^()]*)\)|\\\{((?!\\emptyset)[^{}]*)\\\}|\{([^{}]*)\}")
_STOP = re.compile(r"(?<!\.)\.$")
"""The end of a sentence; several dots leave something out."""


def tidy(text: str) -> str:
    """One spelling for many; `;` stands for a comma that can only part the items of a list."""
    text = _STOP.sub("", text.strip().strip("*"))
    if len(text) > LONGEST:
        return text
    text = _STOP.sub("", spelt(text))
    text = _NAMED.sub("", text, count=1) if _NAMED.match(text) else text
    if match := _ABOUT.match(text):
        text = text[match.end() :]
    while (match := _AROUND.fullmatch(text)) and not re.search("[,;]", text):
        text = match[match.lastindex or 0]
    return text.removeprefix("+")


def spelt(text: str) -> str:
    """`tidy` of a text of any length, with all that stands around a value."""
    text = _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), as_latex(text).translate(_MONEY))
    if "\\over" in text:
        text = _OVER.sub(r"\1\\frac{\2}{\3}", text)
    for old, new in _SPELT:
        text = old.sub(new, text)
    return text


_LISTS = re.compile(r"[(\[;]|\\\{|\\[lr]?v?[lr]?angle|\b(?:and|or)\b|\A\s*\{")
_SEPARATED = re.compile(r"(?<![\d.,_])(?<!_\{)[1-9]\d{0,2}(?:,\d{3})+(?![\d,])", re.ASCII)


def ungrouped(answer: str, reference: str, question: str) -> tuple[str, str, str]:
    """Three texts, without thousands separators unless a list is among the first two."""
    texts = (answer, reference, question)
    one, other, asked = (_SEPARATED.sub(lambda m: m[0].replace(",", ""), t) for t in texts)
    listed = "," in one + other or _LISTS.search(answer) or _LISTS.search(reference)
    return texts if listed else (one, other, f"{question}\n{asked}")


_THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3}){1,20}"
_INTEGER = r"\d{1,60}"
_TEN = r"10\^(?:\{(?P<v>[+-]?\d{1,3})\}|(?P<w>-?\d{1,3}))"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:{_TEN}|"
    rf"(?:(?P<whole>{_INTEGER})&?)?\\frac\{{(?P<a>-?{_INTEGER})\}}\{{(?P<b>-?{_INTEGER})\}}"
    rf"|(?:(?P<mixed>{_INTEGER})&)?(?P<c>{_INTEGER})/(?P<d>{_INTEGER})"
    rf"|(?P<before>\d{{0,20}})\.(?P<still>\d{{0,20}})\\(?:overline|bar|dot)\{{(?P<ever>\d{{1,20}})\}}"
    rf"|(?P<decimal>(?:(?:{_THOUSANDS}|{_INTEGER})(?:\.\d{{0,60}})?|\.\d{{1,60}}))"
    r"(?:e(?P<e>[+-]?\d{1,3})|(?:\\times|\\cdot|\*|x)10\^(?:\{(?P<t>[+-]?\d{1,3})\}|(?P<u>-?\d{1,3})))?"
    r")(?P<percent>%?)",
    re.IGNORECASE | re.ASCII,
)
_VALUE = re.compile(rf"[+-]?(?:{_THOUSANDS}|\d{{1,60}})(?:\.\d{{0,60}})?", re.ASCII)


def is_value(text: str) -> bool:
    """Whether a text is digits alone, with a sign and a point: a value that is worked out."""
    return bool(_VALUE.fullmatch(tidy(text)))


def read_number(text: str, plain: str | None = None) -> Number | None:
    """The number that a text is, in one of the usual spellings, perhaps with a unit.

    `plain` is its tidy form, where that is known.
    """
    return number_of(tidy(text) if plain is None else plain) or _with_unit(text)


def number_of(plain: str) -> Number | None:
    """The number of a tidy text."""
    match = _NUMBER.fullmatch(re.sub(r"^-\(([^()+-]*)\)$", r"-\1", plain))
    return None if match is None else _read(match)


def numbers_in(text: str) -> Iterator[Number]:
    """The numbers that stand in a text, such as a question."""
    for match in _NUMBER.finditer(spelt(text)):
        if (number := _read(match)) is not None:
            yield number


def _read(match: re.Match[str]) -> Number | None:
    part = match.groupdict()
    exact, reduced, form = True, True, "decimal"
    over, under = part["a"] or part["c"], part["b"] or part["d"]
    if over is not None:
        if not int(under):
            return None
        whole = part["whole"] or part["mixed"]
        value, form = int(whole or 0) + Fraction(int(over), int(under)), "fraction"
        form = "mixed" if whole else form
        reduced = math.gcd(int(over), int(under)) == 1
    elif (ever := part["ever"]) is not None:
        still, form = part["still"], "repeating"
        nines = (10 ** len(ever) - 1) * 10 ** len(still)
        value = Fraction((part["before"] or "0") + "." + still + "0") + Fraction(int(ever), nines)
    else:
        digits = (part["decimal"] or "1").replace(",", "")
        power = next((part[name] for name in "etuvw" if part[name]), None)
        value = Fraction(digits + "0" if digits.endswith(".") else digits)
        value, form = value * Fraction(10) ** int(power or 0), "scientific" if power else form
        exact = "." not in digits and int(power or 0) >= 0
    sign = -1 if part["sign"] == "-" else 1
    return Number(sign * value, form, bool(part["percent"]), exact, reduced)


_SET = r"\\(?:text(?:rm|bf|normal)?|mathrm|mbox|operatorname)\s*"
_UNIT = re.compile(
    rf"(?P<body>.*[\d}}%)$]){_SPACE}*(?:"
    rf"{_SET}\{{{_SPACE}*(?P<text>[A-Za-z][A-Za-z./ -]*)\}}"
    rf"|(?P<short>th|st|nd|rd)|(?<=[\s~])(?P<words>(?:US )?[A-Za-z]{{3,}}(?:\s+[A-Za-z]+){{0,3}})"
    r"|\^\{?\\circ\}?\s*(?:\\\w+\{)?[CF]\}?|[\u00a3\u00a5\u20a0-\u20cf]|\(?\\[bp]?mod\s*\{?\d+\}?\)?)"
    r"(?:\s*\^\s*\{?[23]\}?)?\$?\.?",
    re.DOTALL,
)
_INSIDE = re.compile(rf"{_SET}\{{([^{{}}]*)\}}")
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NO_UNIT = frozenset(
    ["or", "and", "not", "more", "less", "least", "most", "than", "if", "unless", "except", "to",
     "mod", "base", "plus", "minus", "times", "over", "divided", "squared", "cubed", "factorial",
     "choose", "negative", "dozen", "dozens", "half", "halves"]
)  # fmt: skip
"""Words that say more than a unit."""
_PART = re.compile(r"(third|\w*(four|fif|six|even|eigh|nin|ten|elf|teen|ie|red|sand|illion)th)s?")


def _with_unit(text: str) -> Number | None:
    text = text.strip().strip("$").strip("*")
    if len(text) > LONGEST:
        return None
    if inside := _INSIDE.fullmatch(text):  # the whole answer in words: \text{13 apples}
        text = inside[1].strip()
    match = _UNIT.fullmatch(text)
    number = number_of(tidy(match["body"])) if match else None
    if match is None or number is None:
        return None
    words = (match["text"] or match["short"] or match["words"] or "").lower().split()
    if words and words[0] in _POWERS:
        power = 10 ** _POWERS[words.pop(0)]
        number = replace(number, value=number.value * power)
    if _NO_UNIT.intersection(words) or any(map(_PART.fullmatch, words)):
        return None
    return number

r"""When two final answers are the same: as text, as a value, or as mathematics.

Owns our own judges, which read and never evaluate, and when math-verify is asked. Never looks for
an answer in a text.

    same_text("The Eiffel Tower!", "eiffel tower")      # True: normalised, then exact
    same_value("6 + 7", "13")                           # False: not a value, it was not worked out
    math_verdict("x(x+1)", "x^2+x")                     # "right"

Our judge looks first: it knows equal text, numbers (fractions, decimals, thousands, percent signs)
and lists of them. All that it does not call the same goes to math-verify, in a bounded process
(`verifier.py`).
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rods.rewards.verifier import LONGEST, Verdict, ask

# -- texts ---------------------------------------------------------------------------


def same_text(answer: str, reference: str) -> bool:
    """Exact match of normalised texts, as question-answering benchmarks score it.

    Case, punctuation, articles and white space do not count. An answer of nothing else is wrong.
    """
    mine = _plain(answer)
    return bool(mine) and mine == _plain(reference)


def _plain(text: str) -> str:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", kept).split())


# -- values --------------------------------------------------------------------------------------


def is_value(text: str) -> bool:
    """Whether a text is a number that is worked out."""
    return bool(_VALUE.fullmatch(_tidy(text))) and not _APART.search(text)


def same_value(answer: str, reference: str) -> bool:
    """Whether an answer is the reference's value, worked out: digits, with a sign and a point.

    A question that asks for a value wants the value. What is still to be worked out is wrong
    (`6 + 7`, `26/2`, `2^3`, and so the question itself), and so is a value with a unit.
    """
    mine, theirs = (_number(_tidy(text)) for text in (answer, reference))
    return bool(is_value(answer) and mine and theirs and mine.value == theirs.value)


# -- mathematics ---------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def math_verdict(answer: str, reference: str) -> Verdict:
    """Whether two answers are the same mathematics, by our judge or else by math-verify.

    Raises:
        PrerequisiteError: math-verify has to be asked, and is not installed.
        EnvError: its process cannot be started.
    """
    if same_plain_math(answer, reference):
        return "right"
    if _WHOLE.fullmatch(answer.strip()) and _WHOLE.fullmatch(reference.strip()):
        return "wrong"  # two whole numbers need no algebra
    return ask(reference, answer)


def same_plain_math(answer: str, reference: str) -> bool:
    """Our own judge: equal text, equal words, equal numbers, or lists of such."""
    mine, theirs = _tidy(answer), _tidy(reference)
    if not mine or not theirs:
        return False
    if mine == theirs or _same_number(mine, theirs):
        return True
    if _WORDS.fullmatch(mine) and _WORDS.fullmatch(theirs):
        return mine.casefold() == theirs.casefold() or same_text(answer, reference)
    return _same_list(mine, theirs)


_WORDS = re.compile(r"[A-Za-z .,']+")
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_APART = re.compile(r"\d\s+\d", re.ASCII)
"""Numbers beside each other, which tidying would join."""
_VALUE = re.compile(r"[+-]?\d{1,60}(?:\.\d{0,60})?", re.ASCII)
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:,\d{3})+)(?![\d,])")
_DROPPED = re.compile(
    r"\\left|\\right|\\[,;:! ]|\\quad|\\qquad|\^\{?\\circ\}?|\\degree|\\mathrm|\\displaystyle|"
    r"\\\(|\\\)|\\\[|\\\]|\$|\s|~"
)
_NAMED = re.compile(r"^[A-Za-z](?:\([A-Za-z]\))?=(?=[^=])")


def _tidy(text: str) -> str:
    """One spelling for what LaTeX can spell in many ways."""
    text = text.strip().strip("*").rstrip(".")
    if len(text) > LONGEST:
        return text
    text = text.replace("\\$", "").replace("\u2212", "-").replace("{,}", ",")
    text = re.sub(r"\\text(?:bf|it|rm)?\s*\{([^{}]*)\}", r"\1", text)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    text = re.sub(r"(?<=\d)\s+(?=\d+\s*/\s*\d|\\frac)", "&", text)  # a mixed number: 1 1/2
    text = _DROPPED.sub("", text)
    text = text.replace("\\%", "%").rstrip(".")
    text = _NAMED.sub("", text)
    text = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", text)
    return _THOUSANDS.sub(lambda m: m[1] + m[2].replace(",", ""), text)


_ROUNDING = Fraction(5, 10_000_000)
_INTEGER = r"\d{1,60}"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:"
    rf"(?:(?P<whole>{_INTEGER})&?)?\\frac\{{(?P<a>-?{_INTEGER})\}}\{{(?P<b>{_INTEGER})\}}"
    rf"|(?:(?P<mixed>{_INTEGER})&)?(?P<c>{_INTEGER})/(?P<d>{_INTEGER})"
    rf"|(?P<decimal>(?:{_INTEGER}\.?\d{{0,60}}|\.\d{{1,60}})"
    r"(?:e(?P<e>[+-]?\d{1,3})|(?:\\times|\\cdot|\*)10\^\{?(?P<t>[+-]?\d{1,3})\}?)?)"
    r")%?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class _Number:
    value: Fraction
    exact: bool
    """False: written as a decimal, so it may have been rounded."""


def _number(text: str) -> _Number | None:
    """A number in one of the usual spellings; never evaluated, so nothing can blow up."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    over, under = part["a"] or part["c"], part["b"] or part["d"]
    if over is not None:
        if not int(under):
            return None
        value = int(part["whole"] or part["mixed"] or 0) + Fraction(int(over), int(under))
        exact = True
    else:
        digits = re.split(r"e|\\times|\\cdot|\*", part["decimal"].lower())[0]
        power = int(part["e"] or part["t"] or 0)
        value = Fraction(digits + "0" if digits.endswith(".") else digits) * Fraction(10) ** power
        exact = "." not in digits and power >= 0
    return _Number(-value if part["sign"] == "-" else value, exact)


def _same_number(mine: str, theirs: str) -> bool:
    """Equal; a decimal may be rounded to six places (as for math-verify) and to 1e-4 of itself."""
    a, b = _number(mine), _number(theirs)
    if a is None or b is None:
        return False
    if a.value == b.value:
        return True
    apart = abs(a.value - b.value)
    rounded = not (a.exact and b.exact)
    return rounded and apart <= _ROUNDING and apart <= abs(b.value) / 10_000


def _same_list(mine: str, theirs: str) -> bool:
    (a, left), (b, right) = _items(mine), _items(theirs)
    if len(left) != len(right) or len(left) < 2 or (a and b and a != b):
        return False
    if "\\{" in (a[:2], b[:2]):  # a set has no order
        left, right = sorted(left), sorted(right)
    return all(x == y or _same_number(x, y) for x, y in zip(left, right, strict=True))


def _items(text: str) -> tuple[str, list[str]]:
    """The brackets around a list ("" if none) and its items."""
    for start, end in (("\\{", "\\}"), *((o, c) for o in "([" for c in ")]")):
        if text.startswith(start) and text.endswith(end):
            return start + end, text[len(start) : -len(end)].split(",")
    return "", text.split(",")

r"""Answers in another notation than the reference's, rewritten before they are compared.

Owns inequalities as intervals, tuples as columns and the words of whole numbers. Never compares
values, and rewrites nothing that stands in the question: that would pay for a copy.

    alike(r"x \le 2", r"(-\infty,2]")                   # (r"(-\infty,2]", r"(-\infty,2]")
    alike("(1,2)^T", r"\begin{pmatrix}1\\2\end{pmatrix}")[0]    # the same column
    worded("twenty-one")                                # "21"
"""

from __future__ import annotations

import re

from rods.rewards.numbers import spelt, tidy

_ones = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_tens = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES, _TENS = _ones.split(), _tens.split()
_LISTED = [*_ONES, *(f"{ten} {one}".strip() for ten in _TENS for one in ("", *_ONES[1:10]))]
_WORDED = {word: number for number, word in enumerate([*_LISTED, "one hundred"])}
_RELATION = re.compile(r"<=?|>=?|\\[lg](?:eq?(?:slant)?|t)(?![A-Za-z])")
_LARGER = str.maketrans("<>\x02\x03", "><\x03\x02")
"""A relation read from right to left; the last two are the ones with equality."""
_INTERVAL = re.compile(r"[(\[][^()\[\]]+[;,][^()\[\]]+[)\]]")
_COLUMN = re.compile(r"[(\[]?\\begin\{([pb]?matrix|smallmatrix)\}([^&]*)\\end\{\1\}[)\]]?")
_TUPLE = re.compile(
    r"([(\[])([^()\[\]]+)[)\]](\^\{?(?:\\top|\\intercal|T|\\(?:math\w+|text)\{T\})\}?)?"
)


def worded(text: str) -> str | None:
    """The digits of a whole number in words, up to a hundred; None for anything else."""
    number = _WORDED.get(" ".join(text.lower().replace("-", " ").split()))
    return None if number is None else str(number)


def alike(answer: str, reference: str, question: str = "") -> tuple[str, str]:
    """Both texts in one notation, where the reference is an interval, inequality or column."""
    column = _COLUMN.fullmatch(_bare(reference)) if "\\begin" in reference else None
    related = column is None and _RELATION.search(answer)
    if not (column or related) or spelt(answer) in spelt(question):
        return answer, reference
    if column:
        return _as_column(_bare(answer)) or answer, _as_column(_bare(reference)) or reference
    mine, theirs, plain = _interval(answer), _interval(reference), tidy(reference)
    if mine and theirs and mine[0] == theirs[0]:
        return mine[1], theirs[1]
    half = _INTERVAL.fullmatch(plain) and re.search(r"[\[\]]|\\infty", plain)  # (1,2) is a point
    if mine and half and not re.search(r"\binterval", question, re.IGNORECASE):
        return mine[1], reference
    return answer, reference


def _bare(text: str) -> str:
    return re.sub(r"\s|\\[,;:!]|\\(?:left|right)(?![a-z])", "", text.strip(" $."))


def _interval(text: str) -> tuple[str, str] | None:
    """The variable of an inequality, and its interval; None where an end is no constant."""
    plain = spelt(_RELATION.sub(lambda match: _sign(match[0]), text))
    ends = re.split("([<>\x02\x03])", plain)
    if len(ends) == 3:
        less, named = ends[1] in "<\x02", ends[0].isalpha()
        far = "-\\infty" if less == named else "\\infty"
        ends = [far, "<" if less else ">", *ends] if named else [*ends, "<" if less else ">", far]
    if len(ends) == 5 and ends[1] in ">\x03":
        ends = [part.translate(_LARGER) for part in reversed(ends)]
    if len(ends) != 5 or not {ends[1], ends[3]} <= {"<", "\x02"}:
        return None
    low, first, name, second, high = ends
    bare = [re.sub(r"\\[A-Za-z]+", "0", end) for end in (low, high)]
    if not re.fullmatch("[A-Za-z]", name) or any(re.search("[A-Za-z,;=]|^$", e) for e in bare):
        return None
    return name, f"{'[' if first == chr(2) else '('}{low},{high}{']' if second == chr(2) else ')'}"


def _sign(written: str) -> str:
    """One character for a relation."""
    larger, equal = written[0] == ">" or written[1:2] == "g", bool(set("e=") & set(written))
    return ("\x03" if larger else "\x02") if equal else (">" if larger else "<")


def _as_column(plain: str) -> str | None:
    """A column of a tuple or of another matrix of one column; `[1,2]` may be a row."""
    if match := _COLUMN.fullmatch(plain):
        return f"\\begin{{pmatrix}}{match[2]}\\end{{pmatrix}}"
    match = _TUPLE.fullmatch(plain)
    items = match[2].split(",") if match and (match[1] == "(" or match[3]) else []
    body = "\\\\".join(items)
    return f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}" if len(items) > 1 else None

r"""When two final answers are the same: as text, as a value, or as mathematics.

Owns our own judges, which read and never evaluate, and when math-verify is asked. Never looks for
an answer in a text; how numbers are read: `numbers.py`; what was not worked out: `copies.py`.

    same_text("The Eiffel Tower!", "eiffel tower")      # True: normalized, then exact
    same_value("6 + 7", "13")                           # False: not a value, it was not worked out
    math_verdict("x(x+1)", "x^2+x")                     # "right"

Our judge decides what it can: equal text, words, numbers and lists of numbers. Where the reference
is a number, the answer must be a number that is worked out. All else goes to math-verify, in a
bounded process (`verifier.py`), unless it is copied from the question or still holds the work.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from rods.rewards.copies import STAND_IN, adds_up, copied, holds_work, wrapped
from rods.rewards.latex import as_latex
from rods.rewards.notations import alike, worded
from rods.rewards.numbers import (
    APART,
    Number,
    is_value,
    number_of,
    numbers_in,
    read_number,
    spelt,
    tidy,
    ungrouped,
)
from rods.rewards.units import without_units
from rods.rewards.verifier import LONGEST, Verdict, ask


def same_text(answer: str, reference: str) -> bool:
    """Exact match of normalized texts, as question-answering benchmarks score it.

    Case, punctuation, articles and white space do not count, but articles do in a text of nothing
    else: the answers `A` and `(A).` are the option `A`. An empty answer is wrong.
    """
    mine, theirs = (unicodedata.normalize("NFC", text.strip()) for text in (answer, reference))
    if mine.casefold() == theirs.casefold():
        return bool(mine)
    plain = _plain(mine)
    return bool(plain) and plain == _plain(theirs)


_QUOTES = "\u2018\u2019\u00b4\u201c\u201d"


def _plain(text: str) -> str:
    kept = "".join(c for c in text.lower() if c not in string.punctuation and c not in _QUOTES)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", kept).split() or kept.split())


def same_value(answer: str, reference: str) -> bool:
    """Whether an answer is the reference's value, worked out: digits, with a sign and a point.

    A question that asks for a value wants the value. What is still to be worked out is wrong
    (`6 + 7`, `26/2`, `2^3`, and so the question itself), and so is a value with a unit.
    """
    mine, theirs = (number_of(tidy(text)) for text in (answer, reference))
    return bool(is_value(answer) and mine and theirs and mine.value == theirs.value)


@lru_cache(maxsize=4096)
def math_verdict(answer: str, reference: str, question: str = "") -> Verdict:
    """Whether two answers are the same mathematics, by our judge or else by math-verify.

    An answer that is copied from the question is wrong.

    Raises:
        PrerequisiteError: math-verify has to be asked, and is not installed.
        EnvError: its process cannot be started.
    """
    if answer.strip() == reference.strip():
        return "right" if answer.strip() else "wrong"
    answer, reference, question = map(_spoken, (answer, reference, question))
    answer = (_LEAD.sub("", answer) if not _LEAD.match(reference) else "") or answer
    if max(len(answer), len(reference)) > LONGEST:
        return "length"
    if (bare := without_units(answer, reference)) is None:
        return "wrong"
    answer, reference, question = ungrouped(*bare, question)
    answer, reference = _in_order(*alike(answer, reference, question))
    if "=" in answer and not adds_up(answer):
        return "wrong"
    if "=" not in reference or read_number(reference):  # else it is an equation
        answer, reference = stated(answer), stated(reference)
    settled = own_verdict(answer, reference, question)
    if settled is not None:
        return settled
    if holds_work(answer, reference) or copied(answer, reference, question):
        return "wrong"
    said = ask(_written(reference), _written(answer))
    if said == "right":
        bare = (_written(one) for one in wrapped(answer, reference, question))
        said = "wrong" if any(ask(STAND_IN, one) == "right" for one in bare) else said
    return said


_LEAD = re.compile(
    r"(?:(?<![\s*])[\s*]+)?(\\text\s*\{\s*)?(?:the\s+)?(?:(?:final|correct)\s+)?(?:answer|option|choice)\b"
    r"(?:\s+is\b)?\s*[:=]?\s*(?(1)\})",
    re.IGNORECASE,
)
"""What announces an answer."""
_BRACKET_NAMES = (("\\lbrace", "\\{"), ("\\rbrace", "\\}"), ("\\langle", "("), ("\\rangle", ")"))


def _spoken(text: str) -> str:
    text = as_latex(text)
    for old, new in _BRACKET_NAMES if "\\" in text else ():
        text = text.replace(old, new)
    return text


_FUNCTIONS = re.compile(
    r"(?<![\\A-Za-z])(ln|log|sin|cos|tan|cot|sec|csc)(?=[\s({^_\d]|[A-Za-z](?![A-Za-z]))"
)
_PYTHON = ((r"\bpi\b", r"\\pi "), (r"\bexp\(([^()]*)\)", r"e^{\1}"), (r"\*\*", "^"))


def _written(text: str) -> str:
    """A text as math-verify reads it: what Python prints."""
    text = text.strip().strip("*")
    if "\\" not in text:
        for old, new in _PYTHON:
            text = re.sub(old, new, text)
    text = re.sub(r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup ", _FUNCTIONS.sub(r"\\\1", text))
    if text.count("\\pm") == 1 and "," not in text:
        text = ", ".join(text.replace("\\pm", sign) for sign in "+-")
    return re.sub(r"(?<=[\d}\s])([a-hj-z])(?=\$*$)", r"{\1}", text)  # else it drops h as hours


def own_verdict(answer: str, reference: str, question: str = "") -> Verdict | None:
    """What our own judge says: of equal texts, words, numbers and lists of numbers; else None."""
    mine, theirs = tidy(answer), tidy(reference)
    if not mine or not theirs:
        return "wrong"
    if mine.replace(";", ",") == theirs.replace(";", ","):
        return "right"
    if any(tidy(line) == theirs for line in answer.strip().split("\n")):  # and others beside it
        return "wrong"
    wanted = read_number(reference, theirs)
    if wanted is not None:
        given = read_number(answer, mine) or _in_words(answer, wanted, question)
        return _say(given is not None and _same_number(given, wanted, question))
    if named := re.match(r"\(?([A-Za-z])[).:](?!.*[A-Za-z][).:])", mine):  # (B) 17, as it is asked
        answer = named[1] if mine in spelt(question) else answer
    words = _words(_bare_words(answer), _bare_words(reference), bool(_TEXT.search(reference)))
    if words is not None:
        return words
    if _LEFT_OUT.search(answer + reference) or (APART in mine and APART not in theirs):
        return "wrong"
    if based := _BASED.fullmatch(theirs):
        given = _BASED.fullmatch(mine) or _BASED.fullmatch(f"{mine}_{{{based[2]}}}")
        return _say(bool(given) and given[1].upper() == based[1].upper() and given[2] == based[2])
    if re.fullmatch(r"[^:=\\{]+(?::[^:=]+)+", theirs):  # 12:30 or 3:4:5, which is not a quotient
        ratio = not _TIME.fullmatch(theirs) or re.search(r"\b(?:ratio|odds|scale)", question, re.I)
        same = len({re.sub(r"[^\w:]", "", one).lower() for one in (mine, theirs)}) == 1  # p.m.
        return _say(same or (bool(ratio) and _is_quotient(mine, theirs)))
    return _lists(mine, theirs)


def _in_words(answer: str, wanted: Number, question: str) -> Number | None:
    """A whole number in words, which the question does not say."""
    words = _bare_words(answer)
    whole = wanted.exact and wanted.form == "decimal" and not wanted.percent
    digits = worded(words) if whole else None
    said = digits and re.search(rf"\b{re.escape(words)}\b", question, re.IGNORECASE)
    return read_number(digits) if digits and not said else None


_BASED = re.compile(r"\(?(\d[\dA-F]*|[\dA-Fa-f]+(?=\)?_\{16))\)?_\{?(\d+)\}?")
"""A number in another base, and the base."""
_TIME = re.compile(r"\d\d?:[0-5]\d")


def _in_order(answer: str, reference: str) -> tuple[str, str]:
    """The values of `x=1, y=2` as `(1,2)`, those of an answer in the reference's order."""
    given, wanted = _named(answer), _named(reference)
    if not wanted:
        return answer, reference
    if given.keys() == wanted.keys():
        answer = f"({','.join(given[name] for name in wanted)})"
    return answer, f"({','.join(wanted.values())})"


def _named(text: str) -> dict[str, str]:
    """Values by name; none where a name is missing or comes twice."""
    parts = [part.partition("=") for part in re.split("[,;]", spelt(text))] if "=" in text else []
    named = {name: value for name, _, value in parts if value and _is_name(name)}
    return named if len(named) == len(parts) > 1 else {}


_LEFT_OUT = re.compile(r"\\[lc]?dots|\.\.\.|\u2026")
"""Terms that are not written: only the very text is the same."""


def _is_quotient(mine: str, ratio: str) -> bool:
    """Whether a number is what a ratio of two numbers comes to."""
    quotient = number_of(ratio.replace(":", "/")) if ratio.count(":") == 1 else None
    given = number_of(mine)
    if quotient is None or given is None:
        return False
    return given.value == quotient.value and (given.reduced or not quotient.reduced)


def _say(right: bool) -> Verdict:
    return "right" if right else "wrong"


_LETTERS = re.compile(r"[^\W\d_]+(?:\s+[^\W\d_]+)*")
_WORDS = re.compile(r"[^\W\d_](?:\w|[ .,'&!?\u2019-])*")
_PROSE = re.compile(r"[^\W\d_]{4}|[^\W\d_]{2,}\s+[^\W\d_]{2,}")
"""What hardly is a product of letters."""
_TEXT = re.compile(r"\\(?:text|mbox|mathrm)(?:bf|it|rm|sf|tt)?\s*\{([^{}]*)\}")
_OPTION = re.compile(r"[(\[]?([A-Za-z])[)\].:]?")
_OPTIONS = re.compile(r"\(?[A-Z]\)?(?:\s*(?:[,;&]|and)\s*\(?[A-Z]\)?)+")
_CHOSEN = re.compile(r"(?:\(?[A-Z]\)?(?:[,;& ]|and)*)+")


def _words(mine: str, theirs: str, set_as_text: bool) -> Verdict | None:
    """Compare words and options, where mathematics would read a product of letters.

    Up to three small letters are such a product, unless they are set as text.
    """
    if _OPTIONS.fullmatch(theirs):  # several options, in any order
        chosen, right = (re.findall("[A-Z]", text.replace("and", "")) for text in (mine, theirs))
        return _say(bool(_CHOSEN.fullmatch(mine)) and sorted(chosen) == sorted(right))
    one, other = _OPTION.fullmatch(mine), _OPTION.fullmatch(theirs)
    if other:  # an option; articles are letters here
        same = bool(one) and one[1].casefold() == other[1].casefold()
    else:
        same = same_text(mine, theirs)
        if same and _LETTERS.fullmatch(mine) and _LETTERS.fullmatch(theirs):
            return "right"
    sure = set_as_text or _PROSE.search(theirs) or theirs.isupper()
    if (other and same) or (sure and (other or _WORDS.fullmatch(theirs))):
        return _say(same)
    return None


def _bare_words(text: str) -> str:
    """A text without what sets it."""
    words = " ".join(_TEXT.sub(r" \1 ", text.replace("$", " ")).strip(" *.").split())
    return _LEAD.sub("", words) or words


_ROUNDING = Fraction(5, 10_000_000)
_SUBSCRIPTS = re.compile(r"_\{[^{}]*\}|_\w|\([^()=]*\)|\\(?:text|mathrm)\{[^{}=]*\}")
_APPROXIMATELY = re.compile(r"\\(?:approx|doteq)(?![A-Za-z])")
_NAME = re.compile(r"[A-Za-z\\{}|'+\s\u2220\u25b3-]*")


def stated(answer: str) -> str:
    """The value of `m+n = 13`, `f(2) = 13`, `6 + 7 = 13` or `13 \\approx 12.9`; else the answer.

    Only one place of an answer is looked at, so two values in it are no better than one.
    """
    if about := _APPROXIMATELY.search(answer):
        first, rounded = answer[: about.start()], answer[about.end() :]
        answer = first if first.strip(" $") and not _is_name(first) else rounded
    *sides, last = re.split(r"=|\\equiv(?![A-Za-z])", answer)
    if len(sides) == 1 and _is_name(last) and not _is_name(sides[0]):  # 13 = x
        return sides[0]
    return last if all(_leads(side, last) for side in sides) else answer


def _leads(side: str, value: str) -> bool:
    """Whether what stands before a value names it, is how it was worked out, or is the same."""
    if (number := read_number(side)) is not None:
        same = read_number(value)
        return same is not None and number.real == same.real
    constant = not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", side))
    return _is_name(side) or (constant and len(side) > 1)


def _is_name(side: str) -> bool:
    left = _SUBSCRIPTS.sub("x", side).strip().lstrip("$")
    named = re.search("[A-Za-z]", left) and not left.startswith("-") and _NAME.fullmatch(left)
    return bool(named)


def _same_number(mine: Number, theirs: Number, question: str) -> bool:
    """Equal, worked out, and not copied from a question that asks for another form."""
    if not any(_equal(mine, value, theirs) for value in _meant(mine, theirs, question)):
        return False
    same_form = mine.written == theirs.written
    if same_form and (mine.form == "decimal" or mine.reduced):
        return True
    return not any(
        shown.written == mine.written and shown.real == mine.real == theirs.real
        for shown in numbers_in(question)
    )


_ASKS_PERCENT = re.compile(
    r"\b(?:what|which|how many|as(?: an?)?|in|the|nearest|find|calculate|compute|determine|express)"
    r"\s+(?:[A-Za-z]+\s+){0,2}(?:of an?\s+)?(?:percent|\\?%)",
    re.IGNORECASE,
)


def _meant(mine: Number, theirs: Number, question: str) -> Sequence[Fraction]:
    """The reference's value in the answer's own terms.

    A percent sign is a unit where the reference has one or the question asks for percents; else it
    means hundredths.
    """
    if mine.percent == theirs.percent:
        return (theirs.value,)
    if theirs.percent:
        return (theirs.value, theirs.real)
    return (theirs.value,) if _ASKS_PERCENT.search(question) else (theirs.value * 100,)


def _equal(mine: Number, value: Fraction, theirs: Number) -> bool:
    """Equal; a decimal may be rounded to six places (as for math-verify) and to 1e-4 of itself."""
    if value.denominator == 1 and mine.form in ("fraction", "mixed"):
        return False  # 26/2 is still to be worked out
    apart = abs(mine.value - value)
    rounded = not (mine.exact and theirs.exact)
    return not apart or (rounded and apart <= _ROUNDING and apart <= abs(value) / 10_000)


def _lists(mine: str, theirs: str) -> Verdict | None:
    """Compare lists: decided where every item is a number, or one number is missing."""
    (a, left), (b, right) = _items(mine), _items(theirs)
    if len(right) < 2:
        return None
    numbers, wanted = ([number_of(item) for item in items] for items in (left, right))
    if len(left) == 1:
        return "wrong" if numbers[0] else None
    given, known = [n for n in numbers if n], [n for n in wanted if n]
    whole = len(given) == len(left) and len(known) == len(right)
    interval = b in ("[)", "(]") or (b == "[]" and len(right) == 2)
    if (whole and len(left) != len(right)) or (a and b and a != b) or (not a and interval):
        return "wrong"
    ordered = any(kind not in ("", "\\{\\}") for kind in (a, b))
    if ordered and len(left) == len(right):
        pairs = [(n, w) for n, w in zip(numbers, wanted, strict=True) if w]
    else:
        given.sort(key=lambda number: number.value)
        known.sort(key=lambda number: number.value)
        if len(given) != len(known):
            return None if len(given) > len(known) or len(left) != len(right) else "wrong"
        pairs = list(zip(given, known, strict=True))
    same = all(n is not None and _same_number(n, w, "") for n, w in pairs)
    return _say(same) if whole or not same else None


def _items(text: str) -> tuple[str, list[str]]:
    """The brackets around a list ("" if none) and its items."""
    items = _split(text)
    match = _BRACKETS.fullmatch(text) if len(items) == 1 else None
    if match is None:
        return "", items
    inside = _split(match[2])
    # "(x,y)=(1,2)" begins and ends with brackets that do not belong together
    return (match[1] + match[3], inside) if inside else ("", items)


_BRACKETS = re.compile(r"(\\\{|[(\[])(.*)(\\\}|[)\]])", re.DOTALL)


def _split(text: str) -> list[str]:
    """What stands between the commas that no bracket holds; nothing if one closes too early."""
    items, depth, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return []
        if letter in ",;" and not depth:
            items.append(text[start:place])
            start = place + 1
    return [tidy(stated(item)) for item in (*items, text[start:])]

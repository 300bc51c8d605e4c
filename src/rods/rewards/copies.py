r"""Answers that were not worked out: copied, with the work still in them, or with false work.

Owns what math-verify would call equal and a question does not ask for. Never compares an answer
with a reference.

    copied(r"\sqrt{8}", r"2\sqrt{2}", r"Simplify $\sqrt{8}$.")  # True
    holds_work(r"\sin 60^\circ", r"\frac{\sqrt{3}}{2}")         # True: a sine is left
    holds_work(r"\frac{2\pi}{4}", r"\frac{\pi}{2}")             # False
    adds_up("1+1 = 17")                                         # False
"""

from __future__ import annotations

import re
from functools import lru_cache

from rods.rewards.numbers import APART, read_number, spelt, tidy
from rods.rewards.verifier import ask

_ALWAYS = (
    r"\\sum|\\prod|\\i*int(?![a-z])|\\oint|\\lim|\\partial|\\frac\{d[a-z]?\}\{d\s*[a-z]\}|\bd/d[a-z]\b",
    r"\\(?:gcd|lcm|max|min|b?mod|pmod|operatorname\{(?:gcd|lcm)\}?)|\b(?:gcd|lcm|max|min)\(|mod",
)
"""What nothing but a reference that has it may leave to be done."""
_OF_CONSTANTS = (
    r"\\(?:ln|log|lg)|\b(?:ln|log)\(",
    r"\\(?:sin|cos|tan|cot|sec|csc)(?!h|\^\{?-1)|\b(?:sin|cos|tan)\(",
    r"\\arc(?:sin|cos|tan)|\\(?:sin|cos|tan)\^\{?-1|\b(?:arc|a)(?:sin|cos|tan)\(",
    r"\\[dt]?binom|\\choose|!|\\fact",
    r"\\lfloor|\\lceil|\\lvert|\\rfloor|\b(?:floor|ceil)\(|(?<![\w.])\d+\^(?:\d|\{\d+\})",
)
"""What a reference without a variable may leave to be done; trigonometry of x has equal forms."""
_TABLES = r"\\begin"
_RELATIONS = r"[=<>]|\\(?:leq?|geq?|neq?|lt|gt|in|cup|cap|pm|mp|approx|equiv|to)(?![A-Za-z])"
_LISTED = re.compile(r"[,;\[]|\\\{|\\begin")
_SUM = re.compile(
    r"(?:(?<![\w.}\\^_!])|(?<=\\\\)|(?<=matrix}))\d{1,60}"
    r"(?:(?:[+-]|\\[mp][pm])\d{1,60}(?![\w.^(/!*]|\\(?!\\|end))"
    r"|(?:\*|\\cdot|\\times)\d{1,60}(?![\w.^!]))",
    re.ASCII,
)
_QUOTIENT = re.compile(
    r"\\frac\{(\d{1,60})\}\{(\d{1,60})\}|(?:(?<![\w.}\\^_!])|(?<=\\\\)|(?<=matrix}))"
    r"(\d{1,60})/(\d{1,60})(?![\w.^(!]|\\(?!\\|end))",
    re.ASCII,
)
_VARIABLE = re.compile(r"(?<![A-Za-z\\])[a-df-hj-zA-Z](?![A-Za-z])")


def holds_work(answer: str, reference: str) -> bool:
    """Whether an answer leaves operations to be done that the reference has not.

    Nor may it state a relation or several values where the reference is one value.
    """
    kinds = [*_ALWAYS, _TABLES]
    if not _VARIABLE.search(re.sub(r"\\[A-Za-z]+", " ", reference)):
        kinds += _OF_CONSTANTS
        if _sums(tidy(answer)) and not _sums(tidy(reference)):
            return True
    if not re.search(_RELATIONS, reference) and not _LISTED.search(tidy(reference)):
        if ";" in tidy(answer):
            return True
        kinds.append(_RELATIONS)
    reference = reference.replace("^{-", "^{")  # 1/2^{9} leaves no more to be done than 2^{-9}
    return any(_more(kind, answer, reference) for kind in kinds)


_ARITHMETIC = re.compile(
    r"(?:\d{1,20}(?:\.\d{1,20})?|[-+*/(){} ]|\^(?:\d\d?|\{\d\d?\})(?![\d^])|"
    r"\\(?:cdot|times|frac|sqrt)(?![A-Za-z]))+",
    re.ASCII,
)
"""Numbers to be worked out, without towers of powers: nobody would see their end."""


def adds_up(answer: str) -> bool:
    """Whether work with numbers that leads to an exact number comes to it: `1+1=17` lies."""
    *sides, last = answer.split("=")
    number = read_number(last)
    if number is None or not number.exact:
        return True
    work = [_work(side) for side in sides[-4:] if read_number(side) is None]
    return not any(ask(str(number.real), one) == "wrong" for one in work if one)


def _work(side: str) -> str:
    """Arithmetic as math-verify reads it; empty where a text is not only that."""
    plain = spelt(re.sub(r"\\sqrt\s*(\d+)", r"\\sqrt{\1}", side.replace("**", "^")))
    plain = plain.replace(")(", ")*(").replace(APART, " ")
    return plain if _ARITHMETIC.fullmatch(plain) and plain.count("^") < 3 else ""


def _sums(plain: str) -> bool:
    """Whether two whole numbers stand there to be added, multiplied or divided without a rest."""
    divided = (match.groups() for match in _QUOTIENT.finditer(plain))
    return bool(_SUM.search(plain)) or any(
        int(under) and int(over) % int(under) == 0
        for over, under in ((a or c, b or d) for a, b, c, d in divided)
    )


def _more(kind: str, answer: str, reference: str) -> bool:
    """Whether a kind of operation stands in the answer alone; tables are counted."""
    mine, theirs = (len(re.findall(kind, text)) for text in (answer, reference))
    return mine > theirs if kind is _TABLES else mine > 0 == theirs


_SIGNS = (("\\cdot", "*"), ("\\times", "*"), ("\\ast", "*"), ("**", "^"), ("\\sqrt", "sqrt"))
_NEUTRAL = re.compile(r"[+-] *0(?![\d.])|[*/^] *1(?![\d.])|^ *1 *\*|^ *0 *\+")
_EXPONENT = re.compile(
    r"\^(?:\{\(?|\()(?:(\d+)/(\d+)|\\frac\{(\d+)\}\{(\d+)\}|(0?\.5))[)}]+|\^0?(\.5)"
)
_ROOTED = re.compile(r"(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+|[A-Za-z]))\^\{(\d{1,3})/(\d{1,3})\}")
"""A root that is written as a power."""
_POWER = re.compile(r"(\([^()]*\)|\\?[A-Za-z]+)\^\{?([2-4])\}?(?![\d.}])")
_PIECE = re.compile(r"\\?[A-Za-z]+|\d+|.")
_MATH = re.compile(r"\$+([^$]+)\$+|\\\(([^$]+?)\\\)|\\\[([^$]+?)\\\]")
STAND_IN = r"\pi"
"""A value that no wrapping keeps by chance."""
_EDGES = re.compile(
    r"\$+|\\[()\[\]]|\s+(?=[A-Za-z]{2,})|(?<![\\A-Za-z])(?P<word>[A-Za-z]{2,})[,:]?\s+"
)


def copied(answer: str, reference: str, question: str) -> bool:
    """Whether an answer is an expression of the question, in any order of its terms.

    Where the reference is that expression, too, nothing is copied.
    """
    plain = _rooted(tidy(answer))
    if not _composed(plain):
        return False
    mine, pieces = _key(plain), _pieces(plain)
    if pieces == _pieces(_rooted(tidy(reference))):
        return False
    whole = re.compile(rf"(?<![A-Za-z\d.]){re.escape(mine)}(?![A-Za-z\d])")
    written = whole.search(_key(_apart(question)))
    sides = _expressions(question)
    if written or any(_pieces(side) == pieces for side in sides):
        return True
    factors = _factors(plain)
    return factors != _factors(tidy(reference)) and any(_factors(s) == factors for s in sides)


def wrapped(answer: str, reference: str, question: str) -> list[str]:
    """The answer with `STAND_IN` in place of each expression of the question that it holds.

    One that equals `STAND_IN` does nothing to that expression. None has what the reference is.
    """
    plain, known = _rooted(tidy(answer)), _pieces(_rooted(tidy(reference)))
    found: list[str] = []
    for side in _expressions(question):
        before = "A-Za-z\\\\" if side[0].isalpha() else "\\d." if side[0].isdigit() else "\\\\"
        held = re.compile(rf"(?<![{before}]){re.escape(side)}(?![A-Za-z\d.])")
        if _pieces(side) != known and held.search(plain):
            found.append(held.sub(lambda _: f"({STAND_IN})", plain))
    return found


def _composed(plain: str) -> bool:
    return len(plain) > 2 and bool(re.search(r"[-+*/^!\\(]|\d[a-z]", plain))


@lru_cache(maxsize=256)
def _expressions(question: str) -> frozenset[str]:
    """Formulas of a question, also without dollars, and what stands beside their equals signs."""
    marked = [spelt(match[match.lastindex or 0]) for match in _MATH.finditer(question)]
    sides = [side for formula in marked for side in (formula, *re.split("[=;]", formula))]
    sides += re.split("[\x00=;]", _apart(question))
    return frozenset(filter(_composed, (_rooted(side.strip(".,?!:")) for side in sides)))


def _apart(question: str) -> str:
    """A question in which words and formulas do not run together without their blanks."""
    return spelt(_EDGES.sub(lambda match: (match["word"] or "") + "\x00", question))


def _pieces(text: str) -> list[str]:
    """What an expression is made of, in no order; a first term has no plus."""
    pieces = _PIECE.findall(_grouped(text, " ").replace("\\frac", " "))
    return sorted(piece for piece in pieces if piece not in "+*/ ")


def _rooted(plain: str) -> str:
    """An expression with a root for each power of one over a whole number: `8^{2/4}` is one."""

    def exponent(match: re.Match[str]) -> str:
        over, under = match[1] or match[3] or "1", match[2] or match[4] or "2"
        return f"^{{{over}/{under}}}"

    def root(match: re.Match[str]) -> str:
        over, under = int(match[4]), int(match[5])
        if not over or under % over:
            return match[0]
        return rf"\sqrt[{under // over}]{{{match[1] or match[2] or match[3]}}}"

    plain = _ROOTED.sub(root, _EXPONENT.sub(exponent, plain.replace("**", "^")))
    return plain.replace(r"\sqrt[2]", r"\sqrt")


def _factors(plain: str) -> list[str]:
    """Pieces with each small power as a product: `x^2` and `x*x` are the same."""
    whole = _POWER.sub(lambda m: "*".join([m[1]] * int(m[2])), plain)
    return sorted(p for piece in _pieces(whole) for p in ([piece] if piece[0] == "\\" else piece))


def _key(text: str) -> str:
    """An expression without what changes nothing: grouping, +0, *1, and the sign of a product."""
    return re.sub(r"[*/]|\\frac", "", _grouped(text, "")).rstrip(".,?!;:")


def _grouped(text: str, bracket: str) -> str:
    for old, new in _SIGNS:
        text = text.replace(old, new)
    for _ in range(2):  # before and behind brackets
        text = re.sub("[(){}&]", bracket, _NEUTRAL.sub("", text))
    return text

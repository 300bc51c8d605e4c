r"""Final answers: found in a text, and judged against the reference.

Owns where an answer may stand (`\boxed{}`, `<answer>` tags, "the answer is") and when two answers
are the same. Never evaluates text as code and never reads what a tool printed.

    final_answer(r"so we get \boxed{\frac{1}{2}}.")     # "\\frac{1}{2}"
    same_math(r"\frac{1}{2}", "0.5")                    # True

Mathematics is judged by math-verify where it is installed (`pip install 'rods[math]'`). Our own
judge looks first, so its yes never depends on that package: it knows equal text, numbers
(fractions, decimals, thousands, percent signs) and lists of them. It does no algebra: without
math-verify `x(x+1)` is not `x^2+x`, and a warning says so once. `judge_name()` tells who judges.
"""

from __future__ import annotations

import importlib
import logging
import re
import string
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, cast

from rods.errors import RewardError
from rods.reward import Score
from rods.task import Task

Form = Literal["boxed", "tag", "phrase"]
"""Where an answer stands: `\\boxed{}`, `<answer>...</answer>`, "the answer is ..."."""

ANY: tuple[Form, ...] = ("boxed", "tag", "phrase")
BOXED: tuple[Form, ...] = ("boxed",)
TAGGED: tuple[Form, ...] = ("tag", "boxed", "phrase")

SECONDS = 5
"""What math-verify may take for one reading or comparison."""

LONGEST = 200
"""Characters of an answer that is read as mathematics; a longer one is compared as text only."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_TAG = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_PHRASE = re.compile(r"\banswer\s*(?:is|:|=)\s*:?[ \t]*", re.IGNORECASE)


# -- where the answer stands ---------------------------------------------------------------------


def last_boxed(text: str) -> str | None:
    """What the last complete `\\boxed{}` holds, inner braces included; None if there is none."""
    boxes = [match.end() for match in _BOX.finditer(text)]
    closes = _pairs(text) if boxes else {}
    at = next((start for start in reversed(boxes) if start in closes), None)
    return None if at is None else text[at + 1 : closes[at]].strip()


def _pairs(text: str) -> dict[int, int]:
    """Where each opening brace is closed, in one pass; escaped braces are letters."""
    opened: list[int] = []
    closes: dict[int, int] = {}
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            closes[opened.pop()] = match.start()
    return closes


def last_tagged(text: str) -> str | None:
    """What the last complete `<answer>` pair holds."""
    found = _TAG.findall(text)
    return str(found[-1]).strip() if found else None


def last_phrase(text: str) -> str | None:
    """What follows the last "answer is" or "answer:" in its line, up to the end of the sentence."""
    ends = [match.end() for match in _PHRASE.finditer(text)]
    if not ends:
        return None
    sentence = re.split(r"[.!?](?=\s|$)|\n", text[ends[-1] :], maxsplit=1)[0]
    return sentence.strip().strip("*\"'").strip() or None


def final_answer(text: str, forms: Sequence[Form] = ANY) -> str | None:
    """The answer in the first of these forms that the text has; None if it has none.

    Args:
        text: what the policy wrote.
        forms: in order of preference. A tag that holds a box gives what is in the box.
    """
    for form in forms:
        found = _FINDERS[form](text)
        if found is not None:
            return last_boxed(found) or found
    return None


_FINDERS = {"boxed": last_boxed, "tag": last_tagged, "phrase": last_phrase}


# -- the reference -------------------------------------------------------------------------------


def references(task: Task) -> tuple[str, ...]:
    """The reference answer of a question task, and other ways to say it.

    A question task has one turn with the question, no ground-truth calls, and the answer as a
    string in `world["answer"]`; `world["aliases"]` may list more strings that are as right. That
    its ground truth is empty does not mean that the policy must abstain, as it does in BFCL.

    Raises:
        RewardError: the task has no such answer; the message names the task.
    """
    answer, aliases = task.world.get("answer"), task.world.get("aliases", [])
    if not isinstance(answer, str) or not answer.strip():
        raise RewardError(
            f"task {task.id} of env {task.env!r}: world['answer'] is {answer!r}, this reward "
            "expects a text. Use it for question tasks only, or write the answer there."
        )
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise RewardError(f"task {task.id}: world['aliases'] is {aliases!r}, expected texts.")
    return (answer, *cast("list[str]", aliases))


@dataclass(frozen=True, slots=True)
class Judged:
    """A final answer and whether it is right."""

    answer: str | None
    """None: none was found."""
    correct: bool


def judge_answer(task: Task, text: str, forms: Sequence[Form] | None = None) -> Judged:
    """Find the final answer and compare it with the task's reference.

    Tasks of env `search` are judged by normalised text (exact match), all others as mathematics.

    Args:
        task: a question task, see `references`.
        text: what the policy wrote.
        forms: where the answer may stand; None: anywhere (tags first for `search`).

    Raises:
        RewardError: the task has no reference answer.
    """
    asks_text = task.env == "search"
    known = references(task)
    answer = final_answer(text, forms or (TAGGED if asks_text else ANY))
    if answer is None:
        return Judged(None, False)
    same = same_text if asks_text else same_math
    return Judged(answer, any(same(answer, reference) for reference in known))


def judged_parts(judged: Judged) -> Mapping[str, float]:
    """What every reward of answers logs: whether it is right, whether there is one."""
    return {"correct": float(judged.correct), "answered": float(judged.answer is not None)}


def accuracy_of(score: Score) -> float:
    """The part `correct` of a score.

    Raises:
        RewardError: the reward does not log one.
    """
    if "correct" not in score.parts:
        raise RewardError(
            f"a score with the parts {sorted(score.parts)} has no part 'correct'. Filters and "
            "meters of answers need a reward that logs one, such as outcome, torl or zerotir."
        )
    return score.parts["correct"]


# -- sameness of texts ---------------------------------------------------------------------------


def same_text(answer: str, reference: str) -> bool:
    """Exact match of normalised texts, as question-answering benchmarks score it.

    Case, punctuation, articles and white space do not count. An answer of nothing else is wrong.
    """
    mine = _plain(answer)
    return bool(mine) and mine == _plain(reference)


def _plain(text: str) -> str:
    kept = "".join(c for c in text.casefold() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", kept).split())


# -- sameness of mathematics ---------------------------------------------------------------------


@lru_cache(maxsize=4096)
def same_math(answer: str, reference: str) -> bool:
    """Whether two answers are the same mathematics, by our judge or else by math-verify."""
    if same_plain_math(answer, reference):
        return True
    if not (_tame(answer) and _tame(reference)):
        return False
    if _WHOLE.fullmatch(answer.strip()) and _WHOLE.fullmatch(reference.strip()):
        return False  # two whole numbers need no algebra, which takes milliseconds
    return _verified(answer, reference)


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


def judge_name() -> str:
    """`math-verify` or `rods`: who judges mathematics here."""
    return "rods" if math_verify() is None else "math-verify"


_WORDS = re.compile(r"[A-Za-z .,']+")
_WHOLE = re.compile(r"[+-]?\d+")
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
    re.IGNORECASE,
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


# -- math-verify ---------------------------------------------------------------------------------

_WILD = re.compile(r"(?:\^|\*\*)\{?[^{}+*/ -]*(?:\^|\*\*)|(?:\^|\*\*)[{(]?-?\d{4}|\d{4}\)?!|!!")


def _tame(text: str) -> bool:
    """Whether an algebra system may be asked: short, no towers of powers, no huge factorial."""
    return len(text) <= LONGEST and not _WILD.search(text)


def _verified(answer: str, reference: str) -> bool:
    tool = math_verify()
    if tool is None:
        return False
    # The package's deadline is a signal, and signals work in the main thread only.
    main = threading.current_thread() is threading.main_thread()
    seconds = SECONDS if main else None
    gold, mine = (
        tool.parse(text if "\\boxed" in text else f"\\boxed{{{text}}}", parsing_timeout=seconds)
        for text in (reference, answer)
    )
    return bool(tool.verify(gold, mine, timeout_seconds=seconds))


@lru_cache(maxsize=1)
def math_verify() -> Any:
    """The package, or None if it is not installed, which is said once."""
    # It warns that calls outside of the main thread have no deadline: `_tame` stands in for it.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    try:
        return importlib.import_module("math_verify")
    except ImportError:
        logging.getLogger(__name__).warning(
            "math-verify is not installed: answers are compared as text and numbers only, algebra "
            "that is written in another way counts as wrong. pip install 'rods[math]'"
        )
        return None

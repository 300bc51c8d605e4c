"""Sources of a ground truth's values: a message, a result, documentation, the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from rods.synthesis.structure.trace import Path, Scalar, TraceStep, by_identity, field_of, leaves
from rods.task import Task
from rods.types import ToolCall, ToolSpec

NUMBER = re.compile(
    r"(?:(?<![\w.)-])(?<!\d )-)?(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w|\.\d)"
)
"""A number that stands alone in a text, with or without a sign and commas for thousands."""
_words = "two three four five six seven eight nine ten eleven twelve"
WORD_OF: Mapping[float, str] = dict(enumerate(_words.split(), start=2))
NUMBER_WORDS = {word: int(n) for n, word in WORD_OF.items()} | {"dozen": 12}
NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b", re.I)
_vague = "of|for|on|in|at|is|that|who|with|and|more|last|day|moment|minute|second|thing|question"
AMOUNT_WORD = re.compile(
    r"(?<![\w-])(?<!\bor )(?<!\bhalf )(?<!ty )(?<!hundred and )"
    rf"(?:a dozen|{'|'.join(WORD_OF.values())}|(?<!the )(?<!this )one(?= (?!(?:{_vague})\b)[a-z]))"
    r"(?![\w-])(?! (?:or|to|and a|dozen|hundred|thousand|million|halves|thirds|quarters)\b)",
    re.I,
)
"""A number word that states an amount: not that of `one of us`, `two or three`, `half a dozen`."""

LONGEST_TEXT = 2000
"""Results with more characters are not searched for numbers within texts."""


class Source(StrEnum):
    """Where a value can be found, best first."""

    TURN = "turn"
    """In the text of the same user turn."""
    EARLIER_TURN = "earlier_turn"
    RESULT = "result"
    """In the result of an earlier call."""
    DOCUMENTATION = "documentation"
    """An enumeration, a default or an example of the function's description; a boolean."""
    CONFIGURATION = "configuration"
    """In the initial configuration, which some call would show."""
    DERIVED = "derived"
    """In none of them: computed, converted or composed."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One scalar argument of a ground-truth call and where it comes from."""

    turn: int
    step: int
    """Index of the call in the flattened ground truth."""
    name: str
    path: Path
    value: Scalar
    configured: bool
    """Whether the initial configuration holds it, wherever else it stands."""
    source: Source
    feeder: int | None = None
    """Step whose result shows the value, where the source is a result."""
    text_turn: int | None = None
    """Latest turn whose text says the value, where the source is a text."""
    inside: bool = False
    """Whether it is a number that the feeder's result shows within a text only."""


def numbers_listed(text: str) -> list[float]:
    """The numbers that stand alone in a text, in order."""
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def numbers_in(text: str) -> set[float]:
    """The numbers that stand alone in a text."""
    return set(numbers_listed(text))


def amount(word: str) -> int:
    """The number that a match of `AMOUNT_WORD` states."""
    return NUMBER_WORDS.get(word.lower().split()[-1], 1)


def in_digits(text: str, words: bool = True) -> str:
    """A text with digits in place of number words, if `words`."""
    return AMOUNT_WORD.sub(lambda match: str(amount(match[0])), text) if words else text


def numbers_of(value: Scalar) -> set[float]:
    """The number that a value is, or the numbers that stand alone in a text."""
    if isinstance(value, bool) or value is None:
        return set()
    return {float(value)} if isinstance(value, int | float) else numbers_in(value)


def numbers_taken(calls: Iterable[ToolCall]) -> set[float]:
    """The numbers among the arguments of calls."""
    values = (leaf.value for call in calls for leaf in leaves(call))
    return {float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)}


def texts_taken(calls: Iterable[ToolCall]) -> list[str]:
    """The texts among the arguments of calls."""
    return [x.value for call in calls for x in leaves(call) if isinstance(x.value, str)]


@lru_cache(maxsize=1 << 14, typed=True)
def normal(value: Scalar) -> str:
    """A key under which equal values meet, whatever their type (`5`, `5.0` and `"5"`)."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int | float):
        return repr(float(value))
    text = value.strip().lower()
    if text and text[-1].isdigit() and text[0] in "-0123456789":
        try:
            return repr(float(text))
        except ValueError:
            return text
    return text


class Shown:
    """Texts of turns and values of results that can be read so far."""

    def __init__(self, words: bool = False) -> None:
        """`words`: number words count as numbers (`Domains.number_words`)."""
        self._words = words
        self._turns: list[tuple[str, str, set[float]]] = []
        """Each turn's text, as it is and in lower case, with its numbers."""
        self._values: dict[str, int] = {}
        self._texts: list[str] = []

    def hear(self, text: str) -> None:
        """A user turn begins."""
        self._turns.append((text, text.lower(), numbers_in(in_digits(text, self._words))))

    def read(self, number: int, step: TraceStep) -> None:
        """A result came back."""
        for leaf in step.leaves:
            self._values[normal(leaf.value)] = number
        self._texts.append(step.result.content.lower())

    def turn_with(self, value: Scalar) -> int | None:
        """The latest turn whose text says it."""
        for turn in reversed(range(len(self._turns))):
            text, lower, numbers = self._turns[turn]
            if _stands_in(str(value), text) if _is_code(value) else _says(value, lower, numbers):
                return turn
        return None

    def in_result(self, value: Scalar) -> int | None:
        """The latest step whose result shows it, exactly, rounded or inside a text."""
        if (step := self._values.get(normal(value))) is not None:
            return step
        needle = str(value).lower()
        if isinstance(value, str) and len(needle) >= 3:
            for index in reversed(range(len(self._texts))):
                if _stands_in(needle, self._texts[index]):
                    return index
        return self._rounded(value) if isinstance(value, float) else None

    def within_result(self, value: Scalar) -> int | None:
        """The latest step whose result shows a number of two digits or more inside a text.

        Text runs on in the benchmark's files (`Revenue: $5000Expenses: $3000`), so a letter ends a
        number. Ask it last, and not of padded results: there numbers stand by chance.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        digits = f"{value:.0f}" if float(value).is_integer() else repr(value)
        if len(digits) < 2:
            return None
        alone = re.compile(rf"(?<![\d.,-]){re.escape(digits)}(?![\d]|[.,]\d)")
        for index in reversed(range(len(self._texts))):
            text = self._texts[index]
            if len(text) <= LONGEST_TEXT and alone.search(text):
                return index
        return None

    def _rounded(self, value: float) -> int | None:
        digits = len(repr(value).partition(".")[2])
        for key, step in self._values.items():
            try:
                if round(float(key), digits) == value:
                    return step
            except ValueError:
                continue
        return None


PLACES = ("first", "second", "third")


def place_of(step: TraceStep, value: Scalar) -> str:
    """Where a value stands in a list of a result, in words; empty where it has no such place."""
    key = normal(value)
    lists: dict[tuple[str | int, ...], list[str]] = {}
    for leaf in step.leaves:
        if leaf.path and isinstance(leaf.path[-1], int):
            lists.setdefault(leaf.path[:-1], []).append(normal(leaf.value))
    for values in lists.values():
        if values.count(key) == 1:
            at = values.index(key)
            return "last" if at and at == len(values) - 1 else dict(enumerate(PLACES)).get(at, "")
    return ""


def fields_with(step: TraceStep, value: Scalar) -> set[str]:
    """The fields of a step's result that show a value."""
    key = normal(value)
    return {field_of(leaf.path) for leaf in step.leaves if normal(leaf.value) == key}


def values_of(step: TraceStep, field: str) -> set[str]:
    """All values that a field of a step's result shows."""
    return {normal(leaf.value) for leaf in step.leaves if field_of(leaf.path) == field}


def has_rival(step: TraceStep, named: Set[str], value: Scalar, alike: Iterable[str] = ()) -> bool:
    """Tell whether a call takes or shows another value under these names, or takes it as `alike`.

    An agent could take that value for the one that was shown before.
    """
    names = named - {""}
    arguments = {*names, *alike}
    taken = [v for n, v in step.call.arguments.items() if n in arguments]
    scalars = [v for v in taken if not isinstance(v, bool | list | dict | ToolCall)]
    shown = [leaf.value for leaf in step.leaves if field_of(leaf.path) in names]
    return any(normal(other) != normal(value) for other in (*scalars, *shown))


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _stands_in(needle: str, text: str) -> bool:
    """Tell whether a text holds `needle`, not merely inside a longer word."""
    if needle not in text or not needle.isalnum():
        return needle in text
    return re.search(rf"(?<!\w){re.escape(needle)}(?!\w)", text) is not None


def _is_code(value: Scalar) -> bool:
    """Airport codes, tickers: `ACME` is not said by `Acme Corp`."""
    return isinstance(value, str) and 2 < len(value) <= 5 and value.isalpha() and value.isupper()


def _says(value: Scalar, lower: str, numbers: set[float]) -> bool:
    if isinstance(value, int | float):
        return float(value) in numbers
    if value is None:
        return False
    needle = value.lower().lstrip("#@").rstrip(".")
    return needle in lower if len(needle) > 4 else bool(needle) and _stands_in(needle, lower)


def sources(
    task: Task, steps: Sequence[TraceStep], specs: Mapping[str, ToolSpec], words: bool = False
) -> tuple[Argument, ...]:
    """Classify every scalar argument of the ground truth by its most direct source; see `Shown`."""
    shown = Shown(words)
    configured = {normal(leaf.value) for leaf in leaves(dict(task.world))} | {
        normal(key) for key in _keys(dict(task.world))
    }
    found: list[Argument] = []
    turn = -1
    for number, step in enumerate(steps):
        while turn < step.turn:
            turn += 1
            shown.hear(task.turns[turn].user)
        for name, value in step.call.arguments.items():
            spec = specs.get(step.call.name)
            documented = _documented(spec).get(name, "{}") if spec is not None else ""
            for leaf in leaves(value):
                held = normal(leaf.value) in configured
                where = _source(leaf.value, shown, documented, held, turn)
                place = (step.turn, number, name, leaf.path, leaf.value)
                found.append(Argument(*place, held, *where))
        shown.read(number, step)
    return tuple(found)


class _Found(NamedTuple):
    source: Source
    feeder: int | None = None
    text_turn: int | None = None
    inside: bool = False


def _source(value: Scalar, shown: Shown, documented: str, configured: bool, turn: int) -> _Found:
    if isinstance(value, bool) or value is None or value == "":
        return _Found(Source.DOCUMENTATION)
    if (spoken := shown.turn_with(value)) is not None:
        return _Found(Source.TURN if spoken == turn else Source.EARLIER_TURN, text_turn=spoken)
    if (feeder := shown.in_result(value)) is not None:
        return _Found(Source.RESULT, feeder)
    if _says(value, documented, numbers_in(documented)):
        return _Found(Source.DOCUMENTATION)
    if configured:
        return _Found(Source.CONFIGURATION)
    if (feeder := shown.within_result(value)) is not None:
        return _Found(Source.RESULT, feeder, inside=True)
    return _Found(Source.DERIVED)


@by_identity
def _documented(spec: ToolSpec) -> Mapping[str, str]:
    return {name: json.dumps(schema).lower() for name, schema in spec.properties.items()}

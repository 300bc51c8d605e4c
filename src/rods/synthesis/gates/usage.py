"""Counts of the words that people use for tools, and of their neighbors, in training tasks.

Values are masked, so that only words are counted.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from rods.infra.files import toml_of
from rods.synthesis.structure.sources import numbers_in, numbers_taken, texts_taken
from rods.synthesis.structure.trace import PARTS
from rods.task import Task, Turn
from rods.types import ToolCall

VALUE, NUMBER, EDGE = "\0", "#", "."
"""Stand-ins for a value or a quoted text, a number, the end of a sentence or of a clause."""
COMMON = 160
"""Largest count of a word in the messages that still says something of its neighbors."""
NAMED = 0.5
"""Share of the messages that say a word of their tool's name, at least."""
RARE = 0.01
"""Share of all messages that say a word, at least."""
DOUBT = 4
"""Messages from which a tool's own words count half."""
SMOOTH = 0.2
_NEVER = Counter[str]()
_TOKEN = re.compile(r"\x00|[$€£%]|\d[\d,.]*\d|\d|[a-z']+|[.!?;:,\n]")
QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,300}'(?!\w)|\"[^\"\n]{1,300}\"|`[^`\n]{1,300}`")


class Measure(NamedTuple):
    """A quantity, such as length, and the name of a unit of it."""

    family: str
    name: str


@functools.cache
def units() -> Mapping[str, Measure]:
    """Return the unit of each form in which people write one, signs of currencies among them."""
    return {
        form: Measure(family, name)
        for family, names in toml_of("synthesis", "gates", "units.toml").items()
        for name, forms in names.items()
        for form in forms.split()
    }


Mask = Callable[[str], str]
"""Puts a mark for each quoted text and each value of some calls into a message."""


def mask_of(calls: Iterable[ToolCall]) -> Mask:
    """Return how texts that these calls take are marked; made once for all of a task."""
    values = {text for text in texts_taken(calls) if len(text) > 2}
    long = sorted(values, key=lambda text: (-len(text), text))
    taken = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, long))})(?!\w)", re.I)

    def mask(text: str) -> str:
        text = QUOTED.sub(VALUE, text.replace("\u2019", "'"))
        return taken.sub(VALUE, text) if long else text

    return mask


def words_of(masked: str) -> list[str]:
    """The words of a masked message, in lower case; an edge at both ends."""
    tokens = (NUMBER if t[0].isdigit() else t for t in _TOKEN.findall(masked.lower()))
    return [EDGE, *(EDGE if t in ".!?;:,\n" else t.strip("'") or t for t in tokens), EDGE]


class _Message(NamedTuple):
    tools: frozenset[str]
    words: tuple[str, ...]


class _Fit(NamedTuple):
    """Facts about some tools together."""

    asking: frozenset[int]
    """Messages that ask for one of them."""
    stems: frozenset[str]
    """Stems of their names."""
    words: dict[str, float]
    """Log-likelihood ratio of a word in these messages, in nats."""


class TextCounts:
    """Counts over messages, each once."""

    def __init__(self, tasks: Iterable[Task], templates: Mapping[str, Sequence[str]] | None = None):
        """Args: tasks of the training split; clauses with `{slots}` by their tool."""
        asked = {message: None for task in tasks for message in _messages(task)}
        self._tools: list[frozenset[str]] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        self._next: dict[str, Counter[str]] = defaultdict(Counter)
        self._by_tool: dict[str, list[int]] = defaultdict(list)
        self._fits: dict[frozenset[str], _Fit] = {}
        seen: set[tuple[str, ...]] = set()
        for message in (*asked, *_clauses(templates or {})):
            for word in set(message.words):
                self._places[word].append(len(self._tools))
            for tool in message.tools:
                self._by_tool[tool].append(len(self._tools))
            self._tools.append(message.tools)
            if message.words not in seen:
                seen.add(message.words)
                for word, following in zip(message.words, message.words[1:], strict=False):
                    self._next[word][following] += 1

    def count(self, words: Collection[str]) -> int:
        """Messages that say one of these words, whatever they ask for."""
        return len(self._saying(words))

    def count_asking(self, tools: Set[str], words: Collection[str]) -> int:
        """Messages that ask for one of these tools, among others, and say one of these words."""
        return sum(bool(self._tools[n] & tools) for n in self._saying(words))

    def count_only(self, tools: Set[str], words: Collection[str]) -> int:
        """Messages that ask for nothing but these tools and say one of these words."""
        return sum(self._tools[n] <= tools for n in self._saying(words))

    def _saying(self, words: Collection[str]) -> set[int]:
        return {number for word in words for number in self._places.get(word, ())}

    def fit(self, tools: frozenset[str], words: Iterable[str]) -> float:
        """Excess likelihood of words in messages that ask for these tools over all, in nats."""
        if tools not in self._fits:
            if len(self._fits) >= 4096:
                self._fits.clear()
            asking = frozenset(n for tool in tools for n in self._by_tool.get(tool, ()))
            stems = frozenset(stem for tool in tools for stem in name_stems(tool))
            self._fits[tools] = _Fit(asking, stems, {})
        return sum(self._fit(self._fits[tools], word) for word in words)

    def _fit(self, known: _Fit, word: str) -> float:
        if (value := known.words.get(word)) is None:
            places = self._places.get(word, ())
            named = stem_of(word) in known.stems
            near = sum(number in known.asking for number in places) / max(1, len(known.asking))
            near = max(near, NAMED) if named else near  # however few messages there are
            sure = len(known.asking) / (len(known.asking) + DOUBT)
            usual = max(len(places) / max(1, len(self._tools)), RARE)
            says = word[0].isalpha() and (places or named)
            value = known.words[word] = math.log(sure * near / usual + SMOOTH) if says else 0.0
        return value

    def stands(self, before: str, word: str, after: str) -> tuple[int, int]:
        """Return how often a word follows the one before, and is followed by the one after."""
        return self._after(before)[word], self._after(word)[after]

    def _after(self, word: str) -> Counter[str]:
        return self._next.get(word, _NEVER)

    def is_rare(self, word: str) -> bool:
        """Tell whether a word says something of what stands beside it: `to` and `the` do not."""
        return word != EDGE and word in self._next and self._next[word].total() <= COMMON

    def between(self, before: str, after: str) -> Iterator[tuple[str, int]]:
        """Words that stand behind the one and before the other, and how often in all."""
        for word, count in self._after(before).items():
            other = self._after(word)[after]
            if other and word not in (VALUE, NUMBER, EDGE):
                yield word, count + other


def _messages(task: Task) -> Iterator[_Message]:
    mask = mask_of(task.calls)
    for index, turn in enumerate(task.turns):
        tools = frozenset(call.name for call in _asked(task.turns, index))
        if tools and turn.user.strip():
            words, taken = words_of(mask(turn.user)), numbers_taken(_asked(task.turns, index))
            if taken and not taken & numbers_in(turn.user):
                words = [VALUE if word in units() else word for word in words]  # it was converted
            yield _Message(tools, tuple(words))


def _asked(turns: Sequence[Turn], index: int) -> Sequence[ToolCall]:
    gap = not turns[index].ground_truth and index + 1 < len(turns)
    return turns[index + gap].ground_truth


def _clauses(templates: Mapping[str, Sequence[str]]) -> Iterator[_Message]:
    for tool, clauses in templates.items():
        for clause in clauses:
            masked = re.sub(r"\{\w+\}", VALUE, clause)
            yield _Message(frozenset({tool}), tuple(words_of(masked)))


@functools.lru_cache(maxsize=4096)
def name_stems(name: str) -> frozenset[str]:
    """Stems of the words of a tool's name."""
    return frozenset(stem_of(part.lower()) for part in PARTS.findall(name) if len(part) > 2)


@functools.lru_cache(maxsize=1 << 14)
def stem_of(word: str) -> str:
    """A word without its ending."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl" else word


NO_USAGE = TextCounts(())
"""Usage of tools of which nobody has spoken yet."""

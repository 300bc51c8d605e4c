"""How people speak of tools: which words the training tasks' messages have, beside which others.

Owns the counts and how a message is cut into words. Values are masked, so that a count is of words
alone. Never judges a message.

    usage = Usage(map(Facts, ...))
    usage.said_with({"lend"}, {"borrow", "borrowed"})       # messages of lend that say one of them
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from rods.synthesis.structure.trace import leaves
from rods.task import Task, Turn
from rods.types import ToolCall

VALUE, NUMBER, EDGE = "\0", "#", "."
"""What stands for a value or a quoted text, a number, the end of a sentence or of a clause."""
COMMON = 120
"""How often a word may stand in the messages and still say something of its neighbors."""
_TOKEN = re.compile(r"\x00|[$€£%]|\d[\d,.]*\d|\d|[a-z']+|[.!?;:,\n]")
_QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,300}'(?!\w)|\"[^\"\n]{1,300}\"|`[^`\n]{1,300}`")


def masked_text(text: str, calls: Iterable[ToolCall]) -> str:
    """A message with a mark for each quoted text and each text that these calls take."""
    values = {x.value for call in calls for x in leaves(call) if isinstance(x.value, str)}
    text = _QUOTED.sub(VALUE, text)
    long = sorted((v for v in values if len(v) > 2), key=lambda v: (-len(v), v))
    if not long:
        return text
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, long))})(?!\w)", VALUE, text, flags=re.I)


def words_of(text: str, calls: Iterable[ToolCall]) -> list[str]:
    """The words of a message, in lower case, with marks for values; an edge at both ends."""
    plain = masked_text(text.replace("\u2019", "'"), calls).lower()
    found = [_mark(token) for token in _TOKEN.findall(plain)]
    return [EDGE, *found, EDGE]


def _mark(token: str) -> str:
    if token[0].isdigit():
        return NUMBER
    return EDGE if token in ".!?;:,\n" else token.strip("'") or token


class _Message(NamedTuple):
    tools: frozenset[str]
    words: tuple[str, ...]


class Usage:
    """Counts over messages, each once."""

    def __init__(self, tasks: Iterable[Task], templates: Mapping[str, Sequence[str]] | None = None):
        """Args: tasks of the training side; clauses with `{slots}` by their tool."""
        asked = {message: None for task in tasks for message in _messages(task)}
        self._tools: list[frozenset[str]] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        self._next: dict[str, Counter[str]] = defaultdict(Counter)
        self._by_tool: dict[str, list[int]] = defaultdict(list)
        heard: set[tuple[str, ...]] = set()
        for message in (*asked, *_clauses(templates or {})):
            for word in set(message.words):
                self._places[word].append(len(self._tools))
            for tool in message.tools:
                self._by_tool[tool].append(len(self._tools))
            self._tools.append(message.tools)
            if message.words not in heard:
                heard.add(message.words)
                for word, following in zip(message.words, message.words[1:], strict=False):
                    self._next[word][following] += 1

    def said_with(self, tools: Set[str], words: Collection[str]) -> int:
        """Messages that ask for one of these tools, among others, and say one of these words."""
        return sum(bool(self._tools[n] & tools) for n in self._saying(words))

    def said_for(self, tools: Set[str], words: Collection[str]) -> int:
        """Messages that ask for nothing but these tools and say one of these words."""
        return sum(self._tools[n] <= tools for n in self._saying(words))

    def _saying(self, words: Collection[str]) -> set[int]:
        return {number for word in words for number in self._places.get(word, ())}

    def share_of(self, tools: Set[str]) -> int:
        """Messages that ask for one of these tools."""
        return len(self._asking(tools))

    def share(self, tools: Set[str] | None, word: str) -> float:
        """How many of the messages that ask for one of these tools (or of all) say a word."""
        if tools is None:
            return len(self._places.get(word, ())) / max(1, len(self._tools))
        asking = self._asking(tools)
        return len(asking & self._saying((word,))) / max(1, len(asking))

    def _asking(self, tools: Set[str]) -> set[int]:
        return {number for tool in tools for number in self._by_tool.get(tool, ())}

    def stands(self, before: str, word: str, after: str) -> tuple[int, int]:
        """How often a word follows the one before, and is followed by the one after."""
        return self._next[before][word] if before in self._next else 0, (
            self._next[word][after] if word in self._next else 0
        )

    def is_rare(self, word: str) -> bool:
        """Whether a word says something of what stands beside it: `to` and `the` do not."""
        return word != EDGE and self._next[word].total() <= COMMON if word in self._next else False

    def between(self, before: str, after: str) -> Iterator[tuple[str, int]]:
        """Words that stand behind the one and before the other, and how often in all."""
        for word, count in self._next.get(before, {}).items():
            other = self._next[word][after] if word in self._next else 0
            if other and word not in (VALUE, NUMBER, EDGE):
                yield word, count + other


def _messages(task: Task) -> Iterator[_Message]:
    calls = [call for turn in task.turns for call in turn.ground_truth]
    for index, turn in enumerate(task.turns):
        tools = frozenset(call.name for call in _asked(task.turns, index))
        if tools and turn.user.strip():
            yield _Message(tools, tuple(words_of(turn.user, calls)))


def _asked(turns: Sequence[Turn], index: int) -> Sequence[ToolCall]:
    gap = not turns[index].ground_truth and index + 1 < len(turns)
    return turns[index + gap].ground_truth


def _clauses(templates: Mapping[str, Sequence[str]]) -> Iterator[_Message]:
    for tool, clauses in templates.items():
        for clause in clauses:
            text = re.sub(r"\{\w+\}", VALUE, clause)
            yield _Message(frozenset({tool}), tuple(words_of(text, ())))


NO_USAGE = Usage(())
"""Of tools of which nobody has spoken yet."""

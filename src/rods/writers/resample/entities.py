"""What can be renamed in a task: its names, people, codes, places, dates, numbers and texts.

A word may be replaced by another noun where it stands as a name or a noun everywhere, not as a verb
or a modifier.

    is_name("draft", "Draft a letter about the draft.")     # False: a verb in its first place
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from rods.infra.files import toml_of
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.trace import Scalar
from rods.synthesis.structure.words import word_lists
from rods.task import LONG_CONTEXT, Task
from rods.types import Json, ToolCall, Value

_WORDS = re.compile(r"[A-Za-z']+|[^\sA-Za-z']+")

_LEADS, _FILES, _ENDS, _WOMEN, _SHE, _HE = (
    frozenset(words.split()) for words in toml_of("writers", "resample", "around.toml").values()
)
"""What stands before a noun; what a name may stand right before or after; what may follow one."""
_QUOTES = ("'", '"', "`", "\u2018", "\u2019", "\u201c", "\u201d")


def is_name(word: str, prose: str) -> bool:
    """Whether every place of a word (in lower case) in these texts is that of a name or a noun."""
    return all(
        glued
        or before in _FILES
        or after in _FILES
        or (before in _LEADS and (not after[:1].isalpha() or after in _ENDS))
        for before, after, glued in _places(word, prose)
    )


def says(word: str, prose: str) -> bool:
    """Whether these texts say a word (in lower case) outside of quotes and of names."""
    return any(not glued for _, _, glued in _places(word, prose))


def _places(word: str, prose: str) -> Iterator[tuple[str, str, bool]]:
    """What stands before and after each place, and whether it is quoted or part of a name."""
    spaced = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.I)
    for match in spaced.finditer(prose):
        left, right = prose[: match.start()], prose[match.end() :]
        glued = left[-1:] in ("_", "-", "/", "#", "@", *_QUOTES)
        glued = glued or right[:1] in ("_", "-", "/", *_QUOTES)
        glued = glued or re.match(r"\.[A-Za-z]", right) is not None
        before = _WORDS.findall(left[-30:])[-1:] or [""]
        after = _WORDS.findall(right[:30])[:1] or [""]
        yield before[0].lower(), after[0].lower(), glued


RUNS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+")
"""Runs of a compound name: words (also of CamelCase), digits, separators."""
WORD = re.compile(r"[A-Za-z]+")
MONTHS = frozenset(name.lower() for name in calendar.month_name if name)
SPECIAL = frozenset({"", ".", "..", "/"})
NEAR = 4  # Words of a window in which two words of a name belong together
SHORT = 4  # Letters of a name that may be an abbreviation

LeafMap = Callable[[str, Scalar], Scalar]
KeyMap = Callable[[str, str], str]


@dataclass
class Entities:
    """Everything of one task that may get a new value."""

    prose: str  # All user texts, joined
    compounds: dict[str, str] = field(default_factory=dict[str, str])  # Exact text to kind
    words: dict[str, str] = field(default_factory=dict[str, str])  # `word` or `person`, lower case
    local: set[str] = field(default_factory=set[str])
    """Words in lower case that are replaced in values, never in what people say around them."""
    bodies: dict[str, str] = field(default_factory=dict[str, str])  # Texts to parameters
    configured: set[str] = field(default_factory=set[str])  # Written texts of the configuration
    numbers: dict[float, set[str]] = field(default_factory=dict[float, set[str]])  # To their kinds
    kept_words: set[str] = field(default_factory=set[str])
    surnames: set[str] = field(default_factory=set[str])  # Family names of people, in lower case
    first_names: list[str] = field(default_factory=list[str])
    """First names that fit `she`, or `he`; empty where the texts say neither, or both."""
    referring: set[str] = field(default_factory=set[str])
    """Words that stay in names as in what people say: "annual report" means annual_report.pdf."""


def kind_map(
    node: Json, owner: str, name: str, domains: Domains, leaf: LeafMap, key: KeyMap
) -> Json:
    """Rebuild the configuration of class `owner`, or a part of it, that field `name` holds.

    `leaf` and `key` map a scalar and an entity's key, with its kind before it (empty: none), to the
    new one. In a name, `[]` marks one level of entity keys.
    """
    if isinstance(node, dict):
        kind = domains.key(owner, name)
        if kind:
            inner = name + "[]"
            return {
                key(kind, k): kind_map(v, owner, inner, domains, leaf, key) for k, v in node.items()
            }
        return {k: kind_map(v, owner, k, domains, leaf, key) for k, v in node.items()}
    if isinstance(node, list):
        return [kind_map(item, owner, name, domains, leaf, key) for item in node]
    return leaf(domains.leaf(owner, name.rstrip("[]")), node)


def argument_map(value: Value, function: str, name: str, domains: Domains, leaf: LeafMap) -> Value:
    """Rebuild an argument, passing each scalar with the kind of its parameter."""
    if isinstance(value, ToolCall):
        return call_map(value, domains, leaf)
    if isinstance(value, list):
        return [argument_map(item, function, name, domains, leaf) for item in value]
    if isinstance(value, dict):
        return {
            k: argument_map(
                v, function, k if domains.parameter(function, k) else name, domains, leaf
            )
            for k, v in value.items()
        }
    return leaf(domains.parameter(function, name), value)


def call_map(call: ToolCall, domains: Domains, leaf: LeafMap) -> ToolCall:
    """Rebuild a call."""
    arguments = {
        name: argument_map(value, call.name, name, domains, leaf)
        for name, value in call.arguments.items()
    }
    return ToolCall(call.name, arguments)


class _Collector:
    def __init__(self, task: Task, domains: Domains, start: Mapping[str, Json]):
        self._task, self._start = task, start
        self._domains = domains
        self.found = Entities("\n".join(turn.user for turn in task.turns))
        self.found.bodies = written(task, domains)
        self._lower = self.found.prose.lower()
        self._protected: set[str] = set()

    def run(self) -> Entities:
        for call in self._task.calls:
            asked = WORD.findall(call.name.lower())  # "the mean" is asked for: no name
            self._protected.update(w for w in asked if says(w, self.found.prose))
            call_map(call, self._domains, self._protect)
        for owner, node in self._start.items():
            kind_map(node, owner, owner, self._domains, self._configured, self._key)
        configured = (*self.found.compounds, *self.found.configured)
        self._in_config = {text.lower() for text in configured}
        for call in self._task.calls:
            call_map(call, self._domains, self._argument)
        self._shared_words()
        spoken, names = set(WORD.findall(self._lower)), word_lists().first_names
        if bool(spoken & _SHE) != bool(spoken & _HE):
            self.found.first_names = [n for n in names if (n in _WOMEN) == bool(spoken & _SHE)]
        return self.found

    def _protect(self, kind: str, value: Scalar) -> Scalar:
        """What an enumeration is called stays, in the texts too."""
        if not kind and isinstance(value, str):
            self._protected.update(word.lower() for word in WORD.findall(value))
        return value

    def _argument(self, kind: str, value: Scalar) -> Scalar:
        if not _is_written(kind, value):
            self._entity(kind, value, argument=True)
        return value

    def _configured(self, kind: str, value: Scalar) -> Scalar:
        if kind == "body" and isinstance(value, str):
            self.found.configured.add(value)
        else:
            self._entity(kind, value, argument=False)
        return value

    def _key(self, kind: str, key: str) -> str:
        value: Scalar = float(key) if kind == "id" and key.isdigit() else key
        self._entity(kind, value, argument=False)
        return key

    def _entity(self, kind: str, value: Scalar, *, argument: bool) -> None:
        if isinstance(value, bool) or value is None:
            return
        if isinstance(value, int | float):
            if kind in self._domains.numbers and kind != "counter":
                self.found.numbers.setdefault(float(value), set()).add(kind)
            return
        if value in SPECIAL or kind in self._domains.numbers or not kind:
            return
        if argument and not self._known(kind, value):
            return
        if kind == "person" and self._domains.inferred and value.islower():
            return  # the name of a thing: wine for the guest
        if kind == "person":
            for number, word in enumerate(WORD.findall(value)):
                if len(word) >= 2 and self._personal(word):
                    self.found.words[word.lower()] = "person"
                    if number or "surname" in self._domains.fresh.values():
                        self.found.surnames.add(word.lower())
        elif kind == "pattern":
            for word in WORD.findall(value):
                self._word(word)
        elif kind == "name":
            self._name(value)
        elif kind in ("tag", "mention"):
            self._sign(kind, value, argument=argument)
        else:
            self.found.compounds.setdefault(value, kind)

    def _personal(self, word: str) -> bool:
        """A name, not a role: people write it with a capital, or do not write it at all."""
        lower = re.search(rf"(?<!\w){re.escape(word.lower())}(?![\w@])", self.found.prose)
        return lower is None or word.islower()

    def _known(self, kind: str, value: str) -> bool:
        """An argument becomes an entity where people say it or the configuration holds it."""
        if kind == "date" or kind in self._domains.listed:
            return True
        needle = value.lower().lstrip("#@")
        known = needle in self._lower or value.lower() in self._in_config or kind == "pattern"
        return known or (kind == "name" and self._sibling(needle))

    def _sibling(self, name: str) -> bool:
        """Whether it is a file's name with another ending: "the same name in another format"."""
        stem, dot, _ = name.rpartition(".")
        return bool(dot) and any(
            known == "name" and text.lower().rpartition(".")[0] == stem
            for text, known in self.found.compounds.items()
        )

    def _name(self, value: str) -> None:
        if self._task.category == LONG_CONTEXT and value in self._domains.padded_names:
            return
        runs = RUNS.findall(value)
        if self._abbreviates(value.lower()):
            return
        if len(runs) == 1 and value.isalpha():
            if value.lower() in self._domains.keep or len(value) < 3:
                self.found.compounds.setdefault(value, "ident")
            else:
                self.found.words.setdefault(value.lower(), "word")
            return
        self.found.compounds.setdefault(value, "name")
        for run in runs[: -1 if "." in value else None]:
            self._word(run)

    def _abbreviates(self, name: str) -> bool:
        """Whether a short name that nobody says stands for a word: `tmp` for "temporary"."""
        if len(name) > SHORT or not name.isalpha() or name in self._lower:
            return False
        letters = re.compile(rf"\b{name[0]}" + "".join(rf"\w*{char}" for char in name[1:]))
        return letters.search(self._lower) is not None

    def _word(self, run: str) -> None:
        kept = run.lower() in self._domains.keep or run.lower() in word_lists().extensions
        if run.isalpha() and len(run) >= 3 and not kept:
            self.found.words.setdefault(run.lower(), "word")

    def _referring(self) -> set[str]:
        """Words of names of which people say two together, or one in quotes, without the name."""
        names = sorted((t for t, kind in self.found.compounds.items() if kind == "name"), key=len)
        lower = self._lower
        for name in reversed(names):
            lower = lower.replace(name.lower(), "|")
        content = [w.lower() for w in WORD.findall(lower)]
        windows = [set(content[at : at + NEAR]) for at in range(len(content))]
        found: set[str] = set()
        for name in names:
            words = {run.lower() for run in RUNS.findall(name) if run.isalpha() and len(run) > 2}
            found |= {word for word in words if f"'{word}'" in lower}
            found.update(*(hit for window in windows if len(hit := words & window) > 1))
        return found

    def _sign(self, kind: str, value: str, *, argument: bool) -> None:
        """A tag or mention: with its sign, unless people say an argument without it."""
        bare = value.lstrip("#@")
        if len(bare) < 3:
            return
        signed = ("#" if kind == "tag" else "@") + bare
        said_bare = bare.lower() in self._lower and signed.lower() not in self._lower
        self.found.compounds.setdefault(bare if argument and said_bare else signed, kind)

    def _shared_words(self) -> None:
        """Local words: of written texts that are configured or quoted, unless people need them."""
        found = self.found
        loose: set[str] = set()
        for body in found.bodies:
            words = found.local if body.lower() in self._lower else loose
            words.update(_content_words(body))
        found.local.update(*map(_content_words, found.configured))
        content = set(_content_words(found.prose))
        found.kept_words = {w for w in loose & content if w not in found.words}
        found.local -= found.kept_words | self._domains.keep | MONTHS
        # A name's word that people also say as a verb or a modifier stays everywhere.
        texts = (found.prose, *found.bodies)
        apart = (w for w, kind in found.words.items() if kind == "word")
        verbs = {w for w in apart if not all(is_name(w, text) for text in texts)}
        found.referring = verbs & self._referring()
        found.kept_words |= verbs | (self._protected if self._domains.inferred else set())
        for word in self._protected | verbs:
            found.words.pop(word, None)
            found.local.discard(word)
        found.local -= found.words.keys()


def _content_words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text) if len(word) >= 4]


def _is_written(kind: str, value: Scalar) -> bool:
    return kind == "body" and isinstance(value, str) and bool(value.strip())


def written(task: Task, domains: Domains) -> dict[str, str]:
    """Written texts of a task's arguments to the name of their parameter."""
    found: dict[str, str] = {}

    def note(kind: str, value: Scalar) -> Scalar:
        if _is_written(kind, value):
            found.setdefault(cast("str", value), name)
        return value

    for call in task.calls:
        for name, argument in call.arguments.items():
            argument_map(argument, call.name, name, domains, note)
    return found


def collect(task: Task, domains: Domains, start: Mapping[str, Json]) -> Entities:
    """Read everything that may be renamed in a task, whose world begins with these values."""
    return _Collector(task, domains, start).run()

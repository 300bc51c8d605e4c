"""The gate on words that contradict the calls: unlock for lock, euros for dollars, sell for buy.

Owns what a message's word is measured by: the called tools' own words, the options that the calls
take, the words of other tools of the same world, and how people speak of the tools (`usage.py`).
Never needs a model, never asks who wrote a message.

    nothing_is_misnamed(case)                               # None, or what is wrong
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib.resources import files
from typing import NamedTuple, cast

from rods.synthesis.gates.case import Case
from rods.synthesis.gates.usage import Usage, words_of
from rods.synthesis.structure.trace import leaves
from rods.types import ToolCall, ToolSpec

OFTEN = 4
"""Messages of the called tools that must say a word before its opposite counts as wrong."""
FITS = 3
"""How often a word must have stood beside its neighbours before another one counts as wrong."""
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_WORDS = re.compile(r"[a-z]+|[$€£%]")
_LISTED = re.compile(r"[\"'`](\w+)[\"'`]")


class _Contrast(NamedTuple):
    meant: frozenset[str]
    said: frozenset[str]
    kind: str
    """Empty, `*`, `~` or `=`, as in the file."""


@functools.cache
def _contrasts() -> tuple[_Contrast, ...]:
    """Every contrast of the file, in both directions."""
    listed = files("rods").joinpath("synthesis", "gates", "contrasts.txt")
    found: list[_Contrast] = []
    for line in listed.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind = line[0] if line[0] in "*~=" else ""
        sides = [frozenset(side.split()) for side in line.lstrip("*~= ").split(" | ")]
        found += [
            _Contrast(meant - said, said - meant, kind)
            for meant in sides
            for said in sides
            if meant is not said
        ]
    return tuple(found)


def nothing_is_misnamed(case: Case) -> str | None:
    """No word of a message names the opposite, another unit, option or tool than its calls do.

    A word is wrong where the calls have its opposite, or where people say another word between the
    same neighbours; never where they say it of these tools, or the message that is reworked does.
    """
    facts = case.variant
    for index, turn in enumerate(facts.task.turns):
        calls = facts.asked(index)
        if not calls or not turn.user.strip():
            continue
        source_turn = case.source_turns[index]
        model = _heard(source_turn.turn.user) if source_turn is not None else frozenset[str]()
        problem = _Message(turn.user, facts.calls, calls, facts.specs, case.usage, model).problem()
        if problem is not None:
            return f"turn {index}: {problem}"
    return None


def _heard(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.lower()))


class _Message:
    """One message beside the calls that it asks for."""

    def __init__(
        self,
        text: str,
        values: Sequence[ToolCall],
        calls: Sequence[ToolCall],
        specs: Mapping[str, ToolSpec],
        usage: Usage,
        model: frozenset[str],
    ):
        self._calls, self._specs, self._usage = calls, specs, usage
        self._text = text.lower()
        self._tokens = tokens = words_of(text, values)
        self._words = frozenset(tokens) - model
        """Words that count: those of the message that is reworked do not."""
        self._all = frozenset(tokens)
        self._tools = frozenset(call.name for call in calls if call.name in specs)
        texts = [x.value for c in calls for x in leaves(c) if isinstance(x.value, str)]
        taken = [_heard(text) for text in texts if len(text) < 30]
        self._named = frozenset[str]().union(*(title(specs[n]) for n in self._tools), *taken)
        """Words of what the calls do."""
        self._own = self._named.union(*(own_words(specs[name]) for name in self._tools))
        """The same, with what their parameters are about."""

    def problem(self) -> str | None:
        """What is wrong; None: no word is."""
        found = next(self._opposites(), None) or next(self._options(), None)
        return found or next(self._strangers(), None)

    def _opposites(self) -> Iterator[str]:
        for contrast in _contrasts():
            said = self._words & contrast.said
            if not said or self._all & contrast.meant:
                continue
            meant, allowed = self._sides(contrast)
            if allowed or self._usage.said_for(self._tools, contrast.said):
                continue
            usual = contrast.kind in ("", "=") and (
                self._usage.said_with(self._tools, contrast.meant) >= OFTEN
            )
            if (meant and contrast.kind != "~") or usual:
                yield f"the message says {min(said)!r}, its calls {_some(contrast.meant)}"
            for word in said:
                better = self._better(word, contrast.meant)
                if better is not None:
                    yield f"the message says {word!r} where people say {better!r}"

    def _sides(self, contrast: _Contrast) -> tuple[bool, bool]:
        """Whether the calls' own words name the one side, and the other one.

        A switch is named after what it does when it is on: `unlock=False` locks.
        """
        meant, said = bool(self._named & contrast.meant), bool(self._own & contrast.said)
        for call in self._calls:
            for name, value in call.arguments.items():
                sides = name.lower() in contrast.meant, name.lower() in contrast.said
                if isinstance(value, bool) and any(sides):
                    meant, said = sides if value else sides[::-1]
        return meant, said

    def _options(self) -> Iterator[str]:
        """Another option of a list than the one that a call takes."""
        for call in self._calls:
            spec = self._specs.get(call.name)
            for name, value in call.arguments.items() if spec is not None else ():
                if self._says(str(value)):
                    continue
                others = {
                    option
                    for option in _others(spec, name, value)
                    if self._says(option) and not self._usage.said_for(self._tools, {option})
                }
                if others:
                    yield f"the message says {min(others)!r}, {call.name} takes {value!r}"

    def _says(self, option: str) -> bool:
        """Whether the message says an option outright, in quotes or not."""
        return re.search(rf"(?<!\w){re.escape(option.lower())}(?!\w)", self._text) is not None

    def _strangers(self) -> Iterator[str]:
        """Words of other tools' names that stand where people say a word of these tools."""
        others = {w for name in self._specs.keys() - self._tools for w in name_words(name)}
        for word in sorted(self._words):
            stem = stem_of(word)
            if len(word) < 3 or stem not in others or stem in self._stems:
                continue
            if self._usage.said_for(self._tools, {word}):
                continue
            better = self._better(word, None)
            if better is not None:
                yield f"the message says {word!r} where people say {better!r}"

    @functools.cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(map(stem_of, self._own))

    def _better(self, word: str, among: Set[str] | None) -> str | None:
        """A word of these tools (or of a set) that stands between the neighbours of a word.

        None where the word itself has stood beside one of them.
        """
        found: str | None = None
        for place, token in enumerate(self._tokens):
            if token != word:
                continue
            before, after = self._tokens[place - 1], self._tokens[place + 1]
            if any(self._usage.stands(before, word, after)):
                return None
            if not self._usage.is_rare(before) and not self._usage.is_rare(after):
                continue
            for other, count in self._usage.between(before, after):
                near = other in among if among is not None else self._is_ours(other)
                if near and count >= FITS:
                    found = found or other
        return found

    def _is_ours(self, word: str) -> bool:
        named = {w for name in self._tools for w in name_words(name)}
        return stem_of(word) in named and self._usage.said_with(self._tools, {word}) > 0


def _others(spec: ToolSpec | None, name: str, value: object) -> set[str]:
    """Options beside the one that is taken, in lower case."""
    if spec is None or not isinstance(value, str):
        return set()
    schema = spec.properties.get(name, {})
    listed = schema.get("enum") or _LISTED.findall(str(schema.get("description", "")))
    options = {str(o).lower() for o in cast("list[object]", listed)}
    return (
        {o for o in options - {value.lower()} if len(o) > 2} if value.lower() in options else set()
    )


_OWN: dict[str, tuple[ToolSpec, frozenset[str]]] = {}


def own_words(spec: ToolSpec) -> frozenset[str]:
    """Words of a tool's name, description and parameters; switches are read by their value."""
    known = _OWN.get(spec.name)
    if known is None or known[0] is not spec:
        texts = [
            " ".join(_PARTS.findall(spec.name)),
            spec.description.rpartition("description:")[2],
        ]
        for name, schema in spec.properties.items():
            if schema.get("type") != "boolean":
                texts += [" ".join(_PARTS.findall(name)), str(schema.get("description", ""))]
        known = _OWN[spec.name] = (spec, _heard(" ".join(texts)))
    return known[1]


def title(spec: ToolSpec) -> frozenset[str]:
    """Words of a tool's name and of what its description begins with."""
    says = spec.description.rpartition("description:")[2].strip().partition(". ")[0]
    return _heard(f"{' '.join(_PARTS.findall(spec.name))} {says}")


@functools.lru_cache(maxsize=4096)
def name_words(name: str) -> frozenset[str]:
    """Stems of the words of a tool's name."""
    return frozenset(stem_of(part.lower()) for part in _PARTS.findall(name) if len(part) > 2)


@functools.lru_cache(maxsize=1 << 14)
def stem_of(word: str) -> str:
    """A word without its ending."""
    for ending in ("ing", "ied", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl" else word


def _some(words: Set[str]) -> str:
    return repr(min(words, key=lambda word: (len(word), word)))

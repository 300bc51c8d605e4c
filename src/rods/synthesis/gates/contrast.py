"""The gate on words that contradict the calls: unlock for lock, euros for dollars, sell for buy.

A message's words are measured by the called tools' own words, the options that the calls take, the
words of other tools of the same world, and how people speak of the tools (`usage.py`).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib.resources import files
from typing import NamedTuple

from rods.synthesis.gates.case import Case, TurnFacts, of_turns
from rods.synthesis.gates.usage import EDGE, NUMBER, QUOTED, name_stems, stem_of, units
from rods.synthesis.structure.sources import numbers_in, numbers_taken, texts_taken
from rods.synthesis.structure.trace import PARTS, by_identity
from rods.synthesis.structure.words import verb_of
from rods.types import ToolSpec

OFTEN = 4
"""Messages of the called tools that must say a word before its opposite counts as wrong."""
CUSTOM = 10
"""Messages about any tools that must say a unit, for each that says another one."""
FITS = 2
"""Occurrences of a word beside its neighbors from which another one there counts as wrong."""
_WORDS = re.compile(r"[a-z]+|[$€£%]")
_LISTED = re.compile(r"[\"'`](\w+)[\"'`]")


class _Contrast(NamedTuple):
    meant: frozenset[str]
    opposite: frozenset[str]
    kind: str
    """Empty, `*`, `~` or `=`, as in the file."""


@functools.cache
def _saying() -> tuple[Mapping[str, Sequence[_Contrast]], Mapping[str, frozenset[str]]]:
    """Each word to the contrasts in which it is the one that should not be said; the word lists."""
    text = files("rods").joinpath("synthesis", "gates", "contrasts.txt").read_text(encoding="utf-8")
    found: defaultdict[str, list[_Contrast]] = defaultdict(list)
    lists: dict[str, frozenset[str]] = {}
    for line in text.splitlines():
        kind = line[0] if line[0] in "*~=:#" else ""
        sides = [frozenset(side.split()) for side in line.lstrip("*~=: ").split(" | ")]
        if kind == ":":
            lists[line.split()[1]] = sides[1]
            continue
        for meant, opposite in itertools.permutations(sides if kind != "#" else (), 2):
            for word in opposite - meant:
                found[word].append(_Contrast(meant - opposite, opposite - meant, kind))
    return found, lists


def _list(*names: str) -> frozenset[str]:
    return frozenset[str]().union(*(_saying()[1][name] for name in names))


@of_turns
def nothing_is_misnamed(case: Case, turn: TurnFacts) -> str | None:
    """No word of a message names the opposite, another unit, option or tool than its calls do.

    A word is wrong where the calls have its opposite, or where people say another word between the
    same neighbors; never where they say it of these tools, or the message that is reworked does.
    """
    return _Message(case, turn).problem() if turn.asked and turn.text.strip() else None


def _words_in(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.lower()))


class _Message:
    def __init__(self, case: Case, turn: TurnFacts):
        model, tokens = case.model(turn), turn.marked_words
        calls, specs = turn.asked, case.variant.specs
        self._calls, self._specs, self._usage = calls, specs, case.usage
        self._text, self._tokens, self._facts = turn.text.lower(), tokens, turn.facts
        texts = texts_taken(calls)
        quoted = _words_in(" ".join(QUOTED.findall(turn.text))) & units().keys()
        quoted -= _words_in(" ".join(texts))
        self._words = (frozenset(tokens) | quoted) - (
            _words_in(model.text) if model is not None else set[str]()
        )
        """Words that count: those of the message that is reworked do not."""
        self._all = _words_in(turn.text) | frozenset(tokens)
        self._tools = frozenset(call.name for call in calls if call.name in specs)
        taken = frozenset(word for text in texts if len(text) < 30 for word in _words_in(text))
        about = [_words_about(specs[name]) for name in self._tools]
        self._named = taken.union(*(words.title for words in about))
        """Words of what the calls do."""
        self._own = taken.union(*(words.all for words in about))
        """Words of what the calls do, with what their parameters are about."""

    def problem(self) -> str | None:
        """Return what is wrong; None: no word is."""
        kinds = self._opposites(), self._undone(), self._converted(), self._options()
        return next(itertools.chain(*kinds, self._strangers()), None)

    def _opposites(self) -> Iterator[str]:
        found = (c for word in sorted(self._words) for c in _saying()[0].get(word, ()))
        for contrast in dict.fromkeys(found):
            decided, present = self._decided(contrast), self._words & contrast.opposite
            if self._all & contrast.meant:
                present &= self._unusual(contrast)
            if decided is False or (decided is None and self._verbs & contrast.opposite):
                continue
            if decided is None:
                present -= self._usual(contrast)
            if contrast.kind in ("", "="):
                sure = contrast.kind == "=" or decided is not None
                present = {word for word in present if self._asks(word, sure)}
            if not present or (contrast.kind == "=" and self._converts):
                continue
            forms = contrast.opposite if contrast.kind == "=" else present  # dollars are $, too
            own = self._own if contrast.kind == "=" else self._named
            named = bool(own & contrast.meant) and contrast.kind != "~"
            if decided or named or self._is_expected(contrast, forms):
                meant = min(contrast.meant, key=lambda word: (len(word), word))
                yield f"the message says {min(present)!r}, its calls {meant!r}"
            for word in present:
                if (better := self._better(word, contrast.meant)) is not None:
                    yield f"the message says {word!r} where people say {better!r}"

    @functools.cached_property
    def _verbs(self) -> frozenset[str]:
        """Actions of the tools, in a word each."""
        return frozenset(verb_of(self._specs[name]) for name in self._tools)

    def _asks(self, word: str, sure: bool) -> bool:
        """Tell whether a word can ask for something where it stands: it is no report.

        `sure`: it does not describe anything, as in `an empty tank`. An order of shares is one.
        """
        for place in (place for place, token in enumerate(self._tokens) if token == word):
            before = [*itertools.takewhile(EDGE.__ne__, self._tokens[place - 1 :: -1])]
            after = self._tokens[place + 1 : place + 3]
            described = _list("determiners").intersection(before[:1]) and after[0].isalpha()
            reports = _list("reports").intersection(before) or after == ("in", "mind")
            measures = word in units() and NUMBER in (*before[:2], after[0])
            loose = described and not sure and after[0] not in _list("of")
            if measures or not (reports or loose):
                return True
        return word not in self._tokens  # it is quoted

    def _unusual(self, contrast: _Contrast) -> Set[str]:
        """Verbs that ask for the opposite of what a tool does, which nobody asks of these tools.

        The message says both sides, as do people who talk of more than the calls.
        """
        if contrast.kind or not self._verbs & contrast.meant:
            return frozenset()
        found = self._behind(_list("asking", "planning")) & contrast.opposite
        return {w for w in found if not self._usage.count_asking(self._tools, {w})}

    def _usual(self, contrast: _Contrast) -> Set[str]:
        """Words that these tools' own texts say, or people who ask for nothing else.

        A form of a unit stands for all of them; of other words, each is looked at by itself. A verb
        that asks must be used nearly as often as its opposite: `open` beside `an open ticket`.
        """
        unit, usual = contrast.kind == "=", set[str]()
        asking = self._behind(_list("asking", "planning", "and"))
        meant = 0 if unit else self._usage.count_only(self._tools, contrast.meant)
        for forms in [contrast.opposite] if unit else [{word} for word in contrast.opposite]:
            uses = self._usage.count_only(self._tools, forms)
            rare = forms <= asking and OFTEN * uses < meant
            if self._own & forms or (uses and not rare):
                usual |= forms
        return usual

    def _behind(self, before: Set[str]) -> frozenset[str]:
        """Words behind one of these, or at the beginning of a clause."""
        return frozenset(b for a, b in itertools.pairwise(self._tokens) if a in {EDGE, *before})

    def _undone(self) -> Iterator[str]:
        """A verb that asks to undo something, of tools that only read."""
        asked = _list("undoing") & self._behind(_list("asking")) & self._words - self._own
        for word in sorted(asked) if self._verbs <= _list("reading") else ():
            if not self._usage.count_asking(self._tools, {word}):
                yield f"the message asks to {word}, and its calls only read"

    def _converted(self) -> Iterator[str]:
        """A unit that is asked for, of a tool that makes another one of it."""
        for name in self._tools:
            made = [units().get(part.lower()) for part in PARTS.findall(name)]
            said = {units().get(word) for word in self._all}
            for word in self._behind(_list("into")) & self._words - {EDGE} if made else ():
                if units().get(word, made[-1]) in made[:-1] and made[-1] not in said:
                    yield f"the message asks for {word!r}, which {name} does not give"

    @functools.cached_property
    def _converts(self) -> bool:
        """Tell whether the calls take other numbers than the message says: a unit was converted.

        Such a number has a fraction, or a call made it of the number in the message.
        """
        taken, said = numbers_taken(self._calls), numbers_in(self._text)
        if taken & said:
            return False
        used = [step for step in self._facts.steps if numbers_taken([step.call]) & said]
        made = numbers_in("\n".join(step.result.content for step in used))
        return any(not number.is_integer() or number in made for number in taken)

    def _decided(self, contrast: _Contrast) -> bool | None:
        """Tell whether an argument says the side that is meant (False: the other); None: neither.

        A switch is named after what it does when it is on: `unlock=False` locks.
        """
        if contrast.kind == "~":
            return None
        found: set[bool] = set()
        for call in self._calls:
            for name, value in call.arguments.items():
                if not isinstance(value, bool | str):
                    continue
                text = name.lower() if isinstance(value, bool) else value.lower()
                if text in contrast.meant or text in contrast.opposite:
                    found.add((text in contrast.meant) == (value is not False))
        return min(found, default=None)

    def _is_expected(self, contrast: _Contrast, words: Set[str]) -> bool:
        """Tell whether people use the meant words often enough, less if nobody says `words`."""
        if contrast.kind in ("*", "~"):
            return False
        count = self._usage.count_asking if contrast.kind == "=" else self._usage.count_only
        often = count(self._tools, contrast.meant)
        unknown = not self._usage.count(words)
        if contrast.kind == "=" and not often:
            often = self._usage.count(contrast.meant)
            return often >= CUSTOM and often >= CUSTOM * self._usage.count(contrast.opposite)
        return often >= (1 if contrast.kind == "=" else OFTEN // 2 if unknown else OFTEN)

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
                    if self._says(option) and not self._usage.count_only(self._tools, {option})
                }
                if others:
                    yield f"the message says {min(others)!r}, {call.name} takes {value!r}"

    def _says(self, option: str) -> bool:
        """Tell whether the message says an option outright, in quotes or not."""
        low = option.lower()
        return low in self._text and bool(re.search(rf"(?<!\w){re.escape(low)}(?!\w)", self._text))

    def _strangers(self) -> Iterator[str]:
        """Words of other tools' names that stand where people say a word of these tools."""
        others, own = _stems_of(frozenset(self._specs)), set(map(stem_of, self._own))
        for word in sorted(self._words):
            stem = stem_of(word)
            if len(word) < 3 or stem not in others or stem in own:
                continue
            if self._usage.count_only(self._tools, {word}):
                continue
            if (better := self._better(word, None)) is not None:
                yield f"the message says {word!r} where people say {better!r}"

    def _better(self, word: str, among: Set[str] | None) -> str | None:
        """A word of these tools (or of a set) that stands between the neighbors of a word.

        None where the word itself has stood beside one of them.
        """
        found: str | None = None
        for place, token in enumerate(self._tokens):
            if token != word:
                continue
            before, after = self._tokens[place - 1], self._tokens[place + 1]
            if any(self._usage.stands(before, word, after)) or (
                among is None and EDGE in (before, after)
            ):
                return None
            if not self._usage.is_rare(before) and not self._usage.is_rare(after):
                continue
            for other, count in self._usage.between(before, after):
                if among is not None:
                    near = other in among
                else:
                    ours = stem_of(other) in _stems_of(self._tools)
                    near = ours and self._usage.count_asking(self._tools, {other}) > 0
                if near and count >= FITS:
                    found = found or other
        return found


def _others(spec: ToolSpec | None, name: str, value: object) -> set[str]:
    if spec is None or not isinstance(value, str):
        return set()
    schema = spec.properties.get(name, {})
    listed = schema.get("enum") or _LISTED.findall(str(schema.get("description", "")))
    options, low = {str(o).lower() for o in listed}, value.lower()
    return {o for o in options - {low} if len(o) > 2} if low in options else set()


@functools.lru_cache(maxsize=256)
def _stems_of(tools: frozenset[str]) -> frozenset[str]:
    return frozenset(stem for name in tools for stem in name_stems(name))


class _Words(NamedTuple):
    title: frozenset[str]
    """Words of the tool's name and of what its description begins with."""
    all: frozenset[str]
    """Words of the whole description and the parameters, too; switches are read by their value."""


@by_identity
def _words_about(spec: ToolSpec) -> _Words:
    says = spec.description.rpartition("description:")[2].strip()
    name = " ".join(PARTS.findall(spec.name))
    texts = [name, says]
    for parameter, schema in spec.properties.items():
        if schema.get("type") != "boolean":
            texts += [" ".join(PARTS.findall(parameter)), str(schema.get("description", ""))]
    return _Words(_words_in(f"{name} {says.partition('. ')[0]}"), _words_in(" ".join(texts)))

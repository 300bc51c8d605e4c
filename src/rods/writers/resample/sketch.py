"""A task as a template: its texts, configuration and calls with slots where entities stood.

Occurrences are found once for a task, and rendered with new values many times.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from rods.abilities import InitialState, StateAccess
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.mentions import DateMention, find_dates, iso
from rods.synthesis.structure.sources import AMOUNT_WORD, NUMBER, WORD_OF, amount, numbers_taken
from rods.synthesis.structure.trace import Scalar
from rods.synthesis.structure.words import article, family
from rods.task import Task, Turn
from rods.types import Json
from rods.writers.resample import entities
from rods.writers.templates.vocabulary import in_case, phrases

WORDY = frozenset({"word", "person", "local"})
PLURAL = 1  # Form of a family's name: "the Novaks"
_TOKEN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2,}(?![A-Za-z0-9])|" + NUMBER.pattern)


class Slot(NamedTuple):
    """One entity: all its occurrences get the same new value."""

    kind: str
    key: str  # Canonical text of the old value


class SlotRef(NamedTuple):
    """An occurrence of a slot."""

    slot: int
    model: str  # The old text, whose letter case or format the new one takes
    form: int = 0  # Surface form of a date; of a person's name: PLURAL


Piece: TypeAlias = str | SlotRef
New: TypeAlias = "str | float | datetime.date | None"  # None leaves every occurrence as it was


class TextSpan(NamedTuple):
    """A part of a text that is replaced."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


class Sketch:
    """Slots and templates of one task."""

    def __init__(
        self,
        task: Task,
        domains: Domains,
        access: StateAccess,
        extra: Mapping[float, str] | None = None,
    ):
        """`extra`: numbers of the texts that values are computed from, with their kind."""
        self.task = task
        self.domains = domains
        self._access = access
        self.start = access.initial_state(task)
        self.found = entities.collect(task, domains, self.start.values)
        for number, kind in (extra or {}).items():
            self.found.numbers.setdefault(number, set()).add(kind)
        self.argued_numbers = numbers_taken(task.calls)
        self.slots: list[Slot] = []
        self._index: dict[Slot, int] = {}
        self.value_template = functools.cache(self._value_template)
        self.dates = self._dates()
        self.digits = {
            run
            for text, kind in self.found.compounds.items()
            if kind == "name"
            for run in re.findall(r"\d{3,}", text)
        }
        self._compound, self._lookup = self._compound_pattern()
        self._free = self._free_bodies()
        self._prose = [self._prose_template(turn.user) for turn in task.turns]
        pieces = (piece for template in self._prose for piece in template)
        self.said = Counter(piece.slot for piece in pieces if isinstance(piece, SlotRef))
        self.render(())  # makes every slot before values are chosen

    def slot(self, kind: str, key: str) -> int:
        """Index of a slot, made on first use."""
        slot = Slot(kind, key)
        index = self._index.get(slot)
        if index is None:
            index = self._index[slot] = len(self.slots)
            self.slots.append(slot)
        return index

    def _dates(self) -> list[datetime.date]:
        texts = [text for text, kind in self.found.compounds.items() if kind == "date"]
        found = {date for date in map(iso, texts) if date is not None}
        mentions = find_dates(self.found.prose)
        every = self.domains.inferred  # then all of them move by the same number of days
        return sorted(d for d in found if every or any(m.matches(d) for m in mentions))

    def _compound_pattern(self) -> tuple[re.Pattern[str] | None, dict[str, tuple[str, str]]]:
        """One pattern for all compounds and listed names, and what each text stands for."""
        lookup: dict[str, tuple[str, str]] = {}
        prose = self.found.prose
        for kind, table in self.domains.tables.items():
            codes = {} if table.open else table.owners  # else what is not listed is one too
            texts = [(kind, name) for name in table.names]
            texts += [(code_kind, code) for code_kind, owned in codes.items() for code in owned]
            for text_kind, text in texts:
                if text in prose or text in self.found.compounds:
                    lookup[text] = (text_kind, text)
            for alias, name in table.aliases.items():
                if alias in prose and re.search(rf"(?<!\w){re.escape(alias)}(?!\w)", prose):
                    lookup[alias] = (kind, name)
        for text, kind in self.found.compounds.items():
            if kind != "date":
                lookup.setdefault(text, (kind, text))
        if not lookup:
            return None, lookup
        parts = sorted(lookup, key=len, reverse=True)
        body = "|".join(re.escape(part) for part in parts)
        return re.compile(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])", re.IGNORECASE), lookup

    def _free_bodies(self) -> dict[str, int]:
        """Written texts that can be exchanged as a whole: said verbatim, holding no entity."""
        free: dict[str, int] = {}
        configured = "\n".join(self.found.configured)
        for body, parameter in self.found.bodies.items():
            plain = len(body.split()) >= 2 and body in self.found.prose and body not in configured
            if plain and not self._spans(body, local=False):
                free[body] = self.slot("free:" + parameter, body)
        return free

    def _spans(self, text: str, *, local: bool) -> list[TextSpan]:
        """Occurrences of entities in a text, without overlaps, in order."""
        spans = self._date_spans(text)
        compounds = self._compound.finditer(text) if self._compound is not None else ()
        found = [(match, self._compound_ref(match.group())) for match in compounds]
        amounts = AMOUNT_WORD.finditer(text) if self.domains.number_words else ()
        found += [(m, self._number_ref(float(amount(m[0])), m[0])) for m in amounts]
        found += [(m, self._token_ref(m.group(), local=local)) for m in _TOKEN.finditer(text)]
        for match, ref in found:
            if ref is not None and not _taken(spans, *match.span()):
                spans.append(TextSpan(*match.span(), (ref,)))
        return sorted(spans)

    def _date_spans(self, text: str) -> list[TextSpan]:
        """Dates of a text; one that stays is a span too, or its day would pass for a number."""
        spans: list[TextSpan] = []
        for mention in find_dates(text):
            date = next((d for d in self.dates if mention.matches(d)), None)
            piece: Piece = mention.text
            if date is not None:
                piece = SlotRef(self.slot("date", date.isoformat()), mention.text, mention.form)
            spans.append(TextSpan(mention.start, mention.end, (piece,)))
        return spans

    def _compound_ref(self, text: str) -> SlotRef | None:
        known = self._lookup.get(text)
        if known is None:
            folded = text.lower()
            for key, (kind, name) in self._lookup.items():
                bare = kind in ("tag", "mention") and key[0] not in "#@"
                if bare and text == folded:
                    continue  # a plain word, not the tag that is written like it
                if key.lower() == folded and (
                    kind in ("name", "tag", "mention") or kind in self.domains.tables
                ):
                    return SlotRef(self.slot(kind, name), text)
            return None
        return SlotRef(self.slot(*known), text)

    def _number_ref(self, value: float, text: str) -> SlotRef | None:
        known = value in self.found.numbers
        return SlotRef(self.slot("number", repr(value)), text) if known else None

    def _token_ref(self, token: str, *, local: bool) -> SlotRef | None:
        if token[0].isdigit():
            if number := self._number_ref(float(token.replace(",", "")), token):
                return number
            return SlotRef(self.slot("digits", token), token) if token in self.digits else None
        word = token.lower()
        kind = self.found.words.get(word)
        if kind is not None:
            return SlotRef(self.slot(kind, word), token)
        # The name of which this is the plural: the family of "the Novaks".
        one = next((o for o in (word[:-1], word[:-2]) if o and family(o) == word), "")
        if self.found.words.get(one) == "person":
            return SlotRef(self.slot("person", one), token, PLURAL)
        if local and word in self.found.local:
            return SlotRef(self.slot("local", word), token)
        return None

    def _prose_template(self, text: str) -> tuple[Piece, ...]:
        spans: list[TextSpan] = []
        lower = text.lower()
        bodies = {*self.found.bodies, *(body.rstrip(".") for body in self.found.bodies)}
        for body in sorted(bodies, key=lambda b: (-len(b), b)):
            start = lower.find(body.lower()) if len(body) > 3 else -1
            if start >= 0 and not _taken(spans, start, start + len(body)):
                part = text[start : start + len(body)]
                if part == body and body in self._free:
                    pieces: tuple[Piece, ...] = (SlotRef(self._free[body], body),)
                else:
                    pieces = _cut(part, self._spans(part, local=True))
                spans.append(TextSpan(start, start + len(body), pieces))
        for span in self._spans(text, local=False):
            if not _taken(spans, span.start, span.end):
                spans.append(span)
        for match in _opener_pattern().finditer(text):
            words = set(match.group().lower().split())
            if not words & self.found.kept_words and not _taken(spans, match.start(), match.end()):
                index = self.slot(f"opener:{match.start()}", match.group().lower())
                spans.append(TextSpan(match.start(), match.end(), (SlotRef(index, match.group()),)))
        return _cut(text, sorted(spans))

    def _value_template(self, kind: str, value: str) -> tuple[Piece, ...]:
        """The template of a string that stands in the configuration or in a call."""
        if value in self._free:
            return (SlotRef(self._free[value], value),)
        if kind in ("body", "pattern"):
            return _cut(value, self._spans(value, local=kind == "body"))
        if value in self._lookup:
            return (SlotRef(self.slot(*self._lookup[value]), value),)
        if kind in ("tag", "mention"):
            bare = value.lstrip("#@")
            sign = value[: len(value) - len(bare)]
            signed = ("#" if kind == "tag" else "@") + bare
            for text, lead in ((signed, ""), (bare, sign)):
                if text in self._lookup:
                    return (lead, SlotRef(self.slot(*self._lookup[text]), text))
            return (value,)
        if kind in self.domains.listed:
            return (SlotRef(self.slot(kind, value), value),)
        if kind == "date":
            return _cut(value, self._date_spans(value))
        if kind in ("person", "name"):
            return _cut(value, self._spans(value, local=False))
        return (value,)

    def render(self, values: Sequence[New]) -> Task:
        """The task with these values in its slots (none: the old ones), and its old provenance."""
        new = _Renderer(self, values)
        turns = tuple(
            Turn(
                new.text(template),
                tuple(entities.call_map(c, self.domains, new.leaf) for c in turn.ground_truth),
                turn.withheld,
            )
            for turn, template in zip(self.task.turns, self._prose, strict=True)
        )
        start: dict[str, Json] = {
            owner: entities.kind_map(node, owner, owner, self.domains, new.leaf, new.key)
            for owner, node in self.start.values.items()
        }
        made = dataclasses.replace(self.task, turns=turns)
        return self._access.with_initial_state(made, InitialState(self.start.owners, start))


class _Renderer:
    def __init__(self, sketch: Sketch, values: Sequence[New]):
        self._sketch, self._values = sketch, values

    def leaf(self, kind: str, value: Scalar) -> Scalar:
        if isinstance(value, bool) or value is None or not kind:
            return value
        if isinstance(value, str):
            return self.text(self._sketch.value_template(kind, value))
        if kind == "counter":
            index = self._sketch.slot("counter", repr(float(value)))
        elif kind in self._sketch.domains.numbers and float(value) in self._sketch.found.numbers:
            index = self._sketch.slot("number", repr(float(value)))
        else:
            return value
        new = self._values[index] if self._values else None
        if new is None:
            return value
        number = cast("float", new)
        return int(number) if isinstance(value, int) and number.is_integer() else number

    def key(self, kind: str, key: str) -> str:
        if kind == "id":
            return str(self.leaf(kind, int(key))) if key.isdigit() else key
        return self.text(self._sketch.value_template(kind, key))

    def text(self, template: tuple[Piece, ...]) -> str:
        parts: list[str] = []
        for piece in template:
            text = piece if isinstance(piece, str) else self._ref(piece)
            if parts and isinstance(piece, SlotRef) and text != piece.model:
                parts[-1] = _with_article(parts[-1], text)
            parts.append(text)
        return "".join(parts)

    def _ref(self, ref: SlotRef) -> str:
        new = self._values[ref.slot] if self._values else None
        if new is None:
            return ref.model
        kind, key = self._sketch.slots[ref.slot]
        if isinstance(new, datetime.date):
            return DateMention(0, 0, 0, 0, None, ref.model, ref.form).render(new)
        if isinstance(new, int | float):
            return format_number(new, ref.model)
        if kind.startswith("opener"):
            return _opening(new, ref.model)
        if kind in WORDY:
            return in_case(family(new) if ref.form == PLURAL else new, ref.model)
        if ref.model == key or not ref.model.isalpha():
            return new
        return new.lower() if ref.model.islower() else new.upper() if ref.model.isupper() else new


def _with_article(before: str, noun: str) -> str:
    """A text whose last word, where it is an article, fits the noun that follows."""
    if not re.search(r"(?<!\w)an? $", before) or not noun[:1].isalpha():
        return before
    return re.sub(r"an? $", article(noun) + " ", before)


def _opening(new: str, model: str) -> str:
    """A phrase in the letter case of its place: capitalized at the start of a sentence."""
    if model[0].isupper() or new.startswith(("I ", "I'")):
        return new[:1].upper() + new[1:]
    return new[:1].lower() + new[1:]


def format_number(value: float, model: str) -> str:
    """Write a number as `model` is written: commas, decimals, a word where there is one."""
    if model[-1:].isalpha():
        return in_case(WORD_OF.get(value, format_number(value, "0")), model)
    decimals = len(model.partition(".")[2])
    if float(value).is_integer():
        zeros = len(model) if model[0] == "0" else 0  # the 05 of 16:05
        return f"{value:,.{decimals}f}" if "," in model else f"{value:.{decimals}f}".zfill(zeros)
    text = repr(value)
    return f"{int(value):,}.{text.partition('.')[2]}" if "," in model else text


def _taken(spans: Sequence[TextSpan], start: int, end: int) -> bool:
    return any(start < s.end and s.start < end for s in spans)


def _cut(text: str, spans: Sequence[TextSpan]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    at = 0
    for span in spans:
        if span.start > at:
            pieces.append(text[at : span.start])
        pieces.extend(span.pieces)
        at = span.end
    if at < len(text):
        pieces.append(text[at:])
    return tuple(pieces)


@functools.cache
def _opener_pattern() -> re.Pattern[str]:
    body = "|".join(re.escape(p) for p in sorted(phrases(), key=len, reverse=True))
    return re.compile(rf"(?<![\w'])(?:{body})(?![\w']| like\b)", re.IGNORECASE)

"""New values for the slots of a sketch, drawn consistently from one random state.

Owns names, codes, dates and texts; numbers and listed names are `values.py`'s.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rods.synthesis.structure.mentions import iso
from rods.synthesis.structure.words import alike_words, word_lists
from rods.writers.resample.entities import RUNS, says
from rods.writers.resample.rebind import Knowledge
from rods.writers.resample.sketch import WORDY, New, Sketch
from rods.writers.resample.values import assign_listed, assign_numbers
from rods.writers.templates.vocabulary import Vocabulary, in_case, phrases

KEEP_WORD = 0.04  # Chance that a word stays as it is
KEEP_LOCAL = 0.05
SWAP_OPENER = 0.6
REWORD_FREE = 0.35  # Share of content words that are replaced in an exchanged text

COMPOUND = frozenset({"name", "ident", "user", "tag", "mention", "expiry", "moment", "email"})
"""Kinds of what is made of several words or signs."""
BORN = 2010  # Days before this year are birthdays
_STIFF = re.compile("kindly|might|wish", re.I)
_FEAST = re.compile(r"\b(?:christmas|new year|valentine|halloween|independence day)\b", re.I)


@dataclass(frozen=True)
class Materials:
    """What new values are made from."""

    vocabulary: Vocabulary
    donors: Mapping[str, Sequence[str]]
    """Written texts of the training split by parameter (`message`, `note`, ...)."""


def assign(
    sketch: Sketch, materials: Materials, knowledge: Knowledge, rng: random.Random, keep: float
) -> list[New]:
    """One new value for each slot; None keeps the old one, as numbers do with chance `keep`."""
    values: list[New] = [None] * len(sketch.slots)
    days = 7 * rng.randint(1, 45) if sketch.domains.inferred else 0
    draw = _Draw(sketch, materials.vocabulary, knowledge, days, rng)
    for index, (kind, key) in enumerate(sketch.slots):
        if kind in WORDY or kind == "digits":
            values[index] = draw.words[key]
        elif kind in COMPOUND:
            values[index] = draw.compound(kind, key)
        elif kind.startswith("opener"):
            if rng.random() < SWAP_OPENER:
                plain = [p for p in phrases()[key] if not days or not _STIFF.search(p)]
                values[index] = rng.choice(plain)
        elif kind.startswith("free:"):
            values[index] = materials.vocabulary.reworded(key, rng, REWORD_FREE)
    _assign_dates(sketch, values, days, rng)
    assign_listed(sketch, values, knowledge, rng)
    assign_numbers(sketch, values, knowledge, rng, keep)
    return values


class _Draw:
    """New words, and new names and codes made of them."""

    def __init__(
        self,
        sketch: Sketch,
        vocabulary: Vocabulary,
        knowledge: Knowledge,
        days: int,
        rng: random.Random,
    ):
        self._found, self._keep_names = sketch.found, knowledge.keep_names
        self._vocabulary, self._rng = vocabulary, rng
        self._separators = {"_": rng.choice("__-"), "-": rng.choice("-_")}
        minutes = rng.choice(range(-120, 121, 15)) if days else 0
        self._shift = datetime.timedelta(days, minutes=minutes)
        shown = (x.value for step in knowledge.steps if days for x in step.leaves)
        self._used = {value.lower() for value in shown if isinstance(value, str)}
        """Texts that are no new name: also the ids that tools give to what they make."""
        self.words: dict[str, str] = {}
        """Old to new: words in lower case, runs of digits, endings of files with their dot."""
        kinds = dict.fromkeys(self._found.local, "local") | self._found.words
        for word in sorted(kinds, key=lambda w: (len(w), w)):
            self.words[word] = self._word(kinds[word], word)
        for digits in sorted(sketch.digits):
            self.words[digits] = _digits(digits, rng)

    def _word(self, kind: str, word: str) -> str:
        rng, vocabulary = self._rng, self._vocabulary
        if self._keep_names and kind == "word":
            return word
        if word.endswith("s") and word[:-1] in self.words:
            return self.words[word[:-1]] + "s"
        if kind == "local":
            alike = alike_words().get(word, ())
            free = [w for w in alike if w not in self._used and w not in self.words]
            new = rng.choice(free) if free and rng.random() >= KEEP_LOCAL else word
            self._used.add(new)
            return new
        if rng.random() < KEEP_WORD:
            return word
        for _ in range(8):
            if kind == "person":
                new = self._person(word).lower()
            elif says(word, self._found.prose):
                new = vocabulary.plain(rng)
            else:
                new = vocabulary.word(rng)
            if new not in self._used and new not in self.words:
                self._used.add(new)
                return new
        return word

    def _person(self, word: str) -> str:
        """A name; for own tools a surname for a surname, and a first name that fits `she`."""
        rng, vocabulary, first = self._rng, self._vocabulary, word not in self._found.surnames
        if first and self._shift:
            return rng.choice(self._found.first_names or word_lists().first_names)
        first = first if self._shift else rng.random() < 0.6
        return vocabulary.first_name(rng) if first else vocabulary.surname(rng)

    def compound(self, kind: str, key: str) -> str:
        """Another name or code of a kind that `COMPOUND` lists; the old one where none is new."""
        if self._keep_names and kind == "name":
            return key
        if kind == "moment":
            return self._moment(key)
        if kind == "email":  # it follows the name of its owner
            local, at, domain = key.partition("@")
            return self._user(local) + at + domain
        named = {"name": self._file_name, "ident": self._ident, "user": self._user}
        draw = {**named, "expiry": self._expiry}.get(kind, self._sign)
        for _ in range(6):
            new = draw(key)
            if new != key and new.lower() not in self._used:
                self._used.add(new.lower())
                return new
        return key

    def _file_name(self, key: str) -> str:
        stem, dot, extension = key.rpartition(".")
        if not dot or not stem or not re.fullmatch(r"[A-Za-z]{1,4}\d?", extension):
            stem, dot, extension = key, "", ""
        parts = [self._name_run(run) for run in RUNS.findall(stem)]
        return "".join(parts) + dot + (self._extension(extension) if extension else "")

    def _name_run(self, run: str) -> str:
        lower = run.lower()
        if not run.isdigit() and not run[0].isalpha():
            return "".join(self._separators.get(char, char) for char in run)
        if lower not in self.words:
            if run.isdigit():
                self.words[run] = _digits(run, self._rng)
            elif len(run) < 3:
                self.words[lower] = self._vocabulary.like(lower, self._rng)
            else:
                self.words[lower] = self._word("word", lower)
        kept = run.isalpha() and lower in self._found.referring
        return run if kept else in_case(self.words[lower], run)

    def _extension(self, extension: str) -> str:
        key = "." + extension.lower()
        if key not in self.words:
            whole = rf"(?<![.\w]){re.escape(extension)}(?!\w)"
            quoted = re.search(whole, self._found.prose, re.I)
            fixed = quoted or extension.lower() in ("py", "jpg", "png")
            new = extension.lower() if fixed else self._vocabulary.extension(self._rng)
            self.words[key] = new
        return self.words[key]

    def _ident(self, key: str) -> str:
        rng, vocabulary = self._rng, self._vocabulary
        parts: list[str] = []
        wordy = rng.random() < 0.6
        for index, run in enumerate(re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]+", key)):
            if run.isdigit():
                parts.append(_digits(run, rng) if run[0] != "0" else vocabulary.like(run, rng))
            elif not run[0].isalpha():
                parts.append(run)
            elif index == 0 and len(run) <= 3 and run.isupper() and len(key) > len(run):
                parts.append(run)  # issuer or type: the US of US482913, the USR of USR003
            elif run.lower() in self.words:
                parts.append(in_case(self.words[run.lower()], run))
            elif len(run) >= 4 and wordy:
                parts.append(in_case(vocabulary.word(rng), run))
            else:
                parts.append(vocabulary.like(run, rng))
        return "".join(parts)

    def _moment(self, key: str) -> str:
        """A time, with a day or without, as far from the others of its task as it was."""
        day = iso(key[:10])
        at = datetime.datetime.fromisoformat(key if day else f"2000-01-01T{key.zfill(5)}")
        moved = (at + self._shift).isoformat(key[10] if day else " ")  # the sign that it had
        return moved[0 if day else 11 :][: max(5, len(key))]

    def _user(self, key: str) -> str:
        rng, vocabulary = self._rng, self._vocabulary
        parts: list[str] = []
        for run in RUNS.findall(key):
            if run.isdigit():
                parts.append(_digits(run, rng))
            elif not run[0].isalpha():
                parts.append(run)
            elif run.lower() in self.words:
                parts.append(in_case(self.words[run.lower()], run))
            elif len(run) <= 2:
                parts.append(vocabulary.like(run, rng))
            else:
                name = vocabulary.first_name(rng) if rng.random() < 0.5 else vocabulary.word(rng)
                parts.append(in_case(name.lower(), run))
        return "".join(parts)

    def _sign(self, key: str) -> str:
        bare = key.lstrip("#@")
        sign = key[: len(key) - len(bare)]
        count = self._rng.choice((1, 1, 2, 2, 3))
        words = [self._vocabulary.word(self._rng) for _ in range(count)]
        if bare.islower() or bare.isupper():
            return sign + "".join(words[:2])
        return sign + "".join(word.capitalize() for word in words)

    def _expiry(self, key: str) -> str:
        match = re.fullmatch(r"(\d\d)/(\d{2,4})", key)
        if match is None:
            return key
        year, month = self._rng.randint(25, 39), self._rng.randint(1, 12)
        return f"{month:02d}/" + (str(year) if len(match[2]) == 2 else f"20{year}")


def _digits(digits: str, rng: random.Random) -> str:
    if len(digits) == 4 and digits[:2] in ("19", "20"):
        return str(rng.randint(1985, 2039))
    return str(rng.randint(1, 9)) + "".join(rng.choice("0123456789") for _ in digits[1:])


def _assign_dates(sketch: Sketch, values: list[New], days: int, rng: random.Random) -> None:
    taken = set(sketch.dates)
    if _FEAST.search(sketch.found.prose):
        return  # a day that is called by its feast stays
    shift = rng.choice((0, 1, 1, 2, 3)) - 1
    for index, (kind, key) in enumerate(sketch.slots):
        if kind != "date":
            continue
        old = datetime.date.fromisoformat(key)
        if sketch.domains.inferred and old.year >= BORN:  # as far apart as they were
            values[index] = old + datetime.timedelta(days)
            continue
        weekday = f"{old:%A}".lower() in sketch.found.prose.lower()
        for _ in range(10):
            day = datetime.timedelta(days=rng.randrange(365))
            year = rng.randint(1950, 1998) if old.year < BORN else old.year + shift
            new = datetime.date(year, 1, 1) + day
            if weekday:  # "Thursday October 15th" stays a Thursday
                new += datetime.timedelta(days=(old.weekday() - new.weekday()) % 7)
            if new not in taken:
                taken.add(new)
                values[index] = new
                break

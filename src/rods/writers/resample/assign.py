"""New values for the slots of a sketch, drawn consistently from one random state.

Owns the choice of names, codes, dates and texts (numbers and listed names: `values.py`).
Never renders, never executes.

    values = assign(sketch, Materials(vocabulary, donors), knowledge, rng)
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rods.writers.resample.entities import RUNS, says
from rods.writers.resample.rebind import Knowledge
from rods.writers.resample.sketch import New, Sketch
from rods.writers.resample.values import assign_listed, assign_numbers
from rods.writers.templates.vocabulary import Vocabulary, in_case, phrases

KEEP_WORD = 0.04
"""Chance that a word stays as it is."""
KEEP_LOCAL = 0.05
SWAP_OPENER = 0.6
REWORD_FREE = 0.35
"""Share of content words that are replaced in an exchanged text."""

_FEAST = re.compile(r"\b(?:christmas|new year|valentine|halloween|independence day)\b", re.I)


@dataclass(frozen=True)
class Materials:
    """What new values are made from."""

    vocabulary: Vocabulary
    donors: Mapping[str, Sequence[str]]
    """Written texts of the training side by parameter (`message`, `note`, ...)."""


@dataclass
class _State:
    sketch: Sketch
    materials: Materials
    knowledge: Knowledge
    rng: random.Random
    words: dict[str, str] = field(default_factory=dict[str, str])
    used: set[str] = field(default_factory=set[str])
    separators: dict[str, str] = field(default_factory=dict[str, str])


def assign(
    sketch: Sketch, materials: Materials, knowledge: Knowledge, rng: random.Random
) -> list[New]:
    """One new value for each slot; None keeps the old one."""
    state = _State(sketch, materials, knowledge, rng)
    state.separators = {"_": rng.choice("__-"), "-": rng.choice("-_")}
    values: list[New] = [None] * len(sketch.slots)
    _assign_words(state, values)
    for index, (kind, key) in enumerate(sketch.slots):
        if kind in ("name", "ident", "user", "tag", "mention", "expiry"):
            values[index] = _compound(state, kind, key)
        elif kind == "digits":
            values[index] = state.words[key]
        elif kind.startswith("opener"):
            if rng.random() < SWAP_OPENER:
                values[index] = rng.choice(phrases()[key])
        elif kind.startswith("free:"):
            values[index] = materials.vocabulary.reworded(key, rng, REWORD_FREE)
    _assign_dates(state, values)
    assign_listed(sketch, values, knowledge, rng)
    assign_numbers(sketch, values, knowledge, rng)
    return values


def _assign_words(state: _State, values: list[New]) -> None:
    sketch, found = state.sketch, state.sketch.found
    for word in sorted({*found.words, *found.local}, key=lambda w: (len(w), w)):
        state.words[word] = _word(state, found.words.get(word, "local"), word)
    for digits in sorted(sketch.digits):
        state.words[digits] = _digits(digits, state.rng)
    for index, (kind, key) in enumerate(sketch.slots):
        if kind in ("word", "person", "local"):
            values[index] = state.words[key]


def _word(state: _State, kind: str, word: str) -> str:
    rng, vocabulary = state.rng, state.materials.vocabulary
    if state.knowledge.keep_names and kind == "word":
        return word
    if word.endswith("s") and word[:-1] in state.words:
        return state.words[word[:-1]] + "s"
    if kind == "local":
        free = [w for w in vocabulary.alike(word) if w not in state.used and w not in state.words]
        new = rng.choice(free) if free and rng.random() >= KEEP_LOCAL else word
        state.used.add(new)
        return new
    if rng.random() < KEEP_WORD:
        return word
    for _ in range(8):
        if kind == "person":
            name = vocabulary.first_name(rng) if rng.random() < 0.6 else vocabulary.surname(rng)
            new = name.lower()
        elif says(word, state.sketch.found.prose):
            new = vocabulary.plain(rng)
        else:
            new = vocabulary.word(rng)
        if new not in state.used and new not in state.words:
            state.used.add(new)
            return new
    return word


def _digits(digits: str, rng: random.Random) -> str:
    if len(digits) == 4 and digits[:2] in ("19", "20"):
        return str(rng.randint(1985, 2039))
    return str(rng.randint(1, 9)) + "".join(rng.choice("0123456789") for _ in digits[1:])


def _compound(state: _State, kind: str, key: str) -> str:
    if state.knowledge.keep_names and kind == "name":
        return key
    for _ in range(6):
        new = _COMPOUNDS[kind](state, key)
        if new != key and new.lower() not in state.used:
            state.used.add(new.lower())
            return new
    return key


def _file_name(state: _State, key: str) -> str:
    stem, dot, extension = key.rpartition(".")
    if not dot or not stem or not re.fullmatch(r"[A-Za-z]{1,4}\d?", extension):
        stem, dot, extension = key, "", ""
    parts = [_name_run(state, run) for run in RUNS.findall(stem)]
    if extension:
        extension = _extension(state, extension)
    return "".join(parts) + dot + extension


def _name_run(state: _State, run: str) -> str:
    if run.isdigit():
        if run not in state.words:
            state.words[run] = _digits(run, state.rng)
        return state.words[run]
    if not run[0].isalpha():
        return "".join(state.separators.get(char, char) for char in run)
    lower = run.lower()
    if lower not in state.words and len(run) < 3:
        state.words[lower] = state.materials.vocabulary.like(lower, state.rng)
    elif lower not in state.words:
        state.words[lower] = _word(state, "word", lower)
    return run if lower in state.sketch.found.referring else in_case(state.words[lower], run)


def _extension(state: _State, extension: str) -> str:
    key = "." + extension.lower()
    if key not in state.words:
        said = re.search(rf"(?<![.\w]){re.escape(extension)}(?!\w)", state.sketch.found.prose, re.I)
        fixed = said or extension.lower() in ("py", "jpg", "png")
        new = extension.lower() if fixed else state.materials.vocabulary.extension(state.rng)
        state.words[key] = new
    return state.words[key]


def _ident(state: _State, key: str) -> str:
    rng, vocabulary = state.rng, state.materials.vocabulary
    parts: list[str] = []
    wordy = rng.random() < 0.6
    for index, run in enumerate(re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]+", key)):
        if run.isdigit():
            parts.append(_digits(run, rng) if run[0] != "0" else vocabulary.like(run, rng))
        elif not run[0].isalpha():
            parts.append(run)
        elif index == 0 and len(run) <= 3 and run.isupper() and len(key) > len(run):
            parts.append(run)  # issuer or type: the US of US482913, the USR of USR003
        elif run.lower() in state.words:
            parts.append(in_case(state.words[run.lower()], run))
        elif len(run) >= 4 and wordy:
            parts.append(in_case(vocabulary.word(rng), run))
        else:
            parts.append(vocabulary.like(run, rng))
    return "".join(parts)


def _user(state: _State, key: str) -> str:
    rng, vocabulary = state.rng, state.materials.vocabulary
    parts: list[str] = []
    for run in RUNS.findall(key):
        if run.isdigit():
            parts.append(_digits(run, rng))
        elif not run[0].isalpha():
            parts.append(run)
        elif run.lower() in state.words:
            parts.append(in_case(state.words[run.lower()], run))
        elif len(run) <= 2:
            parts.append(vocabulary.like(run, rng))
        else:
            name = vocabulary.first_name(rng) if rng.random() < 0.5 else vocabulary.word(rng)
            parts.append(in_case(name.lower(), run))
    return "".join(parts)


def _sign(state: _State, key: str) -> str:
    bare = key.lstrip("#@")
    sign = key[: len(key) - len(bare)]
    rng, vocabulary = state.rng, state.materials.vocabulary
    count = rng.choice((1, 1, 2, 2, 3))
    words = [vocabulary.word(rng) for _ in range(count)]
    if bare.islower() or bare.isupper():
        return sign + "".join(words[:2])
    return sign + "".join(word.capitalize() for word in words)


def _expiry(state: _State, key: str) -> str:
    match = re.fullmatch(r"(\d\d)/(\d{2,4})", key)
    if match is None:
        return key
    year = state.rng.randint(25, 39)
    return f"{state.rng.randint(1, 12):02d}/" + (str(year) if len(match[2]) == 2 else f"20{year}")


_COMPOUNDS = {
    "name": _file_name,
    "ident": _ident,
    "user": _user,
    "tag": _sign,
    "mention": _sign,
    "expiry": _expiry,
}


def _assign_dates(state: _State, values: list[New]) -> None:
    rng, sketch = state.rng, state.sketch
    taken = set(sketch.dates)
    if _FEAST.search(sketch.found.prose):
        return  # a day that is called by its feast stays
    shift = rng.choice((0, 1, 1, 2, 3)) - 1
    for index, (kind, key) in enumerate(sketch.slots):
        if kind != "date":
            continue
        old = datetime.date.fromisoformat(key)
        weekday = f"{old:%A}".lower() in sketch.found.prose.lower()
        for _ in range(10):
            new = _date(old, shift, rng)
            if weekday:  # "Thursday October 15th" stays a Thursday
                new += datetime.timedelta(days=(old.weekday() - new.weekday()) % 7)
            if new not in taken:
                taken.add(new)
                values[index] = new
                break


def _date(old: datetime.date, shift: int, rng: random.Random) -> datetime.date:
    day = datetime.timedelta(days=rng.randrange(365))
    if old.year < 2010:
        return datetime.date(rng.randint(1950, 1998), 1, 1) + day
    return datetime.date(old.year + shift, 1, 1) + day

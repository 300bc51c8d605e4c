"""Fingerprints of texts and calls: near-duplicates, look-alikes, overlap with held-out tasks.

Corpus(training_tasks, held_out_tasks).overlap(prints(variant))    # None, or what it shares
Neighbors(training_tasks).repeated(prints(variant))                # None, or what it repeats
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rods.synthesis.structure.sources import NUMBER_WORD
from rods.synthesis.structure.words import word_lists
from rods.task import Task

SHINGLE = 8
"""Words in a row that, said by held-out tasks alone, count as overlap."""
NEAR = 0.92
"""Share of common word triples from which texts count as near-duplicates."""
MIN_CALLS = 2
"""Ground truths of fewer calls are too common to tell an overlap by."""
ALIKE = 3
"""Tasks of a seed, itself included, that may be the same but for ids: two variants are usual."""
_MONTHS = "|".join(calendar.month_name[1:])
_COUNTED = re.compile(rf"[\w#@+./:-]*\d[\w#@+./:-]*|{NUMBER_WORD.pattern}|\b(?:{_MONTHS})\b", re.I)


@dataclass(frozen=True)
class Prints:
    """Fingerprints of a task: its texts and calls, reduced to comparable sets."""

    calls: str
    count: int
    triples: frozenset[tuple[str, ...]]
    shingles: frozenset[tuple[str, ...]]
    text: str = ""
    look: str = ""

    def similarity(self, other: Prints) -> float:
        """Share of common word triples (Jaccard); 1.0 for two blank texts."""
        union = len(self.triples | other.triples)
        return len(self.triples & other.triples) / union if union else 1.0


def prints(task: Task) -> Prints:
    """Fingerprints of one task."""
    calls = [str(call) for call in task.calls]
    texts = [re.findall(r"\w+", turn.user.lower()) for turn in task.turns]
    return Prints(
        calls=";".join(calls),
        count=len(calls),
        triples=frozenset(_grams(texts, 3)),
        shingles=frozenset(_grams(texts, SHINGLE)),
        text="\n".join(turn.user for turn in task.turns),
        look=look_of(task),
    )


def look_of(task: Task) -> str:
    """A task without ids, numbers, days and courtesies: look-alikes have the same."""
    lists, rows = word_lists(), [task.category]
    for turn in task.turns:
        text = turn.user.strip()
        for courtesy in (*lists.greetings, *lists.connectors, *lists.closings):
            text = text.removeprefix(f"{courtesy} ").removesuffix(f" {courtesy}")
        rows += [f"> {text}", *turn.withheld, *map(str, turn.ground_truth)]
    return _COUNTED.sub("#", "\n".join(rows)).lower()


def _grams(texts: Iterable[Sequence[str]], size: int) -> Iterable[tuple[str, ...]]:
    for words in texts:
        if 0 < len(words) < size and (size != SHINGLE or len(words) >= 5):
            yield tuple(words)
        for start in range(len(words) - size + 1):
            yield tuple(words[start : start + size])


class Neighbors:
    """Tasks that must not be repeated, found by an inverted index."""

    def __init__(self, tasks: Iterable[Task] = (), known: Iterable[Prints] = ()):
        """Index tasks, or fingerprints that exist already."""
        self._prints: list[Prints] = []
        self._calls: set[str] = set()
        self.texts: set[str] = set()
        """Messages of users in them, word for word."""
        self._places: dict[tuple[str, ...], list[int]] = {}
        for mine in (*map(prints, tasks), *known):
            self.add(mine)

    def add(self, mine: Prints) -> None:
        """From now on it must not be repeated."""
        for triple in mine.triples:
            self._places.setdefault(triple, []).append(len(self._prints))
        self._prints.append(mine)
        self.texts.add(mine.text)
        if mine.calls:
            self._calls.add(mine.calls)

    def repeated(self, mine: Prints) -> str | None:
        """Return what is repeated: the calls with all their values, or nearly all words; or None.

        A near-duplicate shares all but a few triples, so it stands under one of the rarest ones.
        """
        if mine.calls in self._calls:
            return "the same calls with the same values"
        rarest = sorted(
            mine.triples, key=lambda triple: (len(self._places.get(triple, ())), triple)
        )
        few = len(rarest) - math.ceil(NEAR * len(rarest)) + 1
        near = {place for triple in rarest[:few] for place in self._places.get(triple, ())}
        best = max((mine.similarity(self._prints[place]) for place in near), default=0.0)
        return f"{best:.0%} of the word triples" if best > NEAR else None


class Corpus:
    """Phrases, calls and scenarios that only held-out tasks have."""

    def __init__(self, training: Iterable[Task], held_out: Iterable[Task]):
        """Phrases and ground truths that both splits have are common property, not overlap."""
        ours = [(task.provenance.scenario, prints(task)) for task in training]
        theirs = [(task.provenance.scenario, prints(task)) for task in held_out]
        held = {shingle for _, mine in theirs for shingle in mine.shingles}
        self._shingles = held.difference(*(mine.shingles for _, mine in ours))
        held_calls = {mine.calls for _, mine in theirs if mine.count >= MIN_CALLS}
        self._calls = held_calls - {mine.calls for _, mine in ours}
        self.texts = {mine.text for _, mine in theirs}
        """Messages of users in held-out tasks, word for word."""
        self.scenarios = {scenario for scenario, _ in theirs} - {scenario for scenario, _ in ours}
        """Scenarios that stand in the held-out split alone."""

    def overlap(self, mine: Prints) -> str | None:
        """Return what these fingerprints share with held-out tasks alone, or None."""
        if mine.calls in self._calls:
            return "the whole ground truth is that of a held-out task"
        if shared := self._shingles.intersection(mine.shingles):
            return f"says as a held-out task: {' '.join(min(shared))!r}"
        return None

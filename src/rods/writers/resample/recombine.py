"""Cut, exchange and extend conversations by turns of other tasks.

Owns which turns can be taken out of a task and put into another without breaking what they depend
on. An empty-ground-truth turn never leaves the turn that follows up on it.
"""

from __future__ import annotations

import dataclasses
import random
import zlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from rods.abilities import InitialState, StateAccess, state_access
from rods.env import Environment
from rods.synthesis.base import Base, Unit
from rods.task import Task, Turn

MAX_TURNS = 8
SAME_CLASS = 0.7  # How often turns are exchanged for turns of the same class
DONORS = 8  # Tasks that one seed exchanges turns of one class with
EXTEND_SHARE = 0.15  # How often a class of another task is added, instead of exchanging one


class ResamplePlan(NamedTuple):
    """What to rename: a seed itself, or a task recombined from it."""

    task: Task
    recipe: str  # Steps joined by `+`, without `rename`
    donors: tuple[Task, ...] = ()  # Other tasks that gave turns


def cut(task: Task, units: Sequence[Unit], rng: random.Random) -> Task | None:
    """Leave out turns at the end, or independent ones at the start; None where none may go."""
    options = [list(units[:count]) for count in range(max(1, len(units) - 2), len(units))]
    for start in range(1, min(3, len(units))):
        rest = units[start:]
        dropped = {c for unit in units[:start] for c in unit.classes}
        kept = {c for unit in rest for c in unit.classes}
        before = set(range(rest[0].first))
        if not dropped & kept and not any(unit.needs & before for unit in rest):
            options.append(list(rest))
    shorter = [_assemble(task, [(task, unit) for unit in option]) for option in options]
    fitting = [t for t in shorter if gaps(t) == gaps(task) and len(t.turns) < len(task.turns)]
    return rng.choice(fitting) if fitting else None


def gaps(task: Task) -> int:
    """How many turns of a task have no ground truth."""
    return sum(1 for turn in task.turns if not turn.ground_truth)


class Recombiner:
    """Finds tasks whose turns fit into another task."""

    def __init__(self, pool: Sequence[Task], environment: Environment, places: Collection[str]):
        """`pool`: tasks of the training split; `places`: names of the environment's tables. A turn
        that contains one continues the story of its own task."""
        self._pool, self._environment, self._places = pool, environment, places
        self._access = state_access(environment)
        self._known: dict[str, Sequence[Unit]] = {}

    def units(self, task: Task) -> Sequence[Unit]:
        """Units of a task, computed once."""
        if task.id not in self._known:
            self._known[task.id] = Base(self._environment, task).units
        return self._known[task.id]

    def recombine(self, seed: Task, rng: random.Random) -> ResamplePlan | None:
        """The seed with another task's turns in the place of a class's; None where none fit."""
        own = _separable(seed, self.units(seed))
        if rng.random() < EXTEND_SHARE:
            free = sorted(self._classes(seed) - self._owners(seed))
            rest = self._owners(seed)
            return self._joined(seed, "", rng.choice(free), rest, rng) if free else None
        if not own:
            return None
        old = rng.choice(sorted(own))
        rest = {c for unit in self.units(seed) for c in unit.classes} - {old}
        if not rest:
            return None
        others = sorted(self._classes(seed) - rest)
        wanted = rng.choice(others) if others and rng.random() > SAME_CLASS else old
        return self._joined(seed, old, wanted, rest, rng)

    def _joined(
        self, seed: Task, old: str, wanted: str, rest: Collection[str], rng: random.Random
    ) -> ResamplePlan | None:
        """The seed with a donor's turns of class `wanted` in the place of those of class `old`.

        `old` is empty: its first turns are added at the end. The donor has one of the classes
        `rest` too, and the turns do not continue its own story.
        """
        donor = self._donor(seed, wanted, rng)
        if donor is None or wanted in self._owners(seed) - {old}:
            return None
        given = _separable(donor, self.units(donor))[wanted][: None if old else 1]
        texts = [donor.turns[n].user for u in given for n in range(u.first, u.last + 1)]
        continues = any(name in text for text in texts for name in self._places)
        if continues or not self._owners(donor).intersection(rest):
            return None
        units = self.units(seed)
        goes = [bool(old) and old in unit.classes for unit in units]
        parts = [(seed, unit) for unit, gone in zip(units, goes, strict=True) if not gone]
        at = goes.index(True) if old else len(parts)
        parts[at:at] = [(donor, unit) for unit in given]
        task = _swapped(_assemble(seed, parts), self._access, old, wanted, donor)
        fits = gaps(task) == gaps(seed) and 1 <= len(task.turns) <= MAX_TURNS
        return ResamplePlan(task, "recombine" if old else "extend", (donor,)) if fits else None

    def _owners(self, task: Task) -> set[str]:
        return set(self._access.initial_state(task).owners)

    def _classes(self, seed: Task) -> set[str]:
        return {name for category, name in self._index if category == seed.category}

    def _donor(self, seed: Task, wanted: str, rng: random.Random) -> Task | None:
        known, mine = self._index.get((seed.category, wanted), ()), seed.provenance.scenario
        found = [task for task in known if task.provenance.scenario != mine]
        # A few donors for each seed, always the same: plans are analyzed once and used often.
        near = sorted(found, key=lambda t: zlib.crc32(f"{seed.id}{t.id}".encode()))[:DONORS]
        return rng.choice(near) if near else None

    @cached_property
    def _index(self) -> Mapping[tuple[str, str], Sequence[Task]]:
        """Tasks by their category and each class whose turns can be taken out of them."""
        found: dict[tuple[str, str], list[Task]] = {}
        for task in self._pool:
            for name in _separable(task, self.units(task)):
                found.setdefault((task.category, name), []).append(task)
        return found


def _separable(task: Task, units: Sequence[Unit]) -> dict[str, list[Unit]]:
    """Classes whose units call nothing else, need only each other, and feed nothing else."""
    result: dict[str, list[Unit]] = {}
    for name in sorted({c for unit in units for c in unit.classes if c}):
        mine = [unit for unit in units if name in unit.classes]
        turns = {t for unit in mine for t in range(unit.first, unit.last + 1)}
        others = [unit for unit in units if name not in unit.classes]
        pure = all(unit.classes <= {name} and unit.needs <= turns for unit in mine)
        if pure and not any(unit.needs & turns for unit in others):
            result[name] = mine
    return result


def _assemble(seed: Task, parts: Sequence[tuple[Task, Unit]]) -> Task:
    """A task of these units, in the seed's world."""
    turns = [
        (task.turns[index], task.given_back(index))
        for task, unit in parts
        for index in range(unit.first, unit.last + 1)
    ]
    final: list[Turn] = []
    for index, (turn, _) in enumerate(turns):
        later = set[str]().union(*(names for _, names in turns[index + 1 :]))
        final.append(Turn(turn.user, turn.ground_truth, tuple(sorted(later))))
    return dataclasses.replace(seed, turns=tuple(final))


def _swapped(task: Task, access: StateAccess, old: str, new: str, donor: Task) -> Task:
    """The task with the donor's class `new` in its world, in the place of `old` unless empty."""
    start, given = access.initial_state(task), access.initial_state(donor).values
    values = {name: value for name, value in start.values.items() if name != old}
    values |= {new: given[new]} if new in given else {}
    owners = list(dict.fromkeys([*(new if n == old else n for n in start.owners), new]))
    return access.with_initial_state(task, InitialState(tuple(owners), values))

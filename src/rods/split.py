"""Training and held-out split of tasks, by their scenarios.

Owns the rule and its seed. Never reads a file, never looks at what a task asks.

    train, held_out, digest = split(tasks, "grouped", seed=0)
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rods.errors import ConfigError
from rods.task import Task

SplitKind = Literal["grouped", "paper", "tuning"]
EDGE = 1e-9
"""A share of a number, such as (1 - 0.8) * 10, misses a whole one by rounding."""
TUNING_SHARE = 0.2
"""Share of the training split's scenarios that `tuning` evaluates in the held-out split's place."""


class Split(NamedTuple):
    """The training and the held-out split of a set of tasks."""

    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    digest: str
    """First 16 hex digits of the SHA-256 of what tells this split from any other."""


def split(
    tasks: Sequence[Task], kind: SplitKind = "grouped", seed: int = 0, held_out_share: float = 0.5
) -> Split:
    """Divide tasks into a training and a held-out part.

    Args:
        tasks: Original tasks, or any tasks with provenance.
        kind: `grouped`: whole scenarios, so that nothing leaks (the four categories of a scenario
            share texts and ground truth); a task with turns of both sides is in neither. `paper`:
            half of each category at random, as the papers do; scenarios are then in both splits.
            `tuning`: the training split of `grouped` alone, split once more, so that the held-out
            split is not touched while settings are chosen.
        seed: Same seed, same split, whatever the order of `tasks`.
        held_out_share: Share of the scenarios (or of a category's tasks) that is held out.
    """
    if kind == "tuning":
        train = split(tasks, "grouped", seed, held_out_share).train
        return split(train, "grouped", seed, TUNING_SHARE)
    share, mixed = 1 - held_out_share, set[str]()
    ordered = sorted(tasks, key=lambda t: (t.category, t.provenance.origin, t.id))
    rng = random.Random(f"rods-split-{kind}-{seed}")
    if kind == "grouped":
        scenarios = {t.id: _scenarios(t) for t in ordered}
        known = sorted(set[str]().union(*scenarios.values()))
        chosen = set(rng.sample(known, int(len(known) * share + EDGE)))
        trained = {i for i, theirs in scenarios.items() if theirs <= chosen}
        mixed = {i for i, theirs in scenarios.items() if theirs & chosen} - trained
    elif kind == "paper":
        trained = set[str]()
        for category in sorted({t.category for t in ordered}):
            ids = [t.id for t in ordered if t.category == category]
            trained.update(rng.sample(ids, int(len(ids) * share + EDGE)))
    else:
        raise ConfigError(f"split: expected 'grouped', 'paper' or 'tuning', got {kind!r}.")
    train = tuple(t for t in tasks if t.id in trained)
    held_out = tuple(t for t in tasks if t.id not in trained | mixed)
    text = json.dumps([kind, seed, sorted(t.id for t in train), sorted(t.id for t in held_out)])
    return Split(train, held_out, hashlib.sha256(text.encode()).hexdigest()[:16])


def of_held_out(
    tasks: Sequence[Task], train: Sequence[Task], held_out: Sequence[Task]
) -> list[Task]:
    """Tasks that are, or were made of, held-out ones, or of scenarios that only these have."""
    theirs, ours = (set[str]().union(*map(_scenarios, side)) for side in (held_out, train))
    out = (theirs - ours) | {task.id for task in held_out}
    return [t for t in tasks if out & ({t.id, *t.provenance.ancestors} | _scenarios(t))]


def _scenarios(task: Task) -> set[str]:
    """Every scenario that contributed a turn."""
    return {task.provenance.scenario, *task.provenance.scenarios}


def untrained_tools(train: Sequence[Task], held_out: Sequence[Task], faults: bool = False) -> str:
    """A sentence that names the tools that only held-out tasks call; "" if there are none.

    `faults`: whether faulty tasks were left out.
    """
    trained, tested = (
        {call.name for task in part for call in task.calls} for part in (train, held_out)
    )
    names = ", ".join(sorted(tested - trained))
    who = "Of the tasks without a fault, only held-out ones" if faults else "Only held-out tasks"
    return f"{who} call {names}: add training tasks that do." if names else ""


def given_split(train: Sequence[Task], held_out: Sequence[Task]) -> Split:
    """Tasks that were split elsewhere."""
    ids = json.dumps([[task.id for task in side] for side in (train, held_out)])
    return Split(tuple(train), tuple(held_out), hashlib.sha256(ids.encode()).hexdigest()[:16])

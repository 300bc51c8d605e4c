"""The boundary detector alone: what another trainer's rewards say of its tasks.

Owns groups of logged rewards and the table, JSON and CSV of their judgements. The judgement is that
of training (`rods.curriculum.boundary`). Never samples, never changes a log.

    observed = observe(read_rewards(Path("rollouts")), BoundarySettings())
    [task.task for task in observed if task.region == "boundary"]
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rods.config import BoundarySettings
from rods.curriculum.boundary import Region, judge_values
from rods.errors import ConfigError, StoreError
from rods.infra.files import write_atomic
from rods.integrations.formats.logged import MIN_GROUP, Logged, groups_of, signals_of


class Observed(NamedTuple):
    """One task."""

    task: str
    region: Region | Literal["unjudged"]
    """`unjudged`: too few trajectories of its newest step are valid."""
    mean_reward: float | None
    low: float | None
    """Of the 95 % interval of the mean."""
    high: float | None
    priority: float | None
    """4 m (1 - m) of the mean reward m: largest at one half."""
    step: int | None
    """The newest, which is judged."""
    members: int
    valid: int
    seen: int
    """Trajectories of all steps."""
    where: str
    """File and line of the first that is judged."""


def observe(rewards: Sequence[Logged], settings: BoundarySettings) -> list[Observed]:
    """Judge each task by its newest group; the most urgent first, then by name."""
    seen = Counter(row.task for row in rewards)
    groups = groups_of(rewards, lambda row: row.task)
    found = [_of(rows, seen[task], settings) for task, rows in groups.items()]
    return sorted(found, key=lambda o: (-1.0 if o.priority is None else -o.priority - 2, o.task))


def _of(rows: Sequence[Logged], seen: int, settings: BoundarySettings) -> Observed:
    first = rows[0]
    values = signals_of(rows, settings)
    valid = sum(value is not None for value in values)
    judgement = None
    if valid >= MIN_GROUP:
        judgement = judge_values(first.task, "", values, settings, 0, 0)
    counts = (first.step, len(rows), valid, seen, first.where)
    if judgement is None:
        return Observed(first.task, "unjudged", None, None, None, None, *counts)
    figures = (judgement.rbar, *judgement.interval, judgement.phi)
    return Observed(first.task, judgement.region, *figures, *counts)


def write(path: Path, observed: Sequence[Observed]) -> None:
    """Write all tasks; JSON or CSV by the name's ending.

    Raises:
        ConfigError: the name ends otherwise.
        StoreError: the file exists, or cannot be written.
    """
    if path.suffix not in (".json", ".csv"):
        raise ConfigError(f"{path}: expected a name that ends in .json or .csv.")
    if path.exists():
        raise StoreError(f"{path}: exists. Choose another name; nothing was written.")
    if path.suffix == ".json":
        write_atomic(path, json.dumps([row._asdict() for row in observed], indent=1) + "\n")
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(Observed._fields)
    table.writerows(observed)
    write_atomic(path, text.getvalue())

"""Stages: the original tasks that each of them plays.

Owns the choice alone; what enters and leaves the pool meanwhile is the buffer's.

    stage_tasks(config.stages[0], originals, seed=0)
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from rods.config import StageSettings
from rods.errors import ConfigError
from rods.task import Task


def stage_tasks(stage: StageSettings, originals: Sequence[Task], seed: int) -> list[str]:
    """Ids of a stage's original tasks: of its categories, at most `tasks`, stratified, seeded.

    Raises:
        ConfigError: no task is of these categories.
    """
    groups: dict[str, list[str]] = {}
    for task in originals:
        if not stage.categories or task.category in stage.categories:
            groups.setdefault(task.category, []).append(task.id)
    if not groups:
        raise ConfigError(
            f"stages: stage {stage.name!r} has no tasks. Its categories are "
            f"{list(stage.categories) or 'all'}, the {len(originals)} original tasks have "
            f"{sorted({t.category for t in originals})}."
        )
    rng = random.Random(f"{seed}/stage/{stage.name}")
    columns = [rng.sample(sorted(ids), len(ids)) for _, ids in sorted(groups.items())]
    # One of each category in turn, so that any prefix is as even as the categories allow.
    mixed = [i for row in itertools.zip_longest(*columns) for i in row if i is not None]
    return mixed[: stage.tasks or None]

"""World data of tasks of hosted classes: which classes, and what each starts from.

Owns the only reading and writing of these keys of `Task.world`; to all else that is opaque.

    world = ToolClassWorld.of(task)
    world.classes, world.initial_config["Library"]
    dataclasses.replace(task, world=world.to_json())
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from rods.abilities import InitialState
from rods.envs.turns import named
from rods.errors import TaskError
from rods.task import Task
from rods.types import Json

CLASSES, CONFIG = "classes", "initial_config"


@dataclass(frozen=True, slots=True)
class ToolClassWorld:
    """Data of a world of hosted classes."""

    classes: tuple[str, ...]
    """Names of the classes; their methods are the tools."""
    initial_config: Mapping[str, Json]
    """Initial state of each class, by its name; a class may be missing."""
    more: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Additions of an environment."""

    @classmethod
    def of(cls, task: Task) -> ToolClassWorld:
        """Read it off a task; raises `TaskError` where it has no classes, or is of another form."""
        classes, config = task.world.get(CLASSES), task.world.get(CONFIG, {})
        if not (isinstance(classes, list) and classes and isinstance(config, dict)):
            raise TaskError(
                f"{named(task)}: world needs `{CLASSES}` (a list of class names) and may have "
                f"`{CONFIG}` (an object with the attributes of each class)."
            )
        more = {key: value for key, value in task.world.items() if key not in (CLASSES, CONFIG)}
        return cls(tuple(map(str, classes)), config, more)

    def to_json(self) -> dict[str, Json]:
        """The inverse of `of`."""
        classes: list[Json] = list(self.classes)
        return {CLASSES: classes, CONFIG: dict(self.initial_config), **self.more}


class ClassTasks:
    """Base of an environment with tasks of hosted classes: writers can vary their start.

    It is a `rods.abilities.StateAccess`. Tasks of other forms have no start that could be read.
    """

    def initial_state(self, task: Task) -> InitialState:
        """The classes, and what each starts from."""
        if CLASSES not in task.world:
            return InitialState()
        world = ToolClassWorld.of(task)
        return InitialState(world.classes, world.initial_config)

    def with_initial_state(self, task: Task, state: InitialState) -> Task:
        """The task with other classes, or another start of theirs."""
        if not state.owners:
            return task
        world = ToolClassWorld(state.owners, state.values).to_json()
        return dataclasses.replace(task, world={**task.world, **world})

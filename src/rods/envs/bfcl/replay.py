"""A task of the benchmark made ready: its prototype, its tools, its ground truth played once.

Owns the loading of a task and public state as plain values. Judging is `rods.envs.judge`'s. Never
shows anything to a policy; a trace stays inside.

    prepared = PreparedWorld.of(task)
    prepared.replay.turns[0].results
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from rods.envs.bfcl import tasks
from rods.envs.bfcl.apis import Apis, Prototype, prototype_of
from rods.envs.judge import Replay, play
from rods.errors import TaskError
from rods.task import Task
from rods.types import ToolSpec


class PreparedWorld:
    """A task made ready: prototype of its world, tools, and (on first use) its replay."""

    def __init__(self, task: Task, prototype: Prototype, specs: Mapping[str, ToolSpec]):
        self.task = task
        self.prototype = prototype
        self.specs = specs
        self._offers: dict[tuple[str, ...], tuple[tuple[ToolSpec, ...], frozenset[str]]] = {}

    @classmethod
    def of(cls, task: Task, wheel: str = "") -> PreparedWorld:
        """Load the task's world; raises `TaskError` where that cannot be done."""
        where = f"task {task.id} ({task.provenance.origin or 'no origin'})"
        classes, config = task.world.get("classes"), task.world.get("initial_config")
        if not (isinstance(classes, list) and classes and isinstance(config, dict)):
            raise TaskError(
                f"{where}: world needs `classes` (a list of class names) and `initial_config` "
                "(an object with a configuration for each class)."
            )
        names = [str(name) for name in classes]
        long_context = bool(task.world.get("long_context", False))
        prototype = prototype_of(names, config, long_context=long_context, wheel=wheel, where=where)
        return cls(task, prototype, tasks.specs(names, wheel))

    def offer(self, turn: int) -> tuple[tuple[ToolSpec, ...], frozenset[str]]:
        """Tools that may be called in a turn: their descriptions, and their names."""
        withheld = self.task.turns[turn].withheld
        if withheld not in self._offers:
            offered = tuple(s for name, s in self.specs.items() if name not in withheld)
            self._offers[withheld] = (offered, frozenset(s.name for s in offered))
        return self._offers[withheld]

    @cached_property
    def replay(self) -> Replay:
        """The ground truth's trace; computed once, in this process."""
        return play(Apis(self.prototype), [turn.ground_truth for turn in self.task.turns])


def plain(value: object, depth: int = 0) -> object:
    """Public state as plain values: files and folders become dictionaries, sets sorted lists.

    A folder that was copied into itself is cut off at a depth of 50.
    """
    if depth > 50:
        return "..."
    deeper = depth + 1
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {key: plain(item, deeper) for key, item in items}
    if isinstance(value, list | tuple):
        return [plain(item, deeper) for item in cast("list[object]", value)]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, deeper) for item in cast("set[object]", value)), key=str)
    if hasattr(value, "contents"):
        contents = plain(getattr(value, "contents", None), deeper)
        return {"type": "directory", "name": getattr(value, "name", ""), "contents": contents}
    if hasattr(value, "content"):
        return {"type": "file", "content": getattr(value, "content", "")}
    return value

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
from rods.envs.class_world import ToolClassWorld
from rods.envs.judge import Replay, play
from rods.envs.prepared import named
from rods.task import LONG_CONTEXT, Task
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
        world = ToolClassWorld.of(task)
        prototype = prototype_of(
            world.classes,
            world.initial_config,
            long_context=bool(world.more.get(LONG_CONTEXT)),
            wheel=wheel,
            where=named(task),
        )
        return cls(task, prototype, tasks.specs(world.classes, wheel))

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

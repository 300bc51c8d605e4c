"""The ground truth played once: results and states that a turn is judged against.

Owns the traces and their bounded cache. Never shows anything to a policy; a trace stays inside.

    prepared = Prepared.of(task)
    prepared.replay.turns[0].results
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from rods.envs.bfcl import tasks
from rods.envs.bfcl.apis import Apis, Outcome, Prototype, State, prototype_of
from rods.errors import TaskError
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True)
class TurnReplay:
    """What the ground truth of one turn gave."""

    results: tuple[ToolResult, ...]
    snapshot: Mapping[str, State]
    """Public state of every class after the turn; classes that did not change share an object."""
    needed: Mapping[str, int]
    """How often each result must be among the agent's."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The ground truth of a task, played in a fresh world."""

    turns: tuple[TurnReplay, ...]

    @property
    def failed(self) -> bool:
        """Whether any ground-truth call reported an error."""
        return any(result.failed for turn in self.turns for result in turn.results)


class Prepared:
    """A task made ready: prototype of its world, tools, and (on first use) its replay."""

    def __init__(self, task: Task, prototype: Prototype, specs: Mapping[str, ToolSpec]):
        self.task = task
        self.prototype = prototype
        self.specs = specs
        self._offers: dict[tuple[str, ...], tuple[tuple[ToolSpec, ...], frozenset[str]]] = {}

    @classmethod
    def of(cls, task: Task, wheel: str = "") -> Prepared:
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
        return play(self.prototype, [turn.ground_truth for turn in self.task.turns])


def play(prototype: Prototype, calls_by_turn: list[tuple[ToolCall, ...]]) -> Replay:
    """Play calls in a fresh world and keep results and states, turn by turn."""
    apis = Apis(prototype)
    last: dict[str, State] = dict(prototype.initial)
    turns: list[TurnReplay] = []
    for calls in calls_by_turn:
        outcomes = [apis.run(call) for call in calls]
        for name, state in last.items():
            if not unchanged(apis, name, state):
                last[name] = apis.copy_state(name)
        results = tuple(ToolResult(*outcome) for outcome in outcomes)
        turns.append(TurnReplay(results, dict(last), Counter(o.content for o in outcomes)))
    return Replay(tuple(turns))


def unchanged(apis: Apis, name: str, state: State) -> bool:
    """Whether a class has exactly these public attributes and values."""
    return apis.live_state(name).keys() == state.keys() and apis.same(name, state)


class Judge:
    """Compares one world with the replay, turn by turn; remembers what did not change."""

    __slots__ = ("_apis", "_pool", "_seen")

    def __init__(self, apis: Apis):
        self._apis = apis
        self._pool: dict[str, int] = {}
        self._seen: dict[str, tuple[int, int, bool]] = {}

    def add(self, outcome: Outcome) -> None:
        """Take note of one result of the agent."""
        self._pool[outcome.content] = self._pool.get(outcome.content, 0) + 1

    def executed(self, turn: TurnReplay) -> bool:
        """Every ground-truth result of the turn is among all results so far, as a multiset."""
        pool = self._pool
        return all(pool.get(content, 0) >= count for content, count in turn.needed.items())

    def state(self, turn: TurnReplay) -> bool:
        """Every public attribute of every class equals the ground truth's."""
        return all(self._same(name, state) for name, state in turn.snapshot.items())

    def _same(self, name: str, state: State) -> bool:
        version = self._apis.version.get(name, 0)
        if version == 0 and state is self._apis.prototype.initial[name]:
            return True
        key = (version, id(state))
        seen = self._seen.get(name)
        if seen is None or seen[:2] != key:
            seen = self._seen[name] = (*key, self._apis.same(name, state))
        return seen[2]


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

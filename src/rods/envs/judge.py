"""The per-turn judge of stateful tool worlds: the ground truth's world beside the agent's.

Owns the traces of a ground truth and the comparison with one world: states of all classes equal,
results of the turn contained in all results so far, by value or by a benchmark's rule. Never shows
a trace to a policy. What a world is made of is behind `Machine`. What worlds of one task share is
kept for the next one.

    replay = replayed(machine, [turn.ground_truth for turn in task.turns])
    Judge(other_machine).state(replay[0])
"""

from __future__ import annotations

import difflib
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from rods.env import Environment, TurnVerdict
from rods.envs.turns import TurnWorld, require_env
from rods.infra.text import by_value
from rods.task import Task
from rods.types import Json, ToolCall, ToolResult, ToolSpec

MOST = 1024  # Tasks that are kept, each with its start and the replay of its ground truth

State: TypeAlias = Mapping[str, object]  # Public attributes of one object, by name


class Machine(Protocol):
    """The live objects of one world."""

    version: dict[str, int]
    """Number of changing calls to each class: equal versions, equal state."""
    initial: Mapping[str, State]
    """State of each class at the start; always the same objects, never changed."""

    def run(self, call: ToolCall) -> ToolResult:
        """Execute one call."""
        ...

    def copy_state(self, name: str) -> State:
        """Public attributes of one class as values that share nothing with the world."""
        ...

    def same(self, name: str, expected: State) -> bool:
        """True if every public attribute in `expected` has the same value here."""
        ...

    def unchanged(self, name: str, expected: State) -> bool:
        """True if a class has exactly these public attributes and values."""
        ...


@dataclass(frozen=True, slots=True)
class TurnReplay:
    """Results of the ground truth of one turn."""

    results: tuple[ToolResult, ...]
    snapshot: Mapping[str, State]
    """Public state of every class after the turn; classes that did not change share an object."""
    needed: Mapping[str, int]
    """Number of times that each result must be among the agent's, by its key."""


Key: TypeAlias = Callable[[str], str]
"""Maps the content of a result to a key; results with one key count as equal."""
Replay: TypeAlias = tuple[TurnReplay, ...]  # The ground truth of a task, executed in a fresh world


def replayed(
    machine: Machine, calls_by_turn: Sequence[Sequence[ToolCall]], key: Key = by_value
) -> Replay:
    """Execute calls in a fresh world and keep results and states, turn by turn."""
    last: dict[str, State] = dict(machine.initial)
    turns: list[TurnReplay] = []
    for calls in calls_by_turn:
        results = tuple([machine.run(call) for call in calls])
        for name, state in last.items():
            if not machine.unchanged(name, state):
                last[name] = machine.copy_state(name)
        turns.append(TurnReplay(results, dict(last), Counter(key(r.content) for r in results)))
    return tuple(turns)


class Judge:
    """Compares one world with the replay, turn by turn; remembers what did not change."""

    __slots__ = ("_key", "_machine", "_pool", "_seen")

    def __init__(self, machine: Machine, key: Key = by_value):
        self._machine, self._key = machine, key
        self._pool = Counter[str]()
        self._seen: dict[str, tuple[int, State, bool]] = {}

    def add(self, result: ToolResult) -> None:
        """Take note of one result of the agent."""
        self._pool[self._key(result.content)] += 1

    def executed(self, turn: TurnReplay) -> bool:
        """Every ground-truth result of the turn is among all results so far, as a multiset."""
        return all(self._pool[key] >= count for key, count in turn.needed.items())

    def state(self, turn: TurnReplay) -> bool:
        """Every public attribute of every class equals the ground truth's."""
        versions, initial = self._machine.version, self._machine.initial
        for name, state in turn.snapshot.items():
            version = versions.get(name, 0)
            if version == 0 and state is initial[name]:
                continue
            seen = self._seen.get(name)
            if seen is None or seen[0] != version or seen[1] is not state:
                seen = self._seen[name] = (version, state, self._machine.same(name, state))
            if not seen[2]:
                return False
        return True


class PreparedTask(ABC):
    """A task made ready: its tools, and (on first use) its replay."""

    key: Key = staticmethod(by_value)
    """Key by which results are compared."""

    def __init__(self, task: Task, specs: Mapping[str, ToolSpec]):
        self.task, self.specs = task, specs
        self._offers: dict[int, tuple[tuple[ToolSpec, ...], frozenset[str]]] = {}

    @abstractmethod
    def machine(self) -> Machine:
        """The live objects of a fresh world."""

    def offer(self, turn: int) -> tuple[tuple[ToolSpec, ...], frozenset[str]]:
        """Tools that may be called in a turn: their descriptions, and their names."""
        found = self._offers.get(turn)
        if found is None:
            withheld = self.task.turns[turn].withheld
            offered = tuple(s for name, s in self.specs.items() if name not in withheld)
            found = self._offers[turn] = (offered, frozenset(s.name for s in offered))
        return found

    @cached_property
    def replay(self) -> Replay:
        """The ground truth's trace; computed once, in this process."""
        truth = [turn.ground_truth for turn in self.task.turns]
        return replayed(self.machine(), truth, self.key)


Ready = TypeVar("Ready", bound=PreparedTask)


class PreparedTasks(Environment, Generic[Ready]):
    """Base of an environment that keeps the tasks which were last made ready; threads may share it.

    Its worlds of one task share the tools of each turn, and the ground truth executed once.
    """

    def __init__(self) -> None:
        self._kept = lru_cache(maxsize=MOST)(self._made_ready)
        self._preparing = [threading.RLock() for _ in range(64)]

    @abstractmethod
    def make_ready(self, task: Task) -> Ready:
        """Load what the worlds of a task share; raises `TaskError` where that cannot be done."""

    def prepare(self, task: Task) -> Ready:
        """The task made ready, kept for the next world; raises as `make_ready`."""
        with self._preparing[hash(task) % 64]:  # a group's task is made ready once
            return self._kept(task)

    def _made_ready(self, task: Task) -> Ready:
        require_env(task, self.name)
        return self.make_ready(task)


class JudgedWorld(TurnWorld, Generic[Ready]):
    """Base of a single-use world: its machine executes calls, its turns are judged."""

    __slots__ = ("_judge", "_machine", "_prepared")

    def __init__(self, prepared: Ready):
        super().__init__(prepared.task)
        self._prepared, self._machine = prepared, prepared.machine()
        self._judge = Judge(self._machine, prepared.key)

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools of the current turn (of the first one before any turn was begun)."""
        return self._prepared.offer(max(self._turn, 0))[0]

    def _execute(self, call: ToolCall) -> ToolResult:
        refused = self._refused(call)
        if refused is not None:
            return refused
        result = self._machine.run(call)
        self._judge.add(result)
        return result

    def _refused(self, call: ToolCall) -> ToolResult | None:
        """Text that the agent reads instead of a result; None: the call may be executed."""
        names = self._prepared.offer(self._turn)[1]
        return None if call.name in names else ToolResult(refusal(call.name, names), failed=True)

    def _verdict(self) -> TurnVerdict:
        turn = self._prepared.replay[self._turn]
        expects = bool(self._task.turns[self._turn].ground_truth)
        state, executed = self._judge.state(turn), self._judge.executed(turn)
        right = self._right(turn, state and executed)
        official = not expects or (self._calls > 0 and right)
        return TurnVerdict(expects, self._calls, state, executed, official)

    def _right(self, turn: TurnReplay, right: bool) -> bool:
        """True if a turn is right by the benchmark's own rule, where an environment has one."""
        return right

    def _state(self) -> dict[str, object]:
        return {name: self._machine.copy_state(name) for name in self._machine.initial}

    def public_state(self) -> dict[str, Json]:
        """Public state of every part as plain values, to look things up."""
        return cast("dict[str, Json]", self.snapshot())

    def close(self) -> None:
        """Let go of the machine, and close it where it can be closed."""
        if not self._closed:
            super().close()
            machine = self._machine
            del self._machine, self._judge
            if close := getattr(machine, "close", None):  # it may hold a process
                close()


def refusal(name: str, offered: Collection[str]) -> str:
    """Message to an agent that called a tool which is not offered in this turn."""
    near = difflib.get_close_matches(name[:80], sorted(offered), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"Error: there is no function '{name[:80]}' among those you can call now.{hint}"

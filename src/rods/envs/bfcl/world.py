"""The benchmark's environment: one world a trajectory, offered tools enforced turn by turn.

Owns opening, calling and judging of worlds. A world shares no object with any other; many may be
interleaved in one thread. Never shows the ground truth: it stays in the replay.

    environment = BfclEnvironment()
    world = environment.open(task)
    world.begin_turn(0)
    world.call(ToolCall("ls", {}))
    world.end_turn().solved
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rods.dialects.base import nested
from rods.envs.bfcl import assets
from rods.envs.bfcl.apis import Apis, is_deep, prototype_of
from rods.envs.bfcl.files import load_entries
from rods.envs.bfcl.hints import hint_of
from rods.envs.bfcl.tasks import load_tasks, specs
from rods.envs.class_world import CLASSES, CONFIG, ClassTasks, ToolClassWorld
from rods.envs.judge import Judge, JudgedWorld, PreparedTask, PreparedTasks, TurnReplay, refusal
from rods.envs.turns import named
from rods.split import Split, SplitKind, split
from rods.task import LONG_CONTEXT, Task
from rods.types import ToolCall, ToolResult

HELD_OUT = 0.5  # Share of the benchmark's scenarios that is held out


class PreparedWorld(PreparedTask):
    """A task of the benchmark made ready: the prototype of its world, and its tools."""

    key = staticmethod(str)  # the benchmark compares texts

    def __init__(self, task: Task, wheel: str):
        """Load the task's world; raises `TaskError` where that cannot be done."""
        world = ToolClassWorld.of(task)
        self.prototype = prototype_of(
            world.classes,
            world.initial_config,
            long_context=bool(world.more.get(LONG_CONTEXT)),
            wheel=wheel,
            where=named(task),
        )
        super().__init__(task, specs(world.classes, wheel))

    def machine(self) -> Apis:
        """API objects that nobody has called."""
        return Apis(self.prototype)


def plain(value: object, depth: int = 0) -> object:
    """Public state as plain values: files and folders become dictionaries, sets sorted lists.

    A folder that was copied into itself is cut off at a depth of 50.
    """
    if depth > 50:
        return "..."
    deeper = depth + 1
    if isinstance(value, dict):
        items = value.items()
        return {key: plain(item, deeper) for key, item in items}
    if isinstance(value, list | tuple):
        return [plain(item, deeper) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, deeper) for item in value), key=str)
    if hasattr(value, "contents"):
        contents = plain(getattr(value, "contents", None), deeper)
        return {"type": "directory", "name": getattr(value, "name", ""), "contents": contents}
    if hasattr(value, "content"):
        return {"type": "file", "content": getattr(value, "content", "")}
    return value


class BfclEnvironment(ClassTasks, PreparedTasks[PreparedWorld]):
    """Opens worlds for the benchmark's tasks and for their variants."""

    name = "bfcl"
    world_keys = CLASSES, CONFIG, LONG_CONTEXT
    knowledge: Path | None = Path(__file__).parent

    def __init__(self, wheel: str = "", split: SplitKind = "grouped"):
        """The settings of `env.bfcl`; the wheel is as in `assets.obtain`."""
        super().__init__()
        self._wheel = wheel
        self._split: SplitKind = split

    def tasks(self, held_out: float) -> Sequence[Task]:
        """The benchmark's 800; its own share is held out."""
        return load_tasks(self._wheel)

    def warm_up(self) -> None:
        """Obtain the benchmark: a service without it must not say where it listens."""
        assets.obtain(self._wheel)

    def needs(self) -> str:
        """The benchmark's wheel."""
        here = "here" if assets.ready() else "not here yet; the first `rods check` fetches it"
        return f"{assets.WHEEL} is {here}"

    def load(self, path: Path) -> list[Task]:
        """The tasks of a file of RODS, of the benchmark's own, or of Environment Tuning's rows."""
        return load_entries(path, self._wheel)

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Split as `env.bfcl.split` says; half of the benchmark's tasks are held out."""
        return split(tasks, self._split, held_out_share=HELD_OUT if held_out is None else held_out)

    def exporters(self) -> Mapping[str, Callable[[Path, Sequence[Task]], None]]:
        """`bfcl`: a folder as its package reads it; `envtuning`: rows of Environment Tuning."""
        from rods.envs.bfcl.export import write_entries, write_tuning

        return {
            "bfcl": lambda folder, tasks: write_entries(folder, tasks, self),
            "envtuning": lambda path, tasks: write_tuning(path, tasks, self),
        }

    def open(self, task: Task) -> BfclWorld:
        """A fresh world in the task's initial state; raises `TaskError` if it cannot be loaded."""
        return BfclWorld(self.prepare(task))

    def result_key(self, content: str) -> str:
        """The text itself, as the benchmark compares results."""
        return content

    def make_ready(self, task: Task) -> PreparedWorld:
        """The prototype of the task's world."""
        return PreparedWorld(task, self._wheel)


class BfclWorld(JudgedWorld[PreparedWorld]):
    """One single-use world of one task."""

    __slots__ = ("_apis", "_log", "_names", "_shadow")

    def __init__(self, prepared: PreparedWorld):
        super().__init__(prepared)
        self._apis = cast("Apis", self._machine)
        self._log: list[ToolCall] = []
        self._names: Container[str] = ()
        self._shadow: _Shadow | None = None

    def begin_turn(self, index: int) -> None:
        """Enter turn `index`; turns are entered in order and each is ended before the next."""
        super().begin_turn(index)
        self._names = self._prepared.offer(index)[1]

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call as the base does, faster where it is offered and has plain values."""
        if not self._in_turn:
            self._expect_turn("call")
        self._calls += 1
        self._log.append(call)
        deep = is_deep(call)
        if deep or call.name not in self._names:
            refused = self._refused(call)
            if refused is not None:
                return refused
        result = self._apis.run(call, deep)
        self._judge.add(result)
        return result

    def _refused(self, call: ToolCall) -> ToolResult | None:
        names = self._prepared.offer(self._turn)[1]
        unknown = _not_offered(call, names)
        if unknown is None:
            return None
        if self._shadow is None and _not_offered(call, self._prepared.specs) is None:
            self._shadow = _Shadow(self._prepared)
        return ToolResult(refusal(unknown, names), failed=True)

    def hint(self, call: ToolCall, result: ToolResult) -> str:
        """Hint after a failed call, by what is known of these classes."""
        self._expect_turn("hint")
        offered = {spec.name: spec for spec in self.offered()}
        return hint_of(call, result.content, self._apis, offered)

    def _right(self, turn: TurnReplay, right: bool) -> bool:
        return right if self._shadow is None else self._shadow.right(self._log, turn)

    def public_state(self) -> dict[str, Any]:
        """Public state as plain values (files and folders as dictionaries), to look things up."""
        self._expect_open("public_state")
        return {name: plain(dict(self._apis.live_state(name))) for name in self._apis.initial}

    def close(self) -> None:
        """Let go of the API objects."""
        if not self._closed:
            super().close()
            del self._apis, self._log, self._shadow


class _Shadow:
    """Results that the benchmark's own executor would have had for the same calls.

    It lets withheld functions be called. So once an agent tries one, the official verdict needs a
    second world in which that call was executed; nothing of it is ever shown.
    """

    __slots__ = ("_apis", "_declared", "_executed", "_judge")

    def __init__(self, prepared: PreparedWorld):
        self._declared = prepared.specs
        self._apis = Apis(prepared.prototype)
        self._judge = Judge(self._apis, prepared.key)
        self._executed = 0

    def right(self, log: list[ToolCall], turn: TurnReplay) -> bool:
        """Execute what is new in the log, then compare state and results."""
        for call in log[self._executed :]:
            if _not_offered(call, self._declared) is None:
                self._judge.add(self._apis.run(call))
        self._executed = len(log)
        return self._judge.state(turn) and self._judge.executed(turn)


def _not_offered(call: ToolCall, names: Container[str]) -> str | None:
    """The name of the first function in the call, nested ones included, that is not in `names`."""
    return next((one.name for one in nested(call) if one.name not in names), None)

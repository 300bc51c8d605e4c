"""The model-free check finds what is wrong with a task, and says nothing of a sound one."""

import dataclasses
import itertools

from rods.env import TurnVerdict
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.evaluation.check import TaskFault, check_tasks
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult, ToolSpec

ENVIRONMENT = BfclEnvironment()


def math_task(user: str, *calls: ToolCall, withheld: tuple[str, ...] = ()) -> Task:
    world = {"classes": ["MathAPI"], "initial_config": {}, "long_context": False}
    return Task("bfcl", "base", (Turn(user, calls, withheld),), world)


def findings(*tasks: Task) -> list[tuple[TaskFault, str]]:
    return [(row.finding, row.detail) for row in check_tasks(tasks, ENVIRONMENT).rows]


def test_the_benchmark_itself_is_sound():
    report = check_tasks(load_tasks()[::16], ENVIRONMENT)
    assert report.ok
    assert report.tasks == 50
    assert report.calls > 400
    assert report.counts()["unreachable"] == report.counts()["unstable"] == 0


def test_a_sound_task_gives_no_row():
    assert findings(math_task("Add two and 5.", ToolCall("add", {"a": 2, "b": 5.0}))) == []


def test_a_failing_call_is_unreachable():
    rows = findings(math_task("Divide 1 by 0", ToolCall("divide", {"a": 1, "b": 0})))
    assert [kind for kind, _ in rows] == [TaskFault.UNREACHABLE]
    assert "Cannot divide by zero" in rows[0][1]


def test_a_call_that_is_not_offered_is_unreachable():
    task = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}), withheld=("add",))
    assert {kind for kind, _ in findings(task)} == {TaskFault.UNREACHABLE}
    task = math_task("Fly", ToolCall("fly", {}))
    assert {kind for kind, _ in findings(task)} == {TaskFault.UNREACHABLE}


def test_a_world_that_cannot_be_opened_is_unreachable():
    sound = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}))
    for world in ({}, {"classes": ["Nope"], "initial_config": {}}):
        rows = findings(dataclasses.replace(sound, world=world))
        assert [kind for kind, _ in rows] == [TaskFault.UNREACHABLE]
    broken = {"classes": ["VehicleControlAPI"], "initial_config": {"VehicleControlAPI": 3}}
    rows = findings(dataclasses.replace(sound, world=broken))
    assert "initial_config.VehicleControlAPI cannot be loaded" in rows[0][1]


def test_a_value_out_of_nowhere_is_ambiguous():
    task = math_task("Add some numbers", ToolCall("mean", {"numbers": [17, 4]}))
    rows = findings(task)
    assert [kind for kind, _ in rows] == [TaskFault.AMBIGUOUS] * 2
    assert "numbers[0]=17" in rows[0][1]
    assert check_tasks([task], ENVIRONMENT).ok


def test_a_value_from_an_earlier_result_is_grounded():
    turns = (
        Turn("Multiply 6 by 7", (ToolCall("multiply", {"a": 6, "b": 7}),)),
        Turn("Add 1 to it", (ToolCall("add", {"a": 42, "b": 1}),)),
    )
    task = dataclasses.replace(math_task("x"), turns=turns)
    assert findings(task) == []


def test_same_words_with_other_calls_are_ambiguous():
    one = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}))
    other = math_task("Add 1 and 2", ToolCall("add", {"a": 2, "b": 1}))
    assert [kind for kind, _ in findings(one, other)] == [TaskFault.AMBIGUOUS]
    assert findings(one, one) == []


class _Flaky:
    """An environment whose worlds answer differently each time."""

    name = "flaky"

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.here = self

    def open(self, task: Task) -> "_Flaky":
        return self

    def begin_turn(self, index: int) -> None: ...

    def offered(self) -> tuple[ToolSpec, ...]:
        return ()

    def call(self, call: ToolCall) -> ToolResult:
        return ToolResult(str(next(self._numbers)))

    def end_turn(self) -> TurnVerdict:
        return TurnVerdict(True, 1, True, True, True)

    def snapshot(self) -> object:
        return 0

    def close(self) -> None: ...


def test_a_world_that_changes_between_replays_is_unstable():
    task = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}))
    report = check_tasks([task], _Flaky())
    assert [row.finding for row in report.rows] == [TaskFault.UNSTABLE]
    assert not report.ok

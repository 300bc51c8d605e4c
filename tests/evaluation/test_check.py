"""The model-free check finds what is wrong with a task, and says nothing of a sound one."""

import dataclasses
import itertools
import json
import re

import pytest
from rich.table import Table

from rods.cli.check import _shown as shown_report
from rods.env import TurnVerdict
from rods.envs import make_environment
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.envs.questions.files import load_question_tasks
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError, PrerequisiteError, TaskError
from rods.evaluation.check import TaskFault, check_tasks, replaying
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, ToolResult, ToolSpec

ENVIRONMENT = BfclEnvironment()


def math_task(user: str, *calls: ToolCall, withheld: tuple[str, ...] = ()) -> Task:
    world = {"classes": ["MathAPI"], "initial_config": {}, "long_context": False}
    return Task("bfcl", "base", (Turn(user, calls, withheld),), world)


def findings(*tasks: Task) -> list[tuple[TaskFault, str]]:
    return [(row.finding, row.detail) for row in check_tasks(tasks, ENVIRONMENT).rows]


@pytest.mark.slow
def test_the_benchmark_itself_is_sound():
    report = check_tasks(load_tasks()[::16], ENVIRONMENT)
    assert report.ok
    assert report.tasks == 50
    assert report.calls > 400
    assert report.counts()["unreachable"] == report.counts()["unstable"] == 0


def test_a_sound_task_gives_no_row():
    assert findings(math_task("Add two and 5.", ToolCall("add", {"a": 2, "b": 5.0}))) == []


def test_turns_are_printed_from_one():
    broken = math_task("Divide 1 by 0", ToolCall("divide", {"a": 1, "b": 0}))
    report = check_tasks([broken], ENVIRONMENT)
    table, *_ = shown_report(report, {broken.id: 7}, every=False)
    assert isinstance(table, Table) and not table.caption
    assert [row.turn for row in report.rows] == [0] and [*table.columns[2].cells] == ["1"]


def test_a_failing_call_is_unreachable():
    rows = findings(math_task("Divide 1 by 0", ToolCall("divide", {"a": 1, "b": 0})))
    assert [kind for kind, _ in rows] == [TaskFault.UNREACHABLE]
    assert "Cannot divide by zero" in rows[0][1]


def test_a_call_that_is_not_offered_is_unreachable():
    task = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}), withheld=("add",))
    assert [kind for kind, _ in findings(task)] == [TaskFault.UNREACHABLE]
    task = math_task("Fly", ToolCall("fly", {}))
    assert [kind for kind, _ in findings(task)] == [TaskFault.UNREACHABLE]


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


@pytest.mark.parametrize("name", ["python_tool", "search"])
def test_same_question_with_another_answer_is_ambiguous(name, tmp_path):
    path = tmp_path / "q.jsonl"
    pairs = [("Who?", "Ada"), ("Who?", "Ada"), ("Who?", "Alan"), ("When?", "1843")]
    path.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in pairs))
    one, other, _ = tasks = load_question_tasks(path, name)
    rows = check_tasks(tasks, make_environment(name, {})).rows
    found = [(row.task, row.detail) for row in rows if row.finding == TaskFault.AMBIGUOUS]
    assert found == [(other.id, f"same words as {one.provenance.origin}, another answer")]


class _Flaky:
    """An environment whose worlds answer differently each time."""

    name = "flaky"

    def __init__(self) -> None:
        self._numbers = itertools.count()

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


PLACES = ["begin_turn", "offered", "call", "end_turn", "snapshot"]


@pytest.mark.parametrize("place", ["open", *PLACES])
@pytest.mark.parametrize("error", [KeyError("ad"), TypeError("no ad"), ZeroDivisionError("1 / 0")])
def test_what_the_user_s_own_environment_raises_is_a_finding_with_its_line(
    place, error, monkeypatch
):
    def broken(*_):
        raise error

    monkeypatch.setattr(_Flaky, place, broken)
    task = math_task("Add 1 and 2", ToolCall("ad", {"a": 1, "b": 2}))
    [row] = check_tasks([task], _Flaky()).rows
    line = broken.__code__.co_firstlineno + 1
    said = f"{type(error).__name__}: {error.args[0]}, raised at {__file__}:{line}"
    assert (row.finding, row.detail) == (TaskFault.UNREACHABLE, said)
    kept, [fault] = replaying([task], _Flaky())
    assert (kept, fault.detail) == ([], said)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ({"answer": "13", "judge": "all"}, r"world\['judge'\] is 'all', expected one of"),
        ({"answer": "Oslo", "judge": "value"}, "the answer 'Oslo' is not a number"),
    ],
)
def test_a_question_that_cannot_be_judged_is_a_finding_and_hides_no_other(world, said):
    asked, last = (Task("python_tool", "x", (Turn("a?"),), w) for w in (world, {"answer": ""}))
    rows = check_tasks([asked, last], make_environment("python_tool")).rows
    assert [row.task for row in rows] == [asked.id, last.id]
    assert rows[0].finding is TaskFault.UNREACHABLE and re.match(said, rows[0].detail)


def test_a_judge_of_the_user_s_own_that_raises_is_a_finding(monkeypatch):
    def judge_answer(*_):
        raise ZeroDivisionError("1 / 0")

    world = type("Judging", (_Flaky,), {"judge_answer": judge_answer})
    monkeypatch.setattr(_Flaky, "open", lambda *_: world())
    task = dataclasses.replace(math_task("Add."), world={"answer": "3"})
    details = [row.detail for row in check_tasks([task], _Flaky()).rows]
    assert details and details[-1].startswith("ZeroDivisionError: 1 / 0, raised at")


@pytest.mark.parametrize("error", [ConfigError("env.mcp: two"), PrerequisiteError("no mcp")])
def test_what_no_task_has_caused_ends_the_check(error, monkeypatch):
    def broken(*_):
        raise error

    monkeypatch.setattr(_Flaky, "open", broken)
    for examine in (check_tasks, replaying):
        with pytest.raises(type(error), match=str(error)):
            examine([math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}))], _Flaky())


def test_a_fault_of_the_check_itself_is_no_finding(monkeypatch):
    monkeypatch.setattr("rods.evaluation.check._unreachable", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        replaying([math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}))], _Flaky())


class Desk:
    """One of the user's own classes."""

    def __init__(self) -> None:
        self.booked = 0

    def book(self, hours: int) -> int:
        """Book it."""
        self.booked += hours
        return self.booked

    def hand_out(self) -> str:
        """Hand out a key."""
        return "key"


DESK = ToolClasses("desk", [Desk])
BOOK = ToolCall("book", {"hours": 2})


def desk_task(*turns: Turn, category: str = "base") -> Task:
    return Task("desk", category, turns, {"classes": ["Desk"]}, Provenance("d", "d"))


def desk_findings(task: Task) -> list[tuple[str, int, str]]:
    rows = check_tasks([task], DESK).rows
    kept, faults = replaying([task], DESK)
    unsound = any(row.finding is TaskFault.UNREACHABLE for row in rows)
    assert (len(kept), len(faults)) == ((0, 1) if unsound else (1, 0)), "training leaves it out"
    return [(row.finding.value, row.turn, row.detail) for row in rows]


def test_an_unknown_tool_in_a_ground_truth_is_a_finding():
    rows = desk_findings(desk_task(Turn("book 2", (ToolCall("bok", {"hours": 2}), BOOK))))
    assert [row[:2] for row in rows] == [("unreachable", 0)] * len(rows)
    assert (
        "there is no function 'bok' among those you can call now. Did you mean book?" in rows[0][2]
    )
    tools = {"tools": [{"name": "book", "description": "", "parameters": {}}]}
    single = Task("function_call", "single", (Turn("x", (ToolCall("bok"),)),), tools)
    (row, *_) = check_tasks([single], make_environment("function_call")).rows
    assert "there is no function 'bok'" in row.detail


def test_a_withheld_tool_that_there_is_not_is_a_finding():
    turns = (Turn("a key", (), ("hand_outt",)), Turn("", (ToolCall("hand_out"),)))
    rows = desk_findings(desk_task(*turns, category="miss_func"))
    assert rows == [
        (
            "unreachable",
            0,
            "withheld: there is no tool 'hand_outt' in its world. Did you mean 'hand_out'?",
        )
    ]
    sum_two = math_task("Add 1 and 2", ToolCall("add", {"a": 1, "b": 2}), withheld=("sbtract",))
    assert "there is no tool 'sbtract'" in findings(sum_two)[0][1]


@pytest.mark.parametrize(
    ("category", "turns", "said"),
    [
        ("bsae", [BOOK], "category 'bsae' is none of base, .*Did you mean 'base'"),
        ("lending", [BOOK], "category 'lending' is none of base, miss_func, miss_param"),
        ("base", [BOOK, None], "its last turn has no calls"),
        ("long_context", [None], "its last turn has no calls"),
        ("miss_func", [None, BOOK], r"withholds a tool\. Name one in `withheld` of a turn"),
        ("miss_param", [BOOK], r"in which to ask\. Empty the ground_truth of the turn"),
    ],
)
def test_a_category_that_does_not_fit_is_a_hint(category, turns, said):
    made = [Turn(f"book 2 {i}", (call,) if call else ()) for i, call in enumerate(turns)]
    rows = desk_findings(desk_task(*made, category=category))
    assert [row[0] for row in rows] == ["unusual"]
    assert re.search(said, rows[0][2])
    assert check_tasks([desk_task(*made, category=category)], DESK).ok


GOOD = desk_task(Turn("book 2", (BOOK,))).to_json()


def changed(where, value):
    """A row with something else in one place."""
    row = json.loads(json.dumps(GOOD))
    *path, last = where
    place = row
    for part in path:
        place = place[part]
    place[last] = value
    return row


NOTHING = [
    ["provenance"], ["dialogue"], ["turns", 0, "withheld"],
    *(["provenance", key] for key in GOOD["provenance"]),
]  # fmt: skip
"""All that may be missing in a row."""


@pytest.mark.parametrize("where", NOTHING, ids=str)
def test_null_is_as_missing(where):
    missing = changed(where, None)
    *path, last = where
    place = missing
    for part in path:
        place = place[part]
    del place[last]
    rows = [Task.from_json(changed(where, None)), Task.from_json(missing)]
    assert rows[0] == rows[1] == Task.from_json(GOOD)
    assert rows[0].provenance == rows[1].provenance


@pytest.mark.parametrize("given", [None, {}, {"origin": "", "scenario": ""}, {"scenario": None}])
def test_a_task_without_a_name_or_scenario_is_its_own(given):
    task = Task.from_json(changed(["provenance"], given))
    assert (task.provenance.origin, task.provenance.scenario) == (task.id, task.id)
    alone = Task(task.env, task.category, task.turns, task.world)
    assert alone.provenance == task.provenance
    [row] = check_tasks([changed_category(task)], DESK).rows
    assert row.origin == row.task, "the finding names it"


def changed_category(task):
    return Task(task.env, "bsae", task.turns, task.world)


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (["provenance"], 3, "provenance must be an object, got 3"),
        (["provenance", "origin"], 3, "origin must be a text, got 3"),
        (["provenance", "ancestors"], "abc", 'ancestors must be a list, got "abc"'),
        (["turns"], None, "turns must be a list, got null"),
        (["turns", 0], "book", "an entry of turns is 'book', expected an object"),
        (["turns", 0, "user"], None, "user must be a text, got null"),
        (["turns", 0, "ground_truth"], None, "ground_truth must be a list, got null"),
        (["turns", 0, "ground_truth", 0, "arguments"], None, "arguments must be an object"),
        (["turns", 0, "ground_truth", 0, "name"], None, "name must be a text, got null"),
        (["turns", 0, "withheld"], "hand_out", 'withheld must be a list, got "hand_out"'),
        (["turns", 0, "withheld"], [3], "withheld must be a text, got 3"),
        (["category"], None, "category must be a text, got null"),
        (["world"], [], "world must be an object, got []"),
    ],
)
def test_a_field_of_another_type_is_named(where, value, said):
    with pytest.raises(TaskError, match=re.escape(f"x.jsonl:3: not a task row: {said}")):
        Task.from_json(changed(where, value), "x.jsonl:3")

"""The benchmark's entries as tasks, their tools, and the two splits."""

from collections import Counter
from pathlib import Path

import pytest

from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import CallError, load_tasks, parse_call, specs
from rods.errors import ConfigError, TaskError
from rods.infra.pycall import CallSyntaxError
from rods.split import split
from rods.task import Task, read_tasks, write_tasks
from rods.types import ToolCall


def named(origin: str) -> Task:
    return next(t for t in load_tasks() if t.provenance.origin == origin)


def test_800_tasks_in_four_categories_of_200_scenarios():
    tasks = load_tasks()
    assert Counter(t.category for t in tasks) == dict.fromkeys(assets.CATEGORIES, 200)
    assert len({t.id for t in tasks}) == 800
    scenarios = Counter(t.provenance.scenario for t in tasks)
    assert len(scenarios) == 200
    assert set(scenarios.values()) == {4}
    assert scenarios["bfcl-003"] == 4
    assert all(t.is_original and t.world["classes"] for t in tasks)


def test_calls_are_counted_as_the_benchmark_counts_them():
    tasks = load_tasks()
    assert sum(len(turn.ground_truth) for t in tasks for turn in t.turns) == 4625
    base = [t for t in tasks if t.category == "base"]
    assert sum(len(t.turns) for t in base) == 734
    assert sum(len(turn.ground_truth) for t in base for turn in t.turns) == 1142


def test_positional_ground_truth_is_named_by_the_signature():
    for task in load_tasks():
        known = specs(task.world["classes"])
        for turn in task.turns:
            for call in turn.ground_truth:
                properties = known[call.name].parameters["properties"]
                assert set(call.arguments) <= set(properties), call


def test_withheld_functions_come_back_in_the_blank_turn():
    task = named("multi_turn_miss_func_0")
    assert [turn.withheld for turn in task.turns] == [("sort",)] * 3 + [(), ()]
    assert [turn.user == "" for turn in task.turns] == [False, False, False, True, False]
    assert task.turns[2].ground_truth == ()
    blank = [turn for t in load_tasks() for turn in t.turns if not turn.user]
    assert len(blank) == 200
    assert all(turn.ground_truth for turn in blank)


def test_the_ground_truth_never_needs_a_withheld_function():
    for task in load_tasks():
        for turn in task.turns:
            assert not {call.name for call in turn.ground_truth} & set(turn.withheld)
    early = named("multi_turn_miss_func_49")
    assert [("tail" in turn.withheld) for turn in early.turns] == [True] + [False] * 4


def test_tasks_survive_a_file(tmp_path: Path):
    tasks = load_tasks()[::80]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    again = list(read_tasks(tmp_path / "tasks.jsonl"))
    assert [t.id for t in again] == [t.id for t in tasks]
    assert again[3].turns == tasks[3].turns


def test_tools_are_json_schema_in_the_order_of_the_signature():
    tools = specs(assets.CLASS_NAMES)
    assert len(tools) == 128
    kinds: set[str] = set()
    for tool in tools.values():
        assert tool.parameters["type"] == "object"
        kinds |= {p["type"] for p in tool.parameters["properties"].values()}
    assert kinds == {"string", "number", "integer", "array", "boolean", "object"}
    insurance = tools["purchase_insurance"].parameters["properties"]
    assert list(insurance)[:3] == ["access_token", "insurance_type", "booking_id"]
    with pytest.raises(TaskError, match="there is no class 'Nope'"):
        specs(["Nope"])
    with pytest.raises(TaskError, match="Did you mean 'TravelAPI'"):
        specs(["TravelApi"])


def test_grouped_split_is_leak_free():
    tasks = load_tasks()
    train, held_out, digest = split(tasks, "grouped", seed=3)
    assert (len(train), len(held_out)) == (400, 400)
    sides = [{t.provenance.scenario for t in side} for side in (train, held_out)]
    assert not sides[0] & sides[1]
    assert Counter(t.category for t in train) == dict.fromkeys(assets.CATEGORIES, 100)
    again = split(list(reversed(tasks)), "grouped", seed=3)
    assert again.digest == digest
    assert split(tasks, "grouped", seed=4).digest != digest


def test_paper_split_takes_half_of_each_category():
    tasks = load_tasks()
    train, held_out, digest = split(tasks, "paper", seed=3)
    assert Counter(t.category for t in train) == dict.fromkeys(assets.CATEGORIES, 100)
    assert {t.id for t in train} | {t.id for t in held_out} == {t.id for t in tasks}
    assert {t.provenance.scenario for t in train} & {t.provenance.scenario for t in held_out}
    assert split(tasks, "paper", seed=3).digest == digest
    with pytest.raises(ConfigError, match="'grouped', 'paper' or 'tuning'"):
        split(tasks, "random")  # pyright: ignore[reportArgumentType]


def test_call_strings_become_named_calls():
    known = specs(["GorillaFileSystem", "MathAPI"])
    assert parse_call("cd('x')", known) == ToolCall("cd", {"folder": "x"})
    nested = parse_call("add(mean([1, 2]), b=3)", known)
    assert nested == ToolCall("add", {"a": ToolCall("mean", {"numbers": [1, 2]}), "b": 3})


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("nope(x=1)", CallError, "no function 'nope'"),
        ("add(1, nope(x=1))", CallError, "no function 'nope'"),
        ("cd('a', 'b')", CallError, "takes 1"),
        ("cd('a', folder='b')", CallError, "twice"),
        ("cd('a'); cd('b')", CallSyntaxError, "one call, got 2"),
        ("__import__('os')", CallError, "no function '__import__'"),
        ("cd(folder=open)", CallSyntaxError, "bare name"),
    ],
)
def test_other_strings_are_refused(text: str, error: type[ValueError], what: str):
    with pytest.raises(error, match=what):
        parse_call(text, specs(["GorillaFileSystem", "MathAPI"]))

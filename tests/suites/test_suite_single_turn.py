"""The single-turn suite: its match of calls beside the package's own, and its reader."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bfcl_ast import CHANGES, Case, official_faults, wanted
from rods.config import load_config
from rods.dialects import get_dialect, structured
from rods.envs.bfcl.ast_match import fault
from rods.errors import ConfigError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.suites import make_suite
from rods.task import Task
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import ToolCall
from suite_cases import told

WRITE = structured(get_dialect("pythonic")).write
SAMPLE = 29
"""Every so many entries in the quick comparison."""


def suite(folder: Path | str = "") -> SuiteRules:
    return make_suite(
        "bfcl-single-turn",
        load_config(overrides=[f"evaluation.suite.folder={json.dumps(str(folder))}"]),
    )


FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": "f",
        "description": "F.",
        "parameters": {
            "type": "dict",
            "properties": {
                "s": {"type": "string"},
                "n": {"type": "integer"},
                "x": {"type": "float"},
                "b": {"type": "boolean"},
                "l": {"type": "array", "items": {"type": "string"}},
                "t": {"type": "tuple", "items": {"type": "float"}},
                "d": {"type": "dict", "properties": {}},
                "ds": {"type": "array", "items": {"type": "dict"}},
            },
            "required": ["s"],
        },
    },
    {"name": "g.h", "description": "", "parameters": {"type": "dict", "properties": {}}},
]


def f(**arguments: Any) -> ToolCall:
    return ToolCall("f", arguments)


VALUES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"s": "April 1, 2024"}, {"s": ["april 1 2024"]}, ""),
    ({"s": "it's"}, {"s": ['IT"S']}, ""),
    ({"s": "aprils"}, {"s": ["april"]}, "a value is wrong"),
    ({"s": 1}, {"s": ["1"]}, "a value has the wrong type"),
    ({"s": 5}, {"s": [5]}, ""),
    ({"s": "a"}, {"s": [5, "a"]}, ""),
    ({"s": "A"}, {"s": [5, "a"]}, "a value is wrong"),
    ({}, {"s": ["a"]}, "a required parameter is missing"),
    ({"s": "a", "q": 1}, {"s": ["a"]}, "an unexpected parameter"),
    ({"s": "a", "n": 1}, {"s": ["a"]}, "an unexpected parameter"),
    ({"s": "a", "n": 1}, {"s": ["a"], "n": [1, 2]}, ""),
    ({"s": "a", "n": 1.0}, {"s": ["a"], "n": [1]}, "a value has the wrong type"),
    ({"s": "a", "n": True}, {"s": ["a"], "n": [1]}, "a value has the wrong type"),
    ({"s": "a", "n": "age"}, {"s": ["a"], "n": ["age"]}, ""),
    ({"s": "a"}, {"s": ["a"], "n": [1]}, "a parameter is missing"),
    ({"s": "a"}, {"s": ["a"], "n": ["", 1]}, ""),
    ({"s": "a", "x": 2}, {"s": ["a"], "x": [2.0]}, ""),
    ({"s": "a", "x": 2}, {"s": ["a"], "x": [""]}, "a value is wrong"),
    ({"s": "a", "b": 1}, {"s": ["a"], "b": [True]}, "a value has the wrong type"),
    ({"s": "a", "l": ["A ", "b."]}, {"s": ["a"], "l": [["a", "b"]]}, ""),
    ({"s": "a", "l": ["b", "a"]}, {"s": ["a"], "l": [["a", "b"]]}, "a value is wrong"),
    ({"s": "a", "l": [1]}, {"s": ["a"], "l": [["a"]]}, "a value has the wrong type"),
    ({"s": "a", "l": [1]}, {"s": ["a"], "l": [[1]]}, ""),
    ({"s": "a", "l": []}, {"s": ["a"], "l": ["", ["a"]]}, ""),
    ({"s": "a", "t": [1, 2]}, {"s": ["a"], "t": [[1.0, 2.0]]}, "a value has the wrong type"),
    ({"s": "a", "t": [1.0, 2.0]}, {"s": ["a"], "t": [[1.0, 2.0]]}, ""),
    ({"s": "a", "d": {"k": "V "}}, {"s": ["a"], "d": [{"k": ["v", "w"]}]}, ""),
    ({"s": "a", "d": {}}, {"s": ["a"], "d": [{"k": ["v", ""]}]}, ""),
    ({"s": "a", "d": {}}, {"s": ["a"], "d": [{"k": ["v"]}]}, "a value is wrong"),
    ({"s": "a", "d": {"j": 1}}, {"s": ["a"], "d": [{"k": ["v"]}]}, "a value is wrong"),
    ({"s": "a", "ds": [{"k": 1}]}, {"s": ["a"], "ds": [[{"k": [1]}]]}, ""),
    ({"s": "a", "ds": [{"k": 1}] * 2}, {"s": ["a"], "ds": [[{"k": [1]}]]}, "a value is wrong"),
]


@pytest.mark.parametrize(("given", "accepted", "why"), VALUES)
def test_a_value_is_right_by_the_rules(
    given: dict[str, Any], accepted: dict[str, Any], why: str
) -> None:
    assert fault([f(**given)], FUNCTIONS, [{"f": accepted}], "simple_python") == why


def test_a_whole_number_that_no_float_holds_is_of_the_wrong_type() -> None:
    accepted = [{"f": {"s": ["a"], "x": [1.0]}}]
    found = fault([f(s="a", x=10**400)], FUNCTIONS, accepted, "simple_python")
    assert found == "a value has the wrong type"


def test_calls_are_counted_and_parallel_ones_stand_in_any_order() -> None:
    both = [{"f": {"s": ["a"]}}, {"f": {"s": ["b"]}}]
    assert fault([f(s="b"), f(s="a")], FUNCTIONS, both, "parallel") == ""
    assert fault([f(s="a"), f(s="a")], FUNCTIONS, both, "parallel") == (
        "a call is missing or differs"
    )
    assert fault([f(s="a")], FUNCTIONS, both, "live_parallel") == "wrong number of calls"
    assert fault([ToolCall("g.h")], FUNCTIONS, both[:1], "multiple") == "wrong function"
    assert fault([ToolCall("g.h")], FUNCTIONS, [{"g.h": {}}], "multiple") == ""


def test_a_nested_call_is_what_the_benchmarks_reader_makes_of_it() -> None:
    nested = f(s=ToolCall("g", {}))
    assert fault([nested], FUNCTIONS, [{"f": {"s": ["g()"]}}], "simple_python") == ""
    with_arguments = f(s="a", d=ToolCall("k", {"v": 1}))
    accepted = [{"f": {"s": ["a"], "d": [{"k": [{"v": 1}]}]}}]
    assert fault([with_arguments], FUNCTIONS, accepted, "simple_python") == ""


def cases(every: int, repeats: int) -> list[tuple[str, Case]]:
    made: list[tuple[str, Case]] = []
    for task in [t for t in suite().tasks() if t.world["accepted"]][::every]:
        functions: Any = task.world["functions"]
        accepted: Any = task.world["accepted"]
        for name, change in CHANGES.items():
            for number in range(repeats):
                rng = random.Random(f"{name}-{number}-{task.id}")
                calls = change(wanted(task, rng), rng)
                made.append((name, (functions, calls, accepted, task.category)))
    return made


def compare(some: list[tuple[str, Case]]) -> Counter[str]:
    """Counts by change and verdict; fails where the two disagree."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for (name, case), official in zip(some, official_faults([c for _, c in some]), strict=True):
        functions, calls, accepted, category = case
        ours = fault(calls, functions, accepted, category)
        counts[f"{name}: {'wrong' if official else 'right'}"] += 1
        if bool(ours) != bool(official):
            wrong.append(
                f"{category} {name}: ours {ours!r}, theirs {official!r}: {calls} {accepted}"
            )
    assert not wrong, "\n".join(wrong[:10])
    return counts


@pytest.mark.slow
def test_the_hand_written_cases_have_the_packages_verdict() -> None:
    some = [
        (FUNCTIONS, [f(**given)], [{"f": accepted}], "simple_python")
        for given, accepted, _ in VALUES
    ]
    official = official_faults(some)
    assert [not why for _, _, why in VALUES] == [not theirs for theirs in official]


@pytest.mark.slow
def test_a_sample_of_calls_has_the_packages_verdict() -> None:
    counts = compare(cases(SAMPLE, 1))
    assert counts.total() > 500
    assert counts["altered: right"] > 5 and counts["altered: wrong"] > 20


@pytest.mark.slow
def test_calls_for_all_entries_have_the_packages_verdict() -> None:
    """Shown with `pytest -rP`."""
    counts = compare(cases(1, 1))
    sys.stdout.write(f"{dict(sorted(counts.items()))}\n")
    assert counts.total() > 17_000


def entry(category: str, index: int = 0) -> Task:
    return [task for task in suite().tasks() if task.category == category][index]


@pytest.mark.slow
def test_every_entry_is_a_task_of_its_own() -> None:
    counts = Counter(task.category for task in suite().tasks())
    assert (counts["simple_python"], counts["live_multiple"], counts["irrelevance"]) == (
        400,
        1053,
        240,
    )
    assert len({task.id for task in suite().tasks()}) == counts.total() == 3491


@pytest.mark.slow
@pytest.mark.parametrize("category", ["simple_python", "multiple", "parallel", "live_parallel"])
def test_task_rollout_entries_are_right_with_what_is_wanted(category: str, tmp_path: Path) -> None:
    rules, task = suite(), entry(category)
    right = told(rules, task, WRITE(wanted(task, random.Random(0))))
    wrong = told(rules, task, WRITE([ToolCall("no_such", {"x": 1})]))
    said = told(rules, task, "I cannot do that.")
    outcomes = [rules.score(task, t) for t in (right, wrong, said)]
    assert [o.right for o in outcomes] == [True, False, False]
    assert outcomes[2].why == "no call that can be read"
    assert len(right.steps) == 1
    write_parquet(tmp_path / "x.parquet", [right, wrong, said])
    again = [rules.score(task, t) for t in read_parquet(tmp_path / "x.parquet")]
    assert again == outcomes


@pytest.mark.slow
def test_where_nothing_fits_any_call_is_wrong_and_the_other_way_round() -> None:
    rules = suite()
    for category, calling in (("irrelevance", False), ("live_relevance", True)):
        task = entry(category)
        called = told(rules, task, WRITE([ToolCall("no_such", {})]))
        said, broken = told(rules, task, "Nothing fits."), told(rules, task, "[f(x=")
        assert rules.score(task, called).right is calling
        assert rules.score(task, said).right is not calling
        assert rules.score(task, broken).right is not calling
    assert rules.score(task, said) == RuleOutcome(False, "no call that can be read")


@pytest.mark.slow
def test_what_the_system_says_is_read_before_the_users_words() -> None:
    task = next(t for t in suite().tasks() if len(t.dialogue) > 3)
    roles = [message.role for message in task.dialogue]
    assert all(a != b for a, b in pairwise(roles)) and roles[-1] == "assistant"


def write(folder: Path, category: str, entries: list[Any], answers: list[Any] | None) -> None:
    lines = "\n".join(json.dumps(row) for row in entries)
    (folder / f"BFCL_v4_{category}.json").write_text(lines, encoding="utf-8")
    if answers is not None:
        (folder / "possible_answer").mkdir(exist_ok=True)
        path = folder / "possible_answer" / f"BFCL_v4_{category}.json"
        path.write_text("\n".join(json.dumps(row) for row in answers), encoding="utf-8")


GOOD: dict[str, Any] = {
    "id": "simple_python_0",
    "question": [[{"role": "user", "content": "Say a."}]],
    "function": FUNCTIONS[:1],
}
ANSWER: dict[str, Any] = {"id": "simple_python_0", "ground_truth": [{"f": {"s": ["a"]}}]}


def test_a_folder_in_the_benchmarks_layout_is_read(tmp_path: Path) -> None:
    write(tmp_path, "simple_python", [GOOD], [ANSWER])
    write(tmp_path, "irrelevance", [{**GOOD, "id": "irrelevance_0"}], None)
    rules = suite(tmp_path)
    assert [t.category for t in rules.tasks()] == ["simple_python", "irrelevance"]
    assert rules.score(rules.tasks()[0], told(rules, rules.tasks()[0], "[f(s='A')]")).right


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": 3}, r"simple_python\.json:2: id: expected a text, got 3"),
        ({"id": "other"}, r":2: other has no answer in possible_answer/BFCL_v4_simple_python"),
        ({"function": None}, r":2: function: expected a list, got None"),
        ({"function": [{"name": "f"}]}, r":2: 'parameters' is missing; expected an object"),
        ({"question": [[], []]}, r":2: question: expected one list of messages"),
        ({"question": [[{"role": "tool", "content": "x"}]]}, r"expected messages of system, user"),
        ({"question": [[{"role": "assistant", "content": "x"}]]}, r"the last message is the assis"),
        (
            {"function": [{**FUNCTIONS[1], "parameters": {"type": "odd"}}]},
            r"parameters hold a type that is not known: 'odd'",
        ),
    ],
)
def test_a_broken_entry_is_named(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    write(tmp_path, "simple_python", [GOOD, {**GOOD, **change}], [ANSWER])
    with pytest.raises(TaskError, match=said):
        suite(tmp_path).tasks()


def test_a_broken_answer_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"there is none of the files BFCL_v4_NAME\.json"):
        suite(tmp_path).tasks()
    write(tmp_path, "simple_python", [GOOD], [{**ANSWER, "ground_truth": ["f(s='a')"]}])
    with pytest.raises(TaskError, match=r"possible_answer.*:1: ground_truth: expected objects"):
        suite(tmp_path).tasks()
    with pytest.raises(ConfigError, match="Did you mean 'bfcl-single-turn'"):
        make_suite("bfcl-single-tur", load_config())

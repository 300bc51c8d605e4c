"""Results and worlds that JSON cannot hold: shown as a value, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rods.envs.tool_classes import ToolClasses
from rods.errors import TaskError
from rods.evaluation.check import check_tasks
from rods.task import Provenance, Task, Turn, read_tasks, write_tasks
from rods.types import ToolCall, ToolResult


class Odd:
    """Answers that are no plain JSON at once."""

    def __init__(self) -> None:
        self.rooms: dict[int, str] = {1: "hall"}

    def say(self, what: str) -> Any:
        """Say something odd."""
        return {
            "two keys": {1: "a", "1": "b"},
            "null": {None: "a", "null": "b"},
            "true": {True: "a", "true": "b"},
            "inside": [{"a": {1.5: "a", "1.5": "b"}}],
            "keys": {"b": 1, "a": 2}.keys(),
            "values": {"b": 1, "a": 2}.values(),
            "items": {"b": 1}.items(),
            "range": range(3),
            "set": {10, 9, 1},
            "generator": (n for n in range(3)),
            "map": map(str, [1]),
            "iterator": iter([1]),
            "whole": self.rooms,
            "nan": [float("nan"), float("inf")],
        }[what]


ODD = ToolClasses("odd", [Odd])


def odd_task(what: str) -> Task:
    world: dict[str, Any] = {"classes": ["Odd"], "initial_config": {}}
    call = ToolCall("say", {"what": what})
    return Task(
        "odd", "base", (Turn(f"Say {what}.", (call,)),), world, Provenance("odd_1", "odd_1")
    )


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("keys", '["b", "a"]'),
        ("values", "[1, 2]"),
        ("items", '[["b", 1]]'),
        ("range", '"range(0, 3)"'),
        ("set", "[1, 10, 9]"),
        ("whole", '{"1": "hall"}'),
        ("nan", '["nan", "inf"]'),
    ],
)
def test_a_result_is_shown_as_json(what: str, shown: str) -> None:
    world = ODD.open(odd_task(what))
    world.begin_turn(0)
    assert world.call(ToolCall("say", {"what": what})) == ToolResult(shown)
    assert world.end_turn().solved and check_tasks([odd_task(what)], ODD).rows == ()


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("two keys", "two of its keys have the same text"),
        ("null", "two of its keys have the same text"),
        ("true", "two of its keys have the same text"),
        ("inside", "two of its keys have the same text"),
        ("generator", "a generator has no plain form"),
        ("map", "a map has no plain form"),
        ("iterator", "a list_iterator has no plain form"),
    ],
)
def test_a_result_that_json_cannot_hold_is_named_by_the_check(what: str, named: str) -> None:
    (row, *_) = check_tasks([odd_task(what)], ODD).rows
    assert "the result of Odd.say" in row.detail and named in row.detail


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["world", "call"])
def test_numbers_that_json_has_not_are_refused_at_writing_and_reading(
    number: float, place: str, tmp_path: Path
) -> None:
    arguments = {"amount": [number]} if place == "call" else {}
    world: Any = {"count": {"deep": [number]}} if place == "world" else {}
    turn = Turn("add", (ToolCall("add", arguments),))
    task = Task("notes", "base", (turn,), world, Provenance("notes_7", "notes_7"))
    path = tmp_path / "t.jsonl"
    with pytest.raises(TaskError, match=r"task 'notes_7': .*JSON has no NaN and no infinity"):
        write_tasks(path, [task])
    assert not list(tmp_path.iterdir())
    path.write_text(json.dumps(task.to_json()) + "\n")  # as Python writes it
    with pytest.raises(TaskError, match=r"t\.jsonl:1: .*JSON has no NaN and no infinity"):
        list(read_tasks(path))

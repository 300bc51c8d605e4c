"""Tests of tools and tasks: `python -m pytest`."""

from __future__ import annotations

from pathlib import Path

import pytest
from rods.task import Task, read_tasks
from rods.types import ToolCall

from tools import bistro

TASKS = list(read_tasks(Path(__file__).with_name("tasks.jsonl")))


def solved(task: Task, calls: list[tuple[ToolCall, ...]]) -> bool:
    """Whether these calls of each turn solve the task in a fresh world."""
    world = bistro.open(task)
    verdicts: list[bool] = []
    for index, turn in enumerate(calls):
        world.begin_turn(index)
        for call in turn:
            world.call(call)
        verdicts.append(world.end_turn().solved)
    world.close()
    return all(verdicts)


def ground_truth(task: Task) -> list[tuple[ToolCall, ...]]:
    """The right calls of each turn."""
    return [turn.ground_truth for turn in task.turns]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.provenance.origin)
def test_the_ground_truth_solves_the_task(task: Task) -> None:
    assert solved(task, ground_truth(task))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.provenance.origin)
def test_one_wrong_call_does_not(task: Task) -> None:
    calls = ground_truth(task)
    turn = next((index for index, right in enumerate(calls) if right), 0)
    # Of another name: a tool may have no arguments, or find as little for other ones.
    calls[turn] = (ToolCall("something_else", {}), *calls[turn][1:])
    assert not solved(task, calls)

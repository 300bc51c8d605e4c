"""Variants of a class whose results and arguments have names that a writer may misread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import WORLD, Lab, lab, tasks
from rods.cli.synth import EACH, never_called
from rods.env import Environment
from rods.envs.tool_classes import ToolClasses
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.trace import flattened
from rods.task import Task, write_tasks
from rods.types import ToolCall
from rods.writers import make_writer
from rods.writers.assembly import keeper_of
from verbs import rods


class Numbered(Lab):
    """Its reports have a number instead of a text."""

    def report_fault(self, device_id: str, note: str) -> dict[str, Any]:
        """Report a fault of a device.

        Args:
            device_id: Which device.
            note: What is wrong with it.
        """
        super().report_fault(device_id, note)
        return {"fault": f"F-{len(self._device(device_id)['notes'])}"}


numbered = ToolClasses("lab", [Numbered])
START = WORLD["initial_config"]["Lab"]
NUMBERED = [
    replace(task, world={"classes": ["Numbered"], "initial_config": {"Numbered": START}})
    for task in tasks
]


def accepted(
    environment: Environment, seeds: Sequence[Task], writer: str, number: int
) -> list[Task]:
    """The variants of `number` candidates of each seed task that every gate accepts."""
    pool = NUMBERED if environment is numbered else tasks
    author, keeper = make_writer(writer, pool, environment), keeper_of(environment, pool)
    drafts = [
        (seed, author.propose(seed, random.Random(f"{seed.id}{at}")))
        for seed in seeds
        for at in range(number)
    ]
    made = [(seed, draft) for seed, draft in drafts if not isinstance(draft, Rejection)]
    checked = [(d, keeper.check(s, d, (), author.gates(d)).rejection) for s, d in made]
    return [draft for draft, rejection in checked if rejection is None]


def calls_of(variants: Sequence[Task], tool: str) -> list[ToolCall]:
    return [call for task in variants for call in flattened(task) if call.name == tool]


@pytest.mark.parametrize(
    ("environment", "seeds"),
    [pytest.param(lab, tasks, id="repeats"), pytest.param(numbered, NUMBERED, id="numbers")],
)
def test_a_tool_whose_result_speaks_of_a_fault_has_variants(
    environment: Environment, seeds: Sequence[Task]
) -> None:
    """`{"fault": note}` was read as a failed call, so that no variant called the tool."""
    made = accepted(environment, seeds[2:3], "graph", 12)
    assert len(calls_of(made, "report_fault")) >= 3


def test_check_states_which_field_is_read_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    write_tasks(Path("numbered.jsonl"), NUMBERED)
    words = ("--env.name", "test_lab:numbered", "--env.tasks", "numbered.jsonl")
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "field 'fault' of each result of report_fault sounds like a failure" in told
    write_tasks(Path("lab.jsonl"), tasks)
    words = ("--env.name", "lab:lab", "--env.tasks", "lab.jsonl")
    assert rods("check", *words, monkeypatch=monkeypatch) == 0
    assert "failure" not in capsys.readouterr().err


def test_tools_that_no_variant_calls_are_named_once_there_are_enough_variants() -> None:
    ours = sorted({call.name for task in tasks for call in flattened(task)})
    variants = [task for task in tasks for _ in range(EACH) if task is not tasks[3]]
    assert never_called(tasks, variants) == ["move_booking"]
    assert never_called(tasks, variants[: EACH * len(ours) - 1]) == []
    assert never_called(tasks, [*variants, tasks[3]]) == []

"""An environment with Python's own types, from the check of its tasks to a supervised update."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from courier import TASKS, courier
from rods.evaluation.check import check_tasks
from rods.task import Task, read_tasks, write_tasks
from rods.types import ToolCall, Value
from verbs import rods

WORDS = "--env.name courier:courier --env.tasks tasks.jsonl"
SMALL = "--model.dtype float32 --model.threads 1"
STEPS = (
    f"check {WORDS}",
    f"demonstrate {WORDS} --synthesis.writer graph --n 60 --model tiny --out cold.parquet",
    f"sft cold.parquet --model tiny --epochs 2 --batch-tokens 4096 --train.lr 5e-3 "
    f"--out cold {SMALL}",
    f"train {WORDS} --synthesis.writer graph --model cold --dry-run "
    f"--rollout.context_tokens 2048 --out run {SMALL}",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path / "tasks.jsonl", TASKS)
    return tmp_path


def test_every_ground_truth_replays() -> None:
    report = check_tasks(TASKS, courier)
    assert report.ok and report.counts()["ambiguous"] == 0, report.rows


def test_the_tasks_do_not_depend_on_how_a_value_is_written() -> None:
    """4.0 is 4 to a number, a mark given twice is one, and a default may be given."""
    for number, change in (
        (0, {"weight": 3.0, "service": "standard"}),
        (3, {"marks": ["urgent", "fragile"]}),
    ):
        task = TASKS[number]
        world = courier.open(task)
        for index, turn in enumerate(task.turns):
            world.begin_turn(index)
            for call in turn.ground_truth:
                given = {**call.arguments, **(change if index == 0 else {})}
                assert not world.call(ToolCall(call.name, given)).failed
            assert world.end_turn().solved


def values(value: Value, name: str) -> Iterator[tuple[str, Value]]:
    """Values without parts, each with its name."""
    inner = value.items() if isinstance(value, dict) else ()
    parts = [*inner, *((name, part) for part in value)] if isinstance(value, list) else [*inner]
    if not parts:
        yield name, value
    for key, part in parts:
        yield from values(part, key)


def given(tasks: list[Task]) -> dict[str, set[Value]]:
    found: dict[str, set[Value]] = {}
    for call in (c for task in tasks for turn in task.turns for c in turn.ground_truth):
        for key, value in values(dict(call.arguments), ""):
            found.setdefault(key, set()).add(value)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
@pytest.mark.parametrize(
    ("writer", "renamed"), [("graph", ["recipient"]), ("resample", [])], ids=["graph", "resample"]
)
def test_variants_have_other_values_at_every_depth(
    writer: str, renamed: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"synth {WORDS} --synthesis.writer {writer} --n 20 --out variants.jsonl"
    assert rods(*shlex.split(words), monkeypatch=monkeypatch) == 0
    made = list(read_tasks(place / "variants.jsonl"))
    assert len(made) == 20 and check_tasks(made, courier).ok
    found, before = given(made), given(TASKS)
    for name in ("parcel_id", "day", "zip_code", *renamed):
        assert found[name] - before[name], name
    for day in found["day"]:
        assert datetime.date.fromisoformat(str(day)) >= datetime.date(2026, 3, 2)
    assert found["service"] <= {"standard", "express", "overnight"}


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_it_is_checked_demonstrated_and_ready_for_training(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in STEPS:
        assert rods(*shlex.split(words), monkeypatch=monkeypatch) == 0, words
    assert "unreachable 0, unstable 0" in " ".join(capsys.readouterr().out.split())

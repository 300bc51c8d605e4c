"""The multi-turn suite: the harness's rules of play, the official verdict, saved ones scored."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bfcl_judges import official_verdicts
from bfcl_mutants import KINDS, Calls, truth
from rods.config import load_config
from rods.dialects import get_dialect, structured
from rods.envs.bfcl.suites import STEPS
from rods.envs.bfcl.tasks import load_tasks
from rods.evaluation.rules import RuleOutcome
from rods.evaluation.suites import saved_groups, suite_rows
from rods.suites import make_suite
from rods.task import Task
from rods.trajectory import Trajectory
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import ParseVerdict, StopReason, ToolCall
from suite_cases import told
from verbs import rods

RULES = make_suite("bfcl-multi-turn", load_config())
WRITE = structured(get_dialect("pythonic")).write
LS = "[ls()]"
RIGHT = RuleOutcome(True)


def task_of(origin: str) -> Task:
    return next(task for task in load_tasks() if task.provenance.origin == origin)


BASE = task_of("multi_turn_base_0")
"""Files; several turns."""


def texts(calls: Calls) -> list[str]:
    """A generation for the calls of each turn, and one that ends it."""
    return [text for turn in calls for text in ([WRITE(turn)] if turn else []) + ["Done."]]


def score(trajectory: Trajectory, task: Task = BASE) -> RuleOutcome:
    return RULES.score(task, trajectory)


def test_ground_truths_of_all_categories_are_right() -> None:
    for task in load_tasks()[::150]:
        assert score(told(RULES, task, *texts(truth(task))), task) == RIGHT, task.provenance.origin


def test_what_cannot_be_read_ends_the_turn_and_is_no_call() -> None:
    first, *rest = truth(BASE)
    after = [text for turn in rest for text in (WRITE(turn), "Done.")]
    cut = told(RULES, BASE, WRITE(first), "[cd(", *after)
    assert score(cut) == RIGHT
    assert cut.steps[1].verdict is ParseVerdict.ANSWER
    nothing = told(RULES, BASE, "[cd(", *after)
    assert nothing.steps[1].turn == 1
    assert score(nothing) == RuleOutcome(False, "no call in a turn that needs one")


def test_a_turn_of_more_than_twenty_steps_ends_the_conversation() -> None:
    first, *rest = truth(BASE)
    after = [text for turn in rest for text in (WRITE(turn), "Done.")]
    twenty = told(RULES, BASE, *[LS] * 19, WRITE(first), "Done.", *after)
    assert score(twenty) == RIGHT
    more = told(RULES, BASE, *[LS] * (STEPS - 1), WRITE(first), "Done.", *after)
    assert (more.stop, len(more.steps), len(more.verdicts)) == (StopReason.STEPS, STEPS, 1)
    assert score(more) == RuleOutcome(False, "a turn of more than 20 steps")


def test_the_harness_judges_a_last_turn_that_never_ended() -> None:
    *before, last = truth(BASE)
    said = [text for turn in before for text in (WRITE(turn), "Done.")]
    right = told(RULES, BASE, *said, WRITE(last), *[LS] * STEPS)
    assert right.stop is StopReason.STEPS and len(right.verdicts) == len(BASE.turns)
    assert score(right) == RIGHT


def test_withheld_functions_are_executed() -> None:
    task = task_of("multi_turn_miss_func_0")
    index = next(i for i, turn in enumerate(task.turns) if not turn.ground_truth)
    name = next(iter(task.turns[index].withheld))
    known = [call for turn in task.turns for call in turn.ground_truth if call.name == name]
    calls = truth(task)
    calls[index] = known[:1]
    played = told(RULES, task, *texts(calls))
    step = next(step for step in played.steps if step.turn == index)
    assert step.verdict is ParseVerdict.CALLS
    assert "there is no function" not in step.results[0].content


def test_calls_that_do_not_fit_are_executed_one_by_one() -> None:
    first, *rest = truth(BASE)
    faulty = [ToolCall("ls", {"b": 1}), ToolCall("no_such", {}), *first]
    played = told(RULES, BASE, *texts([faulty, *rest]))
    said = [result.content for result in played.steps[0].results]
    assert "unexpected keyword argument 'b'" in said[0]
    assert said[1] == "Error during execution: name 'no_such' is not defined"
    assert score(played) == RIGHT


def test_a_conversation_that_a_budget_ended_is_wrong() -> None:
    whole = told(RULES, BASE, *texts(truth(BASE)))
    room = len(whole.spans[0].ids) + 40
    cut = told(RULES, BASE, *texts(truth(BASE)), context_tokens=room)
    assert cut.stop in (StopReason.CONTEXT, StopReason.GENERATED)
    assert score(cut) == RuleOutcome(False, f"ended by a budget: {cut.stop.value}")


def mutated(every: int) -> list[tuple[Task, Calls]]:
    return [
        (task, mutate(task, random.Random(f"{kind}-suite-{task.id}")))
        for task in load_tasks()[::every]
        for kind, mutate in KINDS.items()
    ]


@pytest.mark.slow
def test_task_rollout_conversations_have_the_official_verdict(tmp_path: Path) -> None:
    """Of 200 mutated ground truths, played, saved and scored again."""
    cases = [(task, calls) for task, calls in mutated(20) if any(calls)]
    played = [(task, told(RULES, task, *texts(calls))) for task, calls in cases]
    official = official_verdicts(cases)
    live = [score(trajectory, task) for task, trajectory in played]
    assert [o.right for o in live] == [v.valid for v in official]
    assert 20 < sum(o.right for o in live) < len(live) - 20
    assert [o.right for o in live] == [t.official for _, t in played]
    write_parquet(tmp_path / "saved.parquet", [t for _, t in played])
    again = list(read_parquet(tmp_path / "saved.parquet"))
    assert [score(t, task) for t, (task, _) in zip(again, played, strict=True)] == live


@pytest.mark.slow
def test_saved_trajectories_get_the_verdicts_of_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [(task, calls) for task, calls in mutated(160) if any(calls)]
    played = [(task, told(RULES, task, *texts(calls))) for task, calls in some]
    verdicts: dict[str, list[bool]] = {}
    for task, trajectory in played:
        verdicts.setdefault(task.id, []).append(score(trajectory, task).right)
    assert {right for found in verdicts.values() for right in found} == {True, False}
    path = tmp_path / "saved.parquet"
    write_parquet(path, [t for _, t in played])
    asked = ["eval", "--suite", "bfcl-multi-turn", "--trajectories", str(path), "--json"]
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    rows: list[dict[str, Any]] = json.loads(printed.out)
    assert {row["task_id"]: row["right"] for row in rows} == verdicts
    assert "no trajectory of 795 of 800 tasks" in " ".join(printed.err.split())
    assert rods(*asked[:-1], monkeypatch=monkeypatch) == 0
    assert "accuracy" in capsys.readouterr().out


def test_trajectories_of_another_suite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "saved.parquet"
    trajectory = told(RULES, BASE, *texts(truth(BASE)))
    write_parquet(path, [trajectory, replace(trajectory, task_id="f" * 16)])
    with pytest.raises(OSError, match=r"saved\.parquet, row 2: task f+ is not one of bfcl-multi"):
        saved_groups(RULES, [BASE], path)
    write_parquet(path, [trajectory])
    (group,) = saved_groups(RULES, load_tasks(), tmp_path)
    (row,) = suite_rows(RULES, [group])
    assert (row.origin, row.right, row.scenario) == ("multi_turn_base_0", (True,), "bfcl-000")

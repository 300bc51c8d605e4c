"""Rewards are pure functions of trajectories: hand-made tables, and the same numbers offline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from rods.env import TurnVerdict
from rods.errors import ConfigError, RewardError
from rods.reward import Score, score, score_group
from rods.rewards import get_reward
from rods.task import Task
from rods.trajectory import Group, Step, Trajectory
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import FinishReason, Json, ParseVerdict, StopReason, ToolCall, ToolResult
from worlds import notes_task

TASK = notes_task([("a", [ToolCall("total")])] * 4)
GOOD = TurnVerdict(True, 1, True, True, True)
BAD = TurnVerdict(True, 1, True, False, False)
IDLE = TurnVerdict(True, 0, True, True, False)
ABSTAINED = TurnVerdict(False, 0, True, True, True)
ACTED = TurnVerdict(False, 1, True, True, True)
SILENT = TurnVerdict(False, 0, True, True, True, answered=False)


def played(*verdicts: TurnVerdict, steps: tuple[Step, ...] = (), n: int = 4) -> Trajectory:
    stop = StopReason.DONE if len(verdicts) == n else StopReason.GENERATED
    return Trajectory(TASK.id, 0, 0, 1, (), steps, verdicts, n, (), stop)


def step(verdict: ParseVerdict, *failed: bool) -> Step:
    results = tuple(ToolResult("x", f) for f in failed)
    calls = tuple(ToolCall("total") for _ in failed)
    return Step(0, "", verdict, FinishReason.STOP, calls, results, 3)


def value(name: str, trajectory: Trajectory) -> float:
    return score(get_reward(name), TASK, trajectory).value


@pytest.mark.parametrize(
    ("verdicts", "progress", "accuracy", "official"),
    [
        ((GOOD, GOOD, GOOD, GOOD), 1.0, 1.0, True),
        ((GOOD, ABSTAINED, GOOD, GOOD), 1.0, 1.0, True),
        ((GOOD, ACTED, GOOD, GOOD), 0.75, 0.0, True),
        ((GOOD, SILENT, GOOD, GOOD), 0.75, 0.0, True),
        ((GOOD, BAD, IDLE, GOOD), 0.5, 0.0, False),
        ((GOOD,), 0.25, 0.0, False),
        ((BAD,), 0.0, 0.0, False),
        ((), 0.0, 0.0, False),
    ],
)
def test_rewards_from_verdicts(
    verdicts: tuple[TurnVerdict, ...],
    progress: float,
    accuracy: float,
    official: bool,
) -> None:
    trajectory = played(*verdicts)
    assert value("progress", trajectory) == progress
    assert value("accuracy", trajectory) == accuracy
    assert trajectory.official == official


OK, MALFORMED, ANSWER = ParseVerdict.CALLS, ParseVerdict.MALFORMED, ParseVerdict.ANSWER


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((step(OK, False), step(ANSWER)), 2.0),
        ((step(OK, True), step(ANSWER)), 1.0),
        ((step(OK, False, True), step(MALFORMED), step(OK, False, False), step(ANSWER)), 1.5),
        ((step(ParseVerdict.UNKNOWN_TOOL), step(OK, False)), 1.5),
        ((step(ANSWER),), 0.0),
        ((step(MALFORMED),), 0.0),
        ((), 0.0),
    ],
)
def test_format_is_tried_times_well_formed_plus_succeeded(
    steps: tuple[Step, ...], expected: float
) -> None:
    result = score(get_reward("format"), TASK, played(GOOD, steps=steps))
    assert result.value == expected
    assert set(result.parts) == {"tried", "format", "succeeded"}


class Grouped:
    """A group reward that returns what it is given."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        return self.score_group(Group(task, [trajectory], 0))[0]

    def score_group(self, group: Group) -> list[Score]:
        return self.found

    def state_dict(self) -> dict[str, Json]:
        return {}

    def load_state_dict(self, state: Mapping[str, Json]) -> None: ...


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r"the reward returned None, not a score\. Return rods\.Score\(value\)\."),
        (1.0, r"the reward returned 1\.0, not a score"),
        ((1.0, {}), "not a score"),
        (Score(cast("float", None)), "the reward is None, not a finite number"),
        (Score(cast("float", "1")), "the reward is '1', not a finite number"),
        (Score(float("nan")), "the reward is nan, not a finite number"),
        (Score(1.0, {"a": cast("float", "1")}), "parts of the reward are not finite numbers: .*a"),
        (Score(1.0, {"b": 0.5, "a": float("nan")}), r"not finite numbers: \{'a': nan\}"),
    ],
)
def test_what_is_no_score_is_refused_by_name(returned: Any, message: str) -> None:
    group = Group(TASK, [played(GOOD), played(BAD)], 0)
    for reward in (lambda *_: returned, Grouped([Score(1.0), returned])):
        with pytest.raises(RewardError, match=message):
            score_group(reward, group)


@pytest.mark.parametrize("found", [None, [], [Score(1.0)], Score(1.0)])
def test_a_group_reward_gives_each_member_a_score(found: Any) -> None:
    group = Group(TASK, [played(GOOD), played(BAD)], 0)
    with pytest.raises(RewardError, match="expected a list of 2 scores"):
        score_group(Grouped(found), group)


def test_parts_tell_state_from_results() -> None:
    parts = score(get_reward("progress"), TASK, played(GOOD, BAD)).parts
    assert parts == {"reached": 0.5, "solved": 0.25, "state": 0.5, "executed": 0.25}


def test_an_invalid_trajectory_is_never_scored() -> None:
    broken = dataclasses.replace(played(GOOD), failure="EnvError: away", stop=StopReason.FAILURE)
    whole = Group(TASK, [broken], 0)
    for reward in (get_reward("progress"), Grouped([Score(1.0)])):
        for result in (score(reward, TASK, broken), *score_group(reward, whole)):
            assert (result.valid, result.reason) == (False, "EnvError: away")


def test_stored_trajectories_score_the_same(tmp_path: Path) -> None:
    steps = (step(OK, False, True), step(MALFORMED), step(ANSWER))
    kept = [played(GOOD, BAD, SILENT, steps=steps), played(), played(ACTED, GOOD, steps=steps[:1])]
    write_parquet(tmp_path / "t.parquet", kept)
    for name in ("progress", "accuracy", "format"):
        reward = get_reward(name)
        now = [score(reward, TASK, t) for t in kept]
        assert [score(reward, TASK, t) for t in read_parquet(tmp_path / "t.parquet")] == now


def test_an_unknown_reward_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'progress'"):
        get_reward("progres")

"""Metrics of tool use against hand-computed numbers."""

from __future__ import annotations

import json

import pytest

from rods.errors import RewardError
from rods.evaluation import tool_metrics as metrics
from rods.reward import Score, score
from rods.rewards import get_reward
from rods.task import Task
from rods.trajectory import Group, Trajectory
from tir_cases import RIGHT, WRONG, block, code, play, question, says

TASK = question()

PLAIN = play(says(RIGHT, tokens=20))
ONE = play(code(block(), False, tokens=30), says(RIGHT, tokens=10))
THREE = play(
    says("Hm.", tokens=10),
    code("12345678" + block("123456"), True, tokens=56),
    code("<code>1</code>", False, False, tokens=24),
    says(WRONG, tokens=10),
)
NEVER_RUN = play(code(block(), tokens=40), says(WRONG, tokens=20))
AWAY = play(code(block(), False), RIGHT, failure="EnvError: away")
ALL = [PLAIN, ONE, THREE, NEVER_RUN, AWAY]


def scores(trajectories: list[Trajectory], name: str = "outcome") -> list[Score]:
    return [score(get_reward(name), TASK, t) for t in trajectories]


def test_all_figures() -> None:
    figures = metrics.tool_metrics(ALL, scores(ALL))
    assert figures == {
        "accuracy": 2 / 4,
        "judge_gave_up": 0.0,
        "code_ratio": 3 / 4,
        "code_correct_ratio": 1 / 4,
        "execution_success": 3 / 4,
        "execution_success_right": 1.0,
        "execution_success_wrong": pytest.approx(2 / 3),
        "calls_per_trajectory": (0 + 1 + 3 + 0) / 4,
        "tool_productivity": 2 / 4,
        "response_tokens": (20 + 40 + 100 + 60) / 4,
        "response_tokens_right": 30.0,
        "response_tokens_wrong": 80.0,
        # 0; 10 tokens and 8 of 28 characters of the step of 56 tokens; 0
        "first_call_tokens": pytest.approx((0 + 26 + 0) / 3),
        "first_call_share": pytest.approx((0 + 26 / 100 + 0) / 3),
    }
    json.dumps(figures, allow_nan=False)


@pytest.mark.parametrize("name", ["torl", "retool", "zerotir", "otc_ppo", "outcome"])
def test_the_scale_of_the_reward_does_not_matter(name: str) -> None:
    sampled = [ONE, THREE] if name != "zerotir" else [THREE, NEVER_RUN]
    share = 0.5 if name != "zerotir" else 0.0
    assert metrics.tool_metrics(sampled, scores(sampled, name))["accuracy"] == share


def test_nothing_to_divide_by_is_no_zero() -> None:
    figures = metrics.tool_metrics([PLAIN], scores([PLAIN]))
    silent = {
        "execution_success", "execution_success_right", "execution_success_wrong",
        "tool_productivity", "response_tokens_wrong", "first_call_tokens", "first_call_share",
    }  # fmt: skip
    assert {name for name, figure in figures.items() if figure is None} == silent
    assert figures["code_ratio"] == figures["calls_per_trajectory"] == 0.0
    assert set(metrics.tool_metrics([], []).values()) == {None}
    assert set(metrics.tool_metrics([AWAY], scores([AWAY])).values()) == {None}


@pytest.mark.parametrize(
    ("trajectory", "tokens"),
    [
        (PLAIN, None),
        (play(), None),
        (ONE, 0),
        (THREE, 26),
        (play(says("```python", tokens=7), code("1\n```", False)), 7),  # fence in a step before
        (play(code("", False, tokens=9)), 0),
        (play(code(block("'<code>'"), False, tokens=90)), 0),
        (play(code('thinking {"name": "python"}', False, tokens=9)), 0),  # nothing marks it
        (play(code("0123456789<tool_call>{}", False, tokens=23)), 10),
    ],
)
def test_where_the_first_call_stands(trajectory: Trajectory, tokens: int | None) -> None:
    assert metrics.first_call(trajectory) == tokens


def test_calls_are_compared_with_the_necessary_ones() -> None:
    needs_one, unknown = question(least=1), question()

    def needed(task: Task) -> int | None:
        return 1 if task.world.get("least") else None

    made = [PLAIN, ONE, THREE, NEVER_RUN, AWAY]  # executed calls: 0, 1, 3, 0; one is invalid
    groups = [Group(needs_one, made, 0), Group(unknown, made, 0)]
    known = {"calls_needed": 1.0, "calls_wasted": 2 / 4, "calls_short": 2 / 4}
    assert metrics.thrift_metrics(groups, needed) == known
    assert metrics.thrift_metrics(groups[1:], needed) == {}
    rows = [scores(made), scores(made)]
    assert known.items() <= metrics.step_metrics(groups, rows, needed).items()
    assert not known.keys() & metrics.step_metrics(groups, rows).keys()


def test_scores_must_fit() -> None:
    with pytest.raises(RewardError, match="2 trajectories came with 1 scores"):
        metrics.tool_metrics([PLAIN, ONE], scores([PLAIN]))
    with pytest.raises(RewardError, match="no part 'correct'"):
        metrics.tool_metrics([PLAIN], scores([PLAIN], "accuracy"))


def test_the_parts_of_a_reward_are_logged_each_by_itself() -> None:
    rows = [Score(1.0, {"format": 1.0, "length": 0.5}), Score(0.0, {"format": 0.0})]
    rows += [Score(0.0, {"format": 9.0}, valid=False)]
    assert metrics.part_metrics(rows) == {"format": 0.5, "length": 0.5}
    assert metrics.part_metrics([]) == {}
    group = Group(question(), [PLAIN, ONE, AWAY], 0)
    assert metrics.step_metrics([group], [rows]) == {"reward_parts": {"format": 0.5, "length": 0.5}}

"""Credit by turn: peers, returns, and which tokens carry loss."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from rods.env import TurnVerdict
from rods.errors import TrainError
from rods.reward import Score
from rods.rewards.shared import progress
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.collect import Batch, collect
from rods.trainers.credit import token_credits
from rods.trainers.reports import UpdateSums, make_report
from rods.trajectory import Group, Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason

TASK = Task("none", "base", (Turn("a"), Turn("b"), Turn("c")), {})


def member(number: int, solved: str, state: str = "") -> Trajectory:
    """One step of `number + 1` tokens a turn; `x` marks a turn that is solved, `.` one that is not.

    `state` marks likewise whether the state was right at the end of a turn; by default: if solved.
    """
    size = number + 1
    marks = zip(solved, state or solved, strict=True)
    verdicts = tuple(TurnVerdict(True, 1, s == "x", w == "x", w == "x") for w, s in marks)
    steps = tuple(
        Step(t, "", ParseVerdict.ANSWER, FinishReason.STOP, tokens=size) for t in range(len(solved))
    )
    span = (Span((1, 2), None), Span((3,) * size, (-0.5,) * size))
    return Trajectory(
        TASK.id, number, 0, number, (), steps, verdicts, 3, span * len(solved), StopReason.DONE
    )


def credits(*members: Trajectory, kind: str = "dr_grpo") -> list[list[float]]:
    """The credit of each member's turns."""
    group = Group(TASK, members, 0)
    rows = token_credits(kind, [group], [[progress(TASK, m) for m in members]])[0]
    found: list[list[float]] = []
    for row, m in zip(rows, members, strict=True):
        assert row is not None and len(row) == sum(s.tokens for s in m.steps)
        parts = np.split(row, len(m.steps))
        assert all(np.ptp(part) == 0 for part in parts)
        found.append([round(float(part[0]) * 3, 4) for part in parts])
    return found


def test_a_turn_answers_for_itself_and_what_follows_not_for_what_went_before() -> None:
    first, second = credits(member(0, "xxx"), member(1, "x.x", "xxx"))
    assert first == [0.5, 0.5, 0.0]
    assert second == [-0.5, -0.5, 0.0]


def test_who_lost_the_state_is_compared_with_those_who_lost_it_too() -> None:
    rows = credits(member(0, "xxx"), member(1, ".xx"), member(2, "..."), member(3, "x.."))
    assert [row[1] for row in rows] == [1.0, 1.0, -1.0, -1.0]
    alone = credits(member(0, "xx."), member(1, "..."))
    assert [row[1:] for row in alone] == [[0.0, 0.0], [0.0, 0.0]]


def test_a_turn_that_was_never_reached_earns_nothing_and_has_no_tokens() -> None:
    cut, whole = credits(member(0, "x"), member(1, "xxx"))
    assert cut == [-1.0] and whole[0] == 1.0


def test_a_turn_that_ran_out_of_seconds_answers_for_what_it_did_not_earn() -> None:
    late = member(1, "xx")
    late = replace(late, verdicts=late.verdicts[:1], stop=StopReason.SECONDS)
    whole, cut = credits(member(0, "xxx"), late)
    assert whole == [1.0, 1.0, 0.0] and cut == [-1.0, -1.0]


def test_grpo_divides_by_the_deviation_among_peers() -> None:
    (high, *_), (low, *_) = credits(member(0, "xxx"), member(1, "x.."), kind="grpo")
    assert high == pytest.approx(3 / np.sqrt(2), rel=1e-3) and low == -high


def test_collect_leaves_out_what_has_no_advantage_and_counts_it() -> None:
    same = member(2, "x..")
    group = Group(TASK, (member(0, "xxx"), member(1, "xx."), same), 0)
    scores = [[progress(TASK, t) for t in group.trajectories]]
    batch = collect([group], scores, "dr_grpo", credit="turn")
    assert [s.member for s in batch.samples] == [0, 1, 2]
    for sample in batch.samples:
        assert sample.credit is not None and len(sample.credit) == sample.sampled
        assert (sample.credit != 0).all()
        first = int(np.flatnonzero(sample.mask)[0])
        assert first >= 2, "no token of the prompt carries loss"
    flat = Group(TASK, (member(0, "x.."), member(1, ".xx"), member(2, "x..")), 0)
    scores = [[progress(TASK, t) for t in flat.trajectories]]
    batch = collect([flat], scores, "dr_grpo", credit="turn")
    assert {s.member for s in batch.samples} == {0, 1, 2} and batch.informative == 1
    equal = Group(TASK, (member(0, "x.."), member(1, "x..")), 0)
    batch = collect(
        [equal], [[progress(TASK, t) for t in equal.trajectories]], "grpo", credit="turn"
    )
    assert not batch.samples and batch.informative == 0 and batch.zero_variance == 1


def test_rewards_that_are_no_sum_over_turns_keep_the_advantage_of_the_whole() -> None:
    group = Group(TASK, (member(0, "xxx"), member(1, "x..")), 0)
    batch = collect([group], [[Score(1.0), Score(0.0)]], "dr_grpo", credit="turn")
    assert [s.advantage for s in batch.samples] == [0.5, -0.5]
    assert all(s.credit is None for s in batch.samples)


def test_a_group_without_values_of_turns_leaves_the_others_their_credit() -> None:
    groups = [Group(TASK, (member(0, "xxx"), member(1, "x..")), i) for i in (0, 1)]
    summed = [progress(TASK, t) for t in groups[0].trajectories]
    batch = collect(groups, [summed, [Score(1.0), Score(0.0)]], "dr_grpo", credit="turn")
    assert [(s.group, s.credit is None) for s in batch.samples] == [
        (0, False), (0, False), (1, True), (1, True),
    ]  # fmt: skip


def test_invalid_members_have_no_credit_and_are_nobodys_peer() -> None:
    broken = replace(member(1, "..."), failure="gone")
    group = Group(TASK, (member(0, "xxx"), broken, member(2, "xxx")), 0)
    scores = [[progress(TASK, t) for t in group.trajectories]]
    scores[0][1] = Score(0.0, valid=False)
    rows = token_credits("grpo", [group], scores)[0]
    assert rows[1] is None and not rows[0].any() and not rows[2].any()


def test_a_reward_of_another_number_of_turns_is_refused() -> None:
    group = Group(TASK, (member(0, "xxx"),), 0)
    with pytest.raises(TrainError, match="values of 1 turns, the task has 3"):
        token_credits("grpo", [group], [[Score(1.0, turns=(1.0,))]])


def test_progress_says_what_each_turn_earned() -> None:
    assert progress(TASK, member(0, "x.")).turns == (1 / 3, 0.0, 0.0)


@pytest.mark.parametrize("name", [f.name for f in fields(Batch) if f.type == "int"])
def test_invariant_10_whatever_an_update_leaves_out_is_in_its_record(name: str) -> None:
    batch = Batch(**{"groups": 1, "zero_variance": 0, "trajectories": 0, "invalid": 0, name: 7})
    row = make_report(batch, UpdateSums(), step=0, version=0, lr=0.1, seconds=1.0).metrics()
    assert row[name] == (7 if name != "zero_variance" else pytest.approx(7.0))

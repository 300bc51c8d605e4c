"""Meters of tool use that the papers on tool-integrated reasoning plot.

Owns pure functions over trajectories and their scores (from a reward of answers, whose part
`correct` is 0 or 1). Members that are invalid are left out. What has nothing to divide by is None,
never 0: a run without calls has no execution success.

    plays = valid_plays(trajectories, scores)
    code_ratio(plays), tool_productivity(plays)
    run.log({**record, **tool_figures(trajectories, scores)})

A call counts as made when its text could be read, and as executed when it has a result. Lengths are
tokens that the policy sampled; what tools printed is not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.answers import accuracy_of
from rods.rewards.reading import call_offset, executed, written
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json

Needed = Callable[[Task], int | None]


class Play(NamedTuple):
    """A valid trajectory and whether its answer is right."""

    trajectory: Trajectory
    correct: bool


def valid_plays(trajectories: Sequence[Trajectory], scores: Sequence[Score]) -> list[Play]:
    """Pair trajectories with their scores and leave out what is invalid.

    Raises:
        RewardError: the lengths differ, or a score has no part `correct`.
    """
    if len(trajectories) != len(scores):
        raise RewardError(
            f"{len(trajectories)} trajectories came with {len(scores)} scores; expected one each."
        )
    pairs = zip(trajectories, scores, strict=True)
    return [Play(t, accuracy_of(s) > 0) for t, s in pairs if t.valid and s.valid]


def accuracy(plays: Sequence[Play]) -> float | None:
    """Share of right answers."""
    return _mean(p.correct for p in plays)


def code_ratio(plays: Sequence[Play]) -> float | None:
    """Share of responses that make a call."""
    return _mean(written(p.trajectory) > 0 for p in plays)


def code_correct_ratio(plays: Sequence[Play]) -> float | None:
    """Share of responses that make a call and are right."""
    return _mean(written(p.trajectory) > 0 and p.correct for p in plays)


def execution_success(plays: Sequence[Play], correct: bool | None = None) -> float | None:
    """Share of executed calls that succeeded, over the calls of all responses together.

    Args:
        plays: valid trajectories.
        correct: True: of right answers only; False: of wrong ones; None: of all.
    """
    chosen = [p for p in plays if correct is None or p.correct is correct]
    return _mean(not result.failed for p in chosen for result in executed(p.trajectory))


def calls_per_trajectory(plays: Sequence[Play]) -> float | None:
    """Executed calls of a response, on average (TC)."""
    return _mean(len(executed(p.trajectory)) for p in plays)


def tool_productivity(plays: Sequence[Play]) -> float | None:
    """Right answers per executed call (TP, arXiv 2504.14870)."""
    calls = sum(len(executed(p.trajectory)) for p in plays)
    return sum(p.correct for p in plays) / calls if calls else None


def response_length(plays: Sequence[Play], correct: bool | None = None) -> float | None:
    """Sampled tokens of a response, on average; `correct` chooses right or wrong answers."""
    chosen = [p for p in plays if correct is None or p.correct is correct]
    return _mean(sampled_tokens(p.trajectory) for p in chosen)


def sampled_tokens(trajectory: Trajectory) -> int:
    """Tokens that the policy sampled."""
    return sum(step.tokens for step in trajectory.steps)


def first_call(trajectory: Trajectory) -> int | None:
    """Sampled tokens before the first call; None if there is no call.

    Exact up to the step that makes it; within this step tokens are taken as equally long, because
    a trajectory keeps text and tokens without their alignment.
    """
    before = 0
    for step in trajectory.steps:
        if step.calls:
            share = call_offset(step.text) / len(step.text) if step.text else 0.0
            return before + int(step.tokens * share)
        before += step.tokens
    return None


def first_call_tokens(plays: Sequence[Play]) -> float | None:
    """Sampled tokens before the first call, on average over responses that make one."""
    return _mean(at for p in plays if (at := first_call(p.trajectory)) is not None)


def first_call_share(plays: Sequence[Play]) -> float | None:
    """The same as a share of the response, in [0, 1]: 0 is a call at the very beginning."""
    shares: list[float] = []
    for play in plays:
        at, tokens = first_call(play.trajectory), sampled_tokens(play.trajectory)
        if at is not None and tokens:
            shares.append(at / tokens)
    return _mean(shares)


def tool_figures(trajectories: Sequence[Trajectory], scores: Sequence[Score]) -> dict[str, Json]:
    """All meters by name, for a line of the log; None where there is nothing to measure."""
    plays = valid_plays(trajectories, scores)
    return {
        "accuracy": accuracy(plays),
        "judge_gave_up": _mean(s.parts.get("judge_gave_up", 0.0) for s in scores if s.valid),
        "code_ratio": code_ratio(plays),
        "code_correct_ratio": code_correct_ratio(plays),
        "execution_success": execution_success(plays),
        "execution_success_right": execution_success(plays, True),
        "execution_success_wrong": execution_success(plays, False),
        "calls_per_trajectory": calls_per_trajectory(plays),
        "tool_productivity": tool_productivity(plays),
        "response_tokens": response_length(plays),
        "response_tokens_right": response_length(plays, True),
        "response_tokens_wrong": response_length(plays, False),
        "first_call_tokens": first_call_tokens(plays),
        "first_call_share": first_call_share(plays),
    }


def meters(
    groups: Sequence[Group], scores: Sequence[Sequence[Score]], needed: Needed | None = None
) -> dict[str, Json]:
    """Means of the reward's parts, how worlds ended turns, and all meters of tool use where the
    reward says what is right.

    Args:
        groups: of this step.
        scores: of their members.
        needed: how many calls a task needs; None where nobody can say.
    """
    flat = [s for row in scores for s in row]
    played = [t for g in groups for t in g.trajectories]
    figures: dict[str, Json] = {"reward_parts": part_figures(flat), **ending_figures(played)}
    if not all("correct" in s.parts for s in flat if s.valid):
        return figures
    figures |= tool_figures(played, flat)
    return {**figures, **thrift_figures(groups, needed)} if needed else figures


def part_figures(scores: Sequence[Score]) -> dict[str, Json]:
    """The mean of each named part of a reward, over valid scores that have it."""
    valid = [s.parts for s in scores if s.valid]
    names = dict.fromkeys(name for parts in valid for name in parts)
    return {name: _mean(p[name] for p in valid if name in p) for name in names}


def ending_figures(trajectories: Sequence[Trajectory]) -> dict[str, Json]:
    """How last turns ended, as shares, where worlds end turns by themselves; else empty.

    `ended_finish` and `ended_stuck` as the world says; `ended_by_limit`: neither the world nor the
    policy ended it.
    """
    last = [t.verdicts[-1] for t in trajectories if t.valid and t.verdicts]
    reasons = sorted({verdict.ended for verdict in last} - {""})
    if not reasons:
        return {}
    shares: dict[str, Json] = {
        f"ended_{why}": _mean(v.ended == why for v in last) for why in reasons
    }
    return {**shares, "ended_by_limit": _mean(not (v.ended or v.answered) for v in last)}


def thrift_figures(groups: Sequence[Group], needed: Needed) -> dict[str, Json]:
    """Calls beside those that are necessary, over tasks where these are known; else empty.

    `calls_wasted` counts the calls of a response beyond them, `calls_short` is the share of
    responses that make fewer.
    """
    made = [
        (len(executed(t)), least)
        for g in groups
        if (least := needed(g.task)) is not None
        for t in g.trajectories
        if t.valid
    ]
    if not made:
        return {}
    return {
        "calls_needed": _mean(least for _, least in made),
        "calls_wasted": _mean(max(0, calls - least) for calls, least in made),
        "calls_short": _mean(calls < least for calls, least in made),
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = [float(v) for v in values]
    return statistics.fmean(listed) if listed else None

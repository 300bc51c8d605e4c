"""Metrics of tool use that the papers on tool-integrated reasoning plot.

Owns pure functions over trajectories and their scores (from a reward of answers, whose part
`correct` is 0 or 1). Members that are invalid are left out. What has nothing to divide by is None,
never 0: a run without calls has no execution success.

    run.log({**record, **tool_metrics(trajectories, scores)})

A call counts as made when its text could be read, and as executed when it has a result. Lengths are
tokens that the policy sampled; what tools printed is not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from rods.errors import RewardError
from rods.reward import Score
from rods.rewards.answers import accuracy_of
from rods.rewards.reading import call_offset, executed, written
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import Json

Needed = Callable[[Task], int | None]


def step_metrics(
    groups: Sequence[Group], scores: Sequence[Sequence[Score]], needed: Needed | None = None
) -> dict[str, Json]:
    """Means of the reward's parts, how worlds ended turns, and all metrics of tool use where the
    reward says what is right.

    `needed` says how many calls a task needs; None where nobody can say.
    """
    flat = [s for row in scores for s in row]
    sampled = [t for g in groups for t in g.trajectories]
    found: dict[str, Json] = {"reward_parts": part_metrics(flat), **ending_metrics(sampled)}
    if not all("correct" in s.parts for s in flat if s.valid):
        return found
    found |= tool_metrics(sampled, flat)
    return {**found, **thrift_metrics(groups, needed)} if needed else found


def tool_metrics(trajectories: Sequence[Trajectory], scores: Sequence[Score]) -> dict[str, Json]:
    """All metrics of tool use by name; None where there is nothing to measure.

    `execution_success` is a share of the calls of all responses together, `tool_productivity` the
    right answers per executed call (TP, arXiv 2504.14870), `first_call_share` where in the response
    the first call stands: 0 is its very beginning.

    Raises:
        RewardError: the lengths differ, or a score has no part `correct`.
    """
    if len(trajectories) != len(scores):
        raise RewardError(
            f"{len(trajectories)} trajectories came with {len(scores)} scores; expected one each."
        )
    pairs = zip(trajectories, scores, strict=True)
    rollouts = [(t, accuracy_of(s) > 0) for t, s in pairs if t.valid and s.valid]
    calls = [(not r.failed, right) for t, right in rollouts for r in executed(t)]
    lengths = [(sum(step.tokens for step in t.steps), right) for t, right in rollouts]
    firsts = [(first_call(t), n) for (t, _), (n, _) in zip(rollouts, lengths, strict=True)]
    return {
        "accuracy": _mean(right for _, right in rollouts),
        "judge_gave_up": _mean(s.parts.get("judge_gave_up", 0.0) for s in scores if s.valid),
        "code_ratio": _mean(written(t) > 0 for t, _ in rollouts),
        "code_correct_ratio": _mean(written(t) > 0 and right for t, right in rollouts),
        "execution_success": _mean(ran for ran, _ in calls),
        "execution_success_right": _mean(ran for ran, right in calls if right),
        "execution_success_wrong": _mean(ran for ran, right in calls if not right),
        "calls_per_trajectory": _mean(len(executed(t)) for t, _ in rollouts),
        "tool_productivity": sum(right for _, right in rollouts) / len(calls) if calls else None,
        "response_tokens": _mean(n for n, _ in lengths),
        "response_tokens_right": _mean(n for n, right in lengths if right),
        "response_tokens_wrong": _mean(n for n, right in lengths if not right),
        "first_call_tokens": _mean(at for at, _ in firsts if at is not None),
        "first_call_share": _mean(at / n for at, n in firsts if at is not None and n),
    }


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


def part_metrics(scores: Sequence[Score]) -> dict[str, Json]:
    """The mean of each named part of a reward, over valid scores that have it."""
    valid = [s.parts for s in scores if s.valid]
    names = dict.fromkeys(name for parts in valid for name in parts)
    return {name: _mean(p[name] for p in valid if name in p) for name in names}


def ending_metrics(trajectories: Sequence[Trajectory]) -> dict[str, Json]:
    """Endings of last turns, as shares, where worlds end turns by themselves; else empty.

    `ended_finish` and `ended_stuck` as the world says; `ended_by_limit`: neither the world nor the
    policy ended it.
    """
    last = [t.verdicts[-1] for t in trajectories if t.valid and t.verdicts]
    reasons = sorted({verdict.ended for verdict in last} - {""})
    if not reasons:
        return {}
    shares = {f"ended_{why}": _mean(v.ended == why for v in last) for why in reasons}
    return {**shares, "ended_by_limit": _mean(not (v.ended or v.answered) for v in last)}


def thrift_metrics(groups: Sequence[Group], needed: Needed) -> dict[str, Json]:
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

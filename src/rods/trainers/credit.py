"""Credit: an advantage for each sampled token, where one for the whole trajectory says too little.

Owns who is compared with whom, and the matching of calls. `advantages` has the arithmetic.

By turn, where a reward is a sum over turns: what a policy does in a turn cannot change what it
earned before, and an agent that lost the right state earlier cannot be compared with one that did
not. So the return of a turn is what it and the later turns earned, and its peers are the members of
the group that entered the same turn in the same condition (the grouping by anchor states of GiGPO,
arXiv 2505.10978, with turns as steps). Without peers that did otherwise there is no advantage.

By call: beside the whole's advantage, what a step's calls were worth, on its tokens only.

    A = A of the trajectory + A of the step
    A of the step = advantage of R among the peers at its depth
    R = r + gamma * (R of the turn's next step),  r = mean of what the step's calls are worth

What a call is worth: its agreement with the wanted call of the turn that it stands for in the best
one-to-one matching over all calls of the turn, 0 without one. The steps of a turn are those that
tried to call; a text that could not be read has r = 0, an answer is not such a step. Peers are the
members of the group with a step at the same depth of the same turn; where there is none to compare
with, and in turns that want no call, A of the step is 0.

The matching is MatchTIR's (arXiv 2601.10712). Returns that end with the user's turn, peers of
unequal number and answers left out are the form that ToolWeave gave it for multi-turn tasks. Ours:
only calls that were executed are matched, so a step that was refused as a whole earns nothing.

What it pays and does not pay. A call too many earns nothing: beside others in a step it lowers the
step's mean, before them it delays (gamma), after them it costs only where peers still do something
useful. A duplicate is a call too many. Answering at once earns and costs nothing here; the
trajectory's own reward must want the calls. Two things fool it: the right tool with the right
names and wrong values is worth 2 / (2 + n), and the same calls one step each return more than all
in one step (1.9 to 1 for two). So it is a help beside a reward that judges states, not a reward.

    credits = token_credits("grpo", groups, scores, whole)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from rods.errors import TrainError
from rods.reward import Score
from rods.task import Task
from rods.trainers.advantages import advantages
from rods.trainers.samples import Floats, Sample
from rods.trajectory import Group, Trajectory
from rods.types import ParseVerdict, ToolCall

GAMMA = 0.9
"""Discount from one step to the next of the same turn."""


class Part(NamedTuple):
    """A value of some steps of a member, to be compared with those of its peers."""

    peers: tuple[int, int]
    """Turn, and what else makes members peers there."""
    value: float
    steps: Sequence[int]
    """Places in `Trajectory.steps`; their tokens get the advantage."""


def with_credit(sample: Sample, credit: Floats) -> Sample:
    """The sample with an advantage for each token; tokens whose advantage is 0 carry no loss.

    Args:
        sample: of a trajectory.
        credit: one value for each of its sampled tokens, not all 0; shape (`sampled`,).
    """
    mask = sample.mask.copy()
    mask[mask] = credit != 0
    return replace(sample, mask=mask, credit=credit[credit != 0])


def token_credits(
    kind: str,
    groups: Sequence[Group],
    scores: Sequence[Sequence[Score]],
    whole: Sequence[Sequence[float | None]] | None = None,
) -> list[list[Floats | None]]:
    """The advantage of each sampled token of each member; None for an invalid member.

    Args:
        kind: of `advantages`, where every set of peers is a group.
        whole: by call: the advantage of each trajectory, None for an invalid one; None: by turn,
            and scores have `turns`.

    Raises:
        TrainError: a valid score does not say what each of the task's turns earned.
    """

    def parts(task: Task, trajectory: Trajectory, score: Score) -> list[Part] | None:
        if not score.valid:
            return None
        by_turn = whole is None
        return _turn_parts(trajectory, score) if by_turn else step_returns(task, trajectory)

    members = [
        [parts(group.task, t, s) for t, s in zip(group.trajectories, row, strict=True)]
        for group, row in zip(groups, scores, strict=True)
    ]
    values: dict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for g, row in enumerate(members):
        for m, some in enumerate(row):
            for part in some or ():
                values[g, *part.peers][m] = part.value
    rows = advantages(kind, [list(of.values()) for of in values.values()])
    for of, row in zip(values.values(), rows, strict=True):
        of |= {m: advantage or 0.0 for m, advantage in zip(of, row, strict=True)}

    def by_token(g: int, m: int, some: Sequence[Part]) -> Floats:
        steps = groups[g].trajectories[m].steps
        local = [(whole[g][m] if whole else 0.0) or 0.0] * len(steps)
        for part in some:
            for index in part.steps:
                local[index] += values[g, *part.peers][m]
        return np.repeat(np.array(local, dtype=np.float32), [step.tokens for step in steps])

    return [
        [None if some is None else by_token(g, m, some) for m, some in enumerate(row)]
        for g, row in enumerate(members)
    ]


def _turn_parts(trajectory: Trajectory, score: Score) -> list[Part]:
    """Return of each begun turn: what it and the turns after it earned together."""
    if len(score.turns) != trajectory.n_turns:
        raise TrainError(
            f"task {trajectory.task_id}: the reward gives values of {len(score.turns)} turns, the "
            f'task has {trajectory.n_turns}. Fix Score.turns, or use train.credit = "trajectory".'
        )
    left = np.cumsum(np.array(score.turns, dtype=np.float64)[::-1])[::-1].tolist()
    # Peers entered the turn alike: the public state was right at the end of the one before, or not.
    sound = [1, *(int(verdict.state) for verdict in trajectory.verdicts)]
    steps = [step.turn for step in trajectory.steps]
    # A turn that ran out of seconds has no verdict, and earned nothing: its steps answer for that.
    begun = max(len(trajectory.verdicts), 1 + max(steps, default=-1))
    return [
        Part((turn, sound[turn]), left[turn], [i for i, t in enumerate(steps) if t == turn])
        for turn in range(begun)
    ]


def step_returns(task: Task, trajectory: Trajectory, gamma: float = GAMMA) -> list[Part]:
    """The return R of each step that tried to call, in turns that want calls.

    Peers have the same turn and depth, 0-based among the steps of the turn that tried to call.
    """
    found: list[Part] = []
    for turn, wanted in enumerate(task.turns):
        if not wanted.ground_truth:
            continue
        tried = [
            (index, step.calls[: len(step.results)])
            for index, step in enumerate(trajectory.steps)
            if step.turn == turn and step.verdict is not ParseVerdict.ANSWER
        ]
        made = list(chain.from_iterable(calls for _, calls in tried))
        rewards = iter(call_rewards(made, wanted.ground_truth))
        earned = [
            sum(islice(rewards, len(calls))) / len(calls) if calls else 0.0 for _, calls in tried
        ]
        value = 0.0
        for depth in reversed(range(len(tried))):
            value = earned[depth] + gamma * value
            found.append(Part((turn, depth), value, [tried[depth][0]]))
    return sorted(found, key=lambda part: part.steps[0])


def agreement(made: ToolCall, wanted: ToolCall) -> Fraction:
    """Agreement of a call with the wanted one, in [0, 1]; 0 if it is of another tool.

    (1 + J + C) / (2 + n): J is the Jaccard index of the arguments' names (1 where there are none),
    C how many of the n wanted arguments have the wanted value. Values are equal as in Python: 1,
    1.0 and true are.
    """
    if made.name != wanted.name:
        return Fraction(0)
    given, asked = made.arguments, wanted.arguments
    either = given.keys() | asked.keys()
    names = Fraction(len(given.keys() & asked.keys()), len(either)) if either else Fraction(1)
    values = sum(key in given and given[key] == value for key, value in asked.items())
    return (1 + names + values) / (2 + len(asked))


def call_rewards(made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> list[float]:
    """Worth of each made call: its agreement with the wanted call that it stands for, else 0.

    A wanted call is stood for once, so that a second call of the same earns nothing. Of all
    matchings the one with the largest sum counts; of equal ones that which gives the first call
    most, then the second, and so on.
    """
    pairs = [(i, j, agreement(m, w)) for i, m in enumerate(made) for j, w in enumerate(wanted)]
    whole = math.lcm(*(share.denominator for _, _, share in pairs))
    # Whole numbers keep it exact. The sum stands above the calls' own shares, which are the digits
    # of a number to the base `whole + 1`, the first call's in front.
    base, digits = whole + 1, len(made)
    graph: Any = nx.Graph()
    for i, j, share in pairs:
        if share:
            weight = int(share * whole) * (base**digits + base ** (digits - 1 - i))
            graph.add_edge(("made", i), ("wanted", j), weight=weight, share=share)
    found = [0.0] * len(made)
    for edge in nx.max_weight_matching(graph):
        (_, i), _ = sorted(edge)
        found[i] = float(graph.edges[edge]["share"])
    return found

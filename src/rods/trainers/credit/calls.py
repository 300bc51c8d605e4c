"""Credit by call: beside the whole's advantage, what a step's calls were worth, on its tokens only.

    A = A of the trajectory + A of the step
    A of the step = advantage of R among the peers at its depth
    R = r + gamma * (R of the turn's next step),  r = mean of what the step's calls are worth

What a call is worth: its agreement with the wanted call of the turn that it stands for in the best
one-to-one matching over all calls of the turn (`matching`), 0 without one. The steps of a turn are
those that tried to call; a text that could not be read has r = 0, an answer is no such step. Peers
are the members of the group with a step at the same depth of the same turn; where there is none to
compare with, and in turns that want no call, A of the step is 0.

The matching is MatchTIR's (arXiv 2601.10712). Returns that end with the user's turn, peers of
unequal number and answers left out are the form that ToolWeave gave it for multi-turn tasks. Ours:
only calls that were executed are matched, so a step that was refused as a whole earns nothing.

What it pays and does not pay. A call too many earns nothing: beside others in a step it lowers the
step's mean, before them it delays (gamma), after them it costs only where peers still do something
useful. A duplicate is a call too many. Answering at once earns and costs nothing here; the
trajectory's own reward must want the calls. Two things fool it: the right tool with the right
names and wrong values is worth 2 / (2 + n), and the same calls one step each return more than all
in one step (1.9 to 1 for two). So it is a help beside a reward that judges states, not a reward.

    credits = call_credit("grpo", groups, scores, whole, gamma=0.9)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from rods.reward import Score
from rods.task import Task
from rods.trainers.credit.matching import call_rewards
from rods.trainers.credit.peers import Part, compared
from rods.trainers.samples import Floats
from rods.trajectory import Group, Trajectory
from rods.types import ParseVerdict


class StepReturn(NamedTuple):
    """What a step that tried to call and those after it in its turn are worth."""

    turn: int
    depth: int
    """0-based, among the steps of the turn that tried to call."""
    value: float


def call_credit(
    kind: str,
    groups: Sequence[Group],
    scores: Sequence[Sequence[Score]],
    whole: Sequence[Sequence[float | None]],
    gamma: float,
) -> list[list[Floats | None]]:
    """The advantage of each sampled token of each member; None for an invalid member.

    Args:
        kind: see `advantages`; every set of peers is a group there.
        groups: K trajectories each.
        scores: one row a group.
        whole: the advantage of each trajectory, None for an invalid one.
        gamma: discount from one step to the next of the same turn, in [0, 1].
    """

    def parts(task: Task, trajectory: Trajectory) -> list[Part]:
        steps = step_returns(task, trajectory, gamma).items()
        return [Part((step.turn, step.depth), step.value, [index]) for index, step in steps]

    pairs = (zip(g.trajectories, row, strict=True) for g, row in zip(groups, scores, strict=True))
    every = [
        [parts(group.task, t) if s.valid else None for t, s in pair]
        for group, pair in zip(groups, pairs, strict=True)
    ]
    return compared(kind, groups, every, whole)


def step_returns(task: Task, trajectory: Trajectory, gamma: float) -> dict[int, StepReturn]:
    """The return of each step that tried to call, by its place in `steps`; calls are wanted."""
    found: dict[int, StepReturn] = {}
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
            found[tried[depth][0]] = StepReturn(turn, depth, value)
    return dict(sorted(found.items()))

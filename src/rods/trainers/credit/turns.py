"""Credit by turn: an advantage for each turn of a trajectory, where a reward is a sum over turns.

What a policy does in a turn cannot change what it earned before, and an agent that lost the right
state earlier cannot be compared with one that did not. So the return of a turn is what it and the
later turns earned, and its peers are the members of the group that entered the same turn in the
same condition (the grouping by anchor states of GiGPO, arXiv 2505.10978, with turns as steps).
Without peers that did otherwise there is no advantage. Owns who is compared with whom.

    credits = turn_credit("grpo", groups, scores)       # one array of sampled tokens a member
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rods.errors import TrainError
from rods.reward import Score
from rods.trainers.credit.peers import Part, compared
from rods.trainers.samples import Floats
from rods.trajectory import Group, Trajectory


def turn_credit(
    kind: str, groups: Sequence[Group], scores: Sequence[Sequence[Score]]
) -> list[list[Floats | None]]:
    """The advantage of each sampled token of each member; None for an invalid member.

    Every set of peers is a group there (`advantages`); scores have `turns`.

    Raises:
        TrainError: a valid score does not say what each of the task's turns earned.
    """
    parts = [
        [_parts(t, s) if s.valid else None for t, s in zip(group.trajectories, row, strict=True)]
        for group, row in zip(groups, scores, strict=True)
    ]
    return compared(kind, groups, parts)


def _parts(trajectory: Trajectory, score: Score) -> list[Part]:
    """What each turn that was begun and those after it earned together."""
    if len(score.turns) != trajectory.n_turns:
        raise TrainError(
            f"task {trajectory.task_id}: the reward gives values of {len(score.turns)} turns, the "
            f'task has {trajectory.n_turns}. Fix Score.turns, or use train.credit = "trajectory".'
        )
    left = np.cumsum(np.array(score.turns, dtype=np.float64)[::-1])[::-1].tolist()
    # Peers entered the turn alike: the public state was right at the end of the one before, or not.
    sound = [1, *(int(verdict.state) for verdict in trajectory.verdicts)]
    steps = [step.turn for step in trajectory.steps]
    return [
        Part((turn, sound[turn]), left[turn], [i for i, t in enumerate(steps) if t == turn])
        for turn in range(len(trajectory.verdicts))
    ]

"""Credit by turn: an advantage for each turn of a trajectory, where a reward is a sum over turns.

What a policy does in a turn cannot change what it earned before, and an agent that lost the right
state earlier cannot be compared with one that did not. So the return of a turn is what it and the
later turns earned, and its peers are the members of the group that entered the same turn in the
same condition (the grouping by anchor states of GiGPO, arXiv 2505.10978, with turns as steps).
Without peers that did otherwise there is no advantage. Owns who is compared with whom; the
arithmetic of a comparison is `advantages`.

    credits = turn_credit("grpo", groups, scores)       # one array of sampled tokens a member
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rods.errors import TrainError
from rods.reward import Score
from rods.trainers.advantages import advantages
from rods.trainers.samples import Sample
from rods.trajectory import Group, Trajectory

Floats = NDArray[np.float32]
Entry = tuple[int, int, int]
"""Group, turn, and whether the state was right when the turn began."""


def turn_credit(
    kind: str, groups: Sequence[Group], scores: Sequence[Sequence[Score]]
) -> list[list[Floats | None]]:
    """The advantage of each sampled token of each member; None for an invalid member.

    Args:
        kind: see `advantages`; every set of peers is a group there.
        groups: K trajectories each.
        scores: one row a group, with `turns`.

    Raises:
        TrainError: a valid score does not say what each of the task's turns earned.
    """
    peers: dict[Entry, list[tuple[int, float]]] = defaultdict(list)
    for g, (group, row) in enumerate(zip(groups, scores, strict=True)):
        for m, (trajectory, score) in enumerate(zip(group.trajectories, row, strict=True)):
            if score.valid:
                for turn, value in enumerate(_returns(trajectory, score)):
                    peers[g, turn, _sound(trajectory, turn)].append((m, value))
    rows = advantages(kind, [[value for _, value in members] for members in peers.values()])
    found: dict[tuple[int, int, int], float] = {}
    for (g, turn, _), members, row in zip(peers, peers.values(), rows, strict=True):
        found |= {(g, m, turn): a or 0.0 for (m, _), a in zip(members, row, strict=True)}
    return [
        [
            _by_token(trajectory, [found[g, m, t] for t in range(len(trajectory.verdicts))])
            if score.valid
            else None
            for m, (trajectory, score) in enumerate(zip(group.trajectories, row, strict=True))
        ]
        for g, (group, row) in enumerate(zip(groups, scores, strict=True))
    ]


def with_credit(sample: Sample, credit: Floats) -> Sample:
    """The sample with an advantage for each token; tokens whose advantage is 0 carry no loss.

    Args:
        sample: of a trajectory.
        credit: one value for each of its sampled tokens, not all 0; shape (`sampled`,).
    """
    mask = sample.mask.copy()
    mask[mask] = credit != 0
    return replace(sample, mask=mask, credit=credit[credit != 0])


def _returns(trajectory: Trajectory, score: Score) -> list[float]:
    """What each turn that was begun and those after it earned together."""
    if len(score.turns) != trajectory.n_turns:
        raise TrainError(
            f"task {trajectory.task_id}: the reward says what {len(score.turns)} turns earned, the "
            f'task has {trajectory.n_turns}. Mend Score.turns, or use train.credit = "trajectory".'
        )
    left = np.cumsum(np.array(score.turns, dtype=np.float64)[::-1])[::-1]
    return left[: len(trajectory.verdicts)].tolist()


def _sound(trajectory: Trajectory, turn: int) -> int:
    """Whether the public state was right at the end of the turn before."""
    return int(turn == 0 or trajectory.verdicts[turn - 1].state)


def _by_token(trajectory: Trajectory, values: Sequence[float]) -> Floats:
    """Each turn's value for every token that was sampled in it."""
    sizes = [step.tokens for step in trajectory.steps]
    return np.repeat(np.array([values[s.turn] for s in trajectory.steps], dtype=np.float32), sizes)

"""From scored groups to the samples of one update, and a count of all that is left out.

Owns which trajectories reach a loss and with which advantage. It runs no model.

    batch = collect(groups, scores, "grpo")
    batch.samples, batch.invalid
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import TrainError
from rods.reward import Score
from rods.trainers.advantages import advantages, zero_variance
from rods.trainers.samples import Sample, to_sample
from rods.trajectory import Group


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of one update, and what was left out and why."""

    samples: list[Sample]
    """In the order of groups and members; informative groups only."""
    groups: int
    informative: int
    """Groups with at least one advantage that is not 0; the others cost nothing."""
    zero_variance: int
    """Groups whose valid rewards are all equal."""
    trajectories: int
    invalid: int
    """Members that infrastructure failed; in no baseline and no sample."""
    empty: int
    """Valid members of informative groups that sampled no token: in the baseline, no sample."""


def collect(
    groups: Sequence[Group],
    scores: Sequence[Sequence[Score]],
    kind: str,
    mask_env_tokens: bool = True,
) -> Batch:
    """Advantages of all groups, samples of the informative ones.

    A group all of whose advantages are 0 is withheld altogether, also when a KL loss is on: it
    would pull the weights to the reference and teach nothing.

    Args:
        groups: K trajectories each.
        scores: one row a group, one score a trajectory, in order.
        kind: see `advantages`.
        mask_env_tokens: see `to_sample`.

    Raises:
        TrainError: the shapes of `groups` and `scores` differ.
    """
    if [len(g.trajectories) for g in groups] != [len(row) for row in scores]:
        raise TrainError(
            f"{len(groups)} groups of {[len(g.trajectories) for g in groups]} trajectories came "
            f"with scores of {[len(row) for row in scores]}; expected one score for each."
        )
    rewards = [
        [s.value if s.valid and t.valid else None for t, s in zip(g.trajectories, row, strict=True)]
        for g, row in zip(groups, scores, strict=True)
    ]
    samples: list[Sample] = []
    informative = empty = 0
    for group, row in zip(groups, advantages(kind, rewards), strict=True):
        if not any(row):
            continue
        informative += 1
        for trajectory, advantage in zip(group.trajectories, row, strict=True):
            if advantage is None:
                continue
            if trajectory.ledger.generated:
                samples.append(to_sample(trajectory, advantage, mask_env_tokens))
            else:
                empty += 1
    return Batch(
        samples=samples,
        groups=len(groups),
        informative=informative,
        zero_variance=sum(zero_variance(row) for row in rewards),
        trajectories=sum(len(row) for row in rewards),
        invalid=sum(r is None for row in rewards for r in row),
        empty=empty,
    )

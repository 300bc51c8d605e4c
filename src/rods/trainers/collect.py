"""From scored groups to the samples of one update, and a count of all that is left out.

Owns which trajectories reach a loss and with which advantage. It runs no model.

    batch = collect(groups, scores, "grpo", filters=filter_of(config.train))
    batch.samples, batch.invalid, batch.dropped, batch.masked
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rods.errors import TrainError
from rods.reward import Score
from rods.rewards.filters import TrainFilter
from rods.trainers.advantages import advantages, zero_variance
from rods.trainers.credit.calls import call_credit
from rods.trainers.credit.peers import with_credit
from rods.trainers.credit.turns import turn_credit
from rods.trainers.samples import Sample, loss_tokens, to_sample
from rods.trajectory import Group, Trajectory

Scores = Sequence[Sequence[Score]]
Advantages = Sequence[Sequence[float | None]]
Credits = Sequence[Sequence[NDArray[np.float32] | None]]


class Credit(NamedTuple):
    """Which tokens of a trajectory have which advantage; see `rods.trainers.credit`."""

    by: Literal["trajectory", "turn", "call"] = "trajectory"
    gamma: float = 0.9
    """Discount by `call`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of one update, and what was left out and why.

    The valid members of informative groups are trained (`samples`), masked or empty.
    """

    samples: list[Sample]
    """In the order of groups and members; informative groups only."""
    groups: int
    informative: int
    """Groups with at least one advantage that is not 0, under `gae` with a valid member; the others
    cost nothing."""
    zero_variance: int
    """Groups whose valid rewards are all equal."""
    trajectories: int
    invalid: int
    """Members that infrastructure failed; in no baseline and no sample."""
    empty: int
    """Valid members of informative groups that sampled no token: in the baseline, no sample."""
    uncredited: int = 0
    """Valid members of informative groups none of whose tokens had an advantage: no sample."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """Groups that the filter left out before advantages, by reason; empty without a filter."""
    masked: dict[str, int] = field(default_factory=dict[str, int])
    """Members of informative groups that the filter masked, by reason: in the baseline, no
    sample; empty without a filter."""


def collect(
    groups: Sequence[Group],
    scores: Scores,
    kind: str,
    mask_env_tokens: bool = True,
    filters: TrainFilter | None = None,
    credit: Credit | None = None,
    perplexities: Sequence[Sequence[float]] | None = None,
) -> Batch:
    """Advantages of all groups, samples of the informative ones.

    A group all of whose advantages are 0 is withheld altogether, also when a KL loss is on: it
    would pull the weights to the reference and teach nothing. Under `gae` no group is withheld:
    its samples carry their reward, and the critic makes the advantages.

    Args:
        groups: K trajectories each.
        scores: one row a group, one score a trajectory, in order.
        kind: `gae`, or see `advantages`.
        mask_env_tokens: see `to_sample`.
        filters: what else is left out; default: nothing.
        credit: default: every token has the advantage of its trajectory. That of turns holds where
            the reward is a sum over turns.
        perplexities: of each trajectory under the base model, where the filter looks at them.

    Raises:
        TrainError: the shapes of `groups` and `scores` differ.
        RewardError: a filter needs a part that the scores lack.
    """
    _same_shape(groups, scores)
    known = [_scores_of(g, row) for g, row in zip(groups, scores, strict=True)]
    group_filter = _GroupFilter(filters)
    kept = [i for i, row in enumerate(known) if group_filter.keeps(row)]
    unlikely = perplexities or [None] * len(groups)
    faults = [group_filter.faults(groups[i], known[i], unlikely[i]) for i in kept]
    drawn, theirs = [groups[i] for i in kept], [known[i] for i in kept]
    # What a filter masks has no token with loss, so it weighs nothing where tokens weigh.
    tokens = [
        [loss_tokens(t, mask_env_tokens) if f is None else 0
         for t, f in zip(group.trajectories, row, strict=True)]
        for group, row in zip(drawn, faults, strict=True)
    ]  # fmt: skip
    found = _advantages(kind, [_rewards(row) for row in theirs], tokens)
    credits = _credits(kind, drawn, theirs, found, credit or Credit())
    samples: list[Sample] = []
    counts = Counter[str]()
    for index, group, row, fault, advantage, by_token in zip(
        kept, drawn, theirs, faults, found, credits, strict=True
    ):
        if _informative(kind, advantage, by_token):
            counts["informative"] += 1
            group_filter.count(fault)
            members = zip(group.trajectories, row, fault, advantage, by_token, strict=True)
            made = _samples(list(members), mask_env_tokens, counts)
            samples += [replace(sample, group=index) for sample in made]
    return Batch(
        samples=samples,
        groups=len(groups),
        informative=counts["informative"],
        zero_variance=sum(zero_variance(_rewards(row)) for row in known),
        trajectories=sum(len(row) for row in known),
        invalid=sum(not s.valid for row in known for s in row),
        empty=counts["empty"],
        uncredited=counts["uncredited"],
        dropped=group_filter.dropped,
        masked=group_filter.masked,
    )


_Member = tuple[Trajectory, Score, str | None, float | None, NDArray[np.float32] | None]


def _samples(
    members: Sequence[_Member], mask_env_tokens: bool, counts: Counter[str]
) -> list[Sample]:
    """The samples of an informative group; counts who has none."""
    found: list[Sample] = []
    for trajectory, score, fault, advantage, by_token in members:
        if not score.valid or advantage is None or fault is not None:
            continue
        if not trajectory.ledger.generated:
            counts["empty"] += 1
            continue
        sample = replace(to_sample(trajectory, advantage, mask_env_tokens), reward=score.value)
        if by_token is None:
            found.append(sample)
        elif by_token.any():
            found.append(with_credit(sample, by_token))
        else:
            counts["uncredited"] += 1
    return found


def _rewards(scores: Sequence[Score]) -> list[float | None]:
    return [s.value if s.valid else None for s in scores]


def _same_shape(groups: Sequence[Group], scores: Scores) -> None:
    if [len(g.trajectories) for g in groups] != [len(row) for row in scores]:
        raise TrainError(
            f"{len(groups)} groups of {[len(g.trajectories) for g in groups]} trajectories came "
            f"with scores of {[len(row) for row in scores]}; expected one score for each."
        )


def _scores_of(group: Group, scores: Sequence[Score]) -> list[Score]:
    """The scores; that of a trajectory that failed is invalid, whatever it says."""
    pairs = zip(group.trajectories, scores, strict=True)
    return [s if t.valid else replace(s, valid=False) for t, s in pairs]


def _advantages(kind: str, rewards: Advantages, tokens: Sequence[Sequence[int]]) -> Advantages:
    # PPO's come later, from a critic; the group's own serve to refuse rewards that are not finite.
    found = advantages("dr_grpo" if kind == "gae" else kind, rewards, tokens)
    if kind != "gae":
        return found
    return [[None if a is None else 0.0 for a in row] for row in found]


def _informative(
    kind: str, advantages: Sequence[float | None], credit: Sequence[NDArray[np.float32] | None]
) -> bool:
    """Whether a group teaches anything."""
    if any(c is not None for c in credit):
        return any(c is not None and bool(c.any()) for c in credit)
    return any(a if kind != "gae" else a is not None for a in advantages)


def _credits(
    kind: str, groups: Sequence[Group], scores: Scores, whole: Advantages, credit: Credit
) -> Credits:
    """Advantages by token of all members; None where those of trajectories hold."""
    if credit.by == "call":
        return call_credit(kind, groups, scores, whole, credit.gamma)
    if credit.by == "turn" and all(s.turns for row in scores for s in row if s.valid):
        return turn_credit(kind, groups, scores)
    return [[None] * len(row) for row in scores]


class _GroupFilter:
    """Applies a filter and counts what it holds back."""

    def __init__(self, chosen: TrainFilter | None) -> None:
        self._chosen = chosen
        self.dropped: dict[str, int] = dict.fromkeys(chosen.group_reasons, 0) if chosen else {}
        self.masked: dict[str, int] = dict.fromkeys(chosen.sample_reasons, 0) if chosen else {}

    def keeps(self, scores: Sequence[Score]) -> bool:
        fault = self._chosen.group_fault(scores) if self._chosen else None
        if fault is not None:
            self.dropped[fault] += 1
        return fault is None

    def faults(
        self, group: Group, scores: Sequence[Score], perplexities: Sequence[float] | None
    ) -> Sequence[str | None]:
        if self._chosen is None:
            return [None] * len(scores)
        return self._chosen.sample_faults(group, scores, perplexities)

    def count(self, faults: Sequence[str | None]) -> None:
        for fault in faults:
            if fault is not None:
                self.masked[fault] += 1

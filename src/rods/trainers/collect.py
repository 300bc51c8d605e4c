"""From scored groups to the samples of one update, and a count of all that is left out.

Owns which trajectories reach a loss and with which advantage, and what a reward is less by for
moving away from the reference. It runs no model: samples come with their log-probabilities.

    batch = collect(groups, scores, "grpo", filters=filter_of(config.train))
    batch.samples, batch.invalid, batch.dropped, batch.masked
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rods.errors import TrainError
from rods.reward import Score
from rods.rewards.filters import TrainFilter
from rods.trainers.advantages import advantages, zero_variance
from rods.trainers.credit import token_credits, with_credit
from rods.trainers.samples import Floats, Sample, loss_tokens, span_advantages, to_sample
from rods.trajectory import Group, TrainingSignal, Trajectory

Scores = Sequence[Sequence[Score]]


@dataclass(slots=True)
class Batch:
    """The samples of one update, and what was left out and why.

    The valid members of informative groups are trained (`samples`), masked or empty.
    """

    groups: int
    zero_variance: int
    """Groups whose valid rewards are all equal."""
    trajectories: int
    invalid: int
    """Members that infrastructure failed; in no baseline and no sample."""
    samples: list[Sample] = field(default_factory=list[Sample])
    """In the order of groups and members; informative groups only."""
    informative: int = 0
    """Groups with at least one advantage that is not 0, under `gae` with a valid member; the others
    cost nothing."""
    empty: int = 0
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
    credit: str = "trajectory",
    perplexities: Sequence[Sequence[float]] | None = None,
    judged: Scores | None = None,
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
        credit: by `trajectory`: every token has the advantage of its own one; by `turn`, where the
            reward is a sum over turns, or by `call`: see `rods.trainers.credit`.
        perplexities: of each trajectory under the base model, where the filter looks at them.
        judged: scores that the filter reads; default: `scores`, which may be less what KL costs.

    Raises:
        TrainError: the shapes of `groups` and `scores` differ.
        RewardError: a filter needs a part that the scores lack.
    """
    known = _known(groups, scores)
    batch = Batch(
        groups=len(groups),
        zero_variance=sum(zero_variance(_rewards(row)) for row in known),
        trajectories=sum(len(row) for row in known),
        invalid=sum(not s.valid for row in known for s in row),
    )
    kept, faults = _filtered(batch, groups, judged or scores, filters, perplexities)
    drawn, theirs = [groups[i] for i in kept], [known[i] for i in kept]
    # What a filter masks has no token with loss, so it weighs nothing where tokens weigh.
    tokens = [
        [loss_tokens(t, mask_env_tokens) if f is None else 0
         for t, f in zip(group.trajectories, row, strict=True)]
        for group, row in zip(drawn, faults, strict=True)
    ]  # fmt: skip
    found, credits = _advantages(kind, credit, drawn, theirs, tokens)
    for i, group in enumerate(drawn):
        if not _informative(kind, found[i], credits[i]):
            continue
        batch.informative += 1
        members = zip(group.trajectories, theirs[i], faults[i], found[i], credits[i], strict=True)
        for trajectory, score, fault, advantage, by_token in members:
            if fault is not None:
                batch.masked[fault] += 1
            elif not score.valid or advantage is None:
                continue
            elif not trajectory.ledger.generated:
                batch.empty += 1
            else:
                sample = to_sample(trajectory, advantage, mask_env_tokens)
                sample = replace(sample, reward=score.value, group=kept[i])
                if by_token is None:
                    batch.samples.append(sample)
                elif by_token.any():
                    batch.samples.append(with_credit(sample, by_token))
                else:
                    batch.uncredited += 1
    return batch


def training_signals(
    groups: Sequence[Group], scores: Scores, samples: Sequence[Sample]
) -> list[list[TrainingSignal]]:
    """Reward and advantages of each trajectory; `samples` are those of the update."""
    trained = {(s.group, s.member): s for s in samples}

    def signal(group: int, trajectory: Trajectory, score: Score) -> TrainingSignal:
        advantages = span_advantages(trajectory, trained.get((group, trajectory.member)))
        if not score.valid:
            return TrainingSignal(None, {}, advantages)
        # Rewards of somebody else may give numbers of numpy, which JSON does not know.
        parts = {name: float(part) for name, part in score.parts.items()}
        return TrainingSignal(float(score.value), parts, advantages)

    return [
        [signal(i, t, s) for t, s in zip(group.trajectories, row, strict=True)]
        for i, (group, row) in enumerate(zip(groups, _known(groups, scores), strict=True))
    ]


def penalized(
    scores: Sequence[Sequence[Score]], members: Sequence[Sequence[Sample | None]], kl: float
) -> list[list[Score]]:
    """Scores less `kl` times the sum of k1 over a trajectory's sampled tokens, as verl has it.

    `members` are their samples with references; None: nothing was sampled, or one is invalid.
    """

    def less(score: Score, member: Sample | None) -> Score:
        if member is None:
            return score
        cost = kl * float(member.log_ratio.sum())
        return replace(score, value=score.value - cost, parts={**score.parts, "kl_cost": cost})

    return [
        [less(s, m) for s, m in zip(row, some, strict=True)]
        for row, some in zip(scores, members, strict=True)
    ]


def perplexity(sample: Sample | None) -> float:
    """exp of the mean negative log-probability under the reference; 0 where nothing was sampled."""
    if sample is None or sample.reference is None or not sample.sampled:
        return 0.0
    # Beyond e^700 a float has no more room, and every limit is passed.
    return math.exp(min(700.0, -float(sample.reference.astype(np.float64).mean())))


def _known(groups: Sequence[Group], scores: Scores) -> list[list[Score]]:
    """The scores; that of a trajectory that failed is invalid, whatever it says."""
    if [len(g.trajectories) for g in groups] != [len(row) for row in scores]:
        raise TrainError(
            f"{len(groups)} groups of {[len(g.trajectories) for g in groups]} trajectories came "
            f"with scores of {[len(row) for row in scores]}; expected one score for each."
        )
    return [
        [s if t.valid else replace(s, valid=False)
         for t, s in zip(group.trajectories, row, strict=True)]
        for group, row in zip(groups, scores, strict=True)
    ]  # fmt: skip


def _filtered(
    batch: Batch,
    groups: Sequence[Group],
    scores: Scores,
    filters: TrainFilter | None,
    perplexities: Sequence[Sequence[float]] | None,
) -> tuple[list[int], list[Sequence[str | None]]]:
    """Which groups are kept, and why each of their members is masked; counts what is dropped."""
    if filters is None:
        return [*range(len(groups))], [[None] * len(row) for row in scores]
    scores = _known(groups, scores)
    batch.dropped = dict.fromkeys(filters.group_reasons, 0)
    batch.masked = dict.fromkeys(filters.sample_reasons, 0)
    kept: list[int] = []
    for index, row in enumerate(scores):
        reason = filters.group_fault(row)
        if reason is None:
            kept.append(index)
        else:
            batch.dropped[reason] += 1
    unlikely = perplexities or [None] * len(groups)
    return kept, [filters.sample_faults(groups[i], scores[i], unlikely[i]) for i in kept]


def _advantages(
    kind: str, credit: str, groups: Sequence[Group], scores: Scores, tokens: Sequence[Sequence[int]]
) -> tuple[Sequence[Sequence[float | None]], Sequence[Sequence[Floats | None]]]:
    """An advantage for each member, and by `credit` one for each of its tokens; None: neither."""
    # PPO's come later, from a critic; the group's own serve to refuse rewards that are not finite.
    found = advantages("dr_grpo" if kind == "gae" else kind, [*map(_rewards, scores)], tokens)
    if kind == "gae":
        found = [[None if a is None else 0.0 for a in row] for row in found]
    some = {
        "call": [*range(len(scores))],
        "turn": [i for i, row in enumerate(scores) if all(s.turns for s in row if s.valid)],
    }.get(credit, [])
    credits: list[list[Floats | None]] = [[None] * len(row) for row in scores]
    if some:
        whole = found if credit == "call" else None
        rows = token_credits(kind, [groups[i] for i in some], [scores[i] for i in some], whole)
        for i, row in zip(some, rows, strict=True):
            credits[i] = row
    return found, credits


def _rewards(scores: Sequence[Score]) -> list[float | None]:
    return [s.value if s.valid else None for s in scores]


def _informative(
    kind: str, advantages: Sequence[float | None], credit: Sequence[Floats | None]
) -> bool:
    """True if a group teaches anything."""
    if any(c is not None for c in credit):
        return any(c is not None and bool(c.any()) for c in credit)
    return any(a if kind != "gae" else a is not None for a in advantages)

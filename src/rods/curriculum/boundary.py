"""The boundary of the policy's capability, read from rewards that training computed anyway.

Owns `judge_values` (the numbers of a group become a `Judgement`: rbar, phi, variance, interval,
region), `signals` (which numbers those are) and `select_seeds` (which boundary tasks are worth new
variants). It never samples, never calls a model and never stores anything: `replay.py` keeps
judgements, `online.py` asks for seeds.

    values = signals(group, scores, settings)
    judgement = judge_values(task.id, task.category, values, settings, step=12, version=3)
    if judgement is not None and judgement.region == "boundary": ...

Facts: arXiv 2606.19047.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rods.config import BoundarySettings
from rods.errors import RewardError
from rods.reward import Score
from rods.trajectory import Group, Trajectory

Region = Literal["hard", "boundary", "mastered"]

MIN_VALID = 0.5
"""Share of a group that must be valid for it to be judged."""
VISITS = 3
"""Last visits of a task that the posterior of `thompson` is drawn from."""
EDGE = 1e-9
"""Means of fractions such as 1/3 miss an edge by a rounding error; this much is forgiven."""

_Z95 = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement on one task, from one group at one policy version."""

    task_id: str
    category: str
    rbar: float
    """Mean reward over the valid members, in [0, 1]."""
    variance: float
    """Population variance over the valid members; at most rbar * (1 - rbar)."""
    interval: tuple[float, float]
    """95 % interval of the mean: Wilson's, with rbar as the share of `n_valid` trials. It is
    conservative, because no reward in [0, 1] varies more than a coin of the same mean."""
    n_valid: int
    k: int
    """Members of the group, invalid ones included."""
    region: Region
    policy_version: int
    step: int

    @property
    def phi(self) -> float:
        """The paper's priority 4 * rbar * (1 - rbar), in [0, 1], largest at one half."""
        return 4.0 * self.rbar * (1.0 - self.rbar)


def judge_values(
    task_id: str,
    category: str,
    values: Sequence[float | None],
    settings: BoundarySettings,
    step: int,
    version: int,
) -> Judgement | None:
    """Place a task in its region.

    Args:
        values: those of `signals`, in [0, 1], one per member; None: it is invalid.
        settings: the edges.
        step: training step, for the cooldown.

    Returns:
        None if fewer than `MIN_VALID` of the members are valid: such a task is not judged.

    Raises:
        RewardError: a value lies outside [0, 1].
    """
    given = [v for v in values if v is not None]
    wrong = [v for v in given if not -EDGE <= v <= 1 + EDGE]
    if wrong:
        raise RewardError(
            f"task {task_id}: the boundary needs rewards in [0, 1], got {wrong[0]}. Use such a "
            "reward in stages without `expand`, or set boundary.signal = 'binary'."
        )
    # A mean of fractions may leave [0, 1] by a rounding error, and phi is not negative there.
    valid = [0.0 if v < 0.0 else 1.0 if v > 1.0 else v for v in given]
    n, k = len(valid), len(values)
    if not n or n < MIN_VALID * k - EDGE:
        return None
    rbar = math.fsum(valid) / n
    variance = math.fsum([(v - rbar) ** 2 for v in valid]) / n
    region, interval = region_of(rbar, settings), wilson(rbar, n)
    return Judgement(task_id, category, rbar, variance, interval, n, k, region, version, step)


def signals(
    group: Group, scores: Sequence[Score], settings: BoundarySettings, *, by_turns: bool = False
) -> list[float | None]:
    """Return the number that the boundary reads from each member; None: invalid.

    Args:
        group: K trajectories of one task.
        scores: one for each trajectory, in order, values in [0, 1]. Where they have a part
            `correct` the value is not read: of one turn that part is, of several the turns solved.
        settings: the signal (`progress` reads the scores, `binary` whether the trajectory solved
            the task).
        by_turns: read the share of turns solved in place of the scores' values, for stages whose
            reward is on another scale (the format reward reaches 2).

    Raises:
        RewardError: the number of scores differs from K.
    """
    members = group.trajectories
    if len(scores) != len(members):
        raise RewardError(
            f"task {group.task.id}: {len(scores)} scores for {len(members)} trajectories; "
            "expected one for each."
        )
    signal = "turns" if by_turns else settings.signal
    return [
        _signal(t, s, signal) if s.valid and t.valid else None
        for t, s in zip(members, scores, strict=True)
    ]


def _signal(trajectory: Trajectory, score: Score, signal: str) -> float:
    correct = score.parts.get("correct")
    if correct is not None and trajectory.n_turns == 1:
        # One answer or response: its verdict may be unknown, the reward's scale may be +1/-1.
        return correct
    if signal == "binary":
        return float(trajectory.solved)
    if signal == "turns" or correct is not None:  # such a reward is on a scale of its own
        return trajectory.progress
    return score.value


def region_of(rbar: float, settings: BoundarySettings) -> Region:
    """`hard` below `low`, `mastered` above `high`, else `boundary`; both edges belong to it."""
    if rbar < settings.low - EDGE:
        return "hard"
    return "mastered" if rbar > settings.high + EDGE else "boundary"


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen in `n` trials (Wilson 1927), within [0, 1]."""
    # The roots of (p - share)^2 = z^2 p (1 - p) / n; unlike share +- z * deviation, they are not
    # one point where all K rewards are equal.
    z2 = _Z95 * _Z95
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, min(share, center - half)), min(1.0, max(share, center + half))


class Seed(NamedTuple):
    """A task chosen for synthesis, and how urgent it is."""

    judgement: Judgement
    priority: float


class Selection(NamedTuple):
    """The seeds of one cycle, most urgent first, and how many others were kept out, by reason.

    A task is out by its quota if it is eligible and the share of its type is spent, and by the
    backlog if it would be a seed without the `limit`.
    """

    seeds: list[Seed]
    cooldown_filtered: int
    quota_filtered: int
    backlog_filtered: int


def select_seeds(
    judgements: Sequence[Judgement],
    settings: BoundarySettings,
    cooldown: Mapping[str, int],
    step: int,
    rng: random.Random,
    *,
    limit: int | None = None,
    types: Collection[str] = (),
    excluded: Collection[str] = (),
    visits: Mapping[str, Sequence[Judgement]] | None = None,
) -> Selection:
    """Choose the seed tasks for which variants are requested.

    Args:
        judgements: the latest of each task that may be a seed.
        settings: number of seeds, priority, the random ablation.
        cooldown: task id -> first step at which it may be chosen again.
        step: the current step.
        rng: noise of `thompson` and of the random ablation.
        limit: fewer seeds than `settings.seeds` when the backlog is full.
        types: categories that share the quota equally; empty: those among the judgements.
        excluded: ids that are never seeds.
        visits: task id -> its last judgements, for `thompson`; by default the latest alone.
    """
    pool = sorted((j for j in judgements if j.task_id not in excluded), key=lambda j: j.task_id)
    if settings.priority != "random":
        pool = [j for j in pool if j.region == "boundary"]
    rested = [j for j in pool if step >= cooldown.get(j.task_id, step)]
    seeds = [Seed(j, _priority(j, settings, rng, visits or {})) for j in rested]
    seeds.sort(key=lambda s: (-s.priority, s.judgement.task_id))
    most = _within_quotas(seeds, settings.seeds, types)
    wanted = settings.seeds if limit is None else max(0, min(limit, settings.seeds))
    chosen = _within_quotas(seeds, wanted, types)
    waits = len(most) - len(chosen)
    return Selection(chosen, len(pool) - len(rested), len(seeds) - len(most), waits)


def _priority(
    j: Judgement,
    settings: BoundarySettings,
    rng: random.Random,
    visits: Mapping[str, Sequence[Judgement]],
) -> float:
    if settings.priority == "random":
        return rng.random()
    if settings.priority == "thompson":
        last = visits.get(j.task_id, (j,))[-VISITS:]
        # Beta posterior of the mean reward, from the uniform prior; rewards count as partial wins.
        won = sum(v.rbar * v.n_valid for v in last)
        draw = rng.betavariate(1 + won, 1 + sum(v.n_valid for v in last) - won)
        return 4 * draw * (1 - draw)
    return j.variance if settings.priority == "variance" else j.phi


def quotas(total: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Split `total` equally among types; the remainder goes to those with most candidates."""
    order = sorted(counts, key=lambda name: (-counts[name], name))
    share, rest = divmod(total, len(order) or 1)
    return {name: share + (i < rest) for i, name in enumerate(order)}


def _within_quotas(seeds: Sequence[Seed], total: int, types: Collection[str]) -> list[Seed]:
    """The best seeds of each type; `seeds` are sorted, the best first, and stay so."""
    names = [seed.judgement.category for seed in seeds]
    # The paper's quota: every type gets its share first, whatever the priorities of the others.
    left = quotas(total, {**dict.fromkeys(types, 0), **Counter(names)})
    chosen: list[Seed] = []
    for seed, name in zip(seeds, names, strict=True):
        if left[name]:
            left[name] -= 1
            chosen.append(seed)
    return chosen

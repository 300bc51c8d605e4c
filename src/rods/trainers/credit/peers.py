"""Sets of peers: members of a group that can be compared, and what comes of it.

Owns the way from values of steps or turns to an array over sampled tokens. Which members are peers
is said by `turns` and `calls`.

    compared("grpo", {(0, 1, 0): {2: 0.5, 5: 1.0}})     # group 0; members 2 and 5
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rods.trainers.advantages import advantages
from rods.trainers.samples import Sample
from rods.trajectory import Group, Trajectory

Floats = NDArray[np.float32]
Peers: TypeAlias = tuple[int, int, int]
"""Group, turn, and what else makes members peers there."""


def compared(
    kind: str, values: Mapping[Peers, Mapping[int, float]]
) -> dict[Peers, dict[int, float]]:
    """The advantage of each member among its peers; 0 where they are equal, or where it has none.

    A set of peers is a group there (`advantages`).
    """
    rows = advantages(kind, [list(members.values()) for members in values.values()])
    return {
        peers: {m: a or 0.0 for m, a in zip(members, row, strict=True)}
        for (peers, members), row in zip(values.items(), rows, strict=True)
    }


def by_token(trajectory: Trajectory, values: Sequence[float]) -> Floats:
    """Each step's value for every token that was sampled in it; shape (sampled tokens,)."""
    sizes = [step.tokens for step in trajectory.steps]
    return np.repeat(np.array(values, dtype=np.float32), sizes)


def by_member(
    groups: Sequence[Group],
    counts: Callable[[int, int], bool],
    made: Callable[[int, int, Trajectory], Floats],
) -> list[list[Floats | None]]:
    """What is made of each member, by (group, member); None where it does not count."""
    return [
        [made(g, m, t) if counts(g, m) else None for m, t in enumerate(group.trajectories)]
        for g, group in enumerate(groups)
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

"""Sets of peers: members of a group that can be compared, and what comes of it.

Owns the way from values of turns or steps to an array over sampled tokens. Which members are peers
is said by `turns` and `calls`.

    compared("grpo", groups, [[[Part((1, 0), 0.5, [0, 1])], None]])     # member 1 is invalid
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rods.trainers.advantages import advantages
from rods.trainers.samples import Floats, Sample
from rods.trajectory import Group


class Part(NamedTuple):
    """A value of some steps of a member, to be compared with those of its peers."""

    peers: tuple[int, int]
    """Turn, and what else makes members peers there."""
    value: float
    steps: Sequence[int]
    """Places in `Trajectory.steps`; their tokens get the advantage."""


def compared(
    kind: str,
    groups: Sequence[Group],
    parts: Sequence[Sequence[Sequence[Part] | None]],
    whole: Sequence[Sequence[float | None]] | None = None,
) -> list[list[Floats | None]]:
    """The advantage of each sampled token of each member; None for an invalid member.

    Args:
        kind: see `advantages`; every set of peers is a group there.
        groups: K trajectories each.
        parts: of each member; None: it is invalid. 0 where peers are equal, or there are none.
        whole: the advantage of each trajectory, which its parts add to; None: 0.
    """
    values: dict[tuple[int, int, int], dict[int, float]] = defaultdict(dict)
    for g, row in enumerate(parts):
        for m, some in enumerate(row):
            for part in some or ():
                values[g, *part.peers][m] = part.value
    rows = advantages(kind, [list(members.values()) for members in values.values()])
    found = {
        peers: dict(zip(members, row, strict=True))
        for (peers, members), row in zip(values.items(), rows, strict=True)
    }

    def by_token(g: int, m: int, some: Sequence[Part]) -> Floats:
        steps = groups[g].trajectories[m].steps
        local = [(whole[g][m] if whole else 0.0) or 0.0] * len(steps)
        for part in some:
            for index in part.steps:
                local[index] += found[g, *part.peers][m] or 0.0
        return np.repeat(np.array(local, dtype=np.float32), [step.tokens for step in steps])

    return [
        [None if some is None else by_token(g, m, some) for m, some in enumerate(row)]
        for g, row in enumerate(parts)
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

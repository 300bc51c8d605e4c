"""What a policy pays for moving away from its reference, and how unlikely the reference finds it.

Owns k1 (the log-ratio of sampled tokens, Schulman, "Approximating KL divergence") as a part of the
reward, and perplexities. It runs no model: samples come with their reference's log-probabilities.

    penalised(scores, references, kl=0.001)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rods.errors import TrainError
from rods.reward import Score
from rods.trainers.samples import Sample


def log_ratio(sample: Sample) -> NDArray[np.float64]:
    """k1 of each sampled token: log pi_old - log pi_ref.

    Raises:
        TrainError: the sample does not know its reference.
    """
    if sample.reference is None:
        raise TrainError(
            f"task {sample.task_id}, member {sample.member}: a KL reward needs the reference's "
            "log-probabilities, and none were computed."
        )
    return sample.rollout_logprobs[sample.mask].astype(np.float64) - sample.reference.astype(
        np.float64
    )


def penalised(
    scores: Sequence[Sequence[Score]], members: Sequence[Sequence[Sample | None]], kl: float
) -> list[list[Score]]:
    """Scores less `kl` times the sum of k1 over a trajectory's sampled tokens, as verl has it.

    Args:
        scores: one row a group.
        members: their samples with references; None: nothing was sampled, or the member is invalid.
        kl: coefficient.
    """
    return [
        [
            s if m is None else _less(s, kl * float(log_ratio(m).sum()))
            for s, m in zip(row, some, strict=True)
        ]
        for row, some in zip(scores, members, strict=True)
    ]


def _less(score: Score, cost: float) -> Score:
    return replace(score, value=score.value - cost, parts={**score.parts, "kl_cost": cost})


def perplexity(sample: Sample | None) -> float:
    """exp of the mean negative log-probability under the reference; 0 where nothing was sampled."""
    if sample is None or sample.reference is None or not sample.sampled:
        return 0.0
    # Beyond e^700 a float has no more room, and every limit is passed.
    return math.exp(min(700.0, -float(sample.reference.astype(np.float64).mean())))

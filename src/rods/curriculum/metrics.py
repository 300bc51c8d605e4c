"""Metrics of the curriculum: counts of each epoch, and rows that describe a judgement.

Owns the names in the log. It moves no task and decides nothing.

    counts[3]["judged"] += 1
    epoch_metrics(3, counts, buffer, requests_open=2)["boundary_rate"]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TypeAlias

from rods.curriculum.boundary import Judgement
from rods.curriculum.pool import PoolEntry
from rods.curriculum.replay import ReplayBuffer
from rods.types import Json

METRICS = (
    "judged", "unjudged", "hard", "boundary", "mastered", "zero_variance", "no_variance",
    "cycles", "seed_emitted", "cooldown_filtered", "quota_filtered",
    "backlog_filtered", "accepted", "duplicate", "late_requests", "retired_burn_in",
    "retired_too_hard", "retired_mastered", "revived",
)  # fmt: skip
"""Counts of one epoch, beside rates and the pool's state."""

EpochCounts: TypeAlias = defaultdict[int, Counter[str]]
"""Counts by the names of `METRICS`, by epoch."""


def epoch_metrics(
    epoch: int, counts: EpochCounts, buffer: ReplayBuffer, requests_open: int
) -> dict[str, float]:
    """Counts of an epoch, shares of its judgements in [0, 1], and the state of the pool now."""
    found = counts[epoch]
    out: dict[str, float] = {name: float(found[name]) for name in METRICS}
    judged = max(1, found["judged"])
    out["boundary_rate"] = found["boundary"] / judged
    out["zero_variance_rate"] = found["zero_variance"] / judged
    pool = buffer.pool.counts()
    out |= {"originals": pool.originals, "active": pool.active, "pending": pool.pending}
    out |= {"requests_open": requests_open, "never_solved": len(buffer.pool.never_solved)}
    if epoch >= 0:
        report = buffer.reports[epoch]
        out |= {"ingested": report.injected, "deferred": report.deferred}
        out |= {"priority_pruned": report.pruned, "retired_stale": report.retired.get("stale", 0)}
    return out


def judgement_row(judgement: Judgement, entry: PoolEntry) -> dict[str, Json]:
    """A judgement as a row of the step's record; `entry` is its task's in the pool."""
    return {
        "task_id": judgement.task_id,
        "category": judgement.category,
        "origin": "original" if entry.task.is_original else "variant",
        "rbar": judgement.rbar,
        "phi": judgement.phi,
        "variance": judgement.variance,
        "interval": [*judgement.interval],
        "n_valid": judgement.n_valid,
        "k": judgement.k,
        "region": judgement.region,
        "policy_version": judgement.policy_version,
        "first_visit": len(entry.visits) == 1,
    }

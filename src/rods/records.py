"""The lines of `metrics.jsonl`: what a step and an epoch leave behind, as plain JSON.

Owns the names of the figures that display and report read. It computes them from values that exist
already and decides nothing.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from rods.curriculum.boundary import Judgement
from rods.curriculum.journal import EpochReport
from rods.curriculum.online import OnlineCurriculum
from rods.reward import Score
from rods.rollout.schedule import Unused
from rods.trajectory import Group
from rods.types import Json


def rollout_figures(
    groups: Sequence[Group], scores: Sequence[Sequence[Score]], seconds: float
) -> dict[str, Json]:
    """Rewards, stops, verdicts and speed of one step's rollouts."""
    trajectories = [t for g in groups for t in g.trajectories]
    values = [s.value for row in scores for s in row if s.valid]
    progress = [sum(v.solved for v in t.verdicts) / t.n_turns for t in trajectories if t.valid]
    tokens = sum(t.ledger.generated for t in trajectories)
    return {
        "reward_mean": statistics.fmean(values) if values else 0.0,
        "reward_std": statistics.pstdev(values) if values else 0.0,
        "trajectories": len(trajectories),
        "progress_mean": statistics.fmean(progress) if progress else 0.0,
        "invalid": sum(not t.valid for t in trajectories),
        "cut_results": sum(t.cut_results for t in trajectories),
        "stops": _counts(t.stop.value for t in trajectories),
        "verdicts": _counts(s.verdict.value for t in trajectories for s in t.steps),
        "tokens_generated": tokens,
        "seconds_rollout": seconds,
        "tokens_per_s": tokens / seconds,
        "trajectories_per_s": len(trajectories) / seconds,
    }


def judgement_figures(
    curriculum: OnlineCurriculum, judgements: Sequence[Judgement]
) -> dict[str, Json]:
    """Where the step's tasks lie."""
    return {
        "regions": _counts(j.region for j in judgements),
        "judgements": [curriculum.log_row(j) for j in judgements],
    }


def epoch_figures(curriculum: OnlineCurriculum, report: EpochReport) -> dict[str, Json]:
    """What the start of an epoch did to the pool."""
    counts = curriculum.buffer.pool.counts()
    return {
        "kind": "epoch",
        "epoch": curriculum.epoch,
        "stage": curriculum.stage.name,
        "active": report.originals + report.active,
        "injected": report.injected,
        "deferred": report.deferred,
        "retired": dict(report.retired),
        "pruned": report.pruned,
        "draws": report.draws,
        "originals": report.originals,
        "generated": report.active,
        "pending": counts.pending,
    }


def unused_figures(unused: Unused, step: int) -> dict[str, Json]:
    """What was begun and is in no update when a run ends or stops."""
    return {"kind": "unused", "step": step, "played": unused.played, "playing": unused.playing}


def unused_words(played: int, playing: int) -> str:
    """The same for people."""
    return (
        f"{played + playing} groups were begun and are in no update: {played} had been played, "
        f"{playing} were in flight."
    )


def _counts(values: Iterable[str]) -> dict[str, Json]:
    return {**Counter(values)}

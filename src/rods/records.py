"""Lines of `metrics.jsonl` about steps and epochs, as plain JSON; it decides nothing.

Owns the names of the metrics that display and report read.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from rods.components import Components, UpdateReport
from rods.curriculum.boundary import Judgement
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.replay import EpochReport
from rods.reward import Score
from rods.rollout.schedule import RolloutBatch, Unused
from rods.trajectory import Group
from rods.types import Json


def step_record(
    components: Components,
    curriculum: OnlineCurriculum,
    batch: RolloutBatch,
    judgements: Sequence[Judgement | None],
    report: UpdateReport,
) -> dict[str, Json]:
    """Everything that one training step leaves in the log."""
    groups, scores, own = batch.groups, batch.scores, components.metrics
    drawn = [scored.drawn for scored in batch.scored]
    judged = [j for j in judgements if j is not None]
    return {
        **report.metrics(),
        **rollout_metrics(groups, scores, batch.seconds),
        **(own(groups, scores) if own else {}),
        "regions": _counts(j.region for j in judged),
        "judgements": [curriculum.log_row(j) for j in judged],
        "kind": "step",
        "step": components.trainer.step,
        "epoch": drawn[0].epoch,
        "stage": curriculum.stage_of(drawn[0].epoch).name,
        "hints": sum(d.wrapper is not None for d in drawn) / len(drawn),
        "seconds_update": report.seconds,
        "informative_groups": report.informative,
        "schedule": batch.metrics,
        "buffer": {**curriculum.metrics(drawn[0].epoch)},
        "synthesis": synthesis_state(components),
    }


def rollout_metrics(
    groups: Sequence[Group], scores: Sequence[Sequence[Score]], seconds: float
) -> dict[str, Json]:
    """Rewards, stops, verdicts and speed of one step's rollouts."""
    trajectories = [t for g in groups for t in g.trajectories]
    values = [s.value for row in scores for s in row if s.valid]
    progress = [t.progress for t in trajectories if t.valid]
    turns = [verdict for t in trajectories if t.valid for verdict in t.verdicts]
    # Where answers are judged, no expected call does not mean that none may be made.
    gaps = [v.solved for v in turns if not v.expects_calls and v.correct is None]
    tokens = sum(t.ledger.generated for t in trajectories)
    return {
        "reward_mean": statistics.fmean(values) if values else None,
        "reward_std": statistics.pstdev(values) if values else None,
        "trajectories": len(trajectories),
        "progress_mean": statistics.fmean(progress) if progress else None,
        **({"abstained": statistics.fmean(gaps)} if gaps else {}),
        "invalid": sum(not s.valid for row in scores for s in row),
        "cut_results": sum(t.cut_results for t in trajectories),
        "stops": _counts(t.stop.value for t in trajectories),
        "verdicts": _counts(s.verdict.value for t in trajectories for s in t.steps),
        "tokens_generated": tokens,
        "seconds_rollout": seconds,
        "tokens_per_s": tokens / seconds,
        "trajectories_per_s": len(trajectories) / seconds,
    }


def synthesis_state(components: Components) -> dict[str, Json]:
    """Counts of the synthesis worker; empty for a fixed pool."""
    return {**components.synthesis.state()} if components.synthesis else {}


def epoch_record(
    components: Components, curriculum: OnlineCurriculum, report: EpochReport
) -> dict[str, Json]:
    """Record of changes to the pool at an epoch's start, counted to the next update."""
    return {
        "kind": "epoch", "epoch": report.epoch, "stage": curriculum.stage_of(report.epoch).name,
        "active": report.originals + report.active, "injected": report.injected,
        "deferred": report.deferred, "retired": dict(report.retired),
        "pruned": report.retired.get("pruned", 0), "draws": report.draws,
        "originals": report.originals, "generated": report.active, "pending": report.pending,
        "seconds_waited": round(curriculum.waited, 3), "late_requests": curriculum.late,
        "step": components.trainer.step + 1, "synthesis": synthesis_state(components),
    }  # fmt: skip


def epoch_warnings(
    record: dict[str, Json], curriculum: OnlineCurriculum, drain_seconds: float
) -> list[str]:
    """Messages about synthesis that the start of an epoch calls for.

    Args:
        record: of the epoch.
        curriculum: knows how long the start waited.
        drain_seconds: `synthesis.drain_seconds`, the longest wait.
    """
    warnings: list[str] = []
    state = record["synthesis"]
    if isinstance(state, dict) and state.get("suspended"):
        warnings.append(f"synthesis pauses, training continues without it: {state['suspended']}")
    if drain_seconds and curriculum.late:
        warnings.append(
            f"epoch {curriculum.epoch} waited {curriculum.waited:.1f} s for synthesis, and "
            f"{curriculum.late} requests were not ready, so this run cannot be repeated exactly. "
            f"Raise synthesis.drain_seconds ({drain_seconds:g}), or set it to 0 for no wait."
        )
    return warnings


def unused_record(unused: Unused, step: int) -> dict[str, Json]:
    """Groups that were begun and are in no update when a run ends or stops."""
    return {"kind": "unused", "step": step, **unused._asdict()}


def unused_words(finished: int, in_flight: int) -> str:
    """Say the same in a sentence."""
    return (
        f"{finished + in_flight} groups were begun and are in no update: {finished} had been "
        f"rolled out, {in_flight} were in flight."
    )


def _counts(values: Iterable[str]) -> dict[str, Json]:
    return {**Counter(values)}

"""Report of one update: sums while it runs, a report when it is over.

Owns the numbers of an update and their names in the log. It never changes a weight.

    report = make_report(batch, sums, step=3, version=4, lr=1e-5, seconds=1.0)
    report.metrics()                                # one flat line of the log
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from torch import Tensor

from rods.config.train import CAP
from rods.trainers.batches.micro import Microbatch
from rods.trainers.collect import Batch
from rods.trainers.samples import Floats
from rods.trajectory import Signals


@dataclass(frozen=True, slots=True)
class LocalUpdateReport:
    """Metrics of one update. Means are over sampled tokens unless a field says otherwise."""

    step: int
    """Updates asked for before this one, skipped ones included."""
    version: int
    """Version of the weights after it."""
    groups: int
    informative: int
    """Groups that taught something."""
    zero_variance: float
    """Share of groups whose valid rewards are all equal, 0-1."""
    trajectories: int
    """Trajectories that came in."""
    trained: int
    """Trajectories with a loss."""
    invalid: int
    empty: int
    """Valid members of informative groups that sampled nothing."""
    uncredited: int
    """Valid members of informative groups none of whose tokens had an advantage."""
    dropped: Mapping[str, int]
    """Groups that the filter left out, by reason; empty without a filter."""
    masked: Mapping[str, int]
    """Members of informative groups that the filter gave no loss, by reason."""
    lr: float
    seconds: float
    skipped: str | None = None
    """Why the policy's weights did not change; None: they did."""
    loss: float = 0.0
    policy_loss: float = 0.0
    kl: float = 0.0
    """k3 against the reference; 0 without one."""
    entropy: float = 0.0
    """In nats, at the sampling temperature."""
    approx_kl: float = 0.0
    """k3 estimate of KL(sampling policy || weights during the update)."""
    clip_high: float = 0.0
    clip_low: float = 0.0
    clip_dual: float = 0.0
    """Shares of tokens, 0-1."""
    ratio_max: float = 0.0
    gap_mean: float | None = None
    """Mean of |old_logprobs - rollout_logprobs| over the tokens of the first optimizer step (all,
    under `correction` or with a KL in the reward); None: nothing was compared."""
    gap_p99: float | None = None
    """99 % of the tokens differ by less."""
    gap_clipped: float | None = None
    """Share of tokens whose importance weight is above `rods.config.train.CAP`, 0-1."""
    grad_norm: float = 0.0
    """Before clipping; mean over optimizer steps."""
    optimizer_steps: int = 0
    microbatches: int = 0
    tokens: int = 0
    """Tokens of the trained trajectories, context included, times epochs."""
    sampled_tokens: int = 0
    """Tokens that carry loss."""
    positions: int = 0
    """Positions computed for them: fewer where prefixes are shared, more where rows are padded."""
    critic: Mapping[str, float | None] | None = None
    """Metrics of the critic, by the log's names (`Critic.report`); under `gae` alone."""

    signals: Signals = ()
    """Reward and advantages of each trajectory of each group; not for the log."""

    def metrics(self) -> dict[str, float | int | str | None]:
        """All numbers in one flat row, for the log: those of the critic, counts by reason too.

        What passes of the policy measure is None where no optimizer step was made.
        """
        inner = ("critic", "dropped", "masked", "signals")
        flat: dict[str, float | int | str | None] = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in inner
        }
        if not self.optimizer_steps:  # the policy was not run: a 0 would be no measurement
            flat |= dict.fromkeys(OF_STEPS)
        flat |= {f"dropped_{reason}": n for reason, n in self.dropped.items()}
        flat |= {f"masked_{reason}": n for reason, n in self.masked.items()}
        return flat | {**(self.critic or {})}


@dataclass(slots=True)
class UpdateSums:
    """Running sums of one update."""

    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By name; 0 where nothing was added."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Counts, by the report's names."""
    ratio_max: float = 0.0
    gaps: list[Floats] = field(default_factory=list["Floats"])
    """old_logprobs - rollout_logprobs of the tokens that were compared."""

    def compare(self, mismatch: Tensor | None) -> None:
        """Note how trainer and engine differ, NaN where nothing was sampled."""
        if mismatch is not None:
            values = mismatch.detach().float().cpu().numpy()
            self.gaps.append(values[~np.isnan(values)])

    def gap(self) -> dict[str, float]:
        """Mean and 99th percentile of the absolute gap, and the share above `CAP`."""
        gaps = np.concatenate(self.gaps) if self.gaps else np.zeros(0)
        if not len(gaps):
            return {}
        sizes, clipped = np.abs(gaps), float((gaps > math.log(CAP)).mean())
        most = float(np.quantile(sizes, 0.99))
        return {"gap_mean": float(sizes.mean()), "gap_p99": most, "gap_clipped": clipped}

    def see(self, micro: Microbatch) -> None:
        """Count a micro-batch."""
        self.counts["microbatches"] += 1
        self.counts["tokens"] += sum(len(s) for s in micro.samples)
        self.counts["sampled_tokens"] += len(micro.targets)
        self.counts["positions"] += micro.positions

    def mean(self, name: str, over: str = "optimizer_steps") -> float:
        """A sum as a mean over optimizer steps, or over what else was counted."""
        return self.sums[name] / max(1, self.counts[over])


APART = ("samples", "zero_variance")
"""Fields of a batch that a report does not repeat as they are."""
BY_TOKEN = ("approx_kl", "clip_high", "clip_low", "clip_dual")
OF_STEPS = (*BY_TOKEN, "loss", "policy_loss", "kl", "entropy", "ratio_max", "grad_norm")


def make_report(
    batch: Batch, sums: UpdateSums, warming: str | None = None, **more: Any
) -> LocalUpdateReport:
    """The report of the update that `batch` and `sums` describe; `more` are fields as they are.

    `warming` says why the critic alone was trained; None: it was not so.
    """
    names = [f.name for f in fields(batch) if f.name not in APART]
    same: dict[str, Any] = {name: getattr(batch, name) for name in names}
    same |= {name: sums.mean(name, "sampled_tokens") for name in BY_TOKEN}
    weight = sums.sums["weight"] or 1.0
    return LocalUpdateReport(
        zero_variance=batch.zero_variance / max(1, batch.groups),
        trained=len(batch.samples),
        skipped=warming if batch.samples else _why_nothing(batch),
        loss=sums.mean("loss"),
        policy_loss=sums.mean("policy"),
        kl=sums.sums["kl"] / weight,
        entropy=sums.sums["entropy_mean"] / weight,
        ratio_max=sums.ratio_max,
        grad_norm=sums.mean("grad_norm"),
        **same,
        **sums.counts,
        **sums.gap(),
        **more,
    )


def _why_nothing(batch: Batch) -> str:
    kept = batch.groups - sum(batch.dropped.values())
    if not batch.groups:
        return "there was no group"
    if batch.invalid == batch.trajectories:
        return f"all {batch.trajectories} trajectories are invalid"
    if not kept:
        return f"the filter dropped every group: {_by_reason(batch.dropped)}"
    if any(batch.masked.values()):
        return (
            f"the filter masked {_by_reason(batch.masked)}, and nothing is left of the "
            f"{batch.informative} informative groups"
        )
    if batch.informative:
        return f"all {batch.informative} informative groups sampled no token"
    return f"the rewards of each of the {kept} groups are equal"


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in counts.items() if n)

"""What one update did: sums while it runs, a report when it is over.

Owns the numbers of an update and their names in the log. It never changes a weight.

    report = make_report(step, version, batch, tally, lr, seconds)
    report.metrics()                                # one flat line of the log
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from rods.trainers.collect import Batch


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one update did. Means are over sampled tokens unless a field says otherwise."""

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
    lr: float
    seconds: float
    skipped: str | None = None
    """Why the weights did not change; None: they did."""
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
    grad_norm: float = 0.0
    """Before clipping; mean over optimiser steps."""
    optimizer_steps: int = 0
    microbatches: int = 0
    tokens: int = 0
    """Tokens of the trained trajectories, context included, times epochs."""
    sampled_tokens: int = 0
    """Those of them that carry loss."""
    positions: int = 0
    """Positions computed for them: fewer where prefixes are shared, more where rows are padded."""

    def metrics(self) -> dict[str, float | int | str | None]:
        """All fields, for the log."""
        return asdict(self)


@dataclass(slots=True)
class Tally:
    """Running sums of one update."""

    sums: dict[str, float] = field(default_factory=dict[str, float])
    ratio_max: float = 0.0
    steps: int = 0
    microbatches: int = 0
    tokens: int = 0
    sampled: int = 0
    positions: int = 0

    def add(self, name: str, value: float) -> None:
        """Add to the sum of this name."""
        self.sums[name] = self.sums.get(name, 0.0) + value

    def by_step(self, name: str) -> float:
        """The sum as a mean over optimiser steps."""
        return self.sums.get(name, 0.0) / max(1, self.steps)

    def by_token(self, name: str) -> float:
        """The sum as a mean over sampled tokens."""
        return self.sums.get(name, 0.0) / max(1, self.sampled)


def make_report(
    step: int, version: int, batch: Batch, tally: Tally, lr: float, seconds: float
) -> UpdateReport:
    """The report of the update that `batch` and `tally` tell of."""
    return UpdateReport(
        step=step,
        version=version,
        groups=batch.groups,
        informative=batch.informative,
        zero_variance=batch.zero_variance / max(1, batch.groups),
        trajectories=batch.trajectories,
        trained=len(batch.samples),
        invalid=batch.invalid,
        empty=batch.empty,
        lr=lr,
        seconds=seconds,
        skipped=None if batch.samples else _why_nothing(batch),
        loss=tally.by_step("loss"),
        policy_loss=tally.by_step("policy"),
        kl=tally.by_step("kl"),
        entropy=tally.by_step("entropy_mean"),
        approx_kl=tally.by_token("approx_kl"),
        clip_high=tally.by_token("clip_high"),
        clip_low=tally.by_token("clip_low"),
        clip_dual=tally.by_token("clip_dual"),
        ratio_max=tally.ratio_max,
        grad_norm=tally.by_step("grad_norm"),
        optimizer_steps=tally.steps,
        microbatches=tally.microbatches,
        tokens=tally.tokens,
        sampled_tokens=tally.sampled,
        positions=tally.positions,
    )


def _why_nothing(batch: Batch) -> str:
    if not batch.groups:
        return "there was no group"
    if batch.informative:
        return f"all {batch.informative} informative groups sampled no token"
    return f"the rewards of each of the {batch.groups} groups are equal"
